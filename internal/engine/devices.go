package engine

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Devices chooses and opens what a model is computed on. A planner.Planner is one.
type Devices interface {
	// Open opens what is chosen, and says what of the model goes to its GPUs. The engine closes the device.
	Open(context.Context) (compute.Device, placement.Layout, error)
	// After takes in an error of Open, of loading or of a step. It reports whether Open is to be called again, which
	// then opens something else: a GPU that is full is asked for less, and one that failed is left out.
	After(err error) bool
}
