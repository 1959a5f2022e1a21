package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// mamba is Mamba, Falcon-Mamba, Mamba-2 and Mamba-Codestral: every block is only a selective state space that reads the
// norm of the residual.
//
// Sources: Gu and Dao 2023, Mamba; Zuo et al. 2024, Falcon Mamba; Dao and Gu 2024, Transformers are SSMs (Mamba-2).
type mamba struct {
	ends
	blocks []mambaBlock
}

type mambaBlock struct {
	number int
	norm   nn.Norm
	mixer  nn.Recurrent
}

// newMamba binds Mamba, and Falcon-Mamba, which has norms without weights in its layers.
func newMamba(k *nn.Keys, b *nn.Binder) Program {
	states, normed := k.Mamba(), k.Flag(".ssm.dt_b_c_rms", false)
	return bindMamba(k, b, func(b *nn.Binder, embd int, eps float32) nn.Recurrent {
		m := b.Mamba(states, embd)
		if normed {
			b.MambaNorms(m, states, eps, nn.Absent)
		}
		return m
	})
}

func newMamba2(k *nn.Keys, b *nn.Binder) Program {
	states := k.States()
	return bindMamba(k, b, func(b *nn.Binder, embd int, eps float32) nn.Recurrent {
		return b.Mamba2(states, embd, eps, nn.Required)
	})
}

// bindMamba binds a model of blocks with such mixers.
func bindMamba(k *nn.Keys, b *nn.Binder, mixer func(b *nn.Binder, embd int, eps float32) nn.Recurrent) *mamba {
	embd, eps := k.RequiredCount(".embedding_length", nn.MaxWidth), k.RMSEpsilon(1e-5)
	m := &mamba{}
	m.embed = b.Embedding(embd)
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", embd, eps), k.LogitCap(0))
	for i := range k.Layers() {
		b := b.Layer(i)
		m.blocks = append(m.blocks, mambaBlock{i, b.RMSNorm("attn_norm", embd, eps), mixer(b, embd, eps)})
	}
	return m
}

func (m *mamba) Forward(p *nn.Pass) compute.Tensor { return through(p, m.embed.Forward(p), m.blocks) }

func (l *mambaBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	p.Add(x, l.mixer.Forward(p, p.Norm(x, l.norm)))
	return p.Wanted(l.number, x)
}
