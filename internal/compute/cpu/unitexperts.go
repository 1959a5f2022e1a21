package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	packed "github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// leastWave is the number of experts that are computed at a time while others arrive, at least.
const leastWave = 8

// onDisk is the state of an Experts with weights on disk.
type onDisk struct {
	counts []int32 // [units] uses by the step's tokens
	units  []int32 // units that the step uses, in the order of their experts' numbers
	uses   []int32 // uses of each unit
	number []int32 // each unit's expert
	places []int   // scratch: among units
}

// computeOnDisk computes the chosen experts as they arrive. For a prompt, it adds up their outputs as it computes them,
// in the order of the experts' numbers. For a few tokens, it first computes the experts that are in RAM, and adds up at
// the end.
func (f *experts) computeOnDisk(x compute.Tensor, b *bundle) {
	if f.d.err != nil { // nobody reads the result
		return
	}
	s, y, w := f.d.units, &f.disk, f.w
	f.listUnits(b)
	s.begin(b, y.units, y.uses)
	f.d.guessExperts()
	few := f.tokens <= compute.FewTokens
	if few {
		f.apart = grown(&f.given, f.tokens*f.used*f.out.Cols)
	}
	f.w.Table = f.tableOf(b)
	f.n = f.w.Table.Held
	f.w.Up, f.w.Gate, f.w.Down, f.w.FC1, f.w.FC2 = b.inSlots(w.Up), b.inSlots(w.Gate), b.inSlots(w.Down), b.inSlots(w.FC1), b.inSlots(w.FC2)
	for at := 0; at < len(y.units); {
		places, err := f.arrived(at, few)
		if err != nil {
			s.abandon(0)
			f.d.err = err
			return
		}
		if at += len(places); !few && s.asked == len(y.units) {
			s.readAhead(f.tokens)
		}
		f.computePlaces(x, b, places)
	}
	if len(y.units) == 0 {
		f.compute(x)
	}
	if f.w = w; few {
		f.sumApart()
	}
}

// arrived waits for units, after at were computed, and returns the places of some, in any order if few is set. It
// bounds the number of their pairs, unless one expert alone has more.
func (f *experts) arrived(at int, few bool) (places []int, err error) {
	s, y := f.d.units, &f.disk
	if few {
		return s.takeAny()
	}
	n, err := s.take(at, leastWave)
	y.places = y.places[:0]
	pairs := 0
	for i := at; i < at+n; i++ {
		if pairs += int(y.uses[i]); i > at && pairs > packed.MostPairs {
			break
		}
		y.places = append(y.places, i)
	}
	return y.places, err
}

// computePlaces computes the experts of units that are in RAM.
func (f *experts) computePlaces(x compute.Tensor, b *bundle, places []int) {
	y, table := &f.disk, f.w.Table
	for _, i := range places {
		table.At[y.number[i]] = b.slot(y.units[i])
	}
	f.compute(x)
	f.more = true
	for _, i := range places {
		table.At[y.number[i]] = residency.Absent
		f.d.units.release(i, 1)
	}
}

// listUnits lists the units of the step's experts, without those that are left out. Pairs that may be left out stay if
// their expert is in RAM, or is being read, or is read for another token.
func (f *experts) listUnits(b *bundle) {
	y := &f.disk
	counts := grown(&y.counts, f.all)
	clear(counts)
	chosen := f.choice.experts[:f.tokens*f.used]
	for i, e := range chosen {
		if f.w.At(int(e)) != compute.Absent && !f.isLeft(i) {
			counts[e]++
		}
	}
	if !f.w.Skip.Always {
		for i := range f.left {
			e := chosen[i]
			at := f.w.At(int(e))
			if !f.left[i] || at == compute.Absent {
				continue
			}
			if f.left[i] = counts[e] == 0 && b.slot(int32(at)) == residency.Absent; f.left[i] {
				b.class.cache.Leave(b.first+int32(at), 1)
			} else {
				counts[e]++
			}
		}
	}
	y.units, y.uses, y.number = y.units[:0], y.uses[:0], y.number[:0]
	for e, n := range counts {
		if n > 0 {
			y.units, y.uses, y.number = append(y.units, int32(f.w.At(e))), append(y.uses, n), append(y.number, int32(e))
		}
	}
}

// tableOf returns b's table, in which no expert has a slot.
func (f *experts) tableOf(b *bundle) *compute.ExpertTable {
	if len(b.table.At) != f.all {
		b.table.At = make([]int32, f.all)
	}
	for e := range b.table.At {
		b.table.At[e] = residency.Absent
	}
	return &b.table
}

// inSlots returns m, a part of b, as the matrix of all slots; nil for nil.
func (b *bundle) inSlots(m *compute.Matrix) *compute.Matrix {
	if m == nil {
		return nil
	}
	for i, p := range b.parts {
		if mem(m).disk == p {
			return &b.slotted[i]
		}
	}
	panic("cpu: tensor " + m.Name + " is not bundled with the others of its layer")
}
