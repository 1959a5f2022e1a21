package nn

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Features are what some layers of a model read in a step of kind WithMTP, side by side: a draft head's inputs.
type Features struct {
	Layers []int // their numbers, in the order of their columns; the number of layers stands for what the last one gives

	x compute.Tensor // [n, len(Layers)·n_embd]
}

// Begin makes room for the features of a step of a model of that width. It does nothing where no layer is wanted.
func (f *Features) Begin(p *Pass, embd int) {
	if f.x = (compute.Tensor{}); len(f.Layers) > 0 && p.Kind == WithMTP {
		f.x = p.Tokens(len(f.Layers) * embd)
	}
}

// End returns the features of a step whose last layer gave x.
func (f *Features) End(p *Pass, layers int, x compute.Tensor) compute.Tensor {
	f.keep(p, layers, x)
	return f.x
}

// keep takes in x, which layer i reads.
func (f *Features) keep(p *Pass, i int, x compute.Tensor) {
	if f.x.Rows == 0 || p.Kind != WithMTP {
		return
	}
	width := f.x.Cols / len(f.Layers)
	if x.Cols != width { // streams of hyper-connections: loading refuses heads of such models
		return
	}
	if at := slices.Index(f.Layers, i); at >= 0 {
		p.verbs.CopyColumns(f.x, x, compute.Ranges{First: at * width}, compute.Ranges{}, width, 1)
	}
}
