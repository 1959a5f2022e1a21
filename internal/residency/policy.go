// Package residency decides which parts of a model are in fast memory while text is generated. Policy decides which
// experts are on a GPU: it counts which experts tokens use, and says when copying one to the GPU pays. Cache decides
// which units of a model that is larger than RAM are in RAM. Neither moves bytes nor reads a clock, so a simulation
// decides by the same code as a running model.
//
// docs/placement.md explains the rules.
package residency

import (
	"fmt"
	"math"
	"slices"
)

// Absent says that an expert is in no slot, or that a slot holds no expert.
const Absent = -1

// Copies is the most experts on their way to a GPU at once: while one is sent the next ones are staged.
const Copies = 4

// Staged is how often the bytes of a copied expert pass over RAM's bus in addition to the copy itself: they are read
// from RAM and written to where the GPU reads them.
const Staged = 2

// Without a queue for copies, a piece of them goes to the GPU between two steps, in the queue that computes the next
// step. A piece takes at most delay of a step's time on the bus, or the time of leastPiece bytes (25 µs at 20 GB/s) if
// that is more.
const (
	delay      = 1.0 / 16
	leastPiece = 512 << 10
)

// Layer describes a layer with some experts on the GPU.
type Layer struct {
	Experts int
	Slots   int       // experts that the GPU has room for
	Bytes   int64     // size of one expert
	Prior   []float64 // [Experts] share of tokens that are expected to use each, from a profile; nil: nothing is known
}

// Speeds are in bytes per second: RAM and GPU memory as experts are read from them, and the bus between the two.
type Speeds struct {
	RAM, GPU, Bus float64
	Beside        bool // copies have a queue of their own, so the GPU computes meanwhile
}

// Piece returns how many bytes of experts may be sent to the GPU after a step that took this many seconds.
func (s Speeds) Piece(step float64) int64 {
	const all = math.MaxInt64 / 2
	if s.Beside {
		return all
	}
	return int64(min(max(step*delay*s.Bus, leastPiece), all))
}

// copying returns the seconds that a byte of a copy adds to generation.
//
// With a queue of its own a copy costs only RAM's time: staging passes over RAM's bus Staged times, and the copy reads
// from it once. The GPU continues to compute.
//
// In a single queue the costs are added, because a token pays them one after the other: the piece goes between two
// steps, while the next step's first layers wait for it and the CPU is idle, and staging slows the CPU's part of the
// steps.
func (s Speeds) copying() float64 {
	if s.Beside {
		return (1 + Staged) / s.RAM
	}
	return 1/s.Bus + Staged/s.RAM
}

// Tuning has the constants of the rule; Tuned returns those that Policy uses.
type Tuning struct {
	Recent  float64 // tokens over which recent uses are averaged
	Long    float64 // tokens over which long-term uses are averaged
	Weight  float64 // share of the recent average in an expert's expected use; the rest is the long-term average's
	Horizon float64 // tokens for which the difference between two experts' expected uses is assumed to last
	Margin  float64 // how many times its own time a copy must save
	Doubt   float64 // standard deviations of the averages by which expected uses must differ in addition
}

// Tuned returns the constants that did best in the simulations of docs/benchmarks/2026-11-experts-simulated.md.
func Tuned() Tuning {
	return Tuning{Recent: 16, Long: 512, Weight: 0.5, Horizon: 128, Margin: 1.25, Doubt: 3}
}

// Policy counts uses and chooses copies. It belongs to one goroutine.
type Policy struct {
	layers []layer
	speeds Speeds
	tuning Tuning
}

type layer struct {
	Layer
	slot   []int32   // [Experts] the slot of each, or Absent
	holds  []int32   // [Slots] the expert in each, or Absent; while a copy to it is under way, the expert to come
	busy   []bool    // [Slots] a copy to it is under way
	coming []bool    // [Experts] a copy of it is under way
	recent []float64 // [Experts] average uses per token
	long   []float64 // [Experts]
	need   float64   // difference between two experts' expected uses at which a copy pays
}

// Move is a copy of an expert from RAM into a slot. The slot's previous content is lost when the copy is sent.
type Move struct {
	Layer  int
	Expert int32
	Slot   int32
	Bytes  int64
}

