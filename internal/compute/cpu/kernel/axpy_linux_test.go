package kernel

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// fencedOf is fenced for slices of any numbers.
func fencedOf[T any](t *testing.T, x []T) []T {
	t.Helper()
	size := int(unsafe.Sizeof(x[0]))
	b := fenced(t, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*size))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(x))
}

// TestSumsStayInside: rows of neurons may end with the mapped file. A sum reads no further, writes its own memory only,
// and gives the definition's bytes for operands at any address.
func TestSumsStayInside(t *testing.T) {
	rng := testenv.Rand(t)
	const rows = 37 // two batches of either size and an odd rest
	for _, typ := range quant.Types() {
		for _, cols := range []int{256, 288, 33, 512} {
			if cols%typ.BlockElems() != 0 {
				continue
			}
			p := newProblem(rng, typ, rows, cols, 1)
			packed, coef := fencedOf(t, p.packed), normals(rng, rows)
			size := RowBytes(typ, cols)
			var want []float32
			for _, k := range slices.Backward(Variants()) {
				sum := fencedOf(t, make([]float32, canary+Sums(cols)))
				for i := range canary {
					sum[i] = guard
				}
				var s RowSum
				s.Begin(k, typ, cols, sum[canary:])
				for r := rows - 1; r >= 0; r-- { // the last row first, and last in a batch that is filled up with it
					s.Add(packed[r*size:][:size], coef[r])
				}
				s.Add(packed[(rows-1)*size:], 1)
				s.Finish()
				for i := range canary {
					if sum[i] != guard {
						t.Fatalf("%s %s %d columns: written in front of the sum", k.Name, typ, cols)
					}
				}
				got := make([]float32, cols)
				Ordered(typ, got, sum[canary:])
				if want == nil {
					want = got
				} else if !slices.Equal(got, want) {
					t.Errorf("%s %s %d columns: another sum than the definition's", k.Name, typ, cols)
				}
				unpackBehindFence(t, k, typ, packed[(rows-1)*size:], cols, p.dense[(rows-1)*cols:])
			}
		}
	}
}

// unpackBehindFence compares Unpack to the decoded row. The packed row ends where its memory ends. Integers take one
// more scaling on the way.
func unpackBehindFence(t *testing.T, k *Kernels, typ quant.Type, row []byte, cols int, want []float32) {
	t.Helper()
	for s := range Super(cols) {
		dst := (*[quant.QKK]float32)(fencedOf(t, make([]float32, quant.QKK)))
		k.Unpack(typ, dst, row, cols, s)
		near(t, k.Name+" unpack "+typ.String(), dst[:], func(e int) (float64, float64) {
			for i := range min(quant.QKK, cols-s*quant.QKK) {
				if Place(typ, i) == e {
					return float64(want[s*quant.QKK+i]), float64(max(want[s*quant.QKK+i], -want[s*quant.QKK+i]))
				}
			}
			return 0, 0
		}, roundingTolerance)
	}
}

// The same of neurons in groups.
func TestGroupsStayInside(t *testing.T) {
	rng := testenv.Rand(t)
	const neurons, outputs = 64, 288
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		file, _ := fileOfColumns(rng, typ, outputs, neurons)
		data := fencedOf(t, packGroups(typ, fencedOf(t, file), outputs, neurons))
		list, a := []int32{0, 31, 40, 62, 63}, normals(rng, neurons)
		var want []float32
		for _, k := range slices.Backward(Variants()) {
			sum := fencedOf(t, make([]float32, canary+Sums(outputs)))
			for i := range canary {
				sum[i] = guard
			}
			var s GroupSum
			s.Begin(k, typ, data, outputs, 0, sum[canary:])
			s.Ask(list)
			s.Add(list, 2, a)
			s.Add(list[2:], 3, a)
			for i := range canary {
				if sum[i] != guard {
					t.Fatalf("%s %s: written in front of the sum", k.Name, typ)
				}
			}
			got := make([]float32, outputs)
			Ordered(typ, got, sum[canary:])
			if want == nil {
				want = got
			} else if !slices.Equal(got, want) {
				t.Errorf("%s %s: another sum than the definition's", k.Name, typ)
			}
			panel := fencedOf(t, make([]byte, quant.QKK*RowBytes(quant.Q8_0, neurons)))
			for sb := range Super(outputs) {
				k.TurnGroups(typ, panel, neurons, data, outputs, sb)
			}
		}
	}
}

// TestRowsStayInside: Choose and the conversions of activations read and write nothing after their operands.
func TestRowsStayInside(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		for _, n := range []int{1, 7, 8, 31, 32, 33, 255, 256, 257, 300} {
			x := fencedOf(t, normals(rng, n))
			for _, f := range []Form{Int8, BFloats} {
				if f == BFloats && !k.bfloat {
					continue
				}
				k.Convert(f, fencedOf(t, make([]byte, f.ActRow(n))), x)
			}
			list := fencedOf(t, make([]int32, n+ChooseSlack))
			if got := k.Choose(list[:0], x, 0, -100, true); len(got) != n {
				t.Errorf("%s: %d of %d above everything chosen", k.Name, len(got), n)
			}
		}
	}
}
