package quant

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// lattice is a grid, prepared for searches. A word is the codes of one group of elements, in the form of the grid's
// entries.
type lattice struct {
	group  int // elements that an entry has codes for
	levels int // codes, from 0
	bits   int // of a code
	words  []uint16
	on     []bool     // by word: whether it is in the grid
	near   [][]uint16 // by word outside of the grid: the nearest words in it
}

// newLattice returns a function that makes the lattice when it is first used; near holds words at this many different
// least distances.
func newLattice(from func() *codeGrid, group, levels, distances int) func() *lattice {
	return sync.OnceValue(func() *lattice {
		g := from()
		l := &lattice{group: group, levels: levels, bits: g.bits, words: g.entries}
		all := 1 << (g.bits * group)
		l.on, l.near = make([]bool, all), make([][]uint16, all)
		for _, w := range g.entries {
			l.on[w] = true
		}
		byDistance := make([][]uint16, group*(levels-1)*(levels-1)+1)
		for word := range all {
			if l.on[word] || !l.possible(uint16(word)) {
				continue
			}
			for i := range byDistance {
				byDistance[i] = byDistance[i][:0]
			}
			for _, w := range g.entries {
				d := l.distance(uint16(word), w)
				byDistance[d] = append(byDistance[d], w)
			}
			left := distances
			for _, words := range byDistance {
				if len(words) > 0 && left > 0 {
					l.near[word] = append(l.near[word], words...)
					left--
				}
			}
			l.near[word] = slices.Clip(l.near[word])
		}
		return l
	})
}

// code returns the code of element i.
func (l *lattice) code(word uint16, i int) int { return int(word>>(l.bits*i)) & (1<<l.bits - 1) }

// possible reports whether all codes of a word are levels.
func (l *lattice) possible(word uint16) bool {
	for i := range l.group {
		if l.code(word, i) >= l.levels {
			return false
		}
	}
	return true
}

// distance is the square of that between two words' codes.
func (l *lattice) distance(a, b uint16) (sum int) {
	for i := range l.group {
		d := l.code(a, i) - l.code(b, i)
		sum += d * d
	}
	return sum
}

// costs are what each code of each element of a part adds to the error.
type costs [QK][8]float32

// closest returns the word of the grid, among those near word, that costs least; c are the costs of a group's elements.
func (l *lattice) closest(word uint16, c [][8]float32) uint16 {
	if l.on[word] {
		return word
	}
	if l.group == 8 {
		return closestOfEight(l.near[word], (*[8][8]float32)(c))
	}
	return closestOfFour(l.near[word], (*[4][8]float32)(c))
}

// closestOfEight adds up the costs of pairs first, because words share them.
func closestOfEight(near []uint16, c *[8][8]float32) (best uint16) {
	var pairs [4][16]float32
	for k := range pairs {
		for second := range 3 {
			for first := range 3 {
				pairs[k][second<<2|first] = c[2*k][first] + c[2*k+1][second]
			}
		}
	}
	least := float32(math.Inf(1))
	for _, w := range near {
		if e := pairs[0][w&15] + pairs[1][w>>4&15] + (pairs[2][w>>8&15] + pairs[3][w>>12]); e < least {
			least, best = e, w
		}
	}
	return best
}

func closestOfFour(near []uint16, c *[4][8]float32) (best uint16) {
	least := float32(math.Inf(1))
	for _, w := range near {
		if e := c[0][w&7] + c[1][w>>3&7] + (c[2][w>>6&7] + c[3][w>>9&7]); e < least {
			least, best = e, w
		}
	}
	return best
}

// join returns the word of a group's codes.
func (l *lattice) join(codes []uint8) uint16 {
	if l.group == 8 { // neighbours of 2 bits join to 4, these to 8 and to 16
		v := binary.LittleEndian.Uint64(codes)
		v = (v | v>>6) & 0x000f_000f_000f_000f
		v = (v | v>>12) & 0x0000_00ff_0000_00ff
		return uint16(v | v>>24)
	}
	v := binary.LittleEndian.Uint32(codes) // neighbours of 3 bits join to 6 and to 12
	v = (v | v>>5) & 0x003f_003f
	return uint16((v | v>>10) & 0xfff)
}

