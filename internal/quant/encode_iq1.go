package quant

import (
	"cmp"
	"slices"
)

// Elements of the IQ1 types are −1, 0 or 1, plus or minus an eighth. Without a grid the best choice would follow
// exactly from the two places that cut the sorted elements into three; with it, groups of eight with codes outside of
// the grid take near ones.

const eighthIQ1 = 0.125

// valuesIQ1 returns what codes stand for with an eighth more, or less.
func valuesIQ1(minus bool) (v [3]float32) {
	for code := range v {
		v[code] = float32(code) - 1 + eighthIQ1
		if minus {
			v[code] -= 2 * eighthIQ1
		}
	}
	return v
}

// iq1Part is the search's state for the elements that share a scale.
type iq1Part struct {
	scale float32
	minus [4]bool // by group of eight
	words [4]uint16
}

// cuts are prefix sums of the weights of sorted elements, and of their products with them: one for each combination of
// the groups' shifts, over the elements of the groups with that shift.
type cuts struct{ x, w [33]float32 }

// fitIQ1 finds scale, shifts and words of 16 or 32 elements. apart means that each group has its own shift.
func fitIQ1(x, w []float32, apart bool, least float32) (p iq1Part) {
	n := len(x)
	if abs(absMax(x)) < least {
		return p
	}
	var order [32]uint8
	for i := range n {
		order[i] = uint8(i)
	}
	slices.SortStableFunc(order[:n], func(a, b uint8) int { return cmp.Compare(x[a], x[b]) })
	var half [2]cuts // elements of the first and of the second shift
	for j, i := range order[:n] {
		for h := range half {
			half[h].x[j+1], half[h].w[j+1] = half[h].x[j], half[h].w[j]
		}
		h := 0
		if apart && int(i) >= n/2 {
			h = 1
		}
		half[h].x[j+1] += float32(w[i] * x[i])
		half[h].w[j+1] += w[i]
	}
	found, first, second, shifts := false, 0, 0, 0
	var gain float32
	for i1 := range n + 1 {
		for i2 := i1; i2 <= n; i2++ {
			var s [2][2]sums // by half and shift
			for h := range half {
				if h == 0 || apart {
					s[h][0], s[h][1] = half[h].sums(i1, i2, n, false), half[h].sums(i1, i2, n, true)
				}
			}
			for k := range 4 {
				a, b := s[0][k>>1], s[1][k&1]
				if both := (sums{a.qx + b.qx, a.qq + b.qq}); both.better(gain) || !found && both.qq > 0 {
					found, first, second, shifts = true, i1, i2, k
					p.scale = both.scale()
					gain = p.scale * both.qx
				}
			}
		}
	}
	if !found {
		return p
	}
	var codes [32]uint16
	for j, i := range order[:n] {
		switch {
		case j < first:
		case j < second:
			codes[i] = 1
		default:
			codes[i] = 2
		}
	}
	if p.scale < 0 {
		p.scale, shifts = -p.scale, 3-shifts
		for i := range codes {
			codes[i] = 2 - codes[i]
		}
	}
	for g := range n / 8 {
		p.minus[g] = shifts>>1 == 1
		if apart && g >= n/16 {
			p.minus[g] = shifts&1 == 1
		}
	}
	p.settle(x, w, &codes)
	return p
}

// sums returns the sums of elements cut at i1 and i2.
func (c *cuts) sums(i1, i2, n int, minus bool) (s sums) {
	v := valuesIQ1(minus)
	x := [3]float32{c.x[i1], c.x[i2] - c.x[i1], c.x[n] - c.x[i2]}
	w := [3]float32{c.w[i1], c.w[i2] - c.w[i1], c.w[n] - c.w[i2]}
	for i := range v {
		s.qx += float32(x[i] * v[i])
		s.qq += float32(w[i] * square(v[i]))
	}
	return s
}

