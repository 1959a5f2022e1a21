package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// gemma3n is the text part of Gemma 3n. The residual is four streams. Each block predicts all streams from each other,
// computes the active one, and corrects all by the difference between the result and the active one's prediction
// (AltUp). A low-rank path is added in parallel to attention (LAuReL). All streams but the first get the block's
// product of the token's embedding for this layer. Norms come before and after attention and the feed-forward layer,
// and every head of queries, keys and values has one. Heads are rotated as NeoX does (x[i] with x[i+n/2]). Four of five
// layers have a sliding window and another RoPE base, the last layers read the keys and values of earlier ones, and in
// the first layers all but the largest gates are exactly zero.
//
// Sources: Google DeepMind 2025, Gemma 3n; Baykal et al. 2023, AltUp; Menghani et al. 2024, LAuReL.
type gemma3n struct {
	sizes          // the width, and the heads and neurons of each layer
	eps    float32 // epsilon of the norms
	act    compute.Activation
	scores nn.Scores

	rope, windowRope *compute.Rope // for layers that see all positions, and for sliding-window layers
	window           int           // positions that a token sees in layers with windows; 0: all
	windowed         []bool        // [layers]
	ownKV            int           // layers, the first ones, that have keys and values of their own

	topK   []*float32     // [layers] each gate becomes max(0, gate − mean − topK·σ) of its row; nil: it stays
	inputs nn.LayerInputs // each layer's embeddings
	altUp  nn.AltUp
	ends
	blocks []gemma3nBlock
}

type gemma3nBlock struct {
	layer    int
	attnNorm nn.Norm
	attn     *nn.Attention
	attnPost nn.Norm // norm of attention's output
	ffnNorm  nn.Norm
	ffn      *nn.FFN
	ffnPost  nn.Norm // norm of the feed-forward layer's output

	mixing       nn.AltUpMixing
	laurel       nn.LowRank
	ownEmbedding nn.LayerInput
}

func newGemma3n(k *nn.Keys, b *nn.Binder) Program {
	m := &gemma3n{sizes: readSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.GELU), scores: k.Scores(nn.Scores{Scale: 1})}
	n := len(m.layers)
	m.window, m.windowed = k.Windows(nn.WindowSpec{Window: 512, FullEvery: 5}, n, m.context)
	m.ownKV, m.topK = k.OwnKV(n, 20), k.TopK(n)
	rope := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: m.key(), Base: 1e6, Trained: m.context})
	m.rope, m.windowRope = b.Rope(rope), b.RopeWith(k.WindowRope(rope, 1e4).Unscaled(), nil)

	m.embed = b.Embedding(m.embd)
	m.embed.Scale = float32(math.Sqrt(float64(m.embd)))
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(30))
	width := k.RequiredCount(".embedding_length_per_layer_input", nn.MaxWidth/n)
	// The table of each layer's embeddings has as many rows as the table of tokens.
	m.inputs = b.LayerInputs(b.Rows("token_embd.weight"), n, width, m.embd, m.eps)
	m.altUp = b.AltUp(k, m.embd)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *gemma3n) block(b *nn.Binder, i int) gemma3nBlock {
	l := m.layers[i]
	var a *nn.Attention
	if i < m.ownKV {
		a = b.Attention(l.HeadShape)
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.KNorm, a.VNorm = b.HeadNorm("attn_k_norm", l.Key, m.eps), b.UnitNorm(l.Value, m.eps)
	} else {
		a = b.QueriesOf(nn.LastOfKind(m.windowed, m.ownKV, i), l.HeadShape, m.embd, nn.MayHaveBias)
	}
	a.QNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	if m.windowed[i] {
		a.Rope, a.Scores.Window = m.windowRope, m.window
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return gemma3nBlock{
		layer:        i,
		attnNorm:     b.RMSNorm("attn_norm", m.embd, m.eps),
		attn:         a,
		attnPost:     b.RMSNorm("post_attention_norm", m.embd, m.eps),
		ffnNorm:      ffnNorm,
		ffn:          b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, TopK: m.topK[i], InputNorm: ffnNorm}),
		ffnPost:      b.RMSNorm("post_ffw_norm", m.embd, m.eps),
		mixing:       b.AltUpMixing(m.embd, m.eps),
		laurel:       b.LowRank(m.embd, m.eps),
		ownEmbedding: b.LayerInput(m.inputs.Width, m.embd, m.eps),
	}
}

// AllRows is of family.AllRows: blocks mix all rows of the streams, so the last layer may not narrow x.
func (m *gemma3n) AllRows() bool { return true }

func (m *gemma3n) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	inputs := m.inputs.Forward(p, x)
	streams := m.altUp.Begin(p, x)
	for i := range m.blocks {
		p.Layer(i, compute.Tensor{}) // begins a layer; the residual is no single tensor
		m.blocks[i].forward(p, x, inputs, streams, m.altUp.Active)
	}
	m.altUp.End(p, x, streams)
	return x
}

// forward computes the block in streams. x, which it overwrites, holds the active one.
func (l *gemma3nBlock) forward(p *nn.Pass, x, inputs compute.Tensor, streams compute.Streams, active int) {
	l.mixing.Predict(p, x, streams, active)

	in := p.Norm(x, l.attnNorm)
	laurel := l.laurel.Forward(p, in) // before attention, which overwrites in
	_, y := l.attn.Forward(p, x, in)  // x keeps all rows: see AllRows
	p.Normalize(y, l.attnPost)
	p.Add(x, y)
	p.Add(x, laurel)
	p.Scale(x, math.Sqrt2/2)

	y = l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm))
	p.Normalize(y, l.ffnPost)
	p.Add(x, y)

	l.mixing.Correct(p, x, streams, active)
	y = l.ownEmbedding.Forward(p, x, inputs, l.layer)
	for _, s := range streams[1:] { // not the first, whichever is active
		p.AddKeeping(s, y)
	}
}
