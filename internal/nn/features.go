package nn

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Features are what some layers of a model read in a step of kind WithMTP, side by side: a draft head's inputs.
type Features struct {
	Layers []int // layers, in the order of their columns; the number of layers stands for the last one's output

	x    compute.Tensor // [n, len(Layers)·n_embd]
	kept int            // number of layers with inputs stored so far
}

// Begin makes room for the features of a step of a model of that width. It does nothing where no layer is wanted.
func (f *Features) Begin(p *Pass, embd int) {
	f.kept = 0
	if f.x = (compute.Tensor{}); len(f.Layers) > 0 && p.Kind == WithMTP {
		f.x = p.Tokens(len(f.Layers) * embd)
	}
}

// End returns the features of a step. x is the last layer's output.
func (f *Features) End(p *Pass, layers int, x compute.Tensor) compute.Tensor {
	f.keep(p, layers, x)
	return f.x
}

// All reports whether the last step has all the inputs. Models with several residual streams lack them.
func (f *Features) All() bool { return f.kept == len(f.Layers) }

// keep stores x, the input of layer i.
func (f *Features) keep(p *Pass, i int, x compute.Tensor) {
	if f.x.Rows == 0 || p.Kind != WithMTP {
		return
	}
	width := f.x.Cols / len(f.Layers)
	if at := slices.Index(f.Layers, i); at >= 0 && x.Cols == width {
		f.kept++
		p.verbs.CopyColumns(f.x, x, compute.Ranges{First: at * width}, compute.Ranges{}, width, 1)
	}
}
