package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// rwkv7 is RWKV-7 "Goose": LayerNorms, also of the embeddings, time mixing in place of attention, and channel mixing, a
// feed-forward layer with squared ReLU and without a gate that reads a mixture with the row before. Many of its neurons
// are zero. Values move towards the first layer's.
//
// Source: Peng et al. 2025, RWKV-7 "Goose" with Expressive Dynamic State Evolution.
type rwkv7 struct {
	embd  int
	first compute.Tensor // the first layer's values, in a pass

	ends
	blocks []rwkv7Block
}

type rwkv7Block struct {
	number   int
	timeNorm nn.Norm
	time     *nn.TimeMix
	norm     nn.Norm // norm before channel mixing
	shift    nn.Shift
	channel  *nn.FFN
}

func newRWKV7(k *nn.Keys, b *nn.Binder) Program {
	m := &rwkv7{embd: k.RequiredCount(".embedding_length", nn.MaxWidth)}
	layers, eps, act := k.Layers(), k.LayerNormEpsilon(1e-5), k.Activation(compute.ReLU2)
	ff, sizes := k.Counts(".feed_forward_length", layers, nil), k.TimeMixing(m.embd)

	m.embed = b.Embedding(m.embd)
	m.embed.Norm = b.LayerNorm("token_embd_norm", m.embd, eps, nn.HasBias)
	m.output = b.Output(&m.embed, b.LayerNorm("output_norm", m.embd, eps, nn.HasBias), 0)
	for i := range layers {
		b := b.Layer(i)
		block := rwkv7Block{number: i, timeNorm: b.LayerNorm("attn_norm", m.embd, eps, nn.HasBias), norm: b.LayerNorm("attn_norm_2", m.embd, eps, nn.HasBias)}
		block.time, block.shift = b.TimeMix(sizes, &m.first)
		block.channel = b.FFN(nn.FFNSpec{Width: m.embd, Neurons: ff[i], Act: act, Parallel: true})
		m.blocks = append(m.blocks, block)
	}
	return m
}

func (m *rwkv7) Forward(p *nn.Pass) compute.Tensor {
	m.first = p.Tokens(m.embd)
	return through(p, m.embed.Forward(p), m.blocks)
}

func (l *rwkv7Block) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	p.Add(x, l.time.Forward(p, p.Norm(x, l.timeNorm)))
	in := p.Wanted(l.number, p.Shift(p.Norm(x, l.norm), &l.shift))
	x = p.Wanted(l.number, x)
	p.Add(x, l.channel.Forward(p, x, in))
	return x
}
