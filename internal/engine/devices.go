package engine

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Devices chooses and opens what a model is computed on. A planner.Planner is one.
type Devices interface {
	// Layout says what of the model goes to the GPUs that Open opens next.
	Layout() (placement.Layout, error)
	// Open opens what is chosen. The processor keeps so many bytes of experts that stay on the disk; 0: none stay there.
	// The engine closes the device.
	Open(ctx context.Context, unitCache int64) (compute.Device, error)
	// After takes in an error of Open, of loading or of a step. It reports whether Open is to be called again, which
	// then opens something else: a GPU that is full is asked for less, and one that failed is left out.
	After(err error) bool
}
