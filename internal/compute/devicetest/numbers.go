package devicetest

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// bound writes by how much each element may differ from row number r of the scalar device, which is want.
type bound func(bounds []float64, want []float32, r int)

// The tolerances, each with its reason.
const (
	// sumTolerance is the share of Σ|w||x| that the order and rounding of float32 sums may cost: a few ulps per step,
	// times the square root of their number because signs are random.
	sumTolerance = 2e-6
	// roundingSigmas is the allowed error of a product in standard deviations of its operands' rounding: activations to
	// int8 in blocks of 32 for quantised types, both operands to bfloat16 for F16 and BF16, or to 16 bits with a scale.
	// One in some hundred million normal numbers is beyond that.
	roundingSigmas = 6
	// uniform is the square of a step over the variance of numbers spread evenly over it.
	uniform = 12
	// halfBits are the bits of the significand of F16. halfRange is the number of bits between a token's largest
	// element and the unit of the smallest F16.
	halfBits, halfRange = 11, 38
	// largestHalf, as a token's largest element, makes the unit 2^-24, the unit of the smallest F16.
	largestHalf = 1 << (halfRange - 24)
	// bfloatBits are the bits of the significand of bfloat16, which processors may multiply F16 and BF16 weights in.
	bfloatBits = 8
	// shortPart and shortLength: CPUs may multiply F16 and BF16 weights and their activations as integers of 16 bits,
	// with a scale that follows from the length of a part of shortPart elements.
	shortPart, shortLength = 512, 46000
	// normTolerance is some ulps of each of a norm's terms: the scale is rounded once, and two products.
	normTolerance = 4e-7
	// smoothTolerance is some ulps of the input of SiLU or GELU times up: their results are smaller, the exponential's
	// rounding is not.
	smoothTolerance = 5e-7
	// pieceTolerance is two roundings of the result of a piecewise activation.
	pieceTolerance = 2.5e-7
	// capTolerance is some ulps of the limit of a soft cap: 1 - 2/(1+e) is rounded like 1, however small it is.
	capTolerance = 5e-7
	// turnTolerance is the share of a pair's length that rounded sines, cosines and products may cost.
	turnTolerance = 4e-7
	// attentionTolerance is the share of a row's largest magnitude that float32 scores and sums over halves may cost.
	attentionTolerance = 2e-5
	// roughAttention bounds the error that halves of queries and exponentials cause in normal numbers: 2^-11 of a score, which is
	// some units, and of the share of each of some positions.
	roughAttention = 4e-3
	// blockTolerance is the share that integers of 16 bits may cost, where keys or values are stored in blocks of integers.
	blockTolerance = 2e-4
	// recurrentTolerance is the share of a row's largest magnitude that float32 sums, exponentials of decays and states
	// rounded after each position may cost over some tens of positions.
	recurrentTolerance = 2e-5
	// peakedTolerance is the same for scores hundreds apart: their relative rounding becomes an absolute error in the
	// exponent.
	peakedTolerance = 1e-3
	// tiny is taken as zero.
	tiny = 1e-28
)

// exact bounds results that are one number, rounded once.
func exact(bounds []float64, _ []float32, _ int) { clear(bounds) }

// within returns the same for every element.
func within(distance float64) bound {
	return func(bounds []float64, _ []float32, _ int) {
		for c := range bounds {
			bounds[c] = distance
		}
	}
}

// element returns a share of the wanted element.
func element(share float64) bound {
	return func(bounds []float64, want []float32, _ int) {
		for c, v := range want {
			bounds[c] = share * math.Abs(float64(v))
		}
	}
}

// ofRow returns a share of the wanted row's largest magnitude.
func ofRow(share float64) bound {
	return func(bounds []float64, want []float32, _ int) {
		top := 0.0
		for _, v := range want {
			top = max(top, math.Abs(float64(v)))
		}
		for c := range bounds {
			bounds[c] = share * top
		}
	}
}