var (
	latticeIQ2XXS = newLattice(gridIQ2XXS, 8, 3, 2)
	latticeIQ2XS  = newLattice(gridIQ2XS, 8, 3, 2)
	latticeIQ2S   = newLattice(gridIQ2S, 8, 3, 1)
	latticeIQ3XXS = newLattice(gridIQ3XXS, 4, 8, 2)
	latticeIQ3S   = newLattice(gridIQ3S, 4, 8, 3)
	latticeIQ1    = newLattice(gridIQ1, 8, 3, 3)
)

// gridForm is the form of a type with magnitudes from a grid, and how its scales are searched. Code l of a magnitude
// stands for about 2·l+1 steps.
type gridForm struct {
	lattice func() *lattice
	join    func(b []byte, p *Parts)
	part    int     // elements that share a scale
	even    bool    // eight elements have an even number of minus signs, because one is not stored
	tries   int     // to either side
	step    float32 // difference of the largest magnitude's steps between tries
	again   bool    // groups that were on the grid are chosen again with the best scale, too
	unit    bool    // the search begins at the scale that fits without a grid
	factor  float32 // of the unit, as measured by llama.cpp's authors, because the values are not quite 2·l+1
}

func formIQ2_XXS() gridForm {
	return gridForm{lattice: latticeIQ2XXS, join: joinIQ2_XXS, part: 32, even: true, tries: 6, step: 0.1, again: true, unit: true, factor: 1}
}

func formIQ2_XS() gridForm {
	return gridForm{lattice: latticeIQ2XS, join: joinIQ2_XS, part: 16, even: true, tries: 9, step: 0.1, factor: 1}
}

func formIQ2_S() gridForm {
	return gridForm{lattice: latticeIQ2S, join: joinIQ2_S, part: 16, tries: 9, step: 0.1, factor: 0.9875}
}

func formIQ3_XXS() gridForm {
	return gridForm{lattice: latticeIQ3XXS, join: joinIQ3_XXS, part: 32, even: true, tries: 15, step: 0.2, factor: 1.0125}
}

func formIQ3_S() gridForm {
	return gridForm{lattice: latticeIQ3S, join: joinIQ3_S, part: 32, tries: 9, step: 0.2, again: true, factor: 1.033}
}

// gridPart is the search's state for the elements that share a scale.
type gridPart struct {
	x      [32]float32 // magnitudes; one of eight may be negative if the number of minus signs must be even
	w      [32]float32
	choice [32]float32 // weights in the choice of words: the roots of the others
	minus  [4]uint8    // signs of eight elements each
	words  [8]uint16   // of groups
	scale  float32     // a step
}

// fit finds the words and the scale of elements x with weights w.
func (p *gridPart) fit(f *gridForm, l *lattice, x, w []float32) {
	p.sign(f, x, w)
	groups := f.part / l.group
	var top float32
	for _, v := range p.x[:f.part] {
		top = max(top, v)
	}
	const least = 1e-8
	if top < least {
		return
	}
	if f.unit {
		var q [32]uint8
		top = float32(l.levels) * fitUnit(q[:f.part], p.x[:f.part], p.w[:f.part], float32(l.levels+1))
		if top <= 0 {
			return
		}
	}
	last := float32(2*l.levels - 1)
	var gain float32
	var off [8]bool // words were rounded to others
	for try := -f.tries; try <= f.tries; try++ {
		var words [8]uint16
		inverse := (last + float32(f.step*float32(try))) / top
		moved := p.choose(l, &words, f.part, inverse, nil)
		if s := p.sums(l, &words, groups); s.better(gain) {
			p.scale, p.words, off = s.scale(), words, moved
			gain = p.scale * s.qx
		}
	}
	if off != [8]bool{} && p.scale > 0 || f.unit && p.scale > 0 {
		some := &off
		if f.again {
			some = nil
		}
		p.choose(l, &p.words, f.part, 1/p.scale, some)
		if s := p.sums(l, &p.words, groups); s.qq > 0 {
			p.scale = s.scale()
		}
	}
	if p.scale < 0 {
		p.scale = -p.scale
		for i := range p.minus {
			p.minus[i] = ^p.minus[i]
		}
	}
}

