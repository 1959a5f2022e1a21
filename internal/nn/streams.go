package nn

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// AltUp has the weights by which the residual becomes several streams before the blocks, and one again after them:
// altup_proj and altup_unembd_proj.
//
// Source: Baykal et al. 2023, Alternating Updates for Efficient Transformers.
type AltUp struct {
	Split  []Linear // [streams-1] of [n_embd, n_embd]
	Merge  []Linear // likewise
	Active int      // the stream that blocks compute
}

// leastSquare is a lower bound of a stream's mean square when it is rescaled.
const leastSquare = 1e-5

// Begin returns the streams: x itself, and projections of it rescaled to its magnitude.
func (a *AltUp) Begin(p *Pass, x compute.Tensor) (s compute.Streams) {
	s[0] = p.Slice(x, 0, x.Cols)
	for i := range a.Split {
		s[i+1] = p.Linear(x, &a.Split[i])
		p.verbs.Match(s[i+1], x, leastSquare)
	}
	return s
}

// End sets x to the mean of the streams. All but the first are projected and rescaled to the first one's magnitude.
func (a *AltUp) End(p *Pass, x compute.Tensor, s compute.Streams) {
	p.verbs.Slice(x, s[0], 0)
	for i := range a.Merge {
		scope := p.Scope()
		y := p.Linear(s[i+1], &a.Merge[i])
		p.verbs.Match(y, s[0], leastSquare)
		p.Add(x, y)
		p.Leave(scope)
	}
	p.Scale(x, 1.0/compute.AltUpStreams)
}

// AltUpMixing has the weights by which a block predicts the streams, and corrects them by what it computed of one:
// altup_router_norm, altup_router, altup_predict_coef, altup_correct_coef and altup_correct_scale.
type AltUpMixing struct {
	Norm                   Norm            // norm of the router's input
	Router                 Linear          // [streams, n_embd]
	Prediction, Correction *compute.Vector // see compute.AltUpPredict and compute.AltUpCorrect
	Scale                  *compute.Vector // [n_embd] of the corrected stream, for its layer's embedding
}

// Route returns how a block mixes the streams, computed from one of them: tanh(W·norm(x)/n_embd). [n, streams]
func (m *AltUpMixing) Route(p *Pass, x compute.Tensor) compute.Tensor {
	r := p.Linear(p.Norm(x, m.Norm), &m.Router)
	p.Scale(r, 1/float32(x.Cols))
	p.SoftCap(r, 1)
	return r
}

// Predict predicts all streams from each other, and makes x the active one.
func (m *AltUpMixing) Predict(p *Pass, x compute.Tensor, s compute.Streams, active int) {
	p.verbs.AltUpPredict(s, m.Route(p, s[active]), m.Prediction)
	p.verbs.Slice(x, s[active], 0)
}

// Correct corrects all streams by how x, which the block made of the active one, differs from it, and makes x the
// corrected stream times Scale.
func (m *AltUpMixing) Correct(p *Pass, x compute.Tensor, s compute.Streams, active int) {
	p.verbs.AltUpCorrect(s, x, m.Route(p, x), m.Correction, active)
	p.verbs.Multiply(x, s[active], m.Scale)
}

// LowRank is a path of low rank in parallel to attention: laurel_l, laurel_r and laurel_post_norm.
//
// Source: Menghani et al. 2024, LAuReL: Learned Augmented Residual Layer.
type LowRank struct {
	Left, Right Linear // [rank, n_embd], [n_embd, rank]
	Norm        Norm   // norm of Right's output
}

// Forward returns x + norm(Right·Left·x). [n, n_embd]
func (l *LowRank) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	y := p.Linear(p.Linear(x, &l.Left), &l.Right)
	p.Normalize(y, l.Norm)
	p.verbs.Add(y, x)
	return y
}

// LayerInputs have the weights of embeddings that a token has for each layer: per_layer_token_embd,
// per_layer_model_proj and per_layer_proj_norm.
type LayerInputs struct {
	Table *compute.Matrix // [n_vocab, layers·width]
	Proj  Linear          // [layers·width, n_embd]
	Norm  Norm            // [width] norm of Proj's output for each layer
	Width int             // width of one layer's embedding
}

