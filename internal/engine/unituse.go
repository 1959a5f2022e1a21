package engine

import (
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// unitCount holds what the last step left counted of units on disk, so that nobody waits for a step to learn it.
type unitCount struct {
	mu     sync.Mutex
	past   compute.UnitUse // of devices that were given up
	loaded compute.UnitUse // what the device had counted when the model was loaded
	now    compute.UnitUse
}

// unitUseOf returns what d counts of units on disk. It is called between runs.
func unitUseOf(d compute.Device) compute.UnitUse {
	if d, ok := d.(compute.UnitUser); ok {
		return d.UnitUse()
	}
	return compute.UnitUse{}
}

// begin has what d counts from now on added to what was counted before.
func (c *unitCount) begin(d compute.Device) {
	c.mu.Lock()
	c.past, c.loaded = c.now, unitUseOf(d)
	c.mu.Unlock()
	c.take(d)
}

// take takes in what d counts. It is called between runs.
func (c *unitCount) take(d compute.Device) {
	use := unitUseOf(d).Since(c.loaded)
	use.Add(c.past)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = use
}

// UnitUse returns what steps did with units on disk since the engine was opened. It waits for no step.
func (e *Engine) UnitUse() compute.UnitUse {
	e.units.mu.Lock()
	defer e.units.mu.Unlock()
	return e.units.now
}
