package engine

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Devices chooses and opens the devices of a model. A planner.Planner is one.
type Devices interface {
	// Layout returns the parts of the model that go to the GPUs that Open opens next.
	Layout() (placement.Layout, error)
	// Open opens the chosen devices. unitCache is the number of bytes of RAM in which the processor keeps experts or
	// neurons that stay on the disk; 0: none stay there. The engine closes the device.
	Open(ctx context.Context, unitCache int64) (compute.Device, error)
	// After gets an error of Open, of loading or of a step. It reports whether to call Open again, which then opens
	// something else: it asks for less of a GPU that is full, and leaves out one that failed.
	After(err error) bool
}
