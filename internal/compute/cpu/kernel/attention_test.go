package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// attentionTolerance: float32 dot products and sums, relative to the largest value attended to.
const attentionTolerance = 1e-5

// sequence is a random KV cache and queries for the last tokens of a sequence.
type sequence struct {
	kv      KV
	q       []float32 // [tokens·group, head_dim]
	visible []int32   // [tokens]
	group   int
}

func newSequence(rng *rand.Rand, headDim, group, positions, tokens int) *sequence {
	pages := (positions + compute.PagePositions - 1) / compute.PagePositions
	s := &sequence{kv: KV{Heads: 2, Head: rng.IntN(2), HeadDim: headDim}, group: group}
	for _, p := range rng.Perm(pages + 2)[:pages] {
		s.kv.Pages = append(s.kv.Pages, int32(p))
	}
	n := (pages + 2) * s.kv.Heads * compute.PagePositions * headDim
	// What was never written is NaN and must not matter.
	s.kv.K, s.kv.V = make([]uint16, n), make([]uint16, n)
	for i := range n {
		s.kv.K[i], s.kv.V[i] = 0x7e00, 0x7e00
	}
	for p := range positions {
		k, v := s.row(p)
		for d := range headDim {
			k[d] = quant.F16FromF32(float32(rng.NormFloat64()))
			v[d] = quant.F16FromF32(float32(rng.NormFloat64()))
		}
	}
	s.q = normals(rng, tokens*group*headDim)
	for i := range s.q {
		s.q[i] *= 3 / float32(math.Sqrt(float64(headDim))) // scores with a spread of 3
	}
	for t := range tokens {
		s.visible = append(s.visible, int32(positions-tokens+1+t))
	}
	return s
}

// row is position p's key and value.
func (s *sequence) row(p int) (k, v []uint16) {
	k, v = s.kv.page(p / compute.PagePositions)
	at := p % compute.PagePositions * s.kv.HeadDim
	return k[at:][:s.kv.HeadDim], v[at:][:s.kv.HeadDim]
}

// attend is attention of tokens [from, to).
func (s *sequence) attend(t *testing.T, k *Kernels, from, to int) []float32 {
	hd, n := s.kv.HeadDim, (to-from)*s.group
	q, visible := s.q[from*s.group*hd:to*s.group*hd], s.visible[from:to]
	a, checkSum := guarded(t, make([]float32, PartialLen(n, hd)))
	b, checkNext := guarded(t, make([]float32, PartialLen(n, hd)))
	out, checkOut := guarded(t, make([]float32, n*hd))
	sum, next := NewPartial(a, n, hd), NewPartial(b, n, hd)
	k.AttendChunk(sum, q, &s.kv, visible, 0)
	for c := 1; c < Chunks(int(visible[len(visible)-1])); c++ {
		k.AttendChunk(next, q, &s.kv, visible, c)
		k.Merge(sum, next)
	}
	for i := range n {
		k.Finish(out[i*hd:][:hd], sum, i)
	}
	checkSum()
	checkNext()
	checkOut()
	return out
}

// define is the definition: softmax(q·K)·V of query i in float64.
func (s *sequence) define(i int) (out []float64, largest float64) {
	hd := s.kv.HeadDim
	n := int(s.visible[i/s.group])
	w, sum := make([]float64, n), 0.0
	for p := range w {
		k, _ := s.row(p)
		dot := 0.0
		for d, h := range k {
			dot += float64(s.q[i*hd+d]) * float64(quant.F32FromF16(h))
		}
		w[p] = math.Exp(dot)
		sum += w[p]
	}
	out = make([]float64, hd)
	for p := range w {
		_, v := s.row(p)
		for d, h := range v {
			f := float64(quant.F32FromF16(h))
			out[d] += w[p] / sum * f
			largest = max(largest, math.Abs(f))
		}
	}
	return out, largest
}

func TestAttention(t *testing.T) {
	rng := newRand(t)
	for _, k := range Variants() {
		for _, c := range []struct{ headDim, group, positions, tokens int }{
			{32, 1, 1, 1},
			{64, 1, 64, 1},
			{64, 4, 65, 1},
			{128, 8, 300, 1},
			{128, 7, 256, 1},
			{80, 1, 257, 1},
			{96, 3, 63, 1},
			{256, 2, 700, 1},
			{8, 5, 7, 1},
			{12, 2, 70, 3},
			{64, 1, 40, 40},
			{128, 4, 100, 70},
			{80, 2, 300, 67},
			{64, 3, 600, 19},
			{40, 6, 130, 130},
		} {
			s := newSequence(rng, c.headDim, c.group, c.positions, c.tokens)
			got := s.attend(t, k, 0, c.tokens)
			for i := range c.tokens * c.group {
				want, largest := s.define(i)
				near(t, fmt.Sprintf("%s %+v query %d", k.Name, c, i), got[i*c.headDim:][:c.headDim],
					func(d int) (float64, float64) { return want[d], largest }, attentionTolerance)
			}
		}
	}
}

// TestAttentionAloneOrInCompany holds a token's result to the same bytes in any batch.
func TestAttentionAloneOrInCompany(t *testing.T) {
	rng := newRand(t)
	for _, k := range Variants() {
		for _, c := range []struct{ headDim, group, positions, tokens int }{{64, 1, 300, 90}, {128, 4, 520, 33}, {80, 3, 270, 80}, {64, 8, 70, 20}} {
			s := newSequence(rng, c.headDim, c.group, c.positions, c.tokens)
			all := s.attend(t, k, 0, c.tokens)
			for range 12 {
				from := rng.IntN(c.tokens)
				to := from + 1 + rng.IntN(min(5, c.tokens-from))
				part := s.attend(t, k, from, to)
				for i, e := range part {
					if w := all[from*c.group*c.headDim+i]; math.Float32bits(e) != math.Float32bits(w) {
						t.Fatalf("%s %+v tokens %d to %d: element %d is %x, in the whole batch %x", k.Name, c, from, to, i, e, w)
					}
				}
			}
		}
	}
}

func TestAttentionOfLargeScores(t *testing.T) {
	rng := newRand(t)
	for _, k := range Variants() {
		s := newSequence(rng, 64, 2, 500, 1)
		for i := range s.q {
			s.q[i] *= 200 // e^score overflows float32 by far: only differences count
		}
		for i, e := range s.attend(t, k, 0, 1) {
			if math.IsNaN(float64(e)) || math.Abs(float64(e)) > 6 {
				t.Fatalf("%s: element %d is %g", k.Name, i, e)
			}
		}
	}
}

func TestAttentionAllocatesNothing(t *testing.T) {
	s := newSequence(newRand(t), 64, 4, 300, 3)
	p, sum := NewPartial(make([]float32, PartialLen(12, 64)), 12, 64), NewPartial(make([]float32, PartialLen(12, 64)), 12, 64)
	for _, k := range Variants() {
		if n := testing.AllocsPerRun(10, func() {
			k.AttendChunk(p, s.q, &s.kv, s.visible, 0)
			k.Merge(sum, p)
		}); n != 0 {
			t.Fatalf("%s: %v allocations", k.Name, n)
		}
	}
}
