package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// hybridBlock is a pre-norm block with a recurrent mixer or attention, and a feed-forward layer or experts.
type hybridBlock struct {
	number  int
	norm    nn.Norm
	mixer   nn.Recurrent // nil: there is attention
	attn    *nn.Attention
	ffnNorm nn.Norm
	ffn     nn.FeedForward
}

func (l *hybridBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	in := p.Norm(x, l.norm)
	if l.mixer != nil {
		p.Add(x, l.mixer.Forward(p, in))
		x = p.Wanted(l.number, x)
	} else {
		var y compute.Tensor
		x, y = l.attn.Forward(p, x, in)
		p.Add(x, y)
	}
	p.Add(x, l.ffn.Forward(p, x, p.Norm(x, l.ffnNorm)))
	return x
}

// Store implements Block, for MTP layers, which have attention.
func (l *hybridBlock) Store(p *nn.Pass, x compute.Tensor) { l.attn.Attend(p, p.Norm(x, l.norm)) }
