package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Vector is one implementation of everything that is not a matrix product. All
// kernels are single-threaded, allocate nothing, and compute an element the same
// way wherever a caller cuts its rows: results depend on shapes only.
//
// Slices of one call have the same length unless said otherwise; dst may be any
// of the sources, but may not overlap them in part.
type Vector struct {
	Name string // generic, avx2

	// Add: dst += x.
	Add func(dst, x []float32)
	// Mul: dst *= x.
	Mul func(dst, x []float32)
	// Scale: dst = s·x.
	Scale func(dst, x []float32, s float32)
	// AddScaled: dst += s·x.
	AddScaled func(dst, x []float32, s float32)
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

	// Rotate turns every head of x [heads·headDim] by the angles of one position,
	// whose cosines and sines [dims/2] Turn has computed; the first dims <= headDim elements are rotated.
	Rotate func(x []float32, headDim int, cos, sin []float32, style compute.RopeStyle)

	attention attention
}

// Vectors are the implementations that this machine can run, the definition (generic) first, the fastest last.
func Vectors() []Vector { return append([]Vector{genericVector()}, archVectors()...) }

func genericVector() Vector {
	return Vector{
		Name:      "generic",
		Add:       add,
		Mul:       mul,
		Scale:     scale,
		AddScaled: addScaled,
		Max:       maximum,
		ToF16:     toF16,
		FromF16:   fromF16,
		RMSNorm:   rmsNorm,
		LayerNorm: layerNorm,
		Activate:  activate,
		Exp:       exps,
		Rotate:    rotate,
		attention: attention{scores: scores, softmax: softmax, accumulate: accumulate},
	}
}

// AddBias adds bias [cols] to every row of dst [rows·cols].
func (v *Vector) AddBias(dst, bias []float32) {
	for ; len(dst) > 0; dst = dst[len(bias):] {
		v.Add(dst[:len(bias)], bias)
	}
}

// Argmax is the index of the first largest element; 0 where all are NaN.
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
		dst[i] = half(e)
	}
}

func fromF16(dst []float32, x []uint16) {
	for i, h := range x[:len(dst)] {
		dst[i] = single(h)
	}
}

// half rounds f to IEEE binary16, ties to even. NaNs keep their sign and upper payload and become quiet, as VCVTPS2PH does.
func half(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13&0x1ff)
	case b >= 0x47800000: // 65536 and above
		return sign | 0x7c00
	case b < 0x38800000: // below 2⁻¹⁴: subnormal, a multiple of 2⁻²⁴
		// Adding 1/2, whose last place is 2⁻²⁴, lets the adder round.
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	b += 0x0fff + b>>13&1
	return sign | uint16(b>>13-(127-15)<<10) // 65520 and above carries into infinity
}

// single is exact.
func single(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	e, m := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch e {
	case 0:
		f := float32(m) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	case 0x1f:
		if m != 0 {
			m |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | m<<13)
	}
	return math.Float32frombits(sign | (e+127-15)<<23 | m<<13)
}
