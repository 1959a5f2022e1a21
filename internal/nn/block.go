package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// SelfAttention is a layer's attention, of any form.
type SelfAttention interface {
	// Forward returns the residual and what is to be added to it for in. [n, n_embd] of each, or the rows that are wanted
	Forward(p *Pass, residual, in compute.Tensor) (x, y compute.Tensor)
	// Attend stores the keys and values of in, and returns the heads' output.
	Attend(p *Pass, in compute.Tensor) compute.Tensor
}

// PreNorm is a block with attention and a feed-forward layer that each read a norm of the residual.
type PreNorm struct {
	AttnNorm Norm
	Attn     SelfAttention
	FFNNorm  Norm
	FFN      FeedForward
}

// Forward returns the residual after the block. [n, n_embd]
func (l *PreNorm) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	x, y := l.Attn.Forward(p, x, p.Norm(x, l.AttnNorm))
	p.Add(x, y)
	p.Add(x, l.FFN.Forward(p, x, p.Norm(x, l.FFNNorm)))
	return x
}

// Store is for the MTP layer: attention stores keys and values of x before it attends, and its result is not wanted.
func (l *PreNorm) Store(p *Pass, x compute.Tensor) { l.Attn.Attend(p, p.Norm(x, l.AttnNorm)) }

// Sandwich is a block of that form with a norm of what each part adds to the residual, too.
type Sandwich struct {
	PreNorm
	AttnPost, FFNPost Norm
}

// Forward returns the residual after the block. [n, n_embd]
func (l *Sandwich) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	x, y := l.Attn.Forward(p, x, p.Norm(x, l.AttnNorm))
	p.Normalize(y, l.AttnPost)
	p.Add(x, y)
	y = l.FFN.Forward(p, x, p.Norm(x, l.FFNNorm))
	p.Normalize(y, l.FFNPost)
	p.Add(x, y)
	return x
}
