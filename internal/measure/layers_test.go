package measure

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// tinyLayers are timed in milliseconds.
func tinyLayers() layerTrial {
	return layerTrial{
		small: layerShape{embd: 256, ff: 256, heads: 2, rank: 256},
		large: layerShape{embd: 512, ff: 512, heads: 4, rank: 256, shares: []int{5, 20}},
		bytes: 1 << 18, neurons: 1 << 18, everyRow: true,
	}
}

// A part that takes 20 µs to start and then reads 1 GB/s is found from two times, and noise gives no nonsense.
func TestFit(t *testing.T) {
	at := func(bytes float64) timed { return timed{bytes, 20e-6 + bytes/1e9} }
	if r := fit(at(1e5), at(1e6)); math.Abs(r.Start-20e-6) > 1e-9 || math.Abs(r.Read-1e9) > 1 {
		t.Errorf("%+v", r)
	}
	for _, small := range []timed{{1e5, 3e-3}, {1e5, 1e-9}} { // slower than the larger part, and much too fast
		large := at(1e6)
		r := fit(small, large)
		if got := r.Start + large.bytes/r.Read; r.Start < 0 || r.Read <= 0 || math.Abs(got-large.seconds) > 1e-9 {
			t.Errorf("%+v: the larger part takes %g s, want %g", r, got, large.seconds)
		}
	}
}

// Sparse layers compute the share of neurons that they are timed with, and read the gate, up and down rows of these.
func TestSparseLayers(t *testing.T) {
	d, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	on := tinyLayers()
	y := newLayers(d, on.large, layerType, on.bytes)
	weights := y.neurons(on.neurons)
	for i := range weights {
		weights[i].Count = &compute.NeuronCount{}
	}
	for _, share := range on.large.shares {
		bytes, ops := y.sparse(weights, share)
		for _, op := range ops {
			y.run(compute.Segment{}, op)
		}
		if y.err != nil {
			t.Fatal(y.err)
		}
		var tokens, active int64
		for i := range weights {
			c := weights[i].Count
			tokens, active = tokens+c.Tokens, active+c.Active
			*c = compute.NeuronCount{}
		}
		of := float64(active) / float64(tokens) / float64(on.large.ff)
		row := float64(active) / float64(tokens) * float64(layerType.RowBytes(on.large.embd))
		if math.Abs(of-float64(share)/100) > 0.01 || math.Abs(3*row-bytes) > 1 {
			t.Errorf("%d %%: a layer computes %.3f of its neurons and is said to read %.1f bytes, want %.1f", share, of, bytes, 3*row)
		}
	}
}

// TestSpeedsOf: neurons have the rates of their type, or of the measured type with the nearest number of bytes.
func TestSpeedsOf(t *testing.T) {
	rate := func(read float64) placement.Rate { return placement.Rate{Read: read} }
	c := GPU{
		Speeds:  &placement.Speeds{Dense: rate(9), Sparse: rate(1), EveryRow: rate(10)},
		Neurons: map[string]Neurons{"Q8_0": {rate(2), rate(20)}, "F16": {rate(3), rate(30)}},
	}
	for name, want := range map[string]float64{"Q4_0": 1, "Q5_K": 1, "Q8_0": 2, "Q6_K": 2, "F16": 3, "BF16": 3, "F32": 3, "": 1} {
		if s := c.SpeedsOf(name); s.Sparse.Read != want || s.EveryRow.Read != 10*want || s.Dense.Read != 9 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if c.Speeds = nil; c.SpeedsOf("F16") != nil {
		t.Error("speeds of a GPU that was not measured")
	}
}
