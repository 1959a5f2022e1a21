package vulkan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestArithmetic: what a device is asked for it computes by, if it can, and what it cannot it says.
func TestArithmetic(t *testing.T) {
	testenv.Thorough(t)
	for _, asked := range []Arithmetic{Best, Groups, Matrices, Integers, Mixed, Packed, Ordered} {
		t.Run(asked.String(), func(t *testing.T) {
			d, messages := software(t, Options{Long: asked})
			defer messages.check(t)
			defer d.Close()
			has, groups := d.gpu.Matrices.M > 0, len(d.gpu.Workgroup.Shapes) > 0
			t.Logf("cooperative matrices: %s", d.gpu.Matrices)
			for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q4_0} {
				got, why := d.LongProducts(typ)
				want := asked
				switch {
				case typ == quant.F32 || typ == quant.BF16 || asked == Matrices && !has, asked == Groups && !groups, asked == Integers && !typ.Quantised():
					want = Ordered
				case asked == Best && groups:
					want = Groups
				case asked == Best && has:
					want = Matrices
				case asked == Best && typ == quant.F16:
					want = Mixed
				case asked == Best:
					want = Ordered
				}
				if got != want {
					t.Errorf("%s goes by %q, want %q: %v", typ, got, want, why)
				}
				if asked == Matrices && typ == quant.F16 && !has && (why == nil || !strings.Contains(why.Error(), "cooperative matrices are not used: the device has none that serve")) {
					t.Errorf("%v", why)
				}
			}
			if note := d.Note(); note != "" { // every variant passes its check
				t.Error(note)
			}
			if used := d.Used(); used != 0 {
				t.Errorf("the check left %d bytes in use", used)
			}
		})
	}
}

// TestCheck: an arithmetic that computes something else is not used.
func TestCheck(t *testing.T) {
	d, _ := software(t, Options{Long: Mixed})
	defer d.Close()
	d.long.checked[Mixed], d.long.failed[Mixed] = true, errors.New("wrong")
	if a, why := d.LongProducts(quant.F16); a != Ordered || why == nil || d.Note() != "wrong" {
		t.Errorf("%q, %v, %q", a, why, d.Note())
	}
	x, err := d.Tensor(knowns[0].tokens, knowns[0].columns) // zeros, which no known product is of
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.checkMatrix(knowns[0], false)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.checkProduct(knowns[0], d.variants(Mixed)[0], x, w, false); err == nil || !strings.Contains(err.Error(), "element 0 of a known product is 0 instead of") {
		t.Errorf("%v", err)
	}
}

// TestVariantLeftOut: a variant that computes something else is not used, and Note says so; the others are.
func TestVariantLeftOut(t *testing.T) {
	d, _ := software(t, Options{Long: Mixed})
	defer d.Close()
	all := d.variants(Mixed)
	d.leave(all[0], errors.New("wrong"))
	if a, why := d.LongProducts(quant.F16); a != Mixed || why != nil {
		t.Errorf("%q, %v", a, why)
	}
	if v := d.variant(Mixed, quant.F16, 64, 64); v != all[1] || !strings.Contains(d.Note(), "halves as floats in tiles of 64×64 are not used: wrong") {
		t.Errorf("%s, %q", v, d.Note())
	}
}

// TestTiles: the same bytes in every variant, and again; a sum that leaves the range of halves is right,
// too.
func TestTiles(t *testing.T) {
	testenv.Thorough(t)
	d := lent(t)
	const rows, columns, tokens = 150, 96, 70
	for _, typ := range testenv.Some(t, 3, []quant.Type{quant.F16, quant.Q4_0, quant.Q6_K, quant.Q8_0, quant.Q3_K, quant.MXFP4}) {
		cols := max(columns, typ.BlockElems())
		values, xs := make([]float32, rows*cols), make([]float32, tokens*cols)
		for i := range values {
			values[i] = float32(math.Sin(float64(3 * i)))
			if i/cols == 17 {
				values[i] *= 6e4 // packed halves overflow
			}
			if i/cols == 18 {
				values[i] *= 2e5 // so large that quants exceed any half
			}
		}
		for i := range xs {
			xs[i] = float32(math.Cos(float64(7*i)) * math.Pow(10, float64(i/cols%7-3)))
		}
		if typ == quant.F16 {
			for c := range cols {
				values[18*cols+c] = 1
			}
		}
		size := typ.RowBytes(cols)
		src := compute.Source{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: make([]byte, rows*size)}
		for r := range rows {
			quant.Imitate(typ, src.Data[r*size:][:size], values[r*cols:][:cols])
			quant.Decode(typ, values[r*cols:][:cols], src.Data[r*size:][:size])
		}
		for _, a := range []Arithmetic{Groups, Matrices, Integers, Mixed, Packed} {
			if d.can(a) != nil || a == Integers && !typ.Quantised() {
				continue
			}
			w, err := d.Matrix(src, compute.Dense)
			if err != nil {
				t.Fatal(err)
			}
			var first []float32
			all := d.variants(a)
			for _, v := range append(all, all[0]) {
				got := multiplied(t, d, v, w, xs, tokens)
				if first == nil {
					first = got
				}
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(first[i]) {
						t.Fatalf("%s, %s, tiles of %s: element %d is %g, and was %g", typ, a, v, i, got[i], first[i])
					}
				}
			}
			// roughest is the share of Σ|w||x| that sums of halves may be off: both factors and 16 sums are rounded to
			// 11 bits.
			const roughest = 18.0 / (1 << 11)
			for i, v := range first {
				sum, mass := 0.0, 0.0
				for c := range cols {
					p := float64(values[i%rows*cols+c]) * float64(xs[i/rows*cols+c])
					sum += p
					mass += math.Abs(p)
				}
				if e := math.Abs(float64(v) - sum); !(e <= roughest*mass) {
					t.Fatalf("%s, %s: token %d, row %d is %g, want %g within %g", typ, a, i/rows, i%rows, v, sum, roughest*mass)
				}
			}
			d.reset()
		}
	}
}

// multiplied returns the products of xs [tokens, w.Cols] with w in tiles of v.
func multiplied(t *testing.T, d *Device, v variant, w *compute.Matrix, xs []float32, tokens int) []float32 {
	t.Helper()
	x, err := d.Tensor(tokens, w.Cols)
	if err == nil {
		err = d.upload(floats(x), 4*int64(w.Cols), func(dst []byte, first int) { copy(numbers(dst), xs[first*w.Cols:]) })
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.Tensor(tokens, w.Rows)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := d.mem.Alloc(driver.ToHost, 4*int64(tokens*w.Rows))
	if err == nil {
		err = d.once(func(r *recorder) {
			r.multiplyBy(v, &operand{r: r, x: x, name: "x"}, 0, tokens, 0, compute.Product{Out: out, W: w})
			r.copy(seen, floats(out))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), numbers(seen.Host())...)
}
