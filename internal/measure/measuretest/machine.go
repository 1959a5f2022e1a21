// Package measuretest describes the machine that tests run on, so that no plan depends on what was measured.
package measuretest

import (
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Bandwidths of the described machine, in bytes per second.
const (
	ramStream = 20e9
	ramRows   = 10e9
	gpuRead   = 5e9
)

// kernel stands for those of the processor: with one described, doctor measures none.
const kernel = "described"

// Machine returns this machine with the GPUs found. Its figures are the same everywhere, and every operation reads at
// the same speed. GPUs that are not usable have none, as after a measurement.
func Machine(found []measure.Found) measure.Machine {
	m := measure.This(found)
	m.Products, m.Packs, m.Taken, m.Speeds = 1e11, 1e9, &measure.Taken{}, even(ramStream)
	m.RAM = []measure.RAM{{Threads: 1, Stream: ramStream, Rows: []measure.Rows{{Bytes: 4096, Read: ramRows}}}}
	m.Kernels = []measure.Kernel{{Type: "Q4_0", Cols: 4096, Chosen: kernel, Usual: kernel, Why: "described", Speeds: []measure.KernelSpeed{{Kernel: kernel, Speed: ramStream}}}}
	for i := range m.GPUs {
		g := &m.GPUs[i]
		if g.Lacks = found[i].Lacks; g.Lacks == "" {
			g.Read, g.Upload, g.Download, g.HandOff, g.Launch, g.Speeds = gpuRead, gpuRead, gpuRead, 1e-4, 1e-4, even(gpuRead)
			g.Speeds.EveryRow = g.Speeds.Dense
		}
	}
	return m
}

// even returns the speeds of a processor that reads this many bytes per second in every operation.
func even(read float64) *placement.Speeds {
	each := placement.Rate{Read: read}
	return &placement.Speeds{Attention: each, Predictor: each, Dense: each, Sparse: each, Each: 0.5 / read}
}
