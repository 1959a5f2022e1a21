package model

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// inputs are the weights of layers' own embeddings of tokens: a token has one for each layer, to which a projection of
// its usual embedding is added.
type inputs struct {
	table *compute.Matrix // [n_vocab, layers·input], or nil
	proj  *compute.Matrix // [layers·input, n_embd]
	norm  norm            // [input] of what proj gives for each layer
}

// input is a block's use of its own embeddings.
type input struct {
	gate  *compute.Matrix // [input, n_embd], or nil
	proj  *compute.Matrix // [n_embd, input]
	after norm            // of what it adds to the residual
}

// altUp are the weights by which the residual is split into streams, and they are merged again.
//
// Source: Baykal et al. 2023, Alternating Updates for Efficient Transformers.
type altUp struct {
	split []*compute.Matrix // [streams−1] of [n_embd, n_embd], or nil
	merge []*compute.Matrix // likewise
}

// mixing are the weights by which a block predicts and corrects the streams, and of the low-rank path beside its
// attention.
//
// Source of the latter: Menghani et al. 2024, LAuReL: Learned Augmented Residual Layer.
type mixing struct {
	norm             norm            // of the router's input
	router           *compute.Matrix // [streams, n_embd], or nil in families with one stream
	predict, correct *compute.Vector // see compute.AltUpPredict and AltUpCorrect
	scale            *compute.Vector // [n_embd] of the corrected stream, for its layer's embedding
	left, right      *compute.Matrix // [rank, n_embd], [n_embd, rank]
	after            norm            // of the low-rank path
}

// leastSquare bounds the mean square of a stream from below where streams are brought to the same size.
const leastSquare = 1e-5

// bindStreams binds what lies before the layers of families with several streams, and layers' embeddings. Tables stay
// in RAM.
func (m *Model) bindStreams(b *binder) {
	b.lies(m.place(m.Layers))
	gpu := b.gpu
	wide := m.Layers * m.Input
	if m.Input > 0 {
		b.gpu = false
		m.inputs.table = b.matrix("per_layer_token_embd.weight", m.Vocab, wide, compute.Lookup)
		b.gpu = gpu
		m.inputs.proj = b.matrix("per_layer_model_proj.weight", wide, m.Embd, compute.Precise)
		m.inputs.norm.w = b.vector("per_layer_proj_norm.weight", m.Input)
	}
	if m.Family.AltUp {
		m.altUp.split = b.slices("altup_proj.weight", m.Embd, compute.Precise, m.Embd, m.Embd, m.Embd)
		m.altUp.merge = b.slices("altup_unembd_proj.weight", m.Embd, compute.Precise, m.Embd, m.Embd, m.Embd)
	}
}

// newStreams allocates the activations of n rows.
func (m *Model) newStreams(b *buffers, n int, tensor func(rows, cols int) compute.Tensor) {
	if m.Input > 0 {
		wide := m.Layers * m.Input
		b.inputs, b.lookup, b.input, b.gated = tensor(n, wide), tensor(n, wide), tensor(n, m.Input), tensor(n, m.Input)
	}
	if m.Family.AltUp {
		for i := range b.streams {
			b.streams[i] = tensor(n, m.Embd)
		}
		b.modalities, b.beside = tensor(n, compute.AltUpStreams), tensor(n, m.Embd)
		b.low = tensor(n, m.layers[0].mixing.left.Rows)
	}
}

// bindMixing binds what a block has of these.
func (l *block) bindMixing(b *blockBinder) {
	if b.m.Input > 0 {
		l.input = input{gate: b.matrix("inp_gate.weight"), proj: b.matrix("proj.weight"), after: b.norm("post_norm")}
	}
	l.scale = 1
	if name := "layer_output_scale.weight"; b.bound(name) {
		if s := b.floats(b.name(name), 1); s != nil {
			l.scale = s[0]
		}
	}
	if !b.m.Family.AltUp {
		return
	}
	const n = compute.AltUpStreams
	l.mixing = mixing{
		norm: b.norm("altup_router_norm"), router: b.matrix("altup_router.weight"), scale: b.vector("altup_correct_scale.weight"),
		predict: b.flat(b.name("altup_predict_coef.weight"), n*n, n), correct: b.flat(b.name("altup_correct_coef.weight"), n, n),
		after: b.norm("laurel_post_norm"),
	}
	rank := 1
	if t := b.f.Tensor(b.name("laurel_l.weight")); t != nil {
		rank = t.Rows()
	}
	l.mixing.left = b.binder.matrix(b.name("laurel_l.weight"), rank, b.m.Embd, compute.Precise)
	l.mixing.right = b.binder.matrix(b.name("laurel_r.weight"), b.m.Embd, rank, compute.Precise)
}

// embedLayers computes s.inputs, every layer's own embedding of the tokens, from their embeddings s.x:
//
//	(norm(Wx/√n_embd) + √input·table[token]) / √2
func (m *Model) embedLayers(v compute.Verbs, s *buffers) {
	if m.Input == 0 {
		return
	}
	m.product(v, s.x, compute.Products{{Out: s.inputs, W: m.inputs.proj}})
	v.Scale(s.inputs, float32(1/math.Sqrt(float64(m.Embd))))
	each := s.inputs.Split(m.Input)
	m.normalise(v, each, each, m.inputs.norm)
	v.Embed(s.lookup, m.inputs.table)
	v.Scale(s.lookup, float32(math.Sqrt(float64(m.Input))))
	v.Add(s.inputs, s.lookup)
	v.Scale(s.inputs, math.Sqrt2/2)
}

