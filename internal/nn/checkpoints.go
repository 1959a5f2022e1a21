package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Checkpoints are copies of the residual from some layers. Parts of blocks read a mix of them and of the residual.
//
// Source: Kimi Team 2026, Attention Residuals.
type Checkpoints struct {
	stack compute.Tensor // [n, room·n_embd]
	count int
}

// Checkpoints returns room for that many checkpoints of a residual of width elements.
func (p *Pass) Checkpoints(room, width int) Checkpoints {
	if room == 0 {
		return Checkpoints{}
	}
	return Checkpoints{stack: p.Tokens(room * width)}
}

// Push makes x a checkpoint.
func (c *Checkpoints) Push(p *Pass, x compute.Tensor) {
	if x.Rows > 0 {
		p.verbs.CopyColumns(c.stack, x, compute.Ranges{First: c.count * x.Cols}, compute.Ranges{}, x.Cols, 1)
	}
	c.count++
}

// Mix returns the mix of x and of its checkpoints that w, the weights of a norm and of a product, asks for. It is x where
// there are no checkpoints. [n, n_embd]
func (c *Checkpoints) Mix(p *Pass, x compute.Tensor, w Norm) compute.Tensor {
	if c.count == 0 {
		return x
	}
	y := p.New(x, x.Cols)
	if x.Rows > 0 {
		p.verbs.AttendResiduals(compute.AttendResiduals{Out: y, Stack: c.stack, X: x, W: w.Weight, Count: c.count, Epsilon: w.Epsilon})
	}
	return y
}

// Narrow keeps the rows with which a layer continues; see Pass.Wanted.
func (c *Checkpoints) Narrow(p *Pass, layer int) {
	if c.count > 0 {
		c.stack = p.Wanted(layer, c.stack)
	}
}
