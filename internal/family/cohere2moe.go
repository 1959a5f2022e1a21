package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// cohere2MoE is Command's models with experts: attention and experts read one norm of the residual in parallel, and
// their outputs are added to it together. Experts are scored by a sigmoid; with shared ones, the mean of both is taken.
// The first of four layers has no window; it rotates heads only if it is one of the first layers, which have one
// feed-forward layer instead of experts. Logits have a factor. Older models have LayerNorms, newer ones RMSNorms.
//
// Source: Cohere 2026, the model card and configuration of North Mini Code.
type cohere2MoE struct {
	sizes
	eps      float32 // epsilon of the norms
	centered bool    // they are LayerNorms
	act      compute.Activation
	scores   nn.Scores
	experts  nn.ExpertSpec

	rope     *compute.Rope
	window   int    // positions that a token sees in layers with windows; 0: all
	windowed []bool // [layers], and the MTP layer's

	ends
	blocks []cohere2MoEBlock
}

type cohere2MoEBlock struct {
	norm  nn.Norm
	attn  *nn.Attention
	ffn   nn.FeedForward // experts, or dense
	scale float32        // factor of the experts' output
}

func newCohere2MoE(k *nn.Keys, b *nn.Binder) Program {
	m := &cohere2MoE{sizes: readSizes(k), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	if m.eps = k.RMSEpsilon(0); m.eps == 0 {
		m.eps, m.centered = k.LayerNormEpsilon(1e-5), true
	}
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Neurons: m.ff(), Gated: true, Act: m.act, Routing: compute.Routing{Score: compute.Sigmoid, MinSum: nn.LeastSum},
	})
	m.window, m.windowed = k.Windows(nn.WindowSpec{FullEvery: 4, FullFirst: true}, len(m.layers)+k.Extra, m.context)
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}))

	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, m.norm(b, "output_norm"), k.LogitCap(0))
	m.output.Scale = k.Factor(".logit_scale", 1)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

func (m *cohere2MoE) norm(b *nn.Binder, name string) nn.Norm {
	if m.centered {
		return b.LayerNorm(name, m.embd, m.eps, nn.NoBias)
	}
	return b.RMSNorm(name, m.embd, m.eps)
}

// block binds block i.
func (m *cohere2MoE) block(b *nn.Binder, i int) cohere2MoEBlock {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.Scores = b.Scores(m.scores, l.HeadShape)
	mtp := i == len(m.layers)
	if !mtp && m.windowed[i] {
		a.Scores.Window = m.window
	}
	if mtp || m.windowed[i] || !b.HasExperts() {
		a.Rope = m.rope
	}
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)
	norm := m.norm(b, "attn_norm")
	block := cohere2MoEBlock{
		norm:  norm,
		attn:  a,
		ffn:   b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: norm, Parallel: true}, m.experts),
		scale: 1,
	}
	if b.HasExperts() && m.experts.Shared > 0 {
		block.scale = 0.5
	}
	return block
}

func (m *cohere2MoE) Forward(p *nn.Pass) compute.Tensor {
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *cohere2MoEBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	if e, ok := l.ffn.(*nn.Experts); ok {
		e.Expect(p, x)
	}
	in := p.Norm(x, l.norm)
	x, heads := l.attn.AttendWanted(p, x, in)
	if x.Rows < in.Rows { // the last layer keeps only the rows with wanted logits
		in = p.Norm(x, l.norm)
	}
	y := l.ffn.Forward(p, x, in)
	p.Scale(y, l.scale)
	p.Add(x, p.Linear(heads, &l.attn.Out))
	p.Add(x, y)
	return x
}

func (l *cohere2MoEBlock) Store(p *nn.Pass, x compute.Tensor) { l.attn.Attend(p, p.Norm(x, l.norm)) }

func (m *cohere2MoE) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
