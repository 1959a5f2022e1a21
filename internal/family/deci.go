package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// deci is DeciLM and the Nemotrons that a search made of Llama: a layer may have a single product in place of attention,
// or neither, or be left out.
//
// Sources: Deci AI 2023, DeciLM-7B; Bercovich et al. 2024, Puzzle; NVIDIA 2025, Llama-Nemotron.
type deci struct {
	*decoder
	blocks []deciBlock
}

// deciBlock has attn, product or neither.
type deciBlock struct {
	number  int
	norm    nn.Norm // norm before attention or the product
	attn    *nn.Attention
	product nn.Linear
	ffnNorm nn.Norm
	ffn     *nn.FFN // or nil: the layer is left out
}

func newDeci(k *nn.Keys, b *nn.Binder) Program {
	m := &deci{decoder: &decoder{eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{}), sizes: readHybridSizes(k)}}
	heads := k.CountsFrom(0, ".attention.head_count", len(m.layers), nil) // layers without KV heads have them, too
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: m.key(), Trained: m.context}))
	m.embed = b.Embedding(m.embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	for i, l := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), i, l, heads[i]))
	}
	return m
}

func (m *deci) block(b *nn.Binder, i int, l layer, heads int) deciBlock {
	block := deciBlock{number: i}
	if l.ff == 0 { // files may hold attention for such a layer; it is not computed
		for _, name := range []string{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output"} {
			b.Ignore(name + ".weight")
			b.Ignore(name + ".bias")
		}
		return block
	}
	switch {
	case l.KVHeads > 0:
		a := b.Attention(l.HeadShape)
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)
		block.attn, block.norm = a, b.RMSNorm("attn_norm", m.embd, m.eps)
	case heads > 0:
		block.product, block.norm = b.Linear("attn_output", m.embd, m.embd, nn.MayHaveBias), b.RMSNorm("attn_norm", m.embd, m.eps)
	}
	block.ffnNorm = b.RMSNorm("ffn_norm", m.embd, m.eps)
	block.ffn = b.FFN(nn.FFNSpec{
		Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, UpBias: nn.Optional, DownBias: nn.Optional, InputNorm: block.ffnNorm,
	})
	return block
}

func (m *deci) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (l *deciBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	switch {
	case l.attn != nil:
		var y compute.Tensor
		x, y = l.attn.Forward(p, x, p.Norm(x, l.norm))
		p.Add(x, y)
	case l.product.Bound():
		p.Add(x, p.Linear(p.Norm(x, l.norm), &l.product))
		fallthrough
	default:
		x = p.Wanted(l.number, x)
	}
	if l.ffn != nil {
		p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	}
	return x
}
