package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// mamba2 is Mamba-2 and Mamba-Codestral: every block is a selective state space that reads the norm of the residual,
// and nothing else.
//
// Source: Dao and Gu 2024, Transformers are SSMs.
type mamba2 struct {
	ends
	blocks []mamba2Block
}

type mamba2Block struct {
	number int
	norm   nn.Norm
	mixer  *nn.Mamba2
}

func newMamba2(k *nn.Keys, b *nn.Binder) Program {
	embd, eps, states := k.Count(".embedding_length", 0, nn.MaxWidth), k.RMSEpsilon(1e-5), k.States()
	m := &mamba2{}
	m.embed = b.Embedding(embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", embd, eps))
	m.output.SoftCap = k.LogitCap(0)
	for i := range k.Layers() {
		b := b.Layer(i)
		m.blocks = append(m.blocks, mamba2Block{i, b.RMSNorm("attn_norm", embd, eps), b.Mamba2(states, embd, eps, nn.Required)})
	}
	return m
}

func (m *mamba2) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i)
		x = m.blocks[i].forward(p, x)
	}
	return x
}

func (l *mamba2Block) forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	p.Add(x, l.mixer.Forward(p, p.Norm(x, l.norm)))
	return p.Wanted(l.number, x)
}
