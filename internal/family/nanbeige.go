package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// nanbeige is Nanbeige 4.2: a plain decoder with layers that all tokens go through several times. A layer has other
// keys and values each time. Between the times the residual goes through the last norm, unless the file says otherwise.
//
// Source: Nanbeige LLM Lab 2026, the configuration and model card of Nanbeige4.2-3B.
type nanbeige struct {
	*decoder
	again  [][]nn.PreNorm // the layers, each time after the first, with the same weights
	normed bool           // the residual is, between the times
}

// maxLoops bounds how often tokens go through the layers.
const maxLoops = 64

func newNanbeige(k *nn.Keys, b *nn.Binder) Program {
	loops, skips := k.Count(".num_loops", 1, maxLoops), k.Flag(".skip_loop_final_norm", false)
	m := &nanbeige{decoder: newDecoder(k, b, decoderSpec{style: compute.Interleaved}), normed: !skips}
	for range loops - 1 {
		blocks := make([]nn.PreNorm, len(m.blocks))
		for i, l := range m.blocks {
			blocks[i] = l
			blocks[i].Attn = b.Layer(i).Again(l.Attn.(*nn.Attention))
		}
		m.again = append(m.again, blocks)
	}
	return m
}

func (m *nanbeige) Forward(p *nn.Pass) compute.Tensor {
	x, number := m.embed.Forward(p), 0
	for i, blocks := range append([][]nn.PreNorm{m.blocks}, m.again...) {
		if i > 0 && m.normed {
			p.Normalize(x, m.output.Norm)
		}
		for l := range blocks {
			p.Layer(number, x)
			number++
			x = blocks[l].Forward(p, x)
		}
	}
	return x
}
