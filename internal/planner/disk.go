package planner

import (
	"context"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// RAM is what a model may take of RAM, in bytes. The zero value is all that a machine has.
type RAM struct {
	Whole  int64 // bytes with the whole model in memory
	OnDisk int64 // with experts on the disk
	Beside int64 // bytes in both cases for computing, in addition to weights, keys and values
	Mapped bool  // the file is mapped, and the system decides which parts of it are in memory

	// Fits reports whether Whole is enough if GPUs hold the parts that on names, as the engine counts it. It may be nil.
	Fits func(on placement.Layout) bool
}

// ramOf returns what a model may take of a machine's memory where nobody says how much: all, or a little less where
// experts stay on the disk, for that takes all there is.
func ramOf(memory uint64) RAM {
	return RAM{Whole: int64(memory), OnDisk: int64(reserve * float64(memory))}
}

// AssumedDisk is the assumed bandwidth, in bytes per second, for files that do not fit in RAM: that of an NVMe drive on
// PCIe 3.
const AssumedDisk = 3e9

// Assumptions about a disk that was not measured: reads reach assumedDiskRead of the stated bandwidth, but at most
// assumedDiskReads a second, and reads that are requested together take a constant time in addition to that of their
// bytes.
const (
	assumedDiskRead  = 0.9
	assumedDiskReads = 300e3
	assumedDiskStart = 100e-6
)

// AddSSD says at what bandwidth the machine's disk is read, as its maker states it. [bytes per second]
func (m *Machine) AddSSD(bandwidth float64) { m.ssd = bandwidth }

// SpeedsOf returns how fast the disk of the file at path was measured to be; empty: nobody has measured it.
func SpeedsOf(path string) disk.Speeds {
	kept, err := measure.DisksFile()
	if err != nil || path == "" {
		return nil
	}
	d, _ := measure.KeptDisk(kept, path)
	return d.Speeds
}

// KnowDisk has m, this machine, know how fast the disk of the file at path is read, if that was measured earlier. It
// reports whether it was.
func (m *Machine) KnowDisk(path string) bool {
	kept, err := measure.DisksFile()
	if err != nil || path == "" {
		return false
	}
	d, ok := measure.KeptDisk(kept, path)
	if ok {
		m.disk = &d
	}
	return ok
}

// MeasureDisk is KnowDisk, and measures it now, in some 3 seconds, if it was not. progress may be nil.
func (m *Machine) MeasureDisk(ctx context.Context, path string, progress func(done, total int64)) error {
	kept, err := measure.DisksFile()
	if err != nil {
		kept = "" // without a home folder nothing is kept
	}
	d, err := measure.DiskOf(ctx, kept, path, progress)
	if err == nil {
		m.disk = &d
	}
	return err
}

// DiskSource says where the figures of the machine's disk are from.
func (m *Machine) DiskSource() string {
	switch {
	case m.ssd > 0:
		return fmt.Sprintf("%.1f GB/s as stated, of which %.0f %% are assumed", m.ssd/1e9, 100*assumedDiskRead)
	case m.disk != nil:
		return "as measured"
	}
	return "which is assumed"
}

// diskRate returns the rate at which experts' matrices of that many bytes are read.
func (m *Machine) diskRate(piece int64) placement.Rate {
	switch {
	case m.ssd > 0:
		return placement.Rate{Start: assumedDiskStart, Read: min(assumedDiskRead*m.ssd, assumedDiskReads*float64(piece))}
	case m.disk != nil && m.disk.Speeds.At(piece) > 0:
		read := m.disk.Speeds.At(piece)
		r := placement.Rate{Read: read}
		if alone := m.disk.Speeds.AtDepth(piece, 1); alone > 0 {
			r.Start = max(0, float64(piece)/alone-float64(piece)/read)
		}
		return r
	}
	return placement.Rate{Start: assumedDiskStart, Read: min(AssumedDisk, assumedDiskReads*float64(piece))}
}

// solveTiers calls solve to place b on a machine with possibly too little RAM: with everything in memory if it fits,
// otherwise with experts or neurons on the disk if they may stay there. It sets on's RAM and disk accordingly. streams say
// which weights are sent to GPUs.
func (p *Planner) solveTiers(b *modelcost.Cost, on *placement.Machine, streams []hybrid.Streaming, solve func(placement.Machine) (placement.Plan, error)) (placement.Plan, error) {
	ram := p.room()
	piece := readTogether(b)
	if ram.Whole == 0 || ram.Whole == math.MaxInt64 || ram.Mapped || piece == 0 {
		return solve(slowed(b, *on, p.machine.Memory))
	}
	room := func(bytes int64) int64 { return max(0, bytes-ram.Beside-staged(streams)-b.Rest) }
	on.Disk, on.RAM = p.machine.diskRate(piece), room(ram.Whole)
	most := on.RAM // bytes that could be in memory
	for j := range on.GPUs {
		most += on.GPUs[j].Budget
	}
	if b.Model.Bytes() <= most {
		plan, err := solve(*on)
		if err != nil || plan.Disk == (placement.Tier{}) {
			on.Disk, on.RAM = placement.Rate{}, 0
			return plan, err
		}
	}
	lent := int64(0)
	if b.ExpertsUsed > 0 {
		lent = hybrid.Lent(streams)
	}
	on.RAM = room(ram.OnDisk) - lent
	plan, err := solve(*on)
	if lent > 0 && (err != nil || plan.Disk.Kept < lent) { // the host lends at most half of the memory of experts
		on.RAM += lent
		return solve(*on)
	}
	return plan, err
}

// readsLayers reports whether steps will read layers of b from the disk: every token needs all its weights, and RAM has
// too little room for those that are on no GPU. Only layers without a part on a GPU can be read, so GPUs then hold whole
// layers.
func (p *Planner) readsLayers(s *Solution, b *modelcost.Cost) bool {
	const counted = 0.98 // share of the room that plans may use: loading takes a little more than they count
	ram, sent := p.room(), staged(s.Streams)
	if ram.Whole == 0 || ram.Whole == math.MaxInt64 || ram.Mapped || b.ExpertsUsed > 0 || readTogether(b) > 0 {
		return false
	}
	return float64(s.Plan.RAM+b.Rest+ram.Beside+sent) > counted*float64(ram.Whole) ||
		ram.Fits != nil && !ram.Fits(placement.Layout{Places: s.Plan.Places(), Staged: sent})
}

// room returns what the model may take of RAM.
func (p *Planner) room() RAM {
	ram := p.o.RAM
	if ram.Whole == 0 {
		known := ramOf(p.machine.Memory)
		ram.Whole, ram.OnDisk = known.Whole, known.OnDisk
	}
	return ram
}

// readTogether returns about the bytes that are one read of the disk: an expert's matrix, or all rows of a neuron; 0: no
// unit of the model may stay there.
func readTogether(b *modelcost.Cost) int64 {
	const matrices = 3
	for l := range b.Model.Layers {
		switch y := &b.Model.Layers[l]; {
		case y.Units.Stay && y.Experts:
			return max(1, y.Units.Size/matrices)
		case y.Units.Stay:
			return max(1, y.Units.Size-y.Units.Always)
		}
	}
	return 0
}