// split makes streams of the residual s.x: itself, and projections of its size.
func (m *Model) split(v compute.Verbs, s *buffers) {
	if !m.Family.AltUp {
		return
	}
	v.Slice(s.streams[0], s.x, 0)
	for i, w := range m.altUp.split {
		m.product(v, s.x, compute.Products{{Out: s.streams[i+1], W: w}})
		v.Match(s.streams[i+1], s.x, leastSquare)
	}
}

// merge makes s.x the mean of the streams, of which the others are projected and brought to the first one's size.
func (m *Model) merge(v compute.Verbs, s *buffers) {
	if !m.Family.AltUp {
		return
	}
	v.Slice(s.x, s.streams[0], 0)
	for i, w := range m.altUp.merge {
		m.product(v, s.streams[i+1], compute.Products{{Out: s.h, W: w}})
		v.Match(s.h, s.streams[0], leastSquare)
		v.Add(s.x, s.h)
	}
	v.Scale(s.x, 1.0/compute.AltUpStreams)
}

// alternate runs a block within streams of the residual. It predicts all streams, computes the active one, and corrects
// the others by how the result differs from the prediction:
//
//	x = (x + attention(norm(x)) + laurel(norm(x))) / √2; x += ffn(norm(x))
func (l *block) alternate(v compute.Verbs, m *Model, i int) {
	s := m.step.of(&l.shape)
	active := s.streams[m.Active]
	l.mixing.route(v, m, s, active)
	v.AltUpPredict(s.streams, s.modalities, l.mixing.predict)
	v.Slice(s.x, active, 0)

	in := m.input(v, s, l.norm)
	l.mixing.laurel(v, m, s, in)
	l.attend(v, m, s, in, i)
	m.product(v, s.attn, compute.Products{{Out: s.h, W: l.wo, Bias: l.bo}})
	m.join(v, s.x, s.h, l.after)
	v.Add(s.x, s.beside)
	v.Scale(s.x, math.Sqrt2/2)

	in = m.input(v, s, l.ffnNorm)
	l.ffn.forward(v, m, s, in)
	m.join(v, s.x, s.ffnOut, l.ffnAfter)

	l.mixing.route(v, m, s, s.x)
	v.AltUpCorrect(s.streams, s.x, s.modalities, l.mixing.correct, m.Active)
	v.Multiply(s.x, active, l.mixing.scale)
	l.input.compute(v, m, s, i)
	for _, other := range s.streams[1:] {
		v.Add(other, s.h)
	}
}

// route computes s.modalities from a stream: tanh(W·norm(x)/n_embd).
func (l *mixing) route(v compute.Verbs, m *Model, s *buffers, x compute.Tensor) {
	m.normalise(v, s.h, x, l.norm)
	m.product(v, s.h, compute.Products{{Out: s.modalities, W: l.router}})
	v.Scale(s.modalities, 1/float32(m.Embd))
	v.SoftCap(s.modalities, 1)
}

// laurel computes s.beside, the block's input and a low-rank projection of it: x + norm(R·L·x).
func (l *mixing) laurel(v compute.Verbs, m *Model, s *buffers, in compute.Tensor) {
	m.product(v, in, compute.Products{{Out: s.low, W: l.left}})
	m.product(v, s.low, compute.Products{{Out: s.beside, W: l.right}})
	m.normalise(v, s.beside, s.beside, l.after)
	v.Add(s.beside, in)
}

// compute computes s.h, what layer i's own embedding e adds to the residual s.x: norm(P·(gelu(G·x)·e)).
func (in *input) compute(v compute.Verbs, m *Model, s *buffers, i int) {
	v.Slice(s.input, s.inputs, i*m.Input)
	m.product(v, s.x, compute.Products{{Out: s.gated, W: in.gate}})
	v.Activate(s.gated, s.gated, s.input, compute.Activation{Kind: compute.GELU})
	m.product(v, s.gated, compute.Products{{Out: s.h, W: in.proj}})
	m.normalise(v, s.h, s.h, in.after)
}

// ones binds a norm without weights, of n elements.
func (b *binder) ones(n int) *compute.Vector {
	data := make([]float32, n)
	for i := range data {
		data[i] = 1
	}
	src := compute.Source{Name: "ones", Type: quant.F32, Rows: 1, Cols: n, Data: make([]byte, quant.F32.RowBytes(n)), Split: compute.Split{Tier: b.tier}}
	quant.Encode(quant.F32, src.Data, data)
	v, err := b.dev.Vector(src)
	if err != nil {
		b.fail("%w", err)
	}
	return v
}

// flat binds a small matrix as one vector.
func (b *binder) flat(name string, rows, cols int) *compute.Vector {
	t := b.take(name, cols, rows)
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 {
		b.fail("tensor %q: so small a matrix of type %s is not supported", name, t.Type)
		return nil
	}
	v, err := b.dev.Vector(compute.Source{Name: name, Type: t.Type, Rows: 1, Cols: rows * cols, Data: t.Data, Split: compute.Split{Tier: b.tier}})
	if err != nil {
		b.fail("%w", err)
		return nil
	}
	b.loaded(t, false)
	return v
}
