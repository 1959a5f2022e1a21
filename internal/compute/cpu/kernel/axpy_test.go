package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// sumTolerance is the largest error of a sum of quantised rows, as a share of Σ|c|·max|w|: half a step of 1/127 of the
// largest coefficient times scale among sixteen rows. The rows' scales differ by less than a factor of four here.
const sumTolerance = 4 * 0.5 / 127

// weightedSum returns the definition in float64, and Σ|c|·max|w| over the rows. [cols]
func weightedSum(rows [][]float32, coef []float32) (want []float64, mass float64) {
	want = make([]float64, len(rows[0]))
	for r, row := range rows {
		var top float64
		for i, w := range row {
			want[i] += float64(coef[r]) * float64(w)
			top = max(top, math.Abs(float64(w)))
		}
		mass += math.Abs(float64(coef[r])) * top
	}
	return want, mass
}

func TestRowSum(t *testing.T) {
	rng := testenv.Rand(t)
	for _, typ := range quant.Types() {
		for _, cols := range []int{256, 768, 4608, 288} {
			if cols%typ.BlockElems() != 0 || (typ.Like() != typ || testing.Short()) && cols > 768 {
				continue
			}
			const most = 39 // two batches and an odd rest
			p := newProblem(rng, typ, most, cols, 1)
			for _, n := range []int{1, 2, 3, 4, 5, 15, 16, 17, 32, most} {
				if typ.Like() != typ && n > 5 {
					continue
				}
				rows, coef := make([][]float32, n), make([]float32, n)
				for r := range rows {
					rows[r] = p.dense[r*cols:][:cols]
					coef[r] = float32(rng.NormFloat64())
				}
				want, mass := weightedSum(rows, coef)
				var first []float32
				for _, k := range slices.Backward(Variants()) {
					mem := make([]float32, Sums(cols)+canary)
					got := make([]float32, cols)
					var s RowSum
					s.Begin(k, typ, cols, mem)
					for r, c := range coef {
						s.Add(p.packed[r*RowBytes(typ, cols):][:RowBytes(typ, cols)], c)
					}
					s.Finish()
					Ordered(typ, got, mem)
					tolerance := 1e-5 * mass
					if summedInt8(typ) {
						tolerance = sumTolerance * mass
					}
					for i := range want {
						if math.Abs(float64(got[i])-want[i]) > tolerance {
							t.Fatalf("%s %s %d rows of %d: element %d is %g, want %g ± %g", k.Name, typ, n, cols, i, got[i], want[i], tolerance)
						}
					}
					if first == nil {
						first = got
					} else if summedInt8(typ) && !slices.Equal(got, first) {
						t.Fatalf("%s %s %d rows of %d differ from the definition", k.Name, typ, n, cols)
					}
					if slices.ContainsFunc(mem[Sums(cols):], func(v float32) bool { return v != 0 }) {
						t.Fatalf("%s %s wrote outside its sum", k.Name, typ)
					}
				}
			}
		}
	}
}

// fileOfColumns returns a matrix [outputs, neurons] in file layout, and its decoded columns.
func fileOfColumns(rng *rand.Rand, typ quant.Type, outputs, neurons int) (file []byte, columns [][]float32) {
	rowBytes := typ.RowBytes(neurons)
	file = make([]byte, outputs*rowBytes)
	columns = make([][]float32, neurons)
	for i := range columns {
		columns[i] = make([]float32, outputs)
	}
	for r := range outputs {
		row := normals(rng, neurons)
		quant.Encode(typ, file[r*rowBytes:][:rowBytes], row)
		quant.Decode(typ, row, file[r*rowBytes:][:rowBytes])
		for i, v := range row {
			columns[i][r] = v
		}
	}
	return file, columns
}

// packGroups packs a matrix of fileOfColumns.
func packGroups(typ quant.Type, file []byte, outputs, neurons int) []byte {
	size, rowBytes := GroupBytes(typ, outputs), typ.RowBytes(neurons)
	packed := make([]byte, neurons/GroupNeurons*size)
	for g := range neurons / GroupNeurons {
		for s := range Super(outputs) {
			PackGroup(typ, packed[g*size:][:size:size], file, outputs, rowBytes, g, s)
		}
	}
	return packed
}

