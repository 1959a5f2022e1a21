package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// neonVector needs nothing that some ARMv8 processor lacks.
func neonVector() Vector {
	v := genericVector() // for kernels that have no assembly
	v.Add = func(dst, x []float32) { addNEON(first(dst), first(dst), first(x[:len(dst)]), len(dst)) }
	v.Mul = func(dst, x []float32) { mulNEON(first(dst), first(dst), first(x[:len(dst)]), len(dst)) }
	v.Scale = func(dst, x []float32, s float32) {
		scaleNEON(first(dst), first(x[:len(dst)]), len(dst), s)
	}
	v.AddScaled = func(dst, x []float32, s float32) {
		addScaledNEON(first(dst), first(dst), first(x[:len(dst)]), len(dst), s)
	}
	v.MulAdd = func(dst, x, y []float32) {
		mulAddNEON(first(dst), first(dst), first(x[:len(dst)]), first(y[:len(dst)]), len(dst))
	}
	v.Scan, v.Delta = scanRows, deltaRows
	v.Max = func(x []float32) float32 { return maxNEON(first(x), len(x)) }
	v.ToF16 = toF16x8
	v.FromF16 = fromF16x8
	v.RMSNorm = rmsNormNEON
	v.LayerNorm = layerNormNEON
	v.Activate = activateNEON
	v.Exp = func(dst, x []float32) { expNEON(first(dst), first(x[:len(dst)]), len(dst)) }
	v.Rotate = rotateNEON
	v.attention = vectorAttention
	return v
}

func toF16x8(dst []uint16, x []float32) {
	x = x[:len(dst)]
	n := len(x) &^ 7
	if n > 0 {
		toF16NEON(first(dst), first(x), n)
	}
	toF16(dst[n:], x[n:])
}

func fromF16x8(dst []float32, x []uint16) {
	x = x[:len(dst)]
	n := len(x) &^ 7
	if n > 0 {
		fromF16NEON(first(dst), first(x), n)
	}
	fromF16(dst[n:], x[n:])
}

// scanRows has NEON compute rows of whole vectors, four at a time.
func scanRows(y, state, x, b, c []float32, decay float32) {
	n, rows := len(b), len(x)&^3
	if n%8 != 0 || n == 0 {
		rows = 0
	}
	if c = c[:n]; rows > 0 {
		scanNEON(first(y[:rows]), first(state[:rows*n]), first(x), first(b), first(c), rows, n, decay)
	}
	scan(y[rows:], state[rows*n:], x[rows:], b, c, decay)
}

// deltaRows has NEON compute rows of whole vectors, four at a time.
func deltaRows(y, state, v, k, q []float32, decay, beta, kq float32) {
	n, rows := len(k), len(v)&^3
	if n%8 != 0 || n == 0 {
		rows = 0
	}
	if q = q[:n]; rows > 0 {
		deltaNEON(first(y[:rows]), first(state[:rows*n]), first(v), first(k), first(q), rows, n, decay, beta, kq)
	}
	delta(y[rows:], state[rows*n:], v[rows:], k, q, decay, beta, kq)
}

func rmsNormNEON(dst, x, weight []float32, eps float32) {
	weight, dst = weight[:len(x)], dst[:len(x)]
	n := len(x) &^ 15
	sum := sumSquaresNEON(first(x), n)
	for _, e := range x[n:] {
		sum += float64(e) * float64(e)
	}
	s := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	scaleByNEON(first(dst), first(x), first(weight), len(x), s)
}

func layerNormNEON(dst, x, weight, bias []float32, eps float32) {
	weight, dst = weight[:len(x)], dst[:len(x)]
	n := len(x) &^ 15
	sum := sumNEON(first(x), n)
	for _, e := range x[n:] {
		sum += float64(e)
	}
	mean := sum / float64(len(x))
	sum = sumDeviationsNEON(first(x), n, mean)
	for _, e := range x[n:] {
		d := float64(e) - mean
		sum += d * d
	}
	s := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	shiftNEON(first(dst), first(x), len(x), float32(mean))
	scaleByNEON(first(dst), first(dst), first(weight), len(x), s)
	if bias != nil {
		addNEON(first(dst), first(dst), first(bias[:len(x)]), len(x))
	}
}

// activators holds activations' kernels without and with what they are multiplied by.
var activators = map[compute.Nonlinearity]struct {
	alone func(dst, gate *float32, n int, s float32)
	times func(dst, gate, up *float32, n int, s float32)
}{
	compute.SiLU:    {siluNEON, siluMulNEON},
	compute.GELU:    {geluNEON, geluMulNEON},
	compute.ReLU:    {reluNEON, reluMulNEON},
	compute.FATReLU: {reluNEON, reluMulNEON},
	compute.DReLU:   {reluNEON, dreluMulNEON},
	compute.ReLU2:   {relu2NEON, relu2MulNEON},

	compute.GELUErf:   {geluErfNEON, geluErfMulNEON},
	compute.GELUQuick: {geluQuickNEON, geluQuickMulNEON},
}

func activateNEON(dst, gate, up []float32, act compute.Activation) {
	f, ok := activators[act.Kind]
	if !ok {
		activate(dst, gate, up, act)
		return
	}
	var threshold float32
	if act.Kind == compute.FATReLU || act.Small() {
		threshold = act.Threshold
	}
	d, g, n := first(dst), first(gate[:len(dst)]), len(dst)
	if up == nil {
		f.alone(d, g, n, threshold)
	} else {
		f.times(d, g, first(up[:len(dst)]), n, threshold)
	}
}

func rotateNEON(x []float32, headDim int, cos, sin []float32, style compute.RopeStyle) {
	heads, pairs := len(x)/headDim, len(cos)
	if len(x)%headDim != 0 || len(sin) != pairs || 2*pairs > headDim {
		panic("kernel: heads and angles do not fit")
	}
	switch {
	case len(x) == 0 || pairs == 0:
	case pairs%4 != 0:
		rotate(x, headDim, cos, sin, style)
	case style == compute.Halves:
		rotateHalvesNEON(first(x), heads, headDim, first(cos), first(sin), pairs)
	case style == compute.Interleaved:
		rotateInterleavedNEON(first(x), heads, headDim, first(cos), first(sin), pairs)
	default:
		rotate(x, headDim, cos, sin, style)
	}
}
