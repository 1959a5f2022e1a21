package kernel

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// shortError bounds the error of products of integers of 16 bits as a share of their operands' lengths in each part:
// both are rounded by half a step in every element.
const shortError = 2*0.00035 + 1e-6

// TestPairsByVectors holds prompts' products by vectors to their definitions, in tiles that are full and not, of
// columns that there is no room for at once and that are no whole groups, and those of integers to what they may lose,
// also where sums are as large as they can be.
func TestPairsByVectors(t *testing.T) {
	type set struct {
		k   *Kernels
		typ quant.Type
	}
	var sets []set
	for _, k := range platform() {
		if k.types[quant.F16].pairs.vectors != nil {
			sets = append(sets, set{k, quant.F16}, set{k, quant.BF16})
		}
	}
	if len(sets) == 0 {
		t.Skip("this processor lacks AVX2")
	}
	rng := testenv.Rand(t)
	for _, s := range sets {
		for _, shape := range [][3]int{{5, 64, 3}, {33, 1111, 17}, {40, 2 * bf16Group, 49}, {2, 12000, 2}, {32, 31, 2}, {64, 512, 12}} {
			t.Run(fmt.Sprintf("%s/%s/%v", s.k.Name, s.typ, shape), func(t *testing.T) {
				rows, cols, tokens := shape[0], shape[1], shape[2]
				p := newProblem(rng, s.typ, rows, cols, tokens)
				if rows == 64 { // numbers that are all alike, one that is all there is, nothing, and some that differ widely
					for i := range cols {
						p.dense[i], p.x[i] = 1, -1
						p.dense[cols+i], p.x[cols+i] = float32(i/(cols-1))*60000, float32(i/(cols-1))*1e30
						p.dense[2*cols+i], p.x[2*cols+i] = 0, 0
						p.x[3*cols+i] *= float32(math.Exp2(float64(i%40 - 20)))
						p.x[4*cols+i] *= 1e-30
					}
					for r := range 4 {
						row := make([]byte, s.typ.RowBytes(cols))
						quant.Imitate(s.typ, row, p.dense[r*cols:][:cols])
						quant.Decode(s.typ, p.dense[r*cols:][:cols], row)
						PackRow(s.typ, p.packed[r*RowBytes(s.typ, cols):][:RowBytes(s.typ, cols)], row, cols)
					}
				}
				holdPairs(t, s.k, s.typ, p)
			})
		}
	}
}

// holdPairs holds the products of p to their definition.
func holdPairs(t *testing.T, k *Kernels, typ quant.Type, p problem) {
	t.Helper()
	form := k.PromptForm(typ)
	stride, n := form.ActRow(p.cols), bf16Groups(p.cols)
	acts := make([]byte, p.tokens*stride+canary)
	for i := range p.tokens {
		k.Convert(form, acts[i*stride:][:stride], p.x[i*p.cols:][:p.cols])
	}
	got := make([]float32, p.tokens*p.rows+canary)
	got[len(got)-1] = -12345
	k.MatMulPrompt(Next{}, typ, got, p.rows, p.packed, p.rows, p.cols, unsafe.Pointer(&acts[0]), stride, p.tokens)
	if got[len(got)-1] != -12345 {
		t.Fatal("it wrote outside its output")
	}
	rounded := make([]uint16, n*bf16Group) // zeros behind the last
	for i := range p.tokens {
		x := p.x[i*p.cols:][:p.cols]
		for j, v := range x {
			rounded[j] = flushBF16(v)
		}
		for r := range p.rows {
			row, packed := p.dense[r*p.cols:][:p.cols], p.packed[r*RowBytes(typ, p.cols):]
			var want float32
			if form == Shorts {
				want = dotShortsGeneric(typ, row, x)
			} else {
				padded := make([]byte, 2*n*bf16Group)
				copy(padded, packed[:2*p.cols])
				want = dotLaneGeneric(typ, padded, rounded, n)
			}
			v := got[i*p.rows+r]
			if math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("row %d token %d: %g, its definition has %g", r, i, v, want)
			}
			if exact, lengths := partLengths(row, x); form == Shorts && math.Abs(float64(v)-exact) > shortError*lengths {
				t.Fatalf("row %d token %d: %g instead of %g, which is off by %g of its operands' lengths", r, i, v, exact, math.Abs(float64(v)-exact)/lengths)
			}
		}
	}
}

// partLengths returns the product of w and x, and the sum of the products of their parts' lengths.
func partLengths(w, x []float32) (exact, lengths float64) {
	for from := 0; from < len(w); from += layout.ShortPart {
		var a, b float64
		for i := from; i < min(len(w), from+layout.ShortPart); i++ {
			exact += float64(w[i]) * float64(x[i])
			a, b = a+float64(w[i])*float64(w[i]), b+float64(x[i])*float64(x[i])
		}
		lengths += math.Sqrt(a * b)
	}
	return exact, lengths
}

// TestShortsOfNoNumbers has activations that are not finite give products that are no numbers, rather than wrong ones.
func TestShortsOfNoNumbers(t *testing.T) {
	for _, k := range platform() {
		if k.PromptForm(quant.F16) != Shorts {
			continue
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			p := newProblem(testenv.Rand(t), quant.F16, 2, 64, 1)
			p.x[5] = float32(bad)
			acts := make([]byte, Shorts.ActRow(64))
			k.Convert(Shorts, acts, p.x)
			var got [2]float32
			k.MatMulPrompt(Next{}, quant.F16, got[:], 2, p.packed, 2, 64, unsafe.Pointer(&acts[0]), len(acts), 1)
			if got[0] == got[0] || got[1] == got[1] {
				t.Errorf("%s: products with %g: %g", k.Name, bad, got)
			}
		}
	}
}