// New returns a policy with empty slots; Fill sets their first content.
func New(layers []Layer, speeds Speeds, tuning Tuning) (*Policy, error) {
	if !(speeds.RAM > 0 && speeds.GPU > 0 && speeds.Bus > 0) {
		return nil, fmt.Errorf("experts are read at %g and %g bytes/s and copied at %g; all must be positive", speeds.RAM, speeds.GPU, speeds.Bus)
	}
	p := &Policy{speeds: speeds, tuning: tuning}
	for _, l := range layers {
		if err := p.Add(l); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Add appends a layer with empty slots.
func (p *Policy) Add(l Layer) error {
	if l.Experts < 1 || l.Slots < 0 || l.Slots > l.Experts || l.Bytes < 1 || l.Prior != nil && len(l.Prior) != l.Experts {
		return fmt.Errorf("layer %d: %d slots of %d bytes for %d experts do not fit %d expected uses", len(p.layers), l.Slots, l.Bytes, l.Experts, len(l.Prior))
	}
	p.layers = append(p.layers, newLayer(l, p.speeds, p.tuning))
	return nil
}

func newLayer(l Layer, s Speeds, t Tuning) layer {
	y := layer{
		Layer: l, slot: make([]int32, l.Experts), holds: make([]int32, l.Slots), busy: make([]bool, l.Slots),
		coming: make([]bool, l.Experts),
		recent: make([]float64, l.Experts), long: make([]float64, l.Experts),
	}
	for e := range y.slot {
		y.slot[e] = Absent
	}
	for i := range y.holds {
		y.holds[i] = Absent
	}
	copy(y.recent, l.Prior)
	copy(y.long, l.Prior)
	// A use saves 1/RAM − 1/GPU seconds per byte.
	y.need = math.Inf(1)
	if saves := 1/s.RAM - 1/s.GPU; saves > 0 {
		y.need = t.Margin * s.copying() / saves / t.Horizon
	}
	return y
}

// Fill puts experts into a layer's slots, expert hottest[i] into slot i, up to the shorter of the two.
func (p *Policy) Fill(layer int, hottest []int32) {
	y := &p.layers[layer]
	for i := range min(len(hottest), y.Slots) {
		y.holds[i], y.slot[hottest[i]] = hottest[i], int32(i)
	}
}

// Slots returns where each of a layer's experts is: its slot, or Absent. The slice belongs to the policy and changes
// with Next and Done.
func (p *Policy) Slots(layer int) []int32 { return p.layers[layer].slot }

// Used counts a step's uses in a layer: uses[e] tokens used expert e. [Experts]
func (p *Policy) Used(layer, tokens int, uses []int32) {
	y := &p.layers[layer]
	average(y.recent, uses, tokens, p.tuning.Recent)
	average(y.long, uses, tokens, p.tuning.Long)
}

// average advances averages over the last window tokens by this many tokens.
func average(of []float64, uses []int32, tokens int, window float64) {
	keep := math.Pow(1-1/window, float64(tokens))
	add := (1 - keep) / float64(tokens)
	for e := range of {
		of[e] = of[e]*keep + add*float64(uses[e])
	}
}

// expected returns the share of the next tokens that are expected to use expert e.
func (p *Policy) expected(y *layer, e int32) float64 {
	return p.tuning.Weight*y.recent[e] + (1-p.tuning.Weight)*y.long[e]
}

// doubt returns by how much two averages of uses with this sum may differ by chance. An average over a window of n
// tokens has the variance of 2n−1 of them (Poisson's law, because uses are rare).
func (p *Policy) doubt(uses float64) float64 {
	t := &p.tuning
	recent, long := t.Weight*t.Weight/(2*t.Recent-1), (1-t.Weight)*(1-t.Weight)/(2*t.Long-1)
	return t.Doubt * math.Sqrt(uses*(recent+long))
}

// Next chooses the copy that saves most, and reports whether one pays. The slot keeps its content until Sending, and
// the expert to come is Absent until Done.
func (p *Policy) Next() (Move, bool) {
	var best Move
	most := 0.0
	for i := range p.layers {
		y := &p.layers[i]
		in, out := p.candidates(y)
		if in < 0 || out < 0 {
			continue
		}
		gain := p.expected(y, in)
		uses := gain
		if e := y.holds[out]; e != Absent {
			gain -= p.expected(y, e)
			uses += p.expected(y, e)
		}
		if gain > y.need+p.doubt(uses) && gain*float64(y.Bytes) > most {
			most, best = gain*float64(y.Bytes), Move{Layer: i, Expert: in, Slot: out, Bytes: y.Bytes}
		}
	}
	if most == 0 {
		return Move{}, false
	}
	p.begin(best)
	return best, true
}

// candidates returns the absent expert with the highest expected use, and the slot that is free or has the expert with
// the lowest; Absent if there is none.
func (p *Policy) candidates(y *layer) (in, out int32) {
	in, out = Absent, Absent
	least, most := math.Inf(1), 0.0
	for s, e := range y.holds {
		if y.busy[s] {
			continue
		}
		use := math.Inf(-1)
		if e != Absent {
			use = p.expected(y, e)
		}
		if use < least {
			least, out = use, int32(s)
		}
	}
	if out == Absent {
		return
	}
	for e := range y.slot {
		if y.slot[e] != Absent || y.coming[e] {
			continue
		}
		if use := p.expected(y, int32(e)); use > most {
			most, in = use, int32(e)
		}
	}
	return in, out
}

func (p *Policy) begin(m Move) {
	y := &p.layers[m.Layer]
	y.holds[m.Slot], y.busy[m.Slot], y.coming[m.Expert] = m.Expert, true, true
}

// Sending records that a copy begins to overwrite its slot. It returns the expert that was there and is now Absent, or
// Absent.
func (p *Policy) Sending(m Move) (lost int32) {
	y := &p.layers[m.Layer]
	e := slices.Index(y.slot, m.Slot)
	if e >= 0 {
		y.slot[e] = Absent
	}
	return int32(e)
}

// Done records that a copy has arrived.
func (p *Policy) Done(m Move) {
	y := &p.layers[m.Layer]
	y.slot[m.Expert], y.busy[m.Slot], y.coming[m.Expert] = m.Slot, false, false
}

// Fail ends a copy of an expert that could not be read, before any of it was sent. The slot keeps its content. The expert
// counts as never used, so it is not copied again before steps have read it and used it often.
func (p *Policy) Fail(m Move) {
	y := &p.layers[m.Layer]
	y.recent[m.Expert], y.long[m.Expert] = 0, 0
	y.holds[m.Slot], y.busy[m.Slot], y.coming[m.Expert] = Absent, false, false
	if e := slices.Index(y.slot, m.Slot); e >= 0 {
		y.holds[m.Slot] = int32(e)
	}
}
