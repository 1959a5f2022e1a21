package family

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// decoder is the plain decoder of the line of Llama: pre-norm blocks, grouped-query attention, and a feed-forward layer
// with a gate. Several families are this program and differ in what decoderSpec says.
type decoder struct {
	sizes
	spec   decoderSpec
	eps    float32
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores

	ends
	blocks []nn.PreNorm
}

// decoderSpec says how a family differs from the others that share this program.
type decoderSpec struct {
	style    compute.RopeStyle
	eps      float64              // epsilon of the norms, for files that do not say it; 0: 1e-5
	act      compute.Nonlinearity // SiLU, unless it says another
	original string               // see nn.Keys.ActivationOr
	qkvBias  nn.Presence          // files may have one in any family
	outBias  nn.Presence
	encodes  bool       // tokens see later positions, too, and there are no logits: hidden states are the result
	ranking  nn.Pooling // with encodes: see nn.Ranking
	ungated  bool       // feed-forward layers have no gate, and may have biases
	ffnNorm  string     // the name of the feed-forward layer's norm; empty: ffn_norm

	acts  []compute.Activation // for each layer, if they differ
	inner bool                 // attn_sub_norm and ffn_sub_norm norm what attn_output and ffn_down read

	// attention, if set, adds the family's variations to layer i's attention.
	attention func(m *decoder, b *nn.Binder, a *nn.Attention, i int)
}

// newDecoder binds a plain decoder.
func newDecoder(k *nn.Keys, b *nn.Binder, spec decoderSpec) *decoder {
	m := readDecoder(k, spec)
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: spec.style, Dims: m.key(), Trained: m.context}))
	m.bind(k, b)
	return m
}

// readDecoder reads the hyperparameters of a plain decoder, except its rotation.
func readDecoder(k *nn.Keys, spec decoderSpec) *decoder {
	return &decoder{
		spec: spec, sizes: readSizes(k), eps: k.RMSEpsilon(cmp.Or(spec.eps, 1e-5)), scores: k.Scores(nn.Scores{Later: spec.encodes}),
		act: k.ActivationOr(compute.Activation{Kind: spec.act}, spec.original),
	}
}

// bind binds a plain decoder after its hyperparameters were read.
func (m *decoder) bind(k *nn.Keys, b *nn.Binder) {
	m.embed = b.Embedding(m.embd)
	m.output.Norm = b.RMSNorm("output_norm", m.embd, m.eps)
	if !m.spec.encodes {
		m.output = b.Output(&m.embed, m.output.Norm, k.LogitCap(0))
	}
	m.output.Ranking.Pooling = m.spec.ranking
	m.blocks = bindBlocks(b, len(m.layers), m.block)
}

// block binds a block like layer i's.
func (m *decoder) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.layers[i]
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, max(nn.MayHaveBias, m.spec.qkvBias))
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, m.spec.outBias)
	if m.spec.attention != nil {
		m.spec.attention(m, b, a, i)
	}

	ffnNorm := b.RMSNorm(cmp.Or(m.spec.ffnNorm, "ffn_norm"), m.embd, m.eps)
	ffn := nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: !m.spec.ungated, Act: m.act, InputNorm: ffnNorm}
	if m.spec.ungated {
		ffn.UpBias, ffn.DownBias = nn.Optional, nn.Optional
	}
	if m.spec.acts != nil {
		ffn.Act = m.spec.acts[i]
	}
	if m.spec.inner {
		a.Inner, ffn.Inner = b.RMSNorm("attn_sub_norm", l.Heads*l.Value, m.eps), b.RMSNorm("ffn_sub_norm", l.ff, m.eps)
	}
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFN(ffn),
	}
}

func (m *decoder) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (m *decoder) BindMTP(b *nn.Binder, _ int) Block { return new(m.block(b, len(m.layers)-1)) }

// headNorms adds the norms of each head of queries and keys.
func headNorms(m *decoder, b *nn.Binder, a *nn.Attention, _ int) {
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", a.Key, m.eps), b.HeadNorm("attn_k_norm", a.Key, m.eps)
}
