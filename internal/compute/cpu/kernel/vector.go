package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Vector is one implementation of everything that is not a matrix product. All kernels are single-threaded and allocate
// nothing. They compute an element in the same way however a caller divides the rows, so results depend on shapes only.
//
// Slices of one call have the same length unless said otherwise. dst may be any of the sources, but may not overlap
// them in part.
type Vector struct {
	// Add: dst += x.
	Add func(dst, x []float32)
	// Mul: dst *= x.
	Mul func(dst, x []float32)
	// Scale: dst = s·x.
	Scale func(dst, x []float32, s float32)
	// AddScaled: dst += s·x.
	AddScaled func(dst, x []float32, s float32)
	// MulAdd: dst += x·y, rounded once or twice.
	MulAdd func(dst, x, y []float32)
	// Scan is one position of a selective state space's head: each row of state [len(x), len(b)] becomes decay·row +
	// x[i]·b, and y[i] is its product with c.
	Scan func(y, state, x, b, c []float32, decay float32)
	// Delta is one position of a delta rule's head: each row s of state [len(v), len(k)] becomes decay·s + e·k with e =
	// beta·(v[i] − decay·s·k), and y[i] is its product with q. kq is k·q.
	Delta func(y, state, v, k, q []float32, decay, beta, kq float32)
	// Max is the largest element, -Inf of none; NaNs are passed over.
	Max func(x []float32) float32

	// ToF16 rounds to the nearest half, ties to even.
	ToF16 func(dst []uint16, x []float32)
	// FromF16 is exact.
	FromF16 func(dst []float32, x []uint16)

	// RMSNorm: dst = x / √(mean(x²)+eps) · weight. The sum is in float64.
	RMSNorm func(dst, x, weight []float32, eps float32)
	// LayerNorm: dst = (x−mean)/√(var+eps) · weight + bias; bias may be nil.
	// Mean and variance (two passes) are in float64.
	LayerNorm func(dst, x, weight, bias []float32, eps float32)

	// Activate: dst = act(gate)·up, or act(gate) where up is nil.
	Activate func(dst, gate, up []float32, act compute.Activation)
	// Exp: dst = e^x within 2 ulp; 0 below ln(2⁻¹²⁶), +Inf above ln(MaxFloat32).
	Exp func(dst, x []float32)

	// Rotate rotates every head of x [heads·headDim] by the angles of one position. Turn computed their cosines and
	// sines [dims/2]. The first dims <= headDim elements are rotated.
	Rotate func(x []float32, headDim int, cos, sin []float32, style compute.RopeStyle)

	attention attention
	blocks    *blockKernels // nil: types with blocks are read as floats
}

func genericVector() Vector {
	return Vector{
		Add:       add,
		Mul:       mul,
		Scale:     scale,
		AddScaled: addScaled,
		MulAdd:    mulAdd,
		Scan:      scan,
		Delta:     delta,
		Max:       maximum,
		ToF16:     toF16,
		FromF16:   fromF16,
		RMSNorm:   rmsNorm,
		LayerNorm: layerNorm,
		Activate:  activate,
		Exp:       exps,
		Rotate:    rotate,
		attention: scalarAttention,
	}
}

// AddBias adds bias [cols] to every row of dst [rows·cols].
func (v *Vector) AddBias(dst, bias []float32) {
	for ; len(dst) > 0; dst = dst[len(bias):] {
		v.Add(dst[:len(bias)], bias)
	}
}

// Argmax returns the index of the first largest element; 0 where all are NaN.
func (v *Vector) Argmax(x []float32) int {
	m := v.Max(x)
	for i, e := range x {
		if e == m {
			return i
		}
	}
	return 0
}

// LogSumExp is log(Σ e^x) to float64's accuracy: a token's log-probability is its logit less this.
func (v *Vector) LogSumExp(x []float32) float64 {
	m := float64(v.Max(x))
	if math.IsInf(m, 0) {
		return m
	}
	sum := 0.0
	for _, e := range x {
		sum += math.Exp(float64(e) - m)
	}
	return m + math.Log(sum)
}

func add(dst, x []float32) {
	for i, e := range x[:len(dst)] {
		dst[i] += e
	}
}

func mul(dst, x []float32) {
	for i, e := range x[:len(dst)] {
		dst[i] *= e
	}
}

func scale(dst, x []float32, s float32) {
	for i, e := range x[:len(dst)] {
		dst[i] = s * e
	}
}

func addScaled(dst, x []float32, s float32) {
	for i, e := range x[:len(dst)] {
		dst[i] += s * e
	}
}

func mulAdd(dst, x, y []float32) {
	y = y[:len(dst)]
	for i, e := range x[:len(dst)] {
		dst[i] += e * y[i]
	}
}

func scan(y, state, x, b, c []float32, decay float32) {
	c = c[:len(b)]
	for i, e := range x {
		row, sum := state[i*len(b):][:len(b)], float32(0)
		for j, v := range b {
			row[j] = decay*row[j] + e*v
			sum += row[j] * c[j]
		}
		y[i] = sum
	}
}

func delta(y, state, v, k, q []float32, decay, beta, kq float32) {
	q = q[:len(k)]
	for i, e := range v {
		row, known, read := state[i*len(k):][:len(k)], float32(0), float32(0)
		for j, s := range row {
			known += s * k[j]
			read += s * q[j]
		}
		e = beta * (e - decay*known)
		for j := range row {
			row[j] = decay*row[j] + e*k[j]
		}
		y[i] = decay*read + e*kq
	}
}

func maximum(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, e := range x {
		if e > m {
			m = e
		}
	}
	return m
}

func toF16(dst []uint16, x []float32) {
	for i, e := range x[:len(dst)] {
		dst[i] = quant.F16FromF32(e)
	}
}

func fromF16(dst []float32, x []uint16) {
	for i, h := range x[:len(dst)] {
		dst[i] = quant.F32FromF16(h)
	}
}
