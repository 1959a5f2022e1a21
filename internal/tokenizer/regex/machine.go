package regex

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// alphabet sorts characters into classes that no set of an expression distinguishes.
type alphabet struct {
	ascii [utf8.RuneSelf]uint8
	pages []*[256]uint8 // by the upper bits of a code point
	sets  [][]bool      // set -> class -> whether it contains it
	size  int           // number of classes; the class of this number is the text's edge
}

func newAlphabet(sets []set) (*alphabet, error) {
	var cuts []rune
	for _, s := range sets {
		for _, p := range s {
			cuts = append(cuts, p.lo, p.hi+1)
		}
	}
	cuts = append(cuts, 0, unicode.MaxRune+1)
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	a := &alphabet{pages: make([]*[256]uint8, unicode.MaxRune/256+1), sets: make([][]bool, len(sets))}
	numbers := map[string]uint8{}
	whole := map[uint8]*[256]uint8{} // pages of one class are shared
	key := make([]byte, len(sets))
	for i, lo := range cuts[:len(cuts)-1] {
		hi := cuts[i+1]
		for j, s := range sets {
			if key[j] = 0; s.has(lo) {
				key[j] = 1
			}
		}
		class, ok := numbers[string(key)]
		if !ok {
			if len(numbers) >= 250 {
				return nil, fmt.Errorf("the expression tells too many classes of characters apart")
			}
			class = uint8(len(numbers))
			numbers[string(key)] = class
			for j := range sets {
				a.sets[j] = append(a.sets[j], key[j] == 1)
			}
		}
		for r := lo; r < hi; {
			if r%256 == 0 && hi-r >= 256 {
				if whole[class] == nil {
					whole[class] = new([256]uint8)
					for k := range whole[class] {
						whole[class][k] = class
					}
				}
				a.pages[r/256] = whole[class]
				r += 256
				continue
			}
			if a.pages[r/256] == nil {
				a.pages[r/256] = new([256]uint8)
			}
			a.pages[r/256][r%256] = class
			r++
		}
	}
	copy(a.ascii[:], a.pages[0][:])
	a.size = len(numbers)
	for j := range a.sets {
		a.sets[j] = append(a.sets[j], false) // the edge is in no set
	}
	return a, nil
}

func (a *alphabet) class(r rune) int { return int(a.pages[uint32(r)>>8][r&255]) }

// machine is a program's automaton over classes: a state is the list of steps where the expression may be, the
// preferred ones first.
type machine struct {
	looks  int      // bits of a symbol for looks that hold; the class is above them
	width  int      // symbols
	moves  []uint32 // state*width + symbol -> twice the next state, plus 1 if a match ends before the symbol; state 0 is the end
	starts []uint32 // class before the text -> state; only one if it does not matter
}

// Bounds of a machine's size, so that a file's expression cannot take all memory or time.
const (
	maxMoves = 1 << 22
	maxWork  = 1 << 26
)

// builder makes a machine.
type builder struct {
	p     *program
	a     *alphabet
	every bool // report matches at all places, from any begin
	begin int
	prev  bool // the character before matters

	states map[string]uint32
	lists  [][]int32
	before []int // state -> class before it
	work   int

	seen []uint32 // step -> round in which it was visited
	in   []uint32 // step -> round in which it was listed
	now  uint32
	list []int32
	hit  bool
}

func (b *builder) state(list []int32, before int) uint32 {
	if len(list) == 0 {
		return 0
	}
	if !b.prev {
		before = 0
	}
	key := make([]byte, 4*len(list)+1)
	for i, x := range list {
		binary.LittleEndian.PutUint32(key[4*i:], uint32(x))
	}
	key[4*len(list)] = byte(before)
	id, ok := b.states[string(key)]
	if !ok {
		id = uint32(len(b.lists))
		b.states[string(key)] = id
		b.lists = append(b.lists, slices.Clone(list))
		b.before = append(b.before, before)
	}
	return id
}

// visit follows a step as far as possible without reading, and lists where reading symbol leads. It reports whether
// anything may follow.
func (b *builder) visit(at, before, class, looks int) bool {
	if b.seen[at] == b.now {
		return true
	}
	b.seen[at] = b.now
	b.work++
	s := &b.p.steps[at]
	holds := false
	switch s.op {
	case opMatch:
		b.hit = true
		return b.every
	case opChar:
		if b.a.sets[s.set][class] && b.in[s.x] != b.now {
			b.in[s.x] = b.now
			b.list = append(b.list, int32(s.x))
		}
		return true
	case opSplit:
		return b.visit(s.x, before, class, looks) && b.visit(s.y, before, class, looks)
	case opNext:
		holds = b.a.sets[s.set][class]
	case opPrevious:
		holds = b.a.sets[s.set][before]
	case opEdge:
		holds = b.a.sets[s.set][class] != b.a.sets[s.set][before]
	case opWhole:
		holds = looks>>s.set&1 != 0
	}
	return holds == s.not || b.visit(s.x, before, class, looks)
}

func (b *builder) build() (*machine, error) {
	m := &machine{looks: len(b.p.looks)}
	m.width = (b.a.size + 1) << m.looks
	for _, s := range b.p.steps {
		b.prev = b.prev || s.op == opPrevious || s.op == opEdge
	}
	b.states, b.lists, b.before = map[string]uint32{}, [][]int32{nil}, []int{0}
	b.seen, b.in = make([]uint32, len(b.p.steps)), make([]uint32, len(b.p.steps))
	starts := 1
	if b.prev {
		starts = b.a.size + 1
	}
	for class := range starts {
		m.starts = append(m.starts, b.state([]int32{int32(b.begin)}, class))
	}
	for id := 0; id < len(b.lists); id++ {
		for symbol := range m.width {
			class, looks := symbol>>m.looks, symbol&(1<<m.looks-1)
			b.now++
			b.list, b.hit = b.list[:0], false
			for _, at := range b.lists[id] {
				if !b.visit(int(at), b.before[id], class, looks) {
					break
				}
			}
			if b.every && class < b.a.size {
				if b.in[b.begin] != b.now {
					b.list = append(b.list, int32(b.begin))
				}
				slices.Sort(b.list)
			}
			move := b.state(b.list, class) << 1
			if b.hit {
				move |= 1
			}
			m.moves = append(m.moves, move)
		}
		if len(m.moves) > maxMoves || b.work > maxWork {
			return nil, fmt.Errorf("the expression is too complex")
		}
	}
	return m, nil
}
