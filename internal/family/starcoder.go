package family

import (
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newStarCoder binds StarCoder, SantaCoder and the first Granite Code models: learned positions, GELU, biases
// everywhere, and one head of keys and values for all query heads.
//
// Source: Li et al. 2023, StarCoder: may the source be with you!
func newStarCoder(k *nn.Keys, b *nn.Binder) Program { return newGPT2(k, b) }