// sign sets magnitudes, signs and weights. If the number of minus signs must be even, the least important element gets
// the wrong one.
func (p *gridPart) sign(f *gridForm, x, w []float32) {
	*p = gridPart{}
	for i, v := range x {
		p.x[i], p.w[i], p.choice[i] = abs(v), w[i], root(w[i])
		if v < 0 {
			p.minus[i/8] |= 1 << (i % 8)
		}
	}
	if !f.even {
		return
	}
	for g := range len(x) / 8 {
		if bits.OnesCount8(p.minus[g])%2 == 0 {
			continue
		}
		least := 8 * g
		for i := least + 1; i < 8*g+8; i++ {
			if w[i]*square(x[i]) < w[least]*square(x[least]) {
				least = i
			}
		}
		p.x[least] = -p.x[least]
		p.minus[g] ^= 1 << (least % 8)
	}
}

// choose sets the grid's words for all groups, or only for those in which some is set, in steps of 1/inverse. It
// returns which of them differ from rounding.
func (p *gridPart) choose(l *lattice, words *[8]uint16, n int, inverse float32, some *[8]bool) (moved [8]bool) {
	var codes [QK]uint8
	p.round(codes[:n], inverse, float32(l.levels-1))
	var c costs
	known := false
	for g := range n / l.group {
		if some != nil && !some[g] {
			continue
		}
		word := l.join(codes[g*l.group:])
		if moved[g] = !l.on[word]; moved[g] {
			if !known {
				p.cost(&c, l.levels, n, 1/inverse)
				known = true
			}
			word = l.closest(word, c[g*l.group:])
		}
		words[g] = word
	}
	return moved
}

// round sets the codes of elements to the nearest in steps of 1/inverse.
func (p *gridPart) round(codes []uint8, inverse, most float32) {
	for i := roundGridVectors(codes, p.x[:], inverse, most); i < len(codes); i++ {
		codes[i] = uint8(within(0.5*(float32(inverse*p.x[i])-1), 0, most))
	}
}

// cost sets how much the codes of n elements add to the error.
func (p *gridPart) cost(c *costs, levels, n int, step float32) {
	if costVectors(c, p, n, step) {
		return
	}
	for i, v := range p.x[:n] {
		for code := range levels {
			c[i][code] = p.choice[i] * square(float32(step*float32(2*code+1))-v)
		}
	}
}

func (p *gridPart) sums(l *lattice, words *[8]uint16, groups int) (s sums) {
	mask := uint16(1)<<l.bits - 1
	for g, word := range words[:groups] {
		x, w := p.x[g*l.group:][:l.group], p.w[g*l.group:][:l.group]
		for i, v := range x {
			s.add(w[i], float32(2*int32(word&mask)+1), v)
			word >>= l.bits
		}
	}
	return s
}

// mostGrid is the largest whole number that scales of grid types are: they are odd, from 1 to 31.
const mostGrid = 31

// fit takes a superblock to parts.
func (f *gridForm) fit(to *Parts, x []float32, w *[QKK]float32) {
	l := f.lattice()
	n := QKK / f.part
	var scale [16]float32
	for j := range n {
		var p gridPart
		p.fit(f, l, x[j*f.part:][:f.part], w[j*f.part:][:f.part])
		scale[j] = p.scale
		for i := range f.part {
			e := j*f.part + i
			to.Q[e] = uint8(l.code(p.words[i/l.group], i%l.group)) | p.minus[i/8]>>(i%8)&1<<l.bits
		}
	}
	unit := absMax(scale[:n]) / mostGrid
	to.Unit = F16FromF32(unit * f.factor)
	id := inverse(unit)
	for j, s := range scale[:n] {
		to.Scale[j] = int8(2*within(0.5*(s*id-1), 0, mostGrid/2) + 1)
	}
}

// weighFlat gives larger elements more weight, but small ones some, too.
func weighFlat(w, x []float32) {
	floor := 0.5 * meanSquare(x)
	for i, v := range x {
		w[i] = floor + square(v)
	}
}

// put writes a superblock with the given weights.
func (f gridForm) put(b []byte, x []float32, w *[QKK]float32) {
	var p Parts
	f.fit(&p, x, w)
	clear(b)
	f.join(b, &p)
}
