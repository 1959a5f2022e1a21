package quant

import "math"

// The searches of this file find the scale, or the scale and the minimum, with which whole numbers come nearest to
// given elements. They minimise a weighted sum of squares. Sums are float32 and in order, and products are converted
// before they are added, so that no platform fuses them and vector kernels, one block in each lane, give the same bits.
//
// Source: the searches of llama.cpp's quantisers: which grids are tried, and how elements are weighted (at 3f545bec).

// negligible is the magnitude below which a whole block counts as zero.
const negligible = 1e-15

// roundEven rounds to a whole number, halves to even. Magnitudes above 2²² stay about the same.
func roundEven(v float32) float32 {
	const shift = 3 << 22 // at this magnitude a float32's last bit is 1
	return float32(v+shift) - shift
}

// within rounds to a whole number from low to high.
func within(v, low, high float32) float32 {
	q := roundEven(v)
	if q < low {
		q = low
	}
	if q > high {
		q = high
	}
	return q
}

func square(v float32) float32 { return float32(v * v) }

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

func root(v float32) float32 { return float32(math.Sqrt(float64(v))) }

// meanSquare returns the mean of the elements' squares.
func meanSquare(x []float32) float32 {
	var sum float32
	for _, v := range x {
		sum += square(v)
	}
	return sum / float32(len(x))
}

// weigh sets each element's weight to its importance, and more for elements that are large relative to the root of
// power.
func weigh(w, x, importance []float32, power float32) {
	x, importance = x[:len(w)], importance[:len(w)]
	for i := range w {
		w[i] = importance[i] * root(power+square(x[i]))
	}
}

// weighSquares sets each element's weight to its square.
func weighSquares(w, x []float32) {
	x = x[:len(w)]
	for i := range w {
		w[i] = square(x[i])
	}
}

// sums are what least squares need of elements x on a grid of whole numbers q: Σ w·q·x and Σ w·q².
type sums struct{ qx, qq float32 }

func (s *sums) add(w, q, x float32) {
	wq := w * q
	s.qx += float32(wq * x)
	s.qq += float32(wq * q)
}

// better reports whether the best scale for s has a smaller error than scale, the best for its own sums. The error is Σ
// w·x², which all have in common, minus qx²/qq, which gain stands for.
func (s sums) better(gain float32) bool { return s.qq > 0 && float32(s.qx*s.qx) > float32(gain*s.qq) }

// scale returns the best scale for s.
func (s sums) scale() float32 {
	if s.qq <= 0 {
		return 0
	}
	return s.qx / s.qq
}

// Grids of a symmetric scale that are tried: the lowest whole number is up to nine tenths of a step beyond the largest
// element.
const (
	scaleTries = 9
	scaleStep  = 0.1
)

// fitScale returns the scale d that minimises the error of d·q against x, with whole q from −most to most−1.
func fitScale(x, w []float32, most float32) float32 {
	top := absMax(x)
	if abs(top) < negligible {
		return 0
	}
	s := scaleSums(x, w, -most/top, most)
	d := s.scale()
	gain := d * s.qx
	if s.qq <= 0 { // nothing is of any importance
		d = -top / most
	}
	for try := -scaleTries; try <= scaleTries; try++ {
		if try == 0 {
			continue
		}
		s := scaleSums(x, w, -(most+scaleStep*float32(try))/top, most)
		if s.better(gain) {
			d = s.scale()
			gain = d * s.qx
		}
	}
	return d
}

// scaleSums returns the sums for elements rounded in steps of 1/inverse.
func scaleSums(x, w []float32, inverse, most float32) (s sums) {
	w = w[:len(x)]
	for i, v := range x {
		s.add(w[i], within(v*inverse, -most, most-1), v)
	}
	return s
}

// descentRounds bounds how often descend goes through the elements.
const descentRounds = 5

// descend moves single quants, from low to high, as long as that lowers the error, and returns the best scale for the
// result.
func descend(q, x, w []float32, low, high float32) float32 {
	var s sums
	q, w = q[:len(x)], w[:len(x)]
	for i, v := range x {
		s.add(w[i], q[i], v)
	}
	settled := 0 // elements looked at since the last move, the moved one included: looking at them again would change nothing
	for range descentRounds {
		for i, v := range x {
			if settled == len(x) {
				return s.scale()
			}
			settled++
			wq := w[i] * q[i]
			rest := sums{s.qx - float32(wq*v), s.qq - float32(wq*q[i])}
			if rest.qx <= 0 || rest.qq <= 0 {
				continue
			}
			other := within(v*rest.qq/rest.qx, low, high)
			if other == q[i] {
				continue
			}
			wq = w[i] * other
			moved := sums{rest.qx + float32(wq*v), rest.qq + float32(wq*other)}
			if float32(moved.qx*moved.qx)*s.qq > float32(s.qx*s.qx)*moved.qq {
				q[i], s, settled = other, moved, 1
			}
		}
	}
	return s.scale()
}

