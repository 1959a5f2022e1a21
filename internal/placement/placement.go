// Package placement decides which parts of a model are stored in video memory. It consists of pure functions from
// sizes, frequencies, bandwidths and budgets to a hot count for each layer and a place for everything else, by the cost
// of one decoded token.
//
// A layer's units are the parts that can be split: neurons, or experts. They are sorted hottest first, so that the hot
// ones are a prefix for every budget. docs/placement.md explains the model and the search.
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
	HeadPins Pins  // only Attention counts
}

// Layer is one transformer block. All sizes are bytes in memory.
type Layer struct {
	Attention int64 // weights of attention and norms: read whole for every token
	Expanded  int64 // latent attention's expanded weights, read for prompts only: RAM holds them in addition to Attention if attention is there
	KV        int64 // keys and values at the planned context: stored with the attention, read whole for every token
	Predictor int64 // read whole for every token; 0 in exact
	Units     Units
	Experts   bool // the units are experts: even an engine that skips no neuron reads only those of the token
	Pins      Pins
}

// Units are the neurons or experts of a layer, all of one size.
type Units struct {
	Size      int64     // bytes of one unit
	Always    int64     // bytes of each unit that are read for every token, in order: gate rows in exact, everything in dense layers
	Rows      int64     // bytes of each unit's gate and up rows, if a GPU may read those of all units instead of what is needed; 0: it may not
	InOrder   bool      // units are so large that each is read at the bandwidth of reading in order, whatever their neighbours: experts
	Guessed   bool      // an earlier layer predicts which of them a token will use
	Stay      bool      // units that do not fit into RAM may stay on the disk, except Always
	Left      float64   // share of uses that are left out if their unit would be read from the disk
	Used      []float64 // [n] shares of tokens that use them; nil: as Sometimes says. It is what is read from the disk, whole
	Kept      []float64 // [n] shares of tokens that use units as a cache in RAM sees them, largest first, where the units used most are others in each text; nil: as Sometimes says
	Follow    bool      // experts follow the text: those on a GPU are always the ones that it uses most
	Sometimes []float64 // [n] expected bytes of each unit read for a token beyond Always, hottest first: never rises
}

// Machine describes the processors of a computer. Bandwidths are bytes per second, times seconds.
type Machine struct {
	Stream  float64 // bandwidth of RAM, read in order
	Rows    float64 // bandwidth of RAM with scattered rows
	GPUs    []GPU   // in the order in which layers pass them
	HandOff float64 // activations from RAM to a GPU and back again, the wait included
	Speeds  *Speeds // of the CPU's own operations; nil: Stream and Rows count
	RAM     int64   `json:",omitzero"` // bytes of RAM that the model may take, if there is a disk
	Disk    Rate    `json:",omitzero"` // of units that are read from the disk together; if Read is 0, everything outside GPUs is in RAM

	dear float64 // seconds that a byte in RAM costs a token while a placement is searched: units on the disk want its room
}

// Rate is what a part of a layer takes for one token: Start seconds, and its bytes at Read bytes per second.
type Rate struct {
	Start float64 `json:"start"`
	Read  float64 `json:"read"`
}

// seconds returns the time of a part that reads that many bytes; 0 if it reads none.
func (r Rate) seconds(bytes float64) float64 {
	if bytes == 0 {
		return 0
	}
	return r.Start + bytes/r.Read
}

// Speeds are a processor's rates of the parts of a layer, as its own operations reach them.
type Speeds struct {
	Attention Rate `json:"attention"` // with the norm before it
	Predictor Rate `json:"predictor"`
	Dense     Rate `json:"dense"`              // units that are read whole, in order, and the head
	Sparse    Rate `json:"sparse"`             // of units that a token reads only some of
	EveryRow  Rate `json:"every_row,omitzero"` // of neurons, if the gate and up rows of all are read and the down columns of active ones; 0: the processor has no such way
	// Each is the time that each token of a step beyond the first adds for a byte of weights, in seconds; 0: not measured.
	Each float64 `json:"each,omitempty"`
}

// Check reports rates that are none.
func (s *Speeds) Check() error {
	for _, r := range []Rate{s.Attention, s.Predictor, s.Dense, s.Sparse} {
		if !(r.Start >= 0) || !(r.Read > 0) || math.IsInf(r.Read, 1) || math.IsInf(r.Start, 1) {
			return fmt.Errorf("a part of a layer that takes %g s and reads %g bytes/s", r.Start, r.Read)
		}
	}
	if r := s.EveryRow; r != (Rate{}) && (!(r.Start >= 0) || !(r.Read > 0) || math.IsInf(r.Read, 1) || math.IsInf(r.Start, 1)) {
		return fmt.Errorf("rows of all neurons that take %g s and are read at %g bytes/s", r.Start, r.Read)
	}
	if !(s.Each >= 0) || math.IsInf(s.Each, 1) {
		return fmt.Errorf("a further token that takes %g s for a byte", s.Each)
	}
	return nil
}

