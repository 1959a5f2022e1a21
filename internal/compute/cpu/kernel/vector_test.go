package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// Tolerances of one float32 result against float64, relative to the magnitude of what was summed.
const (
	roundingTolerance = 4 * 0x1p-24 // a few roundings
	expTolerance      = 2 * 0x1p-23 // two units in the last place
)

// lengths cover every path through a row: empty, masked rest, single vectors, unrolled.
var lengths = []int{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 127, 1000, 4096}

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

const guard = -12345.678

// guarded returns a copy of x between canaries, and a check that they are intact.
func guarded(t *testing.T, x []float32) (inner []float32, check func()) {
	const margin = 64
	all := make([]float32, len(x)+2*margin)
	for i := range all {
		all[i] = guard
	}
	inner = all[margin : margin+len(x) : margin+len(x)]
	copy(inner, x)
	return inner, func() {
		t.Helper()
		for i, e := range all {
			if (i < margin || i >= margin+len(x)) && e != guard {
				t.Fatalf("element %d of %d was overwritten", i-margin, len(x))
			}
		}
	}
}

// near fails where got and want differ by more than tolerance times scale(i).
func near(t *testing.T, what string, got []float32, want func(i int) (value, scale float64), tolerance float64) {
	t.Helper()
	for i, g := range got {
		w, s := want(i)
		if d := math.Abs(float64(g) - w); !(d <= tolerance*s) && float64(g) != w {
			t.Fatalf("%s, element %d of %d: %g, want %g (tolerance %g)", what, i, len(got), g, w, tolerance*s)
		}
	}
}

func TestRows(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		for _, n := range lengths {
			x, y, s := normals(rng, n), normals(rng, n), float32(rng.NormFloat64())
			for _, c := range []struct {
				name string
				run  func(dst []float32)
				want func(x, y float64) float64
			}{
				{"Add", func(d []float32) { k.Add(d, x) }, func(x, y float64) float64 { return y + x }},
				{"Mul", func(d []float32) { k.Mul(d, x) }, func(x, y float64) float64 { return y * x }},
				{"Scale", func(d []float32) { k.Scale(d, x, s) }, func(x, _ float64) float64 { return float64(s) * x }},
				{"Scale in place", func(d []float32) { k.Scale(d, d, s) }, func(_, y float64) float64 { return float64(s) * y }},
				{"AddScaled", func(d []float32) { k.AddScaled(d, x, s) }, func(x, y float64) float64 { return y + float64(s)*x }},
				{"MulAdd", func(d []float32) { k.MulAdd(d, x, slices.Repeat([]float32{s}, n)) }, func(x, y float64) float64 { return y + float64(s)*x }},
			} {
				dst, check := guarded(t, y)
				c.run(dst)
				check()
				near(t, k.Name+" "+c.name, dst, func(i int) (float64, float64) {
					return c.want(float64(x[i]), float64(y[i])), math.Abs(float64(y[i])) + math.Abs(float64(s*x[i])) + math.Abs(float64(x[i]))
				}, roundingTolerance)
			}
			m := math.Inf(-1)
			for _, e := range x {
				m = max(m, float64(e))
			}
			if got := k.Max(x); float64(got) != m {
				t.Fatalf("%s: Max of %d is %g, want %g", k.Name, n, got, m)
			}
		}
	}
}

// TestScan holds a position of a state space to the same in float64, for states of whole vectors and others.
func TestScan(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		for _, shape := range [][2]int{{1, 1}, {4, 8}, {5, 16}, {64, 128}, {7, 21}, {12, 24}} {
			rows, n := shape[0], shape[1]
			x, b, c, decay := normals(rng, rows), normals(rng, n), normals(rng, n), rng.Float32()
			before := normals(rng, rows*n)
			state, checkState := guarded(t, before)
			y, check := guarded(t, make([]float32, rows))
			k.Scan(y, state, x, b, c, decay)
			checkState()
			check()
			next := func(i int) float64 {
				return float64(decay)*float64(before[i]) + float64(x[i/n])*float64(b[i%n])
			}
			near(t, k.Name+" state", state, func(i int) (float64, float64) {
				return next(i), math.Abs(float64(before[i])) + math.Abs(float64(x[i/n]*b[i%n]))
			}, roundingTolerance)
			near(t, k.Name+" Scan", y, func(i int) (sum, mass float64) {
				for j, v := range c {
					sum += next(i*n+j) * float64(v)
					mass += math.Abs(float64(v)) * (math.Abs(float64(before[i*n+j])) + math.Abs(float64(x[i]*b[j])))
				}
				return sum, mass
			}, 4*roundingTolerance)
		}
	}
}

func TestAddBias(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		x, bias := normals(rng, 3*11), normals(rng, 11)
		dst, check := guarded(t, x)
		k.AddBias(dst, bias)
		check()
		near(t, k.Name, dst, func(i int) (float64, float64) { return float64(x[i] + bias[i%11]), 1 }, 0)
	}
}

func TestMaxPassesOverNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, k := range Variants() {
		for n := range 70 {
			x := make([]float32, n+1)
			for i := range x {
				x[i] = nan
			}
			x[n/2] = -3
			if m, i := k.Max(x), k.Argmax(x); m != -3 || i != n/2 {
				t.Fatalf("%s: Max %g, Argmax %d; want -3 at %d", k.Name, m, i, n/2)
			}
		}
		if i := k.Argmax([]float32{1, 7, 7, 2}); i != 1 {
			t.Fatalf("%s: Argmax is %d, not the first largest", k.Name, i)
		}
		if i := k.Argmax([]float32{nan, nan}); i != 0 {
			t.Fatalf("%s: Argmax of NaNs is %d", k.Name, i)
		}
	}
}