// Forward returns every layer's embedding of the step's tokens, side by side, from their embeddings x: [n,
// layers·width]
//
//	(norm(Proj·x/√n_embd) + √width·Table[token]) / √2
func (l *LayerInputs) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	y := p.Linear(x, &l.Proj)
	p.Scale(y, float32(1/math.Sqrt(float64(x.Cols))))
	p.Normalize(y.Split(l.Width), l.Norm)
	scope := p.Scope()
	t := p.Lookup(l.Table)
	p.Scale(t, float32(math.Sqrt(float64(l.Width))))
	p.Add(y, t)
	p.Leave(scope)
	p.Scale(y, math.Sqrt2/2)
	return y
}

// LayerInput is a block's use of its own embedding: inp_gate, proj and post_norm. The zero value is none.
type LayerInput struct {
	Gate Linear // [width, n_embd]
	Proj Linear // [n_embd, width]
	Norm Norm   // norm of the output before it is added to the residual
}

// Bound reports whether there is one.
func (l *LayerInput) Bound() bool { return l.Gate.Bound() }

// Forward returns what layer's embedding e adds to the residual x: norm(Proj·(gelu(Gate·x)·e)). inputs has the
// embeddings of all layers side by side. [n, n_embd]
func (l *LayerInput) Forward(p *Pass, x, inputs compute.Tensor, layer int) compute.Tensor {
	width := l.Gate.W.Rows
	e := p.Slice(inputs, layer*width, width)
	g := p.Linear(x, &l.Gate)
	p.Activate(g, e, compute.Activation{Kind: compute.GELU})
	y := p.Linear(g, &l.Proj)
	p.Normalize(y, l.Norm)
	return y
}

// AltUp binds the streams' projections. Which stream blocks compute is read from k.
func (b *Binder) AltUp(k *Keys, width int) AltUp {
	b.Place(b.model.Head)
	const n = compute.AltUpStreams
	active, _, err := k.File.Uint(k.name(".altup.active_idx"))
	if err != nil || active >= n {
		k.Fail("key %q: it names none of %d streams", k.name(".altup.active_idx"), n)
	}
	if got := k.Count(".altup.num_inputs", n, MaxWidth); got != n {
		k.Fail("key %q: %d streams of the residual are not supported; %d are", k.name(".altup.num_inputs"), got, n)
	}
	projections := func(name string) []Linear {
		all := b.slices(name, width, compute.Precise, width, width, width)
		b.shaped(width, width, n-1)
		return all
	}
	return AltUp{Active: int(min(active, n-1)), Split: projections("altup_proj.weight"), Merge: projections("altup_unembd_proj.weight")}
}

// AltUpMixing binds a block's mixing of streams.
func (b *Binder) AltUpMixing(width int, eps float32) AltUpMixing {
	const n = compute.AltUpStreams
	return AltUpMixing{
		Norm: b.RMSNorm("altup_router_norm", width, eps), Router: b.Linear("altup_router", n, width, NoBias),
		Prediction: b.flat("altup_predict_coef.weight", n*n, n), Correction: b.flat("altup_correct_coef.weight", n, n),
		Scale: b.Vector("altup_correct_scale.weight", width),
	}
}

// LowRank binds a block's path of low rank.
func (b *Binder) LowRank(width int, eps float32) LowRank {
	rank := b.Rows("laurel_l.weight")
	return LowRank{Left: b.Linear("laurel_l", rank, width, NoBias), Right: b.Linear("laurel_r", width, rank, NoBias), Norm: b.RMSNorm("laurel_post_norm", width, eps)}
}

// LayerInputs binds the embeddings of that width that tokens have for each of n layers. Their table stays in RAM.
func (b *Binder) LayerInputs(vocab, n, width, embd int, eps float32) LayerInputs {
	b.Place(b.model.Head)
	return LayerInputs{
		Table: b.Lookup("per_layer_token_embd", vocab, n*width), Proj: b.Linear("per_layer_model_proj", n*width, embd, NoBias), Norm: b.RMSNorm("per_layer_proj_norm", width, eps), Width: width,
	}
}

// LayerInput binds the block's own embedding.
func (b *Binder) LayerInput(width, embd int, eps float32) LayerInput {
	return LayerInput{Gate: b.Linear("inp_gate", width, embd, NoBias), Proj: b.Linear("proj", embd, width, NoBias), Norm: b.RMSNorm("post_norm", embd, eps)}
}