// rounding is the error of one token's products with the rows of w that is due to float32, and to the rounding of their
// operands.
type rounding struct {
	w      weight
	x      []float32 // [w.Cols]
	xSteps []float64 // [w.Cols] between the numbers that x is rounded to
	wSteps []float64 // [w.Rows, w.Cols] rounding steps of the weights, or nil if they are not rounded
}

func newRounding(w weight) *rounding {
	return &rounding{w: w, xSteps: make([]float64, w.Cols), wSteps: w.steps()}
}

// steps returns the distances between the numbers that w's elements are rounded to [Rows, Cols], or nil if they are not
// rounded. They are computed once, not for every token.
func (w weight) steps() []float64 {
	steps := make([]float64, len(w.values))
	switch {
	case half(w.Type):
		bfloatSteps(steps, w.values)
		for i := range w.Rows {
			shortSteps(steps[i*w.Cols:][:w.Cols], w.values[i*w.Cols:][:w.Cols])
		}
	case w.halves && w.Type.Quantised():
		halfSteps(steps, w.values, largestHalf)
	case w.bfloats && w.Type.Quantised():
		bfloatSteps(steps, w.values)
	default:
		return nil
	}
	return steps
}

// token continues with another token, x [w.Cols].
func (r *rounding) token(x []float32) {
	r.x = x
	switch {
	case r.w.Type.Quantised():
		act8Steps(r.xSteps, x)
		if r.w.bfloats {
			rounded := make([]float64, len(x))
			bfloatSteps(rounded, x)
			for i, step := range rounded {
				r.xSteps[i] = max(r.xSteps[i], step)
			}
		}
	case half(r.w.Type):
		bfloatSteps(r.xSteps, x)
		shortSteps(r.xSteps, x)
	}
	if r.w.halves {
		halfSteps(r.xSteps, x, largest(x))
	}
}

// row returns the product with row i of w, its Σ|w||x|, and the variance that rounded operands give it. In a block of
// few values, weights share the error of rounding to BF16. This is not noise, so its sum counts, too.
func (r *rounding) row(i int) (y, mass, variance float64) {
	at, shift := i*r.w.Cols, 0.0
	bfloats := r.w.bfloats && r.w.Type.Quantised()
	for c, v := range r.w.values[at:][:r.w.Cols] {
		w, x := float64(v), float64(r.x[c])
		y += w * x
		mass += math.Abs(w * x)
		byX := w * r.xSteps[c]
		variance += byX * byX
		if r.wSteps != nil {
			byW := x * r.wSteps[at+c]
			variance += byW * byW
		}
		if bfloats {
			shift += x * (float64(quant.F32FromBF16(quant.BF16FromF32(v))) - w)
		}
	}
	return y, mass, variance/uniform + shift*shift
}

// product bounds x·Wᵀ + bias. x [n, w.Cols]
func product(w weight, x, bias []float32) bound {
	round := newRounding(w)
	return func(bounds []float64, _ []float32, t int) {
		round.token(x[t*w.Cols:][:w.Cols])
		for r := range bounds {
			_, mass, variance := round.row(r)
			if bias != nil {
				mass += math.Abs(float64(bias[r]))
			}
			bounds[r] = sumTolerance*mass + roundingSigmas*math.Sqrt(variance) + tiny
		}
	}
}

// exponent returns the e of 2^(e-1) ≤ |v| < 2^e, as math.Frexp does, of a normal float64: every float32 but zero is
// one. With Frexp, Ldexp and Mod, tests would spend half their time on these distances.
func exponent(v float64) int { return int(math.Float64bits(v)>>52&0x7ff) - 1022 }

// power returns 2^e, of a normal float64.
func power(e int) float64 { return math.Float64frombits(uint64(e+1023) << 52) }

