package engine

import (
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// unitCount holds what the last step left counted of units on disk, so that nobody waits for a step to learn it.
type unitCount struct {
	mu     sync.Mutex
	past   compute.UnitUse // counts of devices that were given up
	loaded compute.UnitUse // what the device had counted when the model was loaded
	now    compute.UnitUse
}

// begin begins to count for a device that has counted use: what it counts from now on is added to what was counted
// before.
func (c *unitCount) begin(use compute.UnitUse) {
	c.mu.Lock()
	c.past, c.loaded = c.now, use
	c.mu.Unlock()
	c.take(use)
}

// take updates the counts from the device's.
func (c *unitCount) take(use compute.UnitUse) {
	use = use.Since(c.loaded)
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
