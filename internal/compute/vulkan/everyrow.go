package vulkan

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// readsEvery reports whether a few single tokens compute the gate and up rows of every neuron, because that takes less
// time than those of the sets' members alone: rows in order are read faster than some of them. Results are the same
// bytes. The first layer of a shape is timed, and the result kept, as products' are.
func (d *Device) readsEvery(w *compute.SparseWeights, tokens int) bool {
	if d.every != nil {
		return *d.every
	}
	share := int(math.Ceil(float64(w.Share) * shareSteps))
	if share == 0 || tokens == 0 {
		return false
	}
	const every, some = "every row", "members' rows"
	gate := w.Gate != nil
	of := fmt.Sprintf("%s %d×%d, gate %t, %d of %d, %d tokens", w.Up.Type, w.Up.Rows, w.Up.Cols, gate, share, shareSteps, tokens)
	known := d.found()
	if by, ok := known.Found[of]; ok {
		return by == every
	}
	if !d.times() && !d.foresees() {
		return false
	}
	took, err := d.timeRows(w, share, tokens)
	if err != nil || !d.times() {
		return false
	}
	by := some
	if took[1] < clearly*took[0] {
		by = every
	}
	known.keep(of, by)
	return by == every
}

const (
	shareSteps = 16        // shares of neurons that are told apart
	rowsBudget = 256 << 20 // bytes of memory for timing
	mostSets   = 8         // sets that take turns, so that caches do not hold their rows
)

// timeRows returns the seconds that a layer like w takes for a number of tokens whose sets have that share of its
// neurons: reading only its members' rows, and reading every row.
func (d *Device) timeRows(w *compute.SparseWeights, share, tokens int) (took [2]float64, err error) {
	own := d.apart(rowsBudget)
	defer own.reset()
	each := w.Up.Type.RowBytes(w.Up.Cols)
	n := min(w.Up.Rows, rowsBudget/4/each)
	matrix := func() (m *compute.Matrix) {
		if err == nil {
			m, err = own.Matrix(compute.Source{Name: "timed", Type: w.Up.Type, Rows: n, Cols: w.Up.Cols, Data: make([]byte, n*each)}, compute.Rows)
		}
		return m
	}
	t := compute.SparseWeights{Up: matrix(), Down: matrix(), Act: w.Act}
	if w.Gate != nil {
		t.Gate = matrix()
	}
	if err != nil {
		return took, err
	}
	x, err := own.Tensor(tokens, w.Up.Cols)
	if err != nil {
		return took, err
	}
	out, err := own.Tensor(tokens, w.Up.Cols)
	if err != nil {
		return took, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var sets []compute.Set
	for range mostSets {
		s, err := own.Set(tokens, n)
		if err == nil {
			err = own.fillSet(s, rng, share)
		}
		if err != nil {
			return took, err
		}
		sets = append(sets, s)
	}
	p := compute.Params{Decode: tokens, Tokens: make([]int32, tokens)}
	for i, every := range [...]bool{false, true} {
		own.every = &every
		seg := compute.Segment{Name: fmt.Sprint("every row: ", every), Rows: tokens, Decode: tokens}
		layers := func(v compute.Verbs) {
			for range 2 {
				for _, s := range sets {
					v.SparseFFN(out, x, s, t)
				}
			}
		}
		if own.gpu.Counts() { // what is timed later is compiled now
			if err := own.Record(seg, &p, layers); err != nil {
				return took, err
			}
			continue
		}
		for run := range 4 { // the first one records
			begin := monotime.Now()
			if err := own.Run(seg, &p, layers); err != nil {
				return took, err
			}
			if seconds := monotime.Since(begin).Seconds(); run == 1 || run > 1 && seconds < took[i] {
				took[i] = seconds
			}
		}
	}
	return took, nil
}

// fillSet gives each of s's tokens a share of the neurons.
func (d *Device) fillSet(s compute.Set, rng *rand.Rand, share int) error {
	return d.upload(bits(s), 4, func(dst []byte, _ int) {
		for i, w := 0, words(dst); i < len(w); i++ {
			w[i] = 0
			for b := range 32 {
				if rng.IntN(shareSteps) < share {
					w[i] |= 1 << b
				}
			}
		}
	})
}