func TestLogSumExp(t *testing.T) {
	for _, k := range Variants() {
		// n equal logits: log n + x, whatever the offset.
		for _, offset := range []float32{0, 1000, -1000} {
			x := make([]float32, 32000)
			for i := range x {
				x[i] = offset
			}
			want := math.Log(32000) + float64(offset)
			if got := k.LogSumExp(x); math.Abs(got-want) > 1e-12*math.Abs(want) {
				t.Fatalf("%s: %.17g, want %.17g", k.Name, got, want)
			}
		}
		// log(e^0 + e^ln2 + e^ln5) = log 8, up to the rounding of the logits to float32.
		x := []float32{0, float32(math.Ln2), float32(math.Log(5))}
		if got := k.LogSumExp(x); math.Abs(got-math.Log(8)) > 1e-7 {
			t.Fatalf("%s: %.17g, want log 8", k.Name, got)
		}
		if got := k.LogSumExp(nil); !math.IsInf(got, -1) {
			t.Fatalf("%s: of nothing %g", k.Name, got)
		}
	}
}

// TestCutsDoNotMatter holds kernels over single elements to the same bytes wherever a row is cut.
func TestCutsDoNotMatter(t *testing.T) {
	rng := testenv.Rand(t)
	const n = 77
	x, y := normals(rng, n), normals(rng, n)
	for _, k := range Variants() {
		ops := map[string]func(d, x []float32){
			"Exp":       func(d, x []float32) { k.Exp(d, x) },
			"AddScaled": func(d, x []float32) { k.AddScaled(d, x, 0.3) },
		}
		for _, a := range activationsUnderTest {
			ops[a.name] = func(d, x []float32) { k.Activate(d, d, x, a.act) }
		}
		for name, op := range ops {
			whole := append([]float32(nil), y...)
			op(whole, x)
			for range 20 {
				cut := append([]float32(nil), y...)
				for at := 0; at < n; {
					end := min(n, at+1+rng.IntN(30))
					op(cut[at:end], x[at:end])
					at = end
				}
				for i := range cut {
					if math.Float32bits(cut[i]) != math.Float32bits(whole[i]) {
						t.Fatalf("%s %s: element %d is %x when cut, %x when whole", k.Name, name, i, cut[i], whole[i])
					}
				}
			}
		}
	}
}

func TestHalves(t *testing.T) {
	rng := testenv.Rand(t)
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	var x []float32
	for _, h := range all { // every half, its neighbours, and the ties between halves
		f := quant.F32FromF16(h)
		next := quant.F32FromF16(h + 1)
		x = append(x, f, math.Nextafter32(f, 1e9), math.Nextafter32(f, -1e9), f/2+next/2)
	}
	for range 1 << 16 {
		x = append(x, math.Float32frombits(rng.Uint32()))
	}
	for _, k := range Variants() {
		f := make([]float32, len(all))
		k.FromF16(f, all)
		for i, g := range f {
			if w := quant.F32FromF16(all[i]); g != w && (g == g || w == w) {
				t.Fatalf("%s: half %04x is %g, want %g", k.Name, all[i], g, w)
			}
		}
		h := make([]uint16, len(x))
		k.ToF16(h, x)
		for i, g := range h {
			if w := quant.F16FromF32(x[i]); g != w {
				t.Fatalf("%s: %x becomes %04x, want %04x", k.Name, x[i], g, w)
			}
		}
		for n := range 40 { // stays inside its bounds
			dst := make([]uint16, n+2)
			dst[0], dst[n+1] = 0xabcd, 0xabcd
			k.ToF16(dst[1:n+1], x[:n])
			single, check := guarded(t, make([]float32, n))
			k.FromF16(single, dst[1:n+1])
			check()
			if dst[0] != 0xabcd || dst[n+1] != 0xabcd {
				t.Fatalf("%s: ToF16 of %d wrote outside", k.Name, n)
			}
		}
	}
}

// TestDelta holds a position of a delta rule to the same in float64, for states of whole vectors and others.
func TestDelta(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		for _, shape := range [][2]int{{1, 1}, {4, 8}, {5, 16}, {64, 128}, {7, 21}, {12, 24}} {
			rows, n := shape[0], shape[1]
			v, key, query, decay, beta := normals(rng, rows), normals(rng, n), normals(rng, n), rng.Float32(), rng.Float32()
			kq := float32(0)
			for j, e := range key {
				kq += e * query[j]
			}
			before := normals(rng, rows*n)
			state, checkState := guarded(t, before)
			y, check := guarded(t, make([]float32, rows))
			k.Delta(y, state, v, key, query, decay, beta, kq)
			checkState()
			check()
			added := func(i int) (e, mass float64) { // to row i, times key
				e, mass = float64(v[i]), math.Abs(float64(v[i]))
				for j, x := range key {
					known := float64(decay) * float64(before[i*n+j]) * float64(x)
					e, mass = e-known, mass+math.Abs(known)
				}
				return float64(beta) * e, float64(beta) * mass
			}
			next := func(i int) (float64, float64) {
				e, mass := added(i / n)
				x := float64(key[i%n])
				old := float64(decay) * float64(before[i])
				return old + e*x, math.Abs(old) + mass*math.Abs(x)
			}
			near(t, k.Name+" state", state, next, 4*roundingTolerance)
			near(t, k.Name+" Delta", y, func(i int) (sum, mass float64) {
				for j, x := range query {
					s, m := next(i*n + j)
					sum, mass = sum+s*float64(x), mass+m*math.Abs(float64(x))
				}
				return sum, mass
			}, 4*roundingTolerance)
		}
	}
}
