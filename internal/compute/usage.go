package compute

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// Usage says what a device did since it was opened. What it does not have is zero.
type Usage struct {
	Units   UnitUse       // units of weights on disk
	Slots   SlotUse       // experts that follow the text
	Yielded time.Duration // in which threads left cores to other programs, summed over threads
	Threads int           // threads that Yielded sums over; 0: it is not measured
	Unread  error         // the first error of a read ahead of need, which failed no step; nil: there was none
}

// UnitUse counts what a device did with units on disk since the model was loaded. A step's use of a unit is one, by
// however many tokens.
type UnitUse struct {
	residency.CacheUse
	Reads, Bytes int64         // from disk
	Busy         time.Duration // in which a read was under way
	Sum          time.Duration // the sum of the reads' durations: Sum/Busy reads were in flight on average
	Wait         time.Duration // in which steps waited for reads
	Slots        int64         // units that RAM has room for
	Units        int64         // units on disk
	Kept, OnDisk int64         // bytes of RAM for units, and bytes that all units would take there
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

// NeuronCount counts (token, neuron) pairs of one layer, and what they cost. The device adds to it when a segment has
// run.
type NeuronCount struct {
	Steps     int64 // calls
	Tokens    int64 // tokens that passed
	Predicted int64 // neurons in the sets
	Gated     int64 // of Predicted, those with a non-zero act(gate), or act(up) in layers without a gate
	Active    int64 // of Gated, those with a non-zero a_i
	Bytes     int64 // of weights read for them; a row that several tokens of a step need counts once if it is read once
	RAM       int64 // of Bytes, those that the CPU read

	PredictedRAM, ActiveRAM int64 // of Predicted and Active, the neurons that the CPU computed
}

// Join adds the counts of a part of the layer's neurons for the same steps, and resets part. c may be nil.
func (c *NeuronCount) Join(part *NeuronCount) {
	if c != nil {
		c.Predicted += part.Predicted
		c.Gated += part.Gated
		c.Active += part.Active
		c.Bytes += part.Bytes
		c.RAM += part.RAM
		c.PredictedRAM += part.PredictedRAM
		c.ActiveRAM += part.ActiveRAM
	}
	*part = NeuronCount{}
}

// DiskUse counts uses and reads of units, the experts or neurons that stay on disk because the model is larger than
// memory. It is zero for other models. A unit counts once per step that uses it.
type DiskUse struct {
	Kept  int64 // uses of units that RAM held
	Ahead int64 // uses of units read ahead by a correct guess
	Read  int64 // uses of units that had to be read at once
	Bytes int64 // bytes read, including wrong guesses
	Left  int64 // experts left out instead of read; not among the uses: see Skip

	Reading time.Duration // time in which reads were under way
	Waited  time.Duration // time in which steps waited for reads
}

// Disk returns u's counts of uses and reads.
func (u *UnitUse) Disk() DiskUse {
	return DiskUse{Kept: u.Hits, Ahead: u.GuessesUsed, Read: u.Misses, Bytes: u.Bytes, Left: u.Left, Reading: u.Busy, Waited: u.Wait}
}

// Uses returns how often steps used experts or neurons on disk.
func (u *DiskUse) Uses() int64 { return u.Kept + u.Ahead + u.Read }

// Add adds what was counted at another time.
func (u *DiskUse) Add(v DiskUse) {
	u.Kept += v.Kept
	u.Ahead += v.Ahead
	u.Read += v.Read
	u.Bytes += v.Bytes
	u.Left += v.Left
	u.Reading += v.Reading
	u.Waited += v.Waited
}
