package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// termCase is an attention by terms. Tokens are at the last positions. They see the positions up to their own, or a window
// of these, or all positions.
type termCase struct {
	typ                           compute.KVType
	key, value, positions, tokens int
	group, window                 int // 0: one query of each token; no window
	softCap                       float32
	all                           bool
	broken                        bool // the last token's value is no number; the others do not see it
}

// TestAttendByTerms holds attention by terms to its definition. A token has the same bytes whatever the other tokens are.
// Where the processor lacks the unit, TestMissingInstructions does the same with fewer shapes.
func TestAttendByTerms(t *testing.T) {
	k := Variants()[0]
	if !k.HasMatrix() {
		t.Skip("this processor has no unit that multiplies tiles of BF16")
	}
	var cases []termCase
	for _, typ := range compute.KVTypes() {
		cases = append(cases, termCase{typ: typ, key: 64, value: 96, positions: 700, tokens: 40, group: 3})
	}
	holdAttentionByTerms(t, k, append(cases, []termCase{
		{typ: compute.KVF32, key: 72, value: 72, positions: 700, tokens: 40, all: true},
		{typ: compute.KVF16, key: 64, value: 64, positions: 300, tokens: 40, broken: true},
		{typ: compute.KVF32, key: 16, value: 40, positions: 300, tokens: 16, softCap: 2},
		{typ: compute.KVF16, key: 80, value: 80, positions: 257, tokens: 33},
		{typ: compute.KVF16, key: 128, value: 96, positions: 900, tokens: 300, window: 270},
	}...))
}

// twoTermTolerance is attentionTolerance where queries and weights are two terms, with a relative error of 2⁻¹⁷.
const twoTermTolerance = 2e-5

func holdAttentionByTerms(t *testing.T, k *Kernels, cases []termCase) {
	t.Helper()
	rng := testenv.Rand(t)
	for _, c := range cases {
		c.group = max(1, c.group)
		shape := compute.KVShape{Heads: 2, Key: c.key, Value: c.value, KeyType: c.typ, ValueType: c.typ}
		s := newSequenceIn(rng, shape, c.group, c.positions, c.tokens, c.window)
		s.softCap = c.softCap
		for i := range s.spans {
			if c.all {
				s.spans[i].To = int32(c.positions)
			}
		}
		tolerance := attentionTolerance
		if c.typ != compute.KVF32 {
			tolerance = twoTermTolerance
		}
		if c.broken {
			_, last := s.row(c.positions - 1)
			quant.Encode(c.typ.Type(), last, slices.Repeat([]float32{float32(math.NaN())}, c.value))
		}
		attend := func(from, to int) (out []float32) {
			n := (to - from) * c.group
			room, check := guarded(t, make([]float32, (k.TermRoom(shape, n)+3)/4))
			p := NewPartial(make([]float32, PartialLen(n, c.value)), n, c.value)
			k.AttendByTerms(p, s.q[from*c.group*c.key:to*c.group*c.key], &s.kv, s.spans[from:to], c.softCap, unsafe.Slice((*byte)(unsafe.Pointer(&room[0])), 4*len(room)))
			check()
			out = make([]float32, n*c.value)
			for i := range n {
				k.Finish(out[i*c.value:][:c.value], p, i)
			}
			return out
		}
		all := attend(0, c.tokens)
		for i := 0; i < c.tokens; i += 5 {
			if c.broken && i == c.tokens-1 {
				break
			}
			at := i * c.group
			want, largest := s.define(at)
			near(t, fmt.Sprintf("%+v query %d", c, at), all[at*c.value:][:c.value], func(d int) (float64, float64) { return want[d], largest }, tolerance)
			if c.broken { // alone, the other tokens are computed another way
				continue
			}
			for j, e := range attend(i, i+1) {
				if w := all[at*c.value+j]; math.Float32bits(e) != math.Float32bits(w) {
					t.Fatalf("%+v token %d: element %d is %g alone, and %g in company", c, i, j, e, w)
				}
			}
		}
	}
}
