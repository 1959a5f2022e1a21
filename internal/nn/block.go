package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// SelfAttention is a layer's attention, of any form.
type SelfAttention interface {
	// Forward returns the residual and the output to add to it. [n, n_embd] of each, or only the wanted rows
	Forward(p *Pass, residual, in compute.Tensor) (x, y compute.Tensor)
	// Attend stores the keys and values of in, and returns the heads' output.
	Attend(p *Pass, in compute.Tensor) compute.Tensor
}

// Block is a block of any form.
type Block interface {
	// Forward returns the residual after the block. [n, n_embd]
	Forward(p *Pass, x compute.Tensor) compute.Tensor
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

// PostNorm is a block with attention and a feed-forward layer that read the residual as it is. Norms follow them: each
// adds its output to the residual after a norm.
type PostNorm struct {
	Attn              SelfAttention
	FFN               FeedForward
	AttnPost, FFNPost Norm
}

// Forward returns the residual after the block. [n, n_embd]
func (l *PostNorm) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	x, y := l.Attn.Forward(p, x, x)
	p.Normalize(y, l.AttnPost)
	p.Add(x, y)
	y = l.FFN.Forward(p, x, x)
	p.Normalize(y, l.FFNPost)
	p.Add(x, y)
	return x
}

// Store is for the MTP layer, as PreNorm.Store.
func (l *PostNorm) Store(p *Pass, x compute.Tensor) { l.Attn.Attend(p, x) }

// Parallel is a block with attention and a feed-forward layer that read the same norm of the residual, side by side.
type Parallel struct {
	Norm Norm
	Attn *Attention
	FFN  FeedForward
}

// Forward returns the residual after the block. [n, n_embd]
func (l *Parallel) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	in := p.Norm(x, l.Norm)
	x, heads := l.Attn.AttendWanted(p, x, in)
	if x.Rows < in.Rows { // the last layer keeps only the rows with wanted logits
		in = p.Norm(x, l.Norm)
	}
	y := l.FFN.Forward(p, x, in)
	p.Add(x, p.Linear(heads, &l.Attn.Out))
	p.Add(x, y)
	return x
}
