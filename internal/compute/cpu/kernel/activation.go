package kernel

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// The exponential: x = n·ln2 + r with |r| <= ln2/2 and a polynomial for e^r
// (Moshier, Cephes expf). ln2 is split so that n·ln2Hi is exact.
const (
	log2E = 1.44269504088896341
	ln2Hi = 0.693359375
	ln2Lo = -2.12194440e-4

	expMin = -87.33654 // below: less than the smallest normal number, taken as 0
	expMax = 88.72283  // above: +Inf

	exp6 = 1.9875691500e-4
	exp5 = 1.3981999507e-3
	exp4 = 8.3334519073e-3
	exp3 = 4.1665795894e-2
	exp2 = 1.6666665459e-1
	exp1 = 5.0000001201e-1
)

// exp32 is e^x within 2 ulp; exp32(0) is exactly 1.
func exp32(x float32) float32 {
	switch {
	case x < expMin:
		return 0
	case x > expMax:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	n := float32(math.RoundToEven(float64(x * log2E)))
	r := x - n*ln2Hi
	r -= n * ln2Lo
	p := float32(exp6)
	p = p*r + exp5
	p = p*r + exp4
	p = p*r + exp3
	p = p*r + exp2
	p = p*r + exp1
	p = p*(r*r) + r + 1
	// n is added to the exponent in place: 2¹²⁸ alone would not be a number.
	return math.Float32frombits(uint32(int32(math.Float32bits(p)) + int32(n)<<23))
}

func exps(dst, x []float32) {
	for i, e := range x[:len(dst)] {
		dst[i] = exp32(e)
	}
}

// GELU's tanh form is g·sigmoid(2y), because 1+tanh(y) = 2·sigmoid(2y); y = √(2/π)·(g + 0.044715·g³).
const (
	gelu1 = 2 * 0.79788456080286535588
	gelu3 = gelu1 * 0.044715
)

func activate(dst, gate, up []float32, act compute.Activation) {
	gate = gate[:len(dst)]
	for i, g := range gate {
		a := activation(g, act)
		if up != nil {
			a *= factor(up[i], act)
		}
		dst[i] = a
	}
}

// factor returns the factor of act(g).
func factor(u float32, act compute.Activation) float32 {
	switch act.Kind {
	case compute.DReLU:
		return above(u, 0)
	case compute.ClampedSwiGLU:
		return 1 + min(max(u, -act.Limit), act.Limit)
	case compute.LimitedSwiGLU, compute.CappedSwiGLU:
		return min(max(u, -act.Limit), act.Limit)
	case compute.SiTU:
		if act.Limit > 0 {
			return soft(u, act.Limit)
		}
	}
	return u
}

// softplus is ln(1+exp(x)): max(x, 0) + ln(1+e), e being exp(-|x|) in (0, 1]. The logarithm is 2·artanh(e/(2+e)), and
// the artanh of a number up to 1/3 a short series.
func softplus(x float32) float32 {
	e := exp32(-max(x, -x))
	z := e / (2 + e)
	y := z * z
	p := float32(1.0/13)*y + 1.0/11
	p = p*y + 1.0/9
	p = p*y + 1.0/7
	p = p*y + 1.0/5
	p = p*y + 1.0/3
	return max(x, 0) + 2*z*(p*y+1)
}

// soft is limit·tanh(x/limit).
func soft(x, limit float32) float32 { return limit * (1 - 2/(1+exp32(2/limit*x))) }

// activation is act(g) before it is multiplied by up.
func activation(g float32, act compute.Activation) float32 {
	switch act.Kind {
	case compute.SiLU:
		return large(g/(1+exp32(-g)), act.Threshold)
	case compute.GELU:
		return large(g/(1+exp32(-g*(gelu1+gelu3*(g*g)))), act.Threshold)
	case compute.ReLU, compute.DReLU:
		return above(g, 0)
	case compute.FATReLU:
		return above(g, act.Threshold)
	case compute.ReLU2:
		g = above(g, 0)
		return g * g
	case compute.ClampedSwiGLU:
		g = min(g, act.Limit)
		return g / (1 + exp32(-act.Slope*g))
	case compute.Logistic:
		return 1 / (1 + exp32(-g))
	case compute.LimitedSwiGLU:
		g = min(g, act.Limit)
		return g / (1 + exp32(-g))
	case compute.CappedSwiGLU:
		return min(g/(1+exp32(-g)), act.Limit)
	case compute.SiTU:
		return soft(g, act.Slope) / (1 + exp32(-g))
	case compute.Softplus:
		return softplus(g)
	case compute.Identity:
		return g
	case compute.XIELU:
		if g > 0 {
			return g * (act.Above*g + act.Slope)
		}
		return float32(math.Expm1(float64(min(g, act.Limit)))-float64(g))*act.Below + act.Slope*g
	case compute.GELUErf:
		return float32(0.5 * float64(g) * math.Erfc(-float64(g)/math.Sqrt2))
	case compute.GELUQuick:
		return g / (1 + exp32(-1.702*g))
	}
	panic("kernel: unknown activation")
}

// above is x if it is above s, else 0; NaN stays.
func above(x, s float32) float32 {
	if x <= s {
		return 0
	}
	return x
}

// large is x unless its magnitude is below s; NaN stays.
func large(x, s float32) float32 {
	if x < s && x > -s {
		return 0
	}
	return x
}
