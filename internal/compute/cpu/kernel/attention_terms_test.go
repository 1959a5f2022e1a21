package kernel

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// termCase is the shape of an attention by terms.
type termCase struct {
	key, value, positions, queries int
	softCap                        float32
}

// TestAttendByTerms holds attention by terms to its definition, and a query to the same bytes in any company. Where the
// processor lacks the unit, TestMissingInstructions does so with fewer shapes.
func TestAttendByTerms(t *testing.T) {
	if !Variants()[0].AttendsByTerms(floatShape(64, 64)) {
		t.Skip("this processor has no unit that multiplies tiles of BF16")
	}
	holdAttentionByTerms(t, Variants()[0], []termCase{
		{72, 72, 700, 40, 0}, {64, 64, 256, 1, 0}, {80, 80, 257, 33, 0}, {16, 40, 300, 16, 2}, {128, 96, 511, 17, 0}, {20, 12, 64, 3, 0},
	})
}

// floatShape returns the shape of keys and values in F32 of two heads.
func floatShape(key, value int) compute.KVShape {
	return compute.KVShape{Heads: 2, Key: key, Value: value, KeyType: compute.KVF32, ValueType: compute.KVF32}
}

func holdAttentionByTerms(t *testing.T, k *Kernels, cases []termCase) {
	t.Helper()
	rng := testenv.Rand(t)
	for _, c := range cases {
		s := newSequenceIn(rng, floatShape(c.key, c.value), 1, c.positions, c.queries, 0)
		s.softCap = c.softCap
		for i := range s.spans {
			s.spans[i] = Span{To: int32(c.positions)}
		}
		attend := func(from, to int) (out []float32) {
			n := to - from
			room, check := guarded(t, make([]float32, (TermRoom(s.kv.Shape, n)+3)/4))
			p := NewPartial(make([]float32, PartialLen(n, c.value)), n, c.value)
			k.AttendByTerms(p, s.q[from*c.key:to*c.key], &s.kv, c.positions, c.softCap, unsafe.Slice((*byte)(unsafe.Pointer(&room[0])), 4*len(room)))
			check()
			out = make([]float32, n*c.value)
			for i := range n {
				k.Finish(out[i*c.value:][:c.value], p, i)
			}
			return out
		}
		all := attend(0, c.queries)
		for i := 0; i < c.queries; i += 5 {
			want, largest := s.define(i)
			near(t, fmt.Sprintf("%+v query %d", c, i), all[i*c.value:][:c.value], func(d int) (float64, float64) { return want[d], largest }, attentionTolerance)
			for j, e := range attend(i, i+1) {
				if w := all[i*c.value+j]; math.Float32bits(e) != math.Float32bits(w) {
					t.Fatalf("%+v query %d: element %d is %g alone, and %g in company", c, i, j, e, w)
				}
			}
		}
	}
}