// settle moves groups to words of the grid, and the scale with them.
func (p *iq1Part) settle(x, w []float32, codes *[32]uint16) {
	l := latticeIQ1()
	moved := false
	var s sums
	for g := range len(x) / 8 {
		v := valuesIQ1(p.minus[g])
		var word uint16
		for i := range 8 {
			word |= codes[8*g+i] << (2 * i)
		}
		if !l.on[word] {
			moved = true
			var c costs
			for i := range 8 {
				for code := range v {
					c[i][code] = w[8*g+i] * square(float32(p.scale*v[code])-x[8*g+i])
				}
			}
			word = l.closest(word, c[:])
		}
		p.words[g] = word
		for i := range 8 {
			s.add(w[8*g+i], v[l.code(word, i)], x[8*g+i])
		}
	}
	if moved && s.qx > 0 && s.qq > 0 {
		p.scale = s.scale()
	}
}

// put writes the part's codes to q; bit 2 means that an eighth is subtracted.
func (p *iq1Part) put(q []uint8) {
	l := latticeIQ1()
	for i := range q {
		q[i] = uint8(l.code(p.words[i/8], i%8))
		if p.minus[i/8] {
			q[i] |= 4
		}
	}
}

// Scales of the IQ1 types are odd, from 1 to 15. The units are a little larger than the fitting ones, as measured by
// llama.cpp's authors.
const (
	mostIQ1     = 15
	factorIQ1_S = 1.125
	factorIQ1_M = 1.1125
)

// oddIQ1 returns the odd number of units nearest to a scale.
func oddIQ1(scale, inverse float32) float32 { return 2*within(0.5*(scale*inverse-1), 0, mostIQ1/2) + 1 }

func putIQ1_S(b []byte, x []float32, w *[QKK]float32) {
	const least = 1e-12
	var to Parts
	var scale [8]float32
	for j := range scale {
		p := fitIQ1(x[j*32:][:32], w[j*32:][:32], false, least)
		if p.scale == 0 {
			p.words = zeroWordsIQ1()
		}
		p.put(to.Q[j*32:][:32])
		scale[j] = p.scale
	}
	unit := absMax(scale[:]) / mostIQ1
	to.Unit = F16FromF32(unit * factorIQ1_S)
	for j, s := range scale {
		to.Scale[j] = int8(oddIQ1(s, inverse(unit)))
	}
	clear(b)
	joinIQ1_S(b, &to)
}

func putIQ1_M(b []byte, x []float32, w *[QKK]float32) {
	const least = 1e-7
	var to Parts
	var part [16]iq1Part
	var scale [16]float32
	for j := range part {
		part[j] = fitIQ1(x[j*16:][:16], w[j*16:][:16], true, least)
		if scale[j] = part[j].scale; scale[j] == 0 {
			part[j].words = zeroWordsIQ1()
		}
		part[j].put(to.Q[j*16:][:16])
	}
	unit := absMax(scale[:]) / mostIQ1
	l, id := latticeIQ1(), inverse(unit)
	var s sums
	for j, p := range part {
		odd := oddIQ1(p.scale, id)
		to.Scale[j] = int8(odd)
		for i := range 16 {
			v := valuesIQ1(p.minus[i/8])
			s.add(w[j*16+i], odd*v[l.code(p.words[i/8], i%8)], x[j*16+i])
		}
	}
	if s.qq > 0 && unit > 0 {
		unit = max(0, s.scale())
	}
	to.Unit = F16FromF32(unit * factorIQ1_M)
	clear(b)
	joinIQ1_M(b, &to)
}

// zeroWordsIQ1 returns words for elements that are all zero, or nearly.
func zeroWordsIQ1() (words [4]uint16) {
	l := latticeIQ1()
	const zeros = 0x5555
	word := uint16(zeros)
	if !l.on[word] {
		var c costs
		for i := range c {
			c[i] = [8]float32{1, 0, 1}
		}
		word = l.closest(word, c[:])
	}
	for i := range words {
		words[i] = word
	}
	return words
}
