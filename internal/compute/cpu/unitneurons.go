package cpu

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// neuronUnits is the state of a SparseFFN with neurons on disk. If a step needs few neurons, rows are picked from
// slots. If it needs many, rows are read in order from a layer's whole matrices: see wholeLayer. The bytes of results
// are the same.
type neuronUnits struct {
	b      *bundle            // nil: all is in RAM
	from   [3]*compute.Matrix // gate, up and down as they were bound
	picked bool               // rows are in slots, which are held
	whole  bool               // rows are in their order

	counts []int32 // [n_ff] uses by the step's tokens
	units  []int32 // units that the step uses, in ascending order
	uses   []int32 // uses of each unit
}

// promptPicks bounds the share of neurons that a prompt picks, as a divisor: reading whole layers is several times as
// fast for each byte as reading neurons is.
const promptPicks = 4

// beginOnDisk prepares for the layer's neurons on disk.
func (f *sparseFFN) beginOnDisk() {
	y := &f.disk
	y.b, y.picked, y.whole = nil, false, false
	if p := mem(f.w.Down).disk; p != nil {
		y.b, y.from = p.bundle, [...]*compute.Matrix{f.w.Gate, f.w.Up, f.w.Down}
	}
}

// bringDeciding brings the rows that decide which neurons are open into RAM. It reports whether it succeeded.
func (f *sparseFFN) bringDeciding() bool {
	switch first := cmp.Or(f.w.Gate, f.w.Up); {
	case f.disk.b == nil:
		return true
	case f.d.err != nil: // nobody reads the result
		return false
	case mem(first).disk == nil:
		return true
	case f.all:
		return f.bringWhole()
	}
	f.list(f.s)
	return f.bring(true)
}

// bringOpen has all rows of the open neurons in RAM. It returns whether it did.
func (f *sparseFFN) bringOpen() bool {
	y := &f.disk
	switch {
	case y.b == nil:
		return true
	case y.picked && f.panelled(): // a panel needs all rows
		f.letGo()
		return f.bringWhole()
	case y.picked:
		return true
	case y.whole && !f.all: // their uses are counted
		return true
	}
	f.list(f.open)
	if y.whole || f.panelled() {
		f.d.units.count(y.b, y.units, y.uses)
		return y.whole || f.bringWhole()
	}
	return f.bring(false)
}

// panelled reports whether some row's down projection goes through panels.
func (f *sparseFFN) panelled() bool {
	for t := f.single(); t < f.tokens; t++ {
		if f.fillsPanels(f.open.count[t]) {
			return true
		}
	}
	return false
}

// list lists the neurons of the tokens' lists.
func (f *sparseFFN) list(lists *set) {
	y := &f.disk
	y.units, y.uses = y.units[:0], y.uses[:0]
	if f.tokens == 1 {
		y.units = append(y.units, lists.token(0)...)
		for range y.units {
			y.uses = append(y.uses, 1)
		}
		return
	}
	counts := grown(&y.counts, f.n)
	clear(counts)
	for t := range f.tokens {
		for _, n := range lists.token(t) {
			counts[n]++
		}
	}
	for n, uses := range counts {
		if uses > 0 {
			y.units, y.uses = append(y.units, int32(n)), append(y.uses, uses)
		}
	}
}

// bring brings the listed neurons into slots, or all neurons in order if the list is long. It reports whether it
// succeeded. deciding: no activations are in scratch memory yet.
func (f *sparseFFN) bring(deciding bool) bool {
	y, s := &f.disk, f.d.units
	if n := len(y.units); n > s.open(y.b.class) || f.tokens > compute.FewTokens && promptPicks*n > f.n {
		s.count(y.b, y.units, y.uses)
		return f.bringWhole()
	}
	from, before := monotime.Now(), y.b.class.cache.Counted()
	s.begin(y.b, y.units, y.uses)
	counted := y.b.class.cache.Counted().Since(before)
	if deciding {
		f.d.guessNeurons()
	}
	if n := len(y.units); n > 0 {
		switch got, err := s.take(0, n); {
		case err != nil:
			s.abandon(0)
			f.d.err = err
			return false
		case got < n: // guesses hold slots
			s.abandon(0)
			return f.bringWhole()
		}
	}
	if deciding && f.tokens == 1 {
		pays := &f.d.neuronGuess.pays
		pays.took += monotime.Since(from)
		pays.read += counted.Misses + counted.GuessesUsed
	}
	f.take(y.b.slotted)
	y.picked = true
	return true
}

// bringWhole has all of the layer's rows in RAM, in their order.
func (f *sparseFFN) bringWhole() bool {
	y := &f.disk
	m, err := f.d.wholeOf(y.b, f.tokens > compute.FewTokens)
	if err != nil {
		f.d.err = err
		return false
	}
	f.take(m)
	y.whole = true
	return true
}

// take takes the layer's rows on disk from m, the bundle's parts as they are in RAM.
func (f *sparseFFN) take(m []compute.Matrix) {
	in := func(w *compute.Matrix) *compute.Matrix {
		if w == nil || mem(w).disk == nil {
			return w
		}
		return &m[mem(w).disk.number]
	}
	from := &f.disk.from
	f.w.Gate, f.w.Up, f.w.Down = in(from[0]), in(from[1]), in(from[2])
}

// letGo ends the use of slots.
func (f *sparseFFN) letGo() {
	if y := &f.disk; y.picked {
		f.d.units.release(0, len(y.units))
		y.picked = false
	}
}

// byNeuron reports whether b's units are neurons, a row of each part.
func (b *bundle) byNeuron() bool { return b.parts[0].src.Rows == 1 }

// slotsOf returns the slots of the listed neurons, which are held. [len(list)]
func (b *bundle) slotsOf(list []int32, w *workerScratch) []int32 {
	slots := grown(&w.list, len(list))
	for i, n := range list {
		slots[i] = b.slot(n)
	}
	return slots
}
