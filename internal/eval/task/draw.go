package task

import (
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/mathext/prng"
)

// LlamaSeed is the seed with which llama.cpp draws questions.
const LlamaSeed = 1

// Draw keeps n random questions or programs, in random order. With LlamaSeed they are those that llama.cpp draws from
// the same file. A larger n with the same seed includes those of a smaller n.
func (d *Data) Draw(n int, seed uint32) {
	d.All = d.Len()
	if n >= d.All {
		return
	}
	r := prng.NewMT19937()
	r.Seed(uint64(seed))
	d.Seed = seed
	var drawn []int
	switch {
	case d.Kind.Generates():
		d.Programs = pick(d.Programs, drawScaled(r, len(d.Programs), n))
		return
	case d.Kind == HellaSwag && !d.binary:
		drawn = drawEven(r, len(d.Items), n)
	case d.Kind == Winogrande && d.Scoring == Llama: // llama.cpp does not see the last line
		drawn = drawScaled(r, len(d.Items)-1, n)
	default:
		drawn = drawScaled(r, len(d.Items), n)
	}
	d.Items = pick(d.Items, drawn)
}

func pick[T any](all []T, numbers []int) []T {
	some := make([]T, len(numbers))
	for i, j := range numbers {
		some[i] = all[j]
	}
	return some
}

// drawEven draws n of the numbers below all as llama.cpp draws HellaSwag's questions: by the uniform distribution of
// GNU's C++ library (since GCC 11).
func drawEven(r *prng.MT19937, all, n int) (drawn []int) {
	left := upTo(all)
	for range n {
		size := uint32(len(left))
		j, low := bits.Mul32(r.Uint32(), size)
		for low < size && low < -size%size {
			j, low = bits.Mul32(r.Uint32(), size)
		}
		drawn, left = append(drawn, left[j]), slices.Delete(left, int(j), int(j)+1)
	}
	return drawn
}

// drawScaled draws n of the numbers below all as llama.cpp does for its other tasks: by products of float32.
func drawScaled(r *prng.MT19937, all, n int) (drawn []int) {
	const scale = 1 << 32
	left := upTo(all)
	for range n {
		last := len(left) - 1
		j := min(int(float32(r.Uint32())/scale*float32(len(left))), last) // the largest numbers round up to the scale
		drawn = append(drawn, left[j])
		left[j], left = left[last], left[:last]
	}
	return drawn
}

// upTo returns the numbers below n.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// pythonRandom draws like Python's random.Random, with which the harness chooses examples.
type pythonRandom struct{ *prng.MT19937 }

func newPythonRandom(seed uint32) pythonRandom {
	r := pythonRandom{prng.NewMT19937()}
	r.SeedFromKeys([]uint32{seed})
	return r
}

// below returns a number below n.
func (r pythonRandom) below(n int) int {
	for {
		if v := int(r.Uint32() >> (32 - bits.Len(uint(n)))); v < n {
			return v
		}
	}
}

// sample returns n different numbers below all, like random.sample: from a shrinking pool if that takes less memory
// than a set of the drawn ones.
func (r pythonRandom) sample(all, n int) []int {
	pool := 21 // by Python's reckoning of sizes
	if n > 5 {
		size := 1
		for size < 3*n {
			size *= 4
		}
		pool += size
	}
	drawn := make([]int, 0, n)
	if all <= pool {
		left := upTo(all)
		for range n {
			j, last := r.below(len(left)), len(left)-1
			drawn = append(drawn, left[j])
			left[j], left = left[last], left[:last]
		}
		return drawn
	}
	for len(drawn) < n {
		if j := r.below(all); !slices.Contains(drawn, j) {
			drawn = append(drawn, j)
		}
	}
	return drawn
}
