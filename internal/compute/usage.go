package compute

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Usage says what a device did since it was opened. What it does not have is zero.
type Usage struct {
	Units   UnitUse       // units of weights on disk
	Slots   SlotUse       // experts that follow the text
	Yielded time.Duration // that threads left cores to other programs, summed over threads
	Threads int           // whose time Yielded is; 0: nobody counts it
}

// UnitUse counts what a device did with units on disk since the model was loaded. A step's use of a unit is one, by
// however many tokens.
type UnitUse struct {
	residency.CacheUse
	Reads, Bytes int64         // from disk
	Busy         time.Duration // in which a read was under way
	Sum          time.Duration // of the times that reads took: Sum/Busy were under way at a time
	Wait         time.Duration // that steps spent waiting for them
	Slots        int64         // units that RAM has room for
	Units        int64         // units on disk
	Kept, OnDisk int64         // bytes of RAM for units, and those that all units would take there
}

// Since returns what was counted after then, an earlier state.
func (u UnitUse) Since(then UnitUse) UnitUse {
	u.CacheUse = u.CacheUse.Since(then.CacheUse)
	u.Reads -= then.Reads
	u.Bytes -= then.Bytes
	u.Busy -= then.Busy
	u.Sum -= then.Sum
	u.Wait -= then.Wait
	return u
}

// Add adds what was counted at another time.
func (u *UnitUse) Add(v UnitUse) {
	u.CacheUse.Add(v.CacheUse)
	u.Reads += v.Reads
	u.Bytes += v.Bytes
	u.Busy += v.Busy
	u.Sum += v.Sum
	u.Wait += v.Wait
}

// ExpertUse counts uses of an expert by a token, in layers with slots: of experts in a slot, and of others.
type ExpertUse struct{ Hits, Misses int64 }

// Add adds other uses.
func (u *ExpertUse) Add(v ExpertUse) {
	u.Hits += v.Hits
	u.Misses += v.Misses
}

// SlotUse counts what a device's slots for experts did since the model was loaded.
type SlotUse struct {
	ExpertUse
	Promotions int64 // experts that were copied to the GPU
	Bytes      int64 // that this took
}

// Add adds what another device counted.
func (u *SlotUse) Add(v SlotUse) {
	u.ExpertUse.Add(v.ExpertUse)
	u.Promotions += v.Promotions
	u.Bytes += v.Bytes
}

// Since returns what was counted after then, an earlier state.
func (u SlotUse) Since(then SlotUse) SlotUse {
	return SlotUse{ExpertUse{u.Hits - then.Hits, u.Misses - then.Misses}, u.Promotions - then.Promotions, u.Bytes - then.Bytes}
}
