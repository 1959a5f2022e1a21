package quant

import (
	"math"
	"math/bits"
	"slices"
	"sync"
)

// lattice is a grid with what a search on it needs. A word is the codes of one group of elements, as entries have them.
type lattice struct {
	group  int // elements that an entry has codes for
	levels int // codes, from 0
	bits   int // of a code
	words  []uint16
	on     []bool     // by word: the grid has it
	near   [][]uint16 // by word that the grid has not: words of the grid that lie nearest
}

// newLattice returns what makes the lattice when it is first used; near are words at so many different least distances.
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

// costs are what each code of each element of a group adds to the error.
type costs [8][8]float32

// closest returns the word of the grid, among those near word, that costs least.
func (l *lattice) closest(word uint16, c *costs) uint16 {
	if l.on[word] {
		return word
	}
	if l.group == 8 {
		return closestOfEight(l.near[word], c)
	}
	return closestOfFour(l.near[word], c)
}

// closestOfEight adds up the costs of pairs first, because words share them.
func closestOfEight(near []uint16, c *costs) (best uint16) {
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

func closestOfFour(near []uint16, c *costs) (best uint16) {
	least := float32(math.Inf(1))
	for _, w := range near {
		if e := c[0][w&7] + c[1][w>>3&7] + (c[2][w>>6&7] + c[3][w>>9&7]); e < least {
			least, best = e, w
		}
	}
	return best
}

var (
	latticeIQ2XXS = newLattice(gridIQ2XXS, 8, 3, 2)
	latticeIQ2XS  = newLattice(gridIQ2XS, 8, 3, 2)
	latticeIQ2S   = newLattice(gridIQ2S, 8, 3, 1)
	latticeIQ3XXS = newLattice(gridIQ3XXS, 4, 8, 2)
	latticeIQ3S   = newLattice(gridIQ3S, 4, 8, 3)
	latticeIQ1    = newLattice(gridIQ1, 8, 3, 3)
)

// gridForm is the form of a type whose magnitudes are chosen from a grid, and how its scales are searched for. Code l of a magnitude stands for
// about 2·l+1 steps.
type gridForm struct {
	lattice func() *lattice
	part    int     // elements that share a scale
	even    bool    // the number of minus signs of eight elements is even, because one is not stored
	tries   int     // to either side
	step    float32 // by which the largest magnitude's steps differ from one try to the next
	again   bool    // groups that were on the grid are chosen again with the best scale, too
	unit    bool    // the search begins at the scale that fits without a grid
	factor  float32 // of the unit: as measured by llama.cpp's authors, because the values are not quite 2·l+1
}

func formIQ2_XXS() gridForm {
	return gridForm{lattice: latticeIQ2XXS, part: 32, even: true, tries: 6, step: 0.1, again: true, unit: true, factor: 1}
}

func formIQ2_XS() gridForm {
	return gridForm{lattice: latticeIQ2XS, part: 16, even: true, tries: 9, step: 0.1, factor: 1}
}

func formIQ2_S() gridForm {
	return gridForm{lattice: latticeIQ2S, part: 16, tries: 9, step: 0.1, factor: 0.9875}
}

func formIQ3_XXS() gridForm {
	return gridForm{lattice: latticeIQ3XXS, part: 32, even: true, tries: 15, step: 0.2, factor: 1.0125}
}

func formIQ3_S() gridForm {
	return gridForm{lattice: latticeIQ3S, part: 32, tries: 9, step: 0.2, again: true, factor: 1.033}
}

// gridPart is what is searched for of the elements that share a scale.
type gridPart struct {
	x      [32]float32 // magnitudes; one of eight may be negative where the number of minus signs must be even
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
		var moved [8]bool
		inverse := (last + f.step*float32(try)) / top
		for g := range groups {
			words[g], moved[g] = p.word(l, g, inverse)
		}
		if s := p.sums(l, &words, groups); s.better(gain) {
			p.scale, p.words, off = s.scale(), words, moved
			gain = p.scale * s.qx
		}
	}
	if off != [8]bool{} && p.scale > 0 || f.unit && p.scale > 0 {
		for g := range groups {
			if off[g] || f.again {
				p.words[g], _ = p.word(l, g, 1/p.scale)
			}
		}
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

// sign sets magnitudes, signs and weights. Where the number of minus signs must be even, the element that matters least has the wrong one.
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

// word returns the word of the grid for group g in steps of 1/inverse, and whether it is another than rounding gives.
func (p *gridPart) word(l *lattice, g int, inverse float32) (word uint16, moved bool) {
	x, w := p.x[g*l.group:][:l.group], p.choice[g*l.group:][:l.group]
	for i, v := range x {
		word |= uint16(within(0.5*(inverse*v-1), 0, float32(l.levels-1))) << (l.bits * i)
	}
	if l.on[word] {
		return word, false
	}
	var c costs
	step := 1 / inverse
	for i, v := range x {
		for code := range l.levels {
			c[i][code] = w[i] * square(step*float32(2*code+1)-v)
		}
	}
	return l.closest(word, &c), true
}

func (p *gridPart) sums(l *lattice, words *[8]uint16, groups int) (s sums) {
	for g, word := range words[:groups] {
		for i := range l.group {
			e := g*l.group + i
			s.add(p.w[e], float32(2*l.code(word, i)+1), p.x[e])
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
func weighFlat(w *[QKK]float32, x []float32) {
	floor := 0.5 * meanSquare(x)
	for i, v := range x {
		w[i] = floor + square(v)
	}
}

// put writes a superblock with the given weights.
func (f gridForm) put(b []byte, x []float32, w *[QKK]float32, join func(b []byte, p *Parts)) {
	var p Parts
	f.fit(&p, x, w)
	clear(b)
	join(b, &p)
}

func encodeIQ2_XXS(b []byte, x []float32) {
	var w [QKK]float32
	weighFlat(&w, x)
	formIQ2_XXS().put(b, x, &w, joinIQ2_XXS)
}

func weighedIQ2_XXS(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, meanSquare(x))
	formIQ2_XXS().put(b, x, &w, joinIQ2_XXS)
}

func encodeIQ2_XS(b []byte, x []float32) {
	var w [QKK]float32
	weighFlat(&w, x)
	formIQ2_XS().put(b, x, &w, joinIQ2_XS)
}

func weighedIQ2_XS(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, meanSquare(x))
	formIQ2_XS().put(b, x, &w, joinIQ2_XS)
}

func encodeIQ2_S(b []byte, x []float32) {
	var w [QKK]float32
	weighFlat(&w, x)
	formIQ2_S().put(b, x, &w, joinIQ2_S)
}

func weighedIQ2_S(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, 2*meanSquare(x))
	formIQ2_S().put(b, x, &w, joinIQ2_S)
}

func encodeIQ3_XXS(b []byte, x []float32) {
	var w [QKK]float32
	weighSquares(w[:], x)
	formIQ3_XXS().put(b, x, &w, joinIQ3_XXS)
}

func weighedIQ3_XXS(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, 2*meanSquare(x))
	formIQ3_XXS().put(b, x, &w, joinIQ3_XXS)
}

func encodeIQ3_S(b []byte, x []float32) {
	var w [QKK]float32
	weighSquares(w[:], x)
	formIQ3_S().put(b, x, &w, joinIQ3_S)
}

func weighedIQ3_S(b []byte, x, importance []float32, _ float32) {
	var w [QKK]float32
	weigh(w[:], x, importance, 2*meanSquare(x))
	formIQ3_S().put(b, x, &w, joinIQ3_S)
}
