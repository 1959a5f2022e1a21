package grammar

import (
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"
)

// maxDFA bounds the states of a regular expression's automaton, and maxDFAEdges its edges.
const (
	maxDFA      = 5000
	maxDFAEdges = 200_000
)

var errPattern = errors.New("takes too large an automaton; make it simpler or its counts smaller")

// dfa is a deterministic automaton over characters. It begins in state 0; a text without an edge is not in it.
type dfa struct {
	final []bool
	edges [][]dfaEdge
}

type dfaEdge struct {
	ranges []runeRange // normalised; the edges of a state have no character in common
	to     int
}

func (d *dfa) state(final bool) int {
	d.final, d.edges = append(d.final, final), append(d.edges, nil)
	return len(d.final) - 1
}

// expr returns the texts of d as spelled within JSON strings. Equal sets of characters are one expression.
func (d *dfa) expr(m *meter) *expr {
	g := make([]vertex, len(d.final))
	known := map[*runeRange]*expr{}
	equal := map[string]*expr{}
	for i := range g {
		g[i].final = d.final[i]
		for _, e := range d.edges[i] {
			by, ok := known[unsafe.SliceData(e.ranges)]
			if !ok {
				key := rangesKey(e.ranges)
				if by, ok = equal[key]; !ok {
					by = spelled(e.ranges)
					equal[key] = by
				}
				known[unsafe.SliceData(e.ranges)] = by
				m.spend(len(e.ranges))
			}
			if m.take(32) != nil {
				return choice()
			}
			g[i].edges = append(g[i].edges, edge{by, e.to})
		}
	}
	return &expr{op: opGraph, graph: g}
}

// rangesKey names a set of characters by its content.
func rangesKey(ranges []runeRange) string {
	b := make([]byte, 0, 8*len(ranges))
	for _, r := range ranges {
		b = binary.LittleEndian.AppendUint32(b, uint32(r.lo))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.hi))
	}
	return string(b)
}

// wayTo is an edge to a state, with its characters, normalised.
type wayTo[K comparable] struct {
	to K
	by []runeRange
}

// explore builds an automaton with a state for each key. next returns a key's edges, and whether its state is final.
// States that lead to no final one are left out.
func explore[K comparable](m *meter, start K, next func(K) (final bool, ways []wayTo[K], err error)) (*dfa, error) {
	d := &dfa{}
	number := map[K]int{start: d.state(false)}
	todo := []K{start}
	count := 0
	for from := 0; from < len(todo); from++ {
		final, ways, err := next(todo[from])
		if err != nil {
			return nil, err
		}
		d.final[from] = final
		for _, w := range ways {
			n, ok := number[w.to]
			if !ok {
				n = d.state(false)
				number[w.to] = n
				todo = append(todo, w.to)
			}
			d.edges[from] = append(d.edges[from], dfaEdge{w.by, n})
		}
		if err := m.within(8 + 4*len(ways)); err != nil {
			return nil, err
		}
		if count += len(ways); len(d.final) > maxDFA || count > maxDFAEdges {
			return nil, errPattern
		}
		slices.SortFunc(d.edges[from], func(a, b dfaEdge) int { return int(a.ranges[0].lo) - int(b.ranges[0].lo) })
	}
	return d.live(), nil
}

