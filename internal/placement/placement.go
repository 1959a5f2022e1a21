// Package placement decides what of a model lies in video memory: pure functions from sizes, frequencies, bandwidths
// and budgets to a hot count per layer and a side for everything else, by the cost of one decoded token.
//
// A layer's units are what can be split: neurons, or experts. They lie hottest first, so that what is hot is a prefix
// for every budget. docs/placement.md tells the model and the search.
package placement

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// Model describes what a token reads, layer by layer.
type Model struct {
	Layers   []Layer
	Head     int64 // bytes of the output matrix and its norm, read whole for every token that is sampled
	HeadPins Pins  // of which Attention counts
}

// Layer is one transformer block; all sizes are bytes as they lie in memory.
type Layer struct {
	Attention int64 // weights of attention and norms: read whole for every token
	Expanded  int64 // weights that RAM holds beside Attention where attention lies there: of latent attention, read for prompts only
	KV        int64 // keys and values at the planned context: lie with the attention, read whole for every token
	Predictor int64 // read whole for every token; 0 in exact
	Units     Units
	Experts   bool // the units are experts, of which even an engine that skips no neuron reads only those that a token uses
	Pins      Pins
}

// Units are the neurons or experts of a layer, all of one size.
type Units struct {
	Size      int64     // bytes of one unit
	Always    int64     // bytes of each unit that are read for every token, in order: gate rows in exact, everything in dense layers
	InOrder   bool      // units are so large that each is read at the bandwidth of reading in order, whichever lie beside it: experts
	Sometimes []float64 // [n] expected bytes of each unit read for a token beyond Always, hottest first: never rises
}

// Machine describes the processors of a computer. Bandwidths are bytes per second, times seconds.
type Machine struct {
	Stream  float64 // of RAM, read in order
	Rows    float64 // of RAM, on scattered rows
	GPUs    []GPU   // in the order in which layers pass them
	HandOff float64 // activations from RAM to a GPU and back again, the wait included
}

// GPU is a GPU, and how much of it may be used.
type GPU struct {
	Name     string
	Read     float64 // bytes per second of its memory
	Launch   float64 // seconds of starting the kernels of one layer
	Budget   int64   // bytes that may be taken in all
	Overhead int64   // bytes of the budget that go to compute buffers and fragmentation as soon as anything lies there
}

// Check reports what no model can have.
func (m *Model) Check() error {
	if len(m.Layers) == 0 {
		return fmt.Errorf("a model of no layers")
	}
	for l := range m.Layers {
		y := &m.Layers[l]
		u := &y.Units
		if y.Attention < 0 || y.Expanded < 0 || y.KV < 0 || y.Predictor < 0 || u.Size < 0 || u.Always < 0 || u.Always > u.Size || m.Head < 0 {
			return fmt.Errorf("layer %d: sizes cannot be negative, nor can more of a unit be read than it has", l)
		}
		last := math.Inf(1)
		for i, b := range u.Sometimes {
			if !(b >= 0 && b <= float64(u.Size-u.Always)*(1+1e-9)) {
				return fmt.Errorf("layer %d: unit %d reads %g bytes beyond %d of %d", l, i, b, u.Always, u.Size)
			}
			if b > last*(1+1e-9) {
				return fmt.Errorf("layer %d: unit %d is hotter than the one before it; units lie hottest first", l, i)
			}
			last = b
		}
	}
	return nil
}

// Check reports bandwidths that are none.
func (m *Machine) Check() error {
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
	if !positive(m.Stream) || !positive(m.Rows) {
		return fmt.Errorf("RAM of %g bytes/s in order and %g on rows; both must be positive", m.Stream, m.Rows)
	}
	if !(m.HandOff >= 0) || math.IsInf(m.HandOff, 1) {
		return fmt.Errorf("a hand-off of %g seconds", m.HandOff)
	}
	for i, g := range m.GPUs {
		if !positive(g.Read) || !(g.Launch >= 0) || g.Budget < 0 || g.Overhead < 0 {
			return fmt.Errorf("GPU %d: %g bytes/s, %g s of launches, a budget of %d and an overhead of %d bytes", i, g.Read, g.Launch, g.Budget, g.Overhead)
		}
	}
	return nil
}

// Dense returns m as an engine reads it that skips no neuron.
func (m *Model) Dense() Model {
	d := Model{Head: m.Head, HeadPins: m.HeadPins}
	for _, y := range m.Layers {
		y.Predictor = 0
		if !y.Experts {
			y.Units = Units{Size: y.Units.Size, Always: y.Units.Size, Sometimes: make([]float64, len(y.Units.Sometimes))}
		}
		d.Layers = append(d.Layers, y)
	}
	return d
}

// Free returns m without pins.
func (m *Model) Free() Model {
	f := Model{Head: m.Head, Layers: slices.Clone(m.Layers)}
	for l := range f.Layers {
		f.Layers[l].Pins = Pins{}
	}
	return f
}

// Bytes returns what the model takes in memory, keys and values included, but for what it has only where attention lies
// in RAM.
func (m *Model) Bytes() int64 {
	n := m.Head
	for l := range m.Layers {
		n += m.Layers[l].Bytes()
	}
	return n
}

// Bytes returns what the layer takes in memory, but for Expanded.
func (y *Layer) Bytes() int64 {
	return y.Attention + y.KV + y.Predictor + y.Units.Size*int64(len(y.Units.Sometimes))
}

// Places returns where each layer lies, and the head.
func (p *Plan) Places() []compute.Place {
	var all []compute.Place
	for _, y := range p.Layers {
		all = append(all, y.Place)
	}
	return all
}

// HotCounts returns how many neurons of each layer are hot, whichever GPU they lie on.
func (p *Plan) HotCounts() neuron.HotCounts {
	var s neuron.HotCounts
	for _, y := range p.Layers[:len(p.Layers)-1] {
		s = append(s, y.Bound)
	}
	return s
}
