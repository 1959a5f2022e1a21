package kernel

//go:generate go -C ../../../../gen run ./vector -out ../internal/compute/cpu/kernel/vector_amd64.s -stubs ../internal/compute/cpu/kernel/vector_stub_amd64.go -pkg kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// avx2Vector needs AVX2, FMA and F16C. Kernels over single elements mask the end of a row, so that an
// element's result does not depend on where a row was cut.
func avx2Vector() Vector {
	v := Vector{
		ToF16:     toF16x8,
		FromF16:   fromF16x8,
		RMSNorm:   rmsNormAVX2,
		LayerNorm: layerNormAVX2,
		Activate:  activateAVX2,
		Rotate:    rotateAVX2,
		attention: vectorAttention,
	}
	v.Add = func(dst, x []float32) { addAVX2(first(dst), first(dst), first(x[:len(dst)]), len(dst)) }
	v.Mul = func(dst, x []float32) { mulAVX2(first(dst), first(dst), first(x[:len(dst)]), len(dst)) }
	v.Scale = func(dst, x []float32, s float32) { scaleAVX2(first(dst), first(x[:len(dst)]), len(dst), s) }
	v.AddScaled = func(dst, x []float32, s float32) {
		addScaledAVX2(first(dst), first(dst), first(x[:len(dst)]), len(dst), s)
	}
	v.MulAdd = func(dst, x, y []float32) {
		mulAddAVX2(first(dst), first(dst), first(x[:len(dst)]), first(y[:len(dst)]), len(dst))
	}
	v.Scan, v.Delta = scanRows, deltaRows
	v.Max = func(x []float32) float32 { return maxAVX2(first(x), len(x)) }
	v.Exp = func(dst, x []float32) { expAVX2(first(dst), first(x[:len(dst)]), len(dst)) }
	return v
}

func toF16x8(dst []uint16, x []float32) {
	x = x[:len(dst)]
	n := len(x) &^ 7
	if n > 0 {
		toF16AVX2(first(dst), first(x), n)
	}
	toF16(dst[n:], x[n:])
}

func fromF16x8(dst []float32, x []uint16) {
	x = x[:len(dst)]
	n := len(x) &^ 7
	if n > 0 {
		fromF16AVX2(first(dst), first(x), n)
	}
	fromF16(dst[n:], x[n:])
}

// scanRows has AVX2 compute rows of whole vectors, four at a time.
func scanRows(y, state, x, b, c []float32, decay float32) {
	n, rows := len(b), len(x)&^3
	if n%8 != 0 {
		rows = 0
	}
	if c = c[:n]; rows > 0 {
		scanAVX2(first(y[:rows]), first(state[:rows*n]), first(x), first(b), first(c), rows, n, decay)
	}
	scan(y[rows:], state[rows*n:], x[rows:], b, c, decay)
}

// deltaRows has AVX2 compute rows of whole vectors, four at a time.
func deltaRows(y, state, v, k, q []float32, decay, beta, kq float32) {
	n, rows := len(k), len(v)&^3
	if n%8 != 0 {
		rows = 0
	}
	if q = q[:n]; rows > 0 {
		deltaAVX2(first(y[:rows]), first(state[:rows*n]), first(v), first(k), first(q), rows, n, decay, beta, kq)
	}
	delta(y[rows:], state[rows*n:], v[rows:], k, q, decay, beta, kq)
}

func rmsNormAVX2(dst, x, weight []float32, eps float32) {
	weight, dst = weight[:len(x)], dst[:len(x)]
	n := len(x) &^ 15
	sum := sumSquaresAVX2(first(x), n)
	for _, e := range x[n:] {
		sum += float64(e) * float64(e)
	}
	s := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	scaleByAVX2(first(dst), first(x), first(weight), len(x), s)
}

func layerNormAVX2(dst, x, weight, bias []float32, eps float32) {
	weight, dst = weight[:len(x)], dst[:len(x)]
	n := len(x) &^ 15
	sum := sumAVX2(first(x), n)
	for _, e := range x[n:] {
		sum += float64(e)
	}
	mean := sum / float64(len(x))
	sum = sumDeviationsAVX2(first(x), n, mean)
	for _, e := range x[n:] {
		d := float64(e) - mean
		sum += d * d
	}
	s := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	shiftAVX2(first(dst), first(x), len(x), float32(mean))
	scaleByAVX2(first(dst), first(dst), first(weight), len(x), s)
	if bias != nil {
		addAVX2(first(dst), first(dst), first(bias[:len(x)]), len(x))
	}
}

func activateAVX2(dst, gate, up []float32, act compute.Activation) {
	if act.Kind.Limited() || act.Kind == compute.Softplus || act.Kind == compute.XIELU {
		activate(dst, gate, up, act)
		return
	}
	gate = gate[:len(dst)]
	d, g, n := first(dst), first(gate), len(dst)
	if up == nil {
		switch act.Kind {
		case compute.SiLU:
			siluAVX2(d, g, n, act.Threshold)
		case compute.GELU:
			geluAVX2(d, g, n, act.Threshold)
		case compute.ReLU, compute.DReLU:
			reluAVX2(d, g, n, 0)
		case compute.FATReLU:
			reluAVX2(d, g, n, act.Threshold)
		case compute.ReLU2:
			relu2AVX2(d, g, n, 0)
		case compute.Logistic:
			logisticAVX2(d, g, n, 0)
		case compute.GELUErf:
			geluErfAVX2(d, g, n, 0)
		case compute.GELUQuick:
			geluQuickAVX2(d, g, n, 0)
		case compute.Identity:
			copy(dst, gate)
		default:
			panic("kernel: unknown activation")
		}
		return
	}
	u := first(up[:len(dst)])
	switch act.Kind {
	case compute.SiLU:
		siluMulAVX2(d, g, u, n, act.Threshold)
	case compute.GELU:
		geluMulAVX2(d, g, u, n, act.Threshold)
	case compute.ReLU:
		reluMulAVX2(d, g, u, n, 0)
	case compute.FATReLU:
		reluMulAVX2(d, g, u, n, act.Threshold)
	case compute.DReLU:
		dreluMulAVX2(d, g, u, n, 0)
	case compute.ReLU2:
		relu2MulAVX2(d, g, u, n, 0)
	case compute.Logistic:
		logisticMulAVX2(d, g, u, n, 0)
	case compute.GELUErf:
		geluErfMulAVX2(d, g, u, n, 0)
	case compute.GELUQuick:
		geluQuickMulAVX2(d, g, u, n, 0)
	case compute.Identity:
		mulAVX2(d, g, u, n)
	default:
		panic("kernel: unknown activation")
	}
}

func rotateAVX2(x []float32, headDim int, cos, sin []float32, style compute.RopeStyle) {
	heads, pairs := len(x)/headDim, len(cos)
	if len(x)%headDim != 0 || len(sin) != pairs || 2*pairs > headDim {
		panic("kernel: heads and angles do not fit")
	}
	switch {
	case len(x) == 0 || pairs == 0:
	case style == compute.Halves && pairs%8 == 0:
		rotateHalvesAVX2(first(x), heads, headDim, first(cos), first(sin), pairs)
	case style == compute.Interleaved && pairs%4 == 0:
		rotateInterleavedAVX2(first(x), heads, headDim, first(cos), first(sin), pairs)
	default:
		rotate(x, headDim, cos, sin, style)
	}
}