// live returns d without the states that lead to no final one. The first state stays.
func (d *dfa) live() *dfa {
	before := make([][]int, len(d.final))
	for from, edges := range d.edges {
		for _, e := range edges {
			before[e.to] = append(before[e.to], from)
		}
	}
	alive := make([]bool, len(d.final))
	var todo []int
	mark := func(i int) {
		if !alive[i] {
			alive[i] = true
			todo = append(todo, i)
		}
	}
	for i, final := range d.final {
		if final {
			mark(i)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range before[i] {
			mark(j)
		}
	}
	out := &dfa{}
	number := make([]int, len(d.final))
	for i := range number {
		if alive[i] || i == 0 {
			number[i] = out.state(d.final[i])
		}
	}
	for i, edges := range d.edges {
		for _, e := range edges {
			if alive[i] && alive[e.to] {
				out.edges[number[i]] = append(out.edges[number[i]], dfaEdge{e.ranges, number[e.to]})
			}
		}
	}
	return out
}

// ways collects the edges of a state: sets of characters, by the state that they lead to.
type ways struct {
	m     *meter
	by    map[[2]int]int // index in all
	all   []wayTo[[2]int]
	mixed []bool // [len(all)] the set was joined with others, and has to be normalised
}

func (w *ways) add(to [2]int, ranges []runeRange) {
	i, ok := w.by[to]
	if !ok {
		w.by[to] = len(w.all)
		w.all, w.mixed = append(w.all, wayTo[[2]int]{to, ranges}), append(w.mixed, false)
		return
	}
	if !w.mixed[i] {
		w.all[i].by, w.mixed[i] = slices.Clone(w.all[i].by), true
	}
	w.all[i].by = append(w.all[i].by, ranges...)
}

func (w *ways) done() ([]wayTo[[2]int], error) {
	for i := range w.all {
		if w.mixed[i] {
			w.all[i].by = normalise(w.all[i].by)
			if err := w.m.within(4 * len(w.all[i].by)); err != nil {
				return nil, err
			}
		}
	}
	return w.all, nil
}

// intersect returns the automaton of texts that are of both.
func (d *dfa) intersect(m *meter, o *dfa) (*dfa, error) {
	m.beginPattern()
	type pair struct{ a, b *runeRange }
	known := map[pair][]runeRange{}
	return explore(m, [2]int{}, func(k [2]int) (bool, []wayTo[[2]int], error) {
		w := ways{m: m, by: map[[2]int]int{}}
		for _, a := range d.edges[k[0]] {
			for _, b := range o.edges[k[1]] {
				key := pair{unsafe.SliceData(a.ranges), unsafe.SliceData(b.ranges)}
				r, ok := known[key]
				if !ok {
					r = intersect(a.ranges, b.ranges)
					known[key] = r
					m.spend(len(a.ranges) + len(b.ranges))
				}
				if err := m.within(2); err != nil {
					return false, nil, err
				}
				if len(r) > 0 {
					w.add([2]int{a.to, b.to}, r)
				}
			}
		}
		all, err := w.done()
		return d.final[k[0]] && o.final[k[1]], all, err
	})
}

// counted returns the automaton of d's texts with this many characters. Only lengths that the automaton does not bound
// itself make it larger.
func (d *dfa) counted(m *meter, least, most int) (*dfa, error) {
	m.beginPattern()
	last := most
	if most == unbounded {
		last = least
	}
	return explore(m, [2]int{}, func(k [2]int) (bool, []wayTo[[2]int], error) {
		w := ways{m: m, by: map[[2]int]int{}}
		if most == unbounded || k[1] < most {
			for _, e := range d.edges[k[0]] {
				w.add([2]int{e.to, min(k[1]+1, last)}, e.ranges)
			}
		}
		all, err := w.done()
		return d.final[k[0]] && k[1] >= least, all, err
	})
}

// nameTrie holds texts, to distinguish others from them. State 1 stands for texts that already differ.
type nameTrie struct {
	dfa
	child []map[rune]int
}

func newNameTrie() *nameTrie {
	t := &nameTrie{}
	for range 2 {
		t.add()
	}
	return t
}

func (t *nameTrie) add() int {
	t.child = append(t.child, map[rune]int{})
	return t.state(true)
}

func (t *nameTrie) insert(name string) {
	at := 0
	for _, r := range name {
		next, ok := t.child[at][r]
		if !ok {
			next = t.add()
			t.child[at][r] = next
		}
		at = next
	}
	t.final[at] = false
}

// others returns every text that was not inserted, as spelled within a JSON string.
func (t *nameTrie) others(m *meter) *expr {
	for i, children := range t.child {
		var taken []runeRange
		for r, to := range children {
			taken = append(taken, runeRange{r, r})
			t.edges[i] = append(t.edges[i], dfaEdge{[]runeRange{{r, r}}, to})
		}
		t.edges[i] = append(t.edges[i], dfaEdge{complement(normalise(taken)), 1})
	}
	return t.expr(m)
}