// units returns the rate of a layer's units.
func (s *Speeds) units(u *Units) Rate {
	if u.inOrder() {
		return s.Dense
	}
	return s.Sparse
}

// inOrder reports whether units are read at the bandwidth of reading in order: experts, and neurons that are all read.
func (u *Units) inOrder() bool { return u.InOrder || u.Always == u.Size }

// Slower returns the machine with every byte in RAM taking that many seconds more to read.
func (m Machine) Slower(seconds float64) Machine {
	read := func(r float64) float64 { return 1 / (1/r + seconds) }
	m.Stream, m.Rows = read(m.Stream), read(m.Rows)
	if m.Speeds != nil {
		s := *m.Speeds
		for _, r := range []*Rate{&s.Attention, &s.Predictor, &s.Dense, &s.Sparse} {
			r.Read = read(r.Read)
		}
		m.Speeds = &s
	}
	return m
}

// speeds returns RAM's rates.
func (m *Machine) speeds() Speeds {
	if m.Speeds != nil {
		return *m.Speeds
	}
	return Speeds{Attention: Rate{Read: m.Stream}, Predictor: Rate{Read: m.Stream}, Dense: Rate{Read: m.Stream}, Sparse: Rate{Read: m.Rows}}
}

// speeds returns the GPU's rates. Where they were not measured, a layer's launches are attention's.
func (g *GPU) speeds() Speeds {
	if g.Speeds != nil {
		return *g.Speeds
	}
	even := Rate{Read: g.Read}
	return Speeds{Attention: even, Predictor: even, Dense: even, Sparse: even}
}

// GPU is a GPU with a budget.
type GPU struct {
	Name     string
	Read     float64 // bytes per second of its memory
	Launch   float64 // seconds of starting the kernels of one layer, where Speeds do not say it
	Speeds   *Speeds // of the GPU's own operations; nil: Read and Launch count
	Budget   int64   // bytes that may be taken in all
	Overhead int64   // bytes of the budget for compute buffers and fragmentation, as soon as anything is stored there
}

// Check reports what no model can have.
func (m *Model) Check() error {
	if len(m.Layers) == 0 {
		return fmt.Errorf("a model of no layers")
	}
	for l := range m.Layers {
		y := &m.Layers[l]
		u := &y.Units
		if y.Attention < 0 || y.Expanded < 0 || y.KV < 0 || y.Predictor < 0 || u.Size < 0 || u.Always < 0 || u.Always > u.Size || u.Rows < 0 || u.Rows > u.Size || m.Head < 0 {
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
	if m.Speeds != nil {
		if err := m.Speeds.Check(); err != nil {
			return fmt.Errorf("RAM: %w", err)
		}
	}
	if d := m.Disk; d != (Rate{}) && !(d.Start >= 0 && positive(d.Read) && !math.IsInf(d.Start, 1)) {
		return fmt.Errorf("a disk whose reads take %g s and %g bytes/s", d.Start, d.Read)
	}
	for i, g := range m.GPUs {
		if !positive(g.Read) || !(g.Launch >= 0) || g.Budget < 0 || g.Overhead < 0 {
			return fmt.Errorf("GPU %d: %g bytes/s, %g s of launches, a budget of %d and an overhead of %d bytes", i, g.Read, g.Launch, g.Budget, g.Overhead)
		}
		if g.Speeds != nil {
			if err := g.Speeds.Check(); err != nil {
				return fmt.Errorf("GPU %d: %w", i, err)
			}
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
			y.Units = Units{Size: y.Units.Size, Always: y.Units.Size, Stay: y.Units.Stay, Sometimes: make([]float64, len(y.Units.Sometimes))}
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

// Bytes returns the bytes of the model in memory, with keys and values, without weights that it has only if attention
// is in RAM.
func (m *Model) Bytes() int64 {
	n := m.Head
	for l := range m.Layers {
		n += m.Layers[l].Bytes()
	}
	return n
}

// Bytes returns the layer's bytes in memory, without Expanded.
func (y *Layer) Bytes() int64 {
	return y.Attention + y.KV + y.Predictor + y.Units.Size*int64(len(y.Units.Sometimes))
}

// Places returns the place of each layer and of the head.
func (p *Plan) Places() []compute.Place {
	var all []compute.Place
	for _, y := range p.Layers {
		all = append(all, y.Place)
	}
	return all
}

// HotCounts returns the number of hot neurons of each layer, on whichever GPU they are.
func (p *Plan) HotCounts() neuron.HotCounts {
	var s neuron.HotCounts
	for _, y := range p.Layers[:len(p.Layers)-1] {
		s = append(s, y.Bound)
	}
	return s
}
