package kernel

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func TestExp(t *testing.T) {
	var x []float32
	for e := -87.3; e < 88.7; e += 0.00137 {
		x = append(x, float32(e))
	}
	for e := 1e-30; e < 1; e *= 3 {
		x = append(x, float32(e), float32(-e))
	}
	for _, k := range Variants() {
		y := make([]float32, len(x))
		k.Exp(y, x)
		near(t, k.Name, y, func(i int) (float64, float64) {
			v := math.Exp(float64(x[i]))
			return v, v
		}, expTolerance)

		inf := float32(math.Inf(1))
		edges := []float32{0, float32(math.Copysign(0, -1)), -87.34, -1e9, -inf, 88.73, 1e9, inf, 88.7228}
		want := []float32{1, 1, 0, 0, 0, inf, inf, inf, float32(math.Exp(float64(edges[8])))}
		got := make([]float32, len(edges))
		k.Exp(got, edges)
		near(t, k.Name+" edges", got, func(i int) (float64, float64) { return float64(want[i]), float64(want[i]) }, expTolerance)
		k.Exp(got, []float32{float32(math.NaN()), 0, 0, 0, 0, 0, 0, 0, 0})
		if got[0] == got[0] {
			t.Fatalf("%s: e^NaN is %g", k.Name, got[0])
		}
	}
}

// activationTolerance: the exponential's error, and a few roundings, of the magnitude of gate·up.
const activationTolerance = expTolerance + 2*roundingTolerance

// nearThreshold is a distance from the threshold within which rounding may decide whether a value is small.
const nearThreshold = 1e-6

func relu64(x float64) float64 { return max(x, 0) }

var activationsUnderTest = []struct {
	name string
	act  compute.Activation
	want func(g, u float64) float64
}{
	{"SiLU", compute.Activation{Kind: compute.SiLU}, func(g, u float64) float64 { return g / (1 + math.Exp(-g)) * u }},
	{"GELU", compute.Activation{Kind: compute.GELU}, func(g, u float64) float64 {
		return 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * u
	}},
	{"GELU by erf", compute.Activation{Kind: compute.GELUErf}, func(g, u float64) float64 { return 0.5 * g * math.Erfc(-g/math.Sqrt2) * u }},
	{"quick GELU", compute.Activation{Kind: compute.GELUQuick}, func(g, u float64) float64 { return g / (1 + math.Exp(-1.702*g)) * u }},
	{"SiLU without small ones", compute.Activation{Kind: compute.SiLU, Threshold: 0.2}, func(g, u float64) float64 {
		if y := g / (1 + math.Exp(-g)); math.Abs(y) >= float64(float32(0.2)) {
			return y * u
		}
		return 0
	}},
	{"ReLU", compute.Activation{Kind: compute.ReLU}, func(g, u float64) float64 { return relu64(g) * u }},
	{"FATReLU", compute.Activation{Kind: compute.FATReLU, Threshold: 0.25}, func(g, u float64) float64 {
		if g > 0.25 {
			return g * u
		}
		return 0
	}},
	{"DReLU", compute.Activation{Kind: compute.DReLU}, func(g, u float64) float64 { return relu64(g) * relu64(u) }},
	{"ReLU2", compute.Activation{Kind: compute.ReLU2}, func(g, u float64) float64 { return relu64(g) * relu64(g) * u }},
}

func TestActivate(t *testing.T) {
	rng := testenv.Rand(t)
	for _, k := range Variants() {
		for _, a := range activationsUnderTest {
			for _, n := range lengths {
				gate, up := normals(rng, n), normals(rng, n)
				for i := range gate {
					gate[i] *= float32(math.Exp2(float64(i%9) - 2)) // up to about ±200
					if g := float64(gate[i]); a.act.Small() && math.Abs(math.Abs(g/(1+math.Exp(-g)))-float64(a.act.Threshold)) < nearThreshold {
						gate[i] = 1
					}
				}
				dst, check := guarded(t, gate)
				k.Activate(dst, dst, up, a.act)
				check()
				near(t, k.Name+" "+a.name, dst, func(i int) (float64, float64) {
					g, u := float64(gate[i]), float64(up[i])
					return a.want(g, u), math.Abs(g*u) * max(1, math.Abs(g))
				}, activationTolerance)

				dst, check = guarded(t, make([]float32, n))
				k.Activate(dst, gate, nil, a.act)
				check()
				near(t, k.Name+" ungated "+a.name, dst, func(i int) (float64, float64) {
					g := float64(gate[i])
					return a.want(g, 1), math.Abs(g) * max(1, math.Abs(g))
				}, activationTolerance)
			}
		}
	}
}

// TestSparseActivationsAreExactlyZero at the threshold and below: that is what lets neurons be skipped.
func TestSparseActivationsAreExactlyZero(t *testing.T) {
	for _, k := range Variants() {
		for _, a := range activationsUnderTest {
			if !a.act.Sparse() {
				continue
			}
			gate := []float32{0, -1, -1e-38, a.act.Threshold, float32(math.Inf(-1))}
			if a.act.Small() {
				gate = []float32{0, -0.1, 1e-38, a.act.Threshold, -20}
			}
			dst := make([]float32, len(gate))
			k.Activate(dst, gate, []float32{1, 2, 3, -4, 5}, a.act)
			for i, e := range dst {
				if e != 0 {
					t.Errorf("%s %s(%g) is %g", k.Name, a.name, gate[i], e)
				}
			}
		}
	}
}

// TestGELUByErf: the result is right relative to itself, far into the tail, as long as it is worth adding.
func TestGELUByErf(t *testing.T) {
	var g []float32
	for x := -5.0; x < 14; x += 0.001 {
		g = append(g, float32(x))
	}
	for _, k := range Variants() {
		dst := make([]float32, len(g))
		k.Activate(dst, g, nil, compute.Activation{Kind: compute.GELUErf})
		near(t, k.Name, dst, func(i int) (float64, float64) {
			x := float64(g[i])
			y := x * 0.5 * math.Erfc(-x/math.Sqrt2)
			return y, math.Abs(y)
		}, 1e-6)
	}
}

// The tanh form stays within 5e-4 of GELU's definition, g·Φ(g) (Hendrycks and Gimpel 2016).
func TestGELUIsNearItsDefinition(t *testing.T) {
	var g []float32
	for x := -8.0; x < 8; x += 0.01 {
		g = append(g, float32(x))
	}
	for _, k := range Variants() {
		dst := make([]float32, len(g))
		k.Activate(dst, g, nil, compute.Activation{Kind: compute.GELU})
		near(t, k.Name, dst, func(i int) (float64, float64) {
			x := float64(g[i])
			return x * 0.5 * math.Erfc(-x/math.Sqrt2), 1
		}, 5e-4)
	}
}