// TestGroupSum: columns packed as neurons add up to the product with their weights, in the bytes of the definition.
func TestGroupSum(t *testing.T) {
	rng := testenv.Rand(t)
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		for _, outputs := range []int{256, 300, 768} {
			const neurons = 96
			file, columns := fileOfColumns(rng, typ, outputs, neurons)
			packed := packGroups(typ, file, outputs, neurons)
			for _, list := range [][]int32{{3}, {0, 31}, {5, 40, 41, 95}, {64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82}} {
				a := make([]float32, neurons)
				var rows [][]float32
				var coef []float32
				for _, n := range list {
					a[n] = float32(rng.NormFloat64())
					rows, coef = append(rows, columns[n]), append(coef, a[n])
				}
				want, mass := weightedSum(rows, coef)
				var first []float32
				for _, k := range slices.Backward(Variants()) {
					mem, got := make([]float32, Sums(outputs)+canary), make([]float32, outputs)
					add := func(from int, sum []float32) {
						var s GroupSum
						s.Begin(k, typ, packed, outputs, from, sum)
						for rest := list; len(rest) > 0; {
							n := 1
							for n < len(rest) && rest[n]/GroupNeurons == rest[0]/GroupNeurons {
								n++
							}
							s.Add(rest, n, a)
							rest = rest[n:]
						}
					}
					add(0, mem[:Sums(outputs)])
					for from := range Super(outputs) { // a slice of the outputs
						slice := make([]float32, quant.QKK)
						if add(from, slice); !slices.Equal(slice, mem[from*quant.QKK:][:quant.QKK]) {
							t.Fatalf("%s %s %d outputs of %v: superblock %d has other bytes alone", k.Name, typ, outputs, list, from)
						}
					}
					Ordered(typ, got, mem)
					for i := range want {
						if math.Abs(float64(got[i])-want[i]) > sumTolerance*mass {
							t.Fatalf("%s %s %d outputs of %v: output %d is %g, want %g", k.Name, typ, outputs, list, i, got[i], want[i])
						}
					}
					if first == nil {
						first = got
					} else if !slices.Equal(got, first) {
						t.Fatalf("%s %s %d outputs of %v differ from the definition", k.Name, typ, outputs, list)
					}
					if slices.ContainsFunc(mem[Sums(outputs):], func(v float32) bool { return v != 0 }) {
						t.Fatalf("%s %s wrote outside its sum", k.Name, typ)
					}
				}
			}
		}
	}
}

// TestSumExtremes: the largest quants and coefficients, of either sign and all alike, overflow no intermediate sum.
func TestSumExtremes(t *testing.T) {
	const cols, rows = 512, 32
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		for _, fill := range []byte{0x00, 0x7f, 0x80, 0x81, 0xff} {
			raw := make([]byte, typ.RowBytes(cols))
			for i := range raw {
				raw[i] = fill
			}
			for b := 0; b < len(raw); b += typ.BlockBytes() { // scales of 1
				raw[b], raw[b+1] = 0x00, 0x3c
			}
			decoded, packed := make([]float32, cols), make([]byte, RowBytes(typ, cols))
			quant.Decode(typ, decoded, raw)
			PackRow(typ, packed, raw, cols)
			file := make([]byte, quant.QKK*typ.RowBytes(GroupNeurons)) // all quants of the group are the same
			for i := range file {
				file[i] = fill
				if at := i % typ.BlockBytes(); at < 2 {
					file[i] = []byte{0x00, 0x3c}[at]
				}
			}
			group := make([]byte, GroupBytes(typ, quant.QKK))
			PackGroup(typ, group, file, quant.QKK, typ.RowBytes(GroupNeurons), 0, 0)
			for _, c := range []float32{127, -127, 1, 3e30} {
				block := 0.0 // of a neuron each, in the group
				for _, w := range decoded[:GroupNeurons] {
					block += float64(c) * float64(w)
				}
				for _, k := range Variants() {
					sum, a := make([]float32, Sums(cols)), make([]float32, GroupNeurons)
					var s RowSum
					s.Begin(k, typ, cols, sum)
					for i := range rows {
						s.Add(packed, c)
						a[i] = c
					}
					s.Finish()
					grouped := make([]float32, Sums(quant.QKK))
					var g GroupSum
					g.Begin(k, typ, group, quant.QKK, 0, grouped)
					g.Add([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}, GroupNeurons, a)
					got := make([]float32, cols)
					Ordered(typ, got, sum)
					near(t, fmt.Sprintf("%s %s fill %#x, coefficients %g", k.Name, typ, fill, c), got, func(i int) (float64, float64) {
						want := float64(c) * float64(decoded[i]) * rows
						return want, math.Abs(want)
					}, 1e-6)
					near(t, fmt.Sprintf("%s %s fill %#x, a group with coefficients %g", k.Name, typ, fill, c), grouped, func(int) (float64, float64) {
						return block, math.Abs(block)
					}, 1e-6)
				}
			}
		}
	}
}

// Blocks of zeros, of one row or of all, and weights too small for an inverse add nothing and break nothing.
func TestRowSumOfNothing(t *testing.T) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		row := make([]byte, RowBytes(typ, 512))
		for _, k := range Variants() {
			for _, c := range []float32{0, 1, 1e-38} {
				sum := make([]float32, Sums(512))
				var s RowSum
				s.Begin(k, typ, 512, sum)
				s.Add(row, c)
				s.Finish()
				if slices.ContainsFunc(sum, func(v float32) bool { return v != 0 }) {
					t.Errorf("%s %s: %g times zero is not zero", k.Name, typ, c)
				}
			}
		}
	}
}

func TestChoose(t *testing.T) {
	rng := testenv.Rand(t)
	for _, n := range []int{0, 1, 7, 8, 9, 64, 333} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.IntN(5)) - 2
			if rng.IntN(20) == 0 {
				x[i] = float32(math.NaN())
			}
		}
		for _, bound := range []float32{0, -2, 2, float32(math.Inf(-1)), float32(math.Inf(1))} {
			for _, orEqual := range []bool{false, true} {
				want := []int32{-7}
				for i, v := range x {
					if v > bound || v == bound && orEqual || v != v && !orEqual {
						want = append(want, int32(100+i))
					}
				}
				for _, k := range Variants() {
					list := append(make([]int32, 0, 1+n+ChooseSlack), -7)
					if got := k.Choose(list, x, 100, bound, orEqual); !slices.Equal(got, want) {
						t.Fatalf("%s: above %g (or equal: %v) of %v: %v, want %v", k.Name, bound, orEqual, x, got, want)
					}
				}
			}
		}
	}
}
