package engine

import (
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// unitCount holds the counts of units on disk after the last step, so that reading them waits for no step.
type unitCount struct {
	mu     sync.Mutex
	past   compute.UnitUse // counts of former devices
	loaded compute.UnitUse // the device's counts when the model was loaded
	now    compute.UnitUse
}

// begin begins to count for a device with counts use. Its later counts are added to the earlier devices'.
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

// unitUse returns the use of the device's units on disk. If steps read layers from the disk, each of these is a unit.
func (e *Engine) unitUse(of *compute.Usage) compute.UnitUse {
	if e.stream == nil {
		return of.Units
	}
	u := e.stream.Use()
	use := compute.UnitUse{
		Reads: u.Reads, Bytes: u.Bytes, Busy: u.Busy, Sum: u.Sum, Wait: u.Wait,
		Units: u.Layers, Slots: u.Held, OnDisk: e.stream.Bytes(), Kept: u.Memory,
	}
	use.Misses, use.Guessed, use.GuessesUsed = u.Late, u.Ahead, u.Ahead
	return use
}

// UnitUse returns the use of units on disk since the engine was opened. It waits for no step.
func (e *Engine) UnitUse() compute.UnitUse {
	e.units.mu.Lock()
	defer e.units.mu.Unlock()
	return e.units.now
}
