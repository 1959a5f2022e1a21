package placement

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Layout says which parts of a model are on GPUs.
type Layout struct {
	Places []compute.Place // [layers+1] of each layer, then of the head; nil: everything is in RAM
	Bytes  int64           // bytes of weights, keys and values on GPUs
	Staged int64           // bytes of RAM that weights pass through on their way to GPUs while texts are computed
}

// Further reports whether a GPU has the layer that predicts a further token.
func (y *Layout) Further() bool { return len(y.Places) > 0 && y.Places[len(y.Places)-1].Further }
