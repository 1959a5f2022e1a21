package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// rounding bounds the error of a sum of k products in float32, relative to the sum of their magnitudes: k roundings of
// half a unit at worst, far fewer in practice since blocks are summed apart.
func rounding(k int) float64 { return 0x1p-24 * (math.Sqrt(float64(k)) + 4) * 2 }

func newMultiplier(t testing.TB, threads int, name string) *Multiplier {
	t.Helper()
	p := pool.New(threads)
	t.Cleanup(p.Close)
	g, err := NewMultiplier(p, name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// canary stands around every operand and between the rows of strided ones.
const canary = -12345.678

// random returns a matrix of the given shape with room between its lines.
func random(rng *rand.Rand, rows, cols, gap int, transposed bool) Matrix {
	m := Matrix{Rows: rows, Cols: cols, Stride: cols + gap, Transposed: transposed}
	lines := rows
	if transposed {
		m.Stride, lines = rows+gap, cols
	}
	m.Data = make([]float32, lines*m.Stride)
	for i := range m.Data {
		m.Data[i] = canary
	}
	for i := range rows {
		for j := range cols {
			m.Data[m.index(i, j)] = float32(rng.NormFloat64())
		}
	}
	return m
}

func (m Matrix) index(i, j int) int {
	if m.Transposed {
		return j*m.Stride + i
	}
	return i*m.Stride + j
}

func (m Matrix) at(i, j int) float64 { return float64(m.Data[m.index(i, j)]) }

func TestProductByItsDefinition(t *testing.T) {
	rng := testenv.Rand(t)
	sizes := [][3]int{{1, 1, 1}, {8, 48, 4}, {4, 24, 5}, {7, 49, 3}, {9, 47, 17}, {65, 145, 33}, {128, 100, 513}, {3, 200, 1025}, {70, 1, 64}, {1, 150, 600}}
	for range 8 {
		sizes = append(sizes, [3]int{1 + rng.IntN(100), 1 + rng.IntN(160), 1 + rng.IntN(90)})
	}
	for _, name := range Names() {
		for _, s := range sizes {
			m, n, k := s[0], s[1], s[2]
			for variant := range 8 {
				g := newMultiplier(t, 1+variant%3, name)
				gap := variant % 2 * 3
				a, b := random(rng, m, k, gap, variant&1 != 0), random(rng, k, n, gap, variant&2 != 0)
				c := random(rng, m, n, gap, false)
				before := slices.Clone(c.Data)
				alpha, add := float32(rng.NormFloat64()), variant&4 != 0
				g.Mul(c, alpha, a, b, add)
				check(t, fmt.Sprintf("%s %d×%d×%d variant %d", name, m, n, k, variant), c, before, float64(alpha), a, b, add)
			}
		}
	}
}

func check(t *testing.T, what string, c Matrix, before []float32, alpha float64, a, b Matrix, add bool) {
	t.Helper()
	for i := range c.Rows {
		for j := range c.Cols {
			want, scale := 0.0, 0.0
			for l := range a.Cols {
				p := alpha * a.at(i, l) * b.at(l, j)
				want += p
				scale += math.Abs(p)
			}
			if add {
				want += float64(before[c.index(i, j)])
				scale += math.Abs(float64(before[c.index(i, j)]))
			}
			if d := math.Abs(c.at(i, j) - want); !(d <= rounding(a.Cols)*scale) {
				t.Fatalf("%s: element %d, %d is %g, want %g", what, i, j, c.at(i, j), want)
			}
		}
		for j := c.Cols; j < c.Stride; j++ {
			if c.Data[i*c.Stride+j] != canary {
				t.Fatalf("%s: wrote behind row %d", what, i)
			}
		}
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	rng := testenv.Rand(t)
	for _, name := range Names() {
		a, b := random(rng, 150, 1100, 0, false), random(rng, 1100, 301, 0, true)
		var want []float32
		for _, threads := range []int{1, 2, 4, 7} {
			c := New(make([]float32, 150*301), 150, 301)
			newMultiplier(t, threads, name).Mul(c, 0.7, a, b, false)
			if want == nil {
				want = c.Data
			} else if !slices.Equal(c.Data, want) {
				t.Fatalf("%s: %d threads give other bytes than 1", name, threads)
			}
		}
	}
}

func TestEmptyInnerDimension(t *testing.T) {
	g := newMultiplier(t, 2, "")
	c := New([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	a, b := New(nil, 2, 0), New(nil, 0, 3)
	g.Mul(c, 1, a, b, true)
	if !slices.Equal(c.Data, []float32{1, 2, 3, 4, 5, 6}) {
		t.Fatalf("adding an empty sum changed the result: %v", c.Data)
	}
	g.Mul(c, 1, a, b, false)
	if !slices.Equal(c.Data, make([]float32, 6)) {
		t.Fatalf("an empty sum is %v", c.Data)
	}
}

func TestShapesAreChecked(t *testing.T) {
	g := newMultiplier(t, 1, "")
	for name, f := range map[string]func(){
		"inner": func() {
			g.Mul(New(make([]float32, 4), 2, 2), 1, New(make([]float32, 6), 2, 3), New(make([]float32, 4), 2, 2), false)
		},
		"short": func() {
			g.Mul(Matrix{Data: make([]float32, 3), Rows: 2, Cols: 2, Stride: 2}, 1, New(make([]float32, 4), 2, 2), New(make([]float32, 4), 2, 2), false)
		},
		"transpose": func() {
			g.Mul(New(make([]float32, 4), 2, 2).T(), 1, New(make([]float32, 4), 2, 2), New(make([]float32, 4), 2, 2), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("taken")
				}
			}()
			f()
		})
	}
	if _, err := NewMultiplier(pool.New(1), "abacus"); err == nil {
		t.Fatal("an unknown set was found")
	}
}

func TestProductsAllocateNothing(t *testing.T) {
	g := newMultiplier(t, 2, "")
	rng := testenv.Rand(t)
	a, b, c := random(rng, 70, 90, 0, false), random(rng, 90, 80, 0, false), random(rng, 70, 80, 0, false)
	g.Mul(c, 1, a, b, false)
	if n := testing.AllocsPerRun(10, func() { g.Mul(c, 1, a, b, true) }); n != 0 {
		t.Fatalf("%g allocations", n)
	}
}

// BenchmarkPeak measures the tile on operands in the cache with one thread, which bounds BenchmarkMul's share.
func BenchmarkPeak(b *testing.B) {
	for _, s := range variants() {
		b.Run(s.name, func(b *testing.B) {
			const k = 256
			x, w, c := aligned(panelRows*k), aligned(s.cols*k), aligned(s.rows*s.cols)
			for b.Loop() {
				s.tile(&c[0], uintptr(4*s.cols), &x[0], &w[0], k, 1, 0)
			}
			b.ReportMetric(2*float64(s.rows*s.cols*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
		})
	}
}

func BenchmarkMul(b *testing.B) {
	rng := testenv.Rand(b)
	for _, s := range []struct {
		name    string
		m, n, k int
		at, bt  bool
	}{
		{"NN", 512, 1024, 4096, false, false},
		{"H=X·W1ᵀ", 512, 512, 4096, false, true},
		{"Z=H·W2ᵀ", 512, 11008, 512, false, true},
		{"dW2=dZᵀ·H", 11008, 512, 512, true, false},
		{"dH=dZ·W2", 512, 512, 11008, false, false},
		{"dW1=dHᵀ·X", 512, 4096, 512, true, false},
		{"small", 256, 64, 192, false, true},
	} {
		x, w, c := random(rng, s.m, s.k, 0, s.at), random(rng, s.k, s.n, 0, s.bt), random(rng, s.m, s.n, 0, false)
		for _, name := range Names()[:len(Names())-1] {
			for _, threads := range []int{1, 4} {
				b.Run(fmt.Sprintf("%s/%s/threads=%d", name, s.name, threads), func(b *testing.B) {
					g := newMultiplier(b, threads, name)
					for b.Loop() {
						g.Mul(c, 1, x, w, false)
					}
					b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
				})
			}
		}
	}
}