// bfloatSteps are the distances of the bfloat16 numbers that elements of x are rounded to, or 0 where an element is
// one.
func bfloatSteps(steps []float64, x []float32) {
	for i, v := range x {
		steps[i] = 0
		if quant.F32FromBF16(quant.BF16FromF32(v)) != v {
			steps[i] = power(exponent(float64(v)) - bfloatBits)
		}
	}
}

// shortSteps widens steps to the distances between the multiples of a scale that elements of x are rounded to: integers
// of 16 bits with a length of at most shortLength, in parts of shortPart elements.
func shortSteps(steps []float64, x []float32) {
	for from := 0; from < len(x); from += shortPart {
		part := x[from:min(len(x), from+shortPart)]
		squares := 0.0
		for _, v := range part {
			squares += float64(v) * float64(v)
		}
		step := max(math.Sqrt(squares)/shortLength, largest(part)/math.MaxInt16)
		for i := range part {
			steps[from+i] = max(steps[from+i], step)
		}
	}
}

// halfSteps widens steps to the distances between the halves that elements of x are rounded to, with the unit
// 2^-halfRange of most. It leaves the step of elements that are such halves.
func halfSteps(steps []float64, x []float32, most float64) {
	smallest := exponent(most) - 1 - halfRange
	for i, v := range x {
		if v == 0 {
			continue
		}
		e := max(exponent(float64(v))-halfBits, smallest)
		if of := float64(v) * power(-e); of != math.Trunc(of) {
			steps[i] = max(steps[i], power(e))
		}
	}
}

// largest returns the largest magnitude in x.
func largest(x []float32) (most float64) {
	for _, v := range x {
		most = max(most, math.Abs(float64(v)))
	}
	return most
}

// act8Steps are the distances of the int8 numbers that elements of x are rounded to, or 0 where a block of x is exact.
func act8Steps(steps []float64, x []float32) {
	for at := 0; at < len(x); at += quant.QK {
		block := x[at:min(len(x), at+quant.QK)]
		top := 0.0
		for _, v := range block {
			top = max(top, math.Abs(float64(v)))
		}
		step, fits := top/127, true
		for _, v := range block {
			fits = fits && math.Mod(float64(v), step) == 0
		}
		if fits {
			step = 0
		}
		for i := range block {
			steps[at+i] = step
		}
	}
}

func half(t quant.Type) bool { return t == quant.F16 || t == quant.BF16 }

// columns are row lengths that type t can have and kernels may stumble over.
func columns(t quant.Type) []int {
	if t.Like() != t {
		return []int{256, 512}
	}
	switch n := t.BlockElems(); n {
	case 1:
		return []int{1, 7, 32, 77, 352}
	case quant.QK:
		return []int{32, 96, 256, 288, 352}
	case 2 * quant.QK, 4 * quant.QK:
		return []int{n, 3 * n, 5 * n}
	}
	return []int{256, 512, 768}
}

// wideFor returns the length of rows of type t that end with part of a superblock, if the type allows this.
func wideFor(t quant.Type) int {
	switch n := t.BlockElems(); {
	case n == quant.QKK:
		return n
	case n > quant.QK:
		return 3 * n
	}
	return 96
}

// sharp returns normal numbers for weights of type t, exact in bfloat16 if t is a half type. An error in their product
// with eights is then not due to the rounding of operands.
func (s *stage) sharp(t quant.Type, n int) []float32 {
	w := s.normal(n)
	if half(t) {
		for i, v := range w {
			w[i] = quant.F32FromBF16(quant.BF16FromF32(v))
		}
	}
	return w
}

// eights returns rows of numbers that int8 with a scale for each 32 or more elements of a row holds exactly. An error
// in a quantised product of them is then not due to the rounding of activations. [n, cols]
func (s *stage) eights(n, cols int) []float32 {
	x := s.normal(n * cols)
	for i, v := range x {
		q := min(127, math.Round(math.Abs(float64(v))*60))
		if i%cols%quant.QK == 0 {
			q = 127
		}
		x[i] = float32(math.Copysign(q/64, float64(v)))
	}
	return x
}