// Grids of a positive scale that are tried.
const (
	unitTries = 4
	unitStep  = 0.1
)

// fitUnit returns the unit u and sets the whole numbers q from 0 to most that minimise the error of u·q against x. The
// elements of x are not negative.
func fitUnit(q []uint8, x, w []float32, most float32) float32 {
	var top float32
	for _, v := range x {
		top = max(top, v)
	}
	if top < negligible {
		clear(q)
		return 0
	}
	inverse := most / top
	least := unitError(x, w, inverse, most)
	for try := -unitTries; try <= unitTries; try++ {
		other := (unitStep*float32(try) + most) / top
		if e := unitError(x, w, other, most); e < least {
			least, inverse = e, other
		}
	}
	var whole [QK]float32
	fitted := whole[:len(x)]
	for i, v := range x {
		fitted[i] = within(v*inverse, 0, most)
	}
	u := descend(fitted, x, w, 0, most)
	for i, v := range fitted {
		q[i] = uint8(v)
	}
	return u
}

func unitError(x, w []float32, inverse, most float32) (sum float32) {
	u := 1 / inverse
	for i, v := range x {
		sum += float32(w[i] * square(v-float32(u*within(v*inverse, 0, most))))
	}
	return sum
}

// grids are the grids tried for a scale and a minimum: the elements' range is divided into most+first+i·step steps.
type grids struct {
	first, step float32
	tries       int
	absolute    bool // magnitudes of errors are summed, not squares
}

// weighedGrids are those tried for elements with importances.
func weighedGrids() grids { return grids{first: -0.9, step: 0.05, tries: 37} }

// fitMinimum returns a scale d and a minimum m, not negative, that minimise the error of d·q − m against x, with whole
// q from 0 to most. x has at most 32 elements.
func fitMinimum(x, w []float32, most float32, g grids) (d, m float32) {
	w = w[:len(x)]
	var low, sumW, sumX float32
	high := x[0]
	for i, v := range x {
		low, high = min(low, v), max(high, v)
		sumW += w[i]
		sumX += float32(w[i] * v)
	}
	span := high - low
	if span < negligible {
		return 0, -low
	}
	var whole [QK]float32
	q := whole[:len(x)]
	for i, v := range x {
		q[i] = within((v-low)*(most/span), 0, most)
	}
	d, m = span/most, -low
	least := minimumError(x, w, q, d, low, g.absolute)
	for try := range g.tries {
		inverse := (g.first + g.step*float32(try) + most) / span
		var sumQ, sumQQ, sumQX float32
		for i, v := range x {
			q[i] = within(inverse*(v-low), 0, most)
			wq := w[i] * q[i]
			sumQ += wq
			sumQQ += float32(wq * q[i])
			sumQX += float32(wq * v)
		}
		determinant := float32(sumW*sumQQ) - float32(sumQ*sumQ)
		if determinant <= 0 {
			continue
		}
		scale := (float32(sumW*sumQX) - float32(sumX*sumQ)) / determinant
		offset := (float32(sumQQ*sumX) - float32(sumQ*sumQX)) / determinant
		if offset > 0 {
			scale, offset = sumQX/sumQQ, 0
		}
		if e := minimumError(x, w, q, scale, offset, g.absolute); e < least {
			least, d, m = e, scale, -offset
			low, span = offset, high-offset // later grids begin where the best one does
		}
	}
	return d, m
}

// minimumError returns the error of scale·q + offset.
func minimumError(x, w, q []float32, scale, offset float32, absolute bool) (sum float32) {
	w, q = w[:len(x)], q[:len(x)]
	if absolute {
		for i, v := range x {
			sum += float32(w[i] * abs(float32(scale*q[i])+offset-v))
		}
		return sum
	}
	for i, v := range x {
		sum += float32(w[i] * square(float32(scale*q[i])+offset-v))
	}
	return sum
}

// roundScale sets q to the whole numbers from −most to most−1, raised by most, with d·q nearest to x.
func roundScale(q []uint8, x []float32, d, most float32) {
	id := inverse(d)
	for i := roundScaleVectors(q, x, id, most); i < len(x); i++ {
		q[i] = uint8(within(x[i]*id, -most, most-1) + most)
	}
}

// roundMinimum sets q to the whole numbers from 0 to most with d·q − m nearest to x.
func roundMinimum(q []uint8, x []float32, d, m, most float32) {
	id := inverse(d)
	for i, v := range x {
		q[i] = uint8(within((v+m)*id, 0, most))
	}
}