// hostileRows are weights [rows, cols] that scales stumble over.
func (s *stage) hostileRows(rows, cols int) []float32 {
	w := s.normal(rows * cols)
	for i := range w {
		r, c := i/cols, i%cols
		switch r % 6 {
		case 1: // nothing
			w[i] = 0
		case 2: // blocks of nothing
			w[i] *= float32(c / quant.QK % 2)
		case 3: // near the largest half
			w[i] *= 1e4
		case 4: // scales are subnormal halves
			w[i] *= 5e-6
		case 5: // one element sets the scale
			w[i] *= 1e-2
			if c%quant.QK == 3 {
				w[i] = 1e4
			}
		}
	}
	return w
}

// hostileTokens are activations [n, cols] that scales stumble over.
func (s *stage) hostileTokens(n, cols int) []float32 {
	x := s.normal(n * cols)
	for i := range x {
		t, c := i/cols, i%cols
		switch t % 7 {
		case 1:
			x[i] = 0
		case 2:
			x[i] *= float32(c / quant.QK % 2)
		case 3:
			x[i] *= 1e6
		case 4:
			x[i] *= 1e-30
		case 5:
			x[i] *= 1e-2
			if c%quant.QK == 30 {
				x[i] = -1e5
			}
		case 6: // the inverse of a block's scale is near the largest number
			x[i] *= 1e-36
		}
	}
	return x
}

// activations returns all nonlinearities.
func activations() []compute.Activation {
	return []compute.Activation{
		{Kind: compute.SiLU},
		{Kind: compute.GELU},
		{Kind: compute.SiLU, Threshold: 0.1234567},
		{Kind: compute.GELU, Threshold: 0.0987654},
		{Kind: compute.ReLU},
		{Kind: compute.FATReLU, Threshold: 0.01},
		{Kind: compute.FATReLU, Threshold: -0.5},
		{Kind: compute.DReLU},
		{Kind: compute.ReLU2},
		{Kind: compute.LimitedSwiGLU, Limit: 0.75},
		{Kind: compute.CappedSwiGLU, Limit: 0.5},
		{Kind: compute.SiTU, Slope: 2, Limit: 1.5},
		{Kind: compute.SiTU, Slope: 4},
	}
}

// ofAttention returns the nonlinearities that no feed-forward layer has.
func ofAttention() []compute.Activation {
	return []compute.Activation{{Kind: compute.Logistic}, {Kind: compute.Softplus}}
}

// alone returns the activations that only Activate computes.
func alone() []compute.Activation {
	return append(ofAttention(), compute.Activation{Kind: compute.Identity}, compute.Activation{Kind: compute.XIELU, Slope: 0.5, Limit: -1e-6, Above: 0.8, Below: 1.3},
		compute.Activation{Kind: compute.GELUErf}, compute.Activation{Kind: compute.GELUQuick})
}

// named returns act's name for a script.
func named(act compute.Activation) string {
	names := map[compute.Nonlinearity]string{
		compute.SiLU: "SiLU", compute.GELU: "GELU", compute.ReLU: "ReLU", compute.FATReLU: "FATReLU", compute.DReLU: "dReLU", compute.ReLU2: "ReLU2", compute.Logistic: "logistic",
		compute.LimitedSwiGLU: "limited SwiGLU", compute.CappedSwiGLU: "capped SwiGLU", compute.SiTU: "SiTU", compute.Softplus: "softplus", compute.Identity: "identity", compute.XIELU: "xIELU",
		compute.GELUErf: "GELU by erf", compute.GELUQuick: "quick GELU",
	}
	if act.Small() {
		return names[act.Kind] + " without small ones"
	}
	if act.Threshold < 0 {
		return names[act.Kind] + " below zero"
	}
	if act.Kind == compute.SiTU && act.Limit == 0 {
		return names[act.Kind] + " of gates alone"
	}
	return names[act.Kind]
}
