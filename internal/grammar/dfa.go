package grammar

import (
	"errors"
	"fmt"
	"slices"
)

// maxDFA bounds the states of a regular expression's automaton, and maxDFAEdges its edges.
const (
	maxDFA      = 5000
	maxDFAEdges = 200_000
)

var errPattern = errors.New("the pattern takes too large an automaton; make it simpler or its counts smaller")

// dfa is a deterministic automaton over characters. It begins in state 0; where no edge leads on, the text is not in
// it.
type dfa struct {
	final []bool
	edges [][]dfaEdge
}

type dfaEdge struct {
	ranges []runeRange // normalised; those of a state's edges have no character in common
	to     int
}

func (d *dfa) state(final bool) int {
	d.final, d.edges = append(d.final, final), append(d.edges, nil)
	return len(d.final) - 1
}

// expr returns the texts of d as they are spelled within JSON strings.
func (d *dfa) expr() *expr {
	g := make([]vertex, len(d.final))
	known := map[string]*expr{}
	for i := range g {
		g[i].final = d.final[i]
		for _, e := range d.edges[i] {
			key := fmt.Sprint(e.ranges)
			by, ok := known[key]
			if !ok {
				by = spelled(e.ranges)
				known[key] = by
			}
			g[i].edges = append(g[i].edges, edge{by, e.to})
		}
	}
	return &expr{op: opGraph, graph: g}
}

// explore builds an automaton whose states are keys: next returns the edges of a key, to keys, and whether it is final.
func explore[K comparable](start K, next func(K) (final bool, edges map[K][]runeRange, err error)) (*dfa, error) {
	d := &dfa{}
	number := map[K]int{start: d.state(false)}
	todo := []K{start}
	count := 0
	for len(todo) > 0 {
		k := todo[0]
		todo = todo[1:]
		final, edges, err := next(k)
		if err != nil {
			return nil, err
		}
		from := number[k]
		d.final[from] = final
		for to, ranges := range edges {
			n, ok := number[to]
			if !ok {
				n = d.state(false)
				number[to] = n
				todo = append(todo, to)
			}
			d.edges[from] = append(d.edges[from], dfaEdge{normalise(ranges), n})
		}
		count += len(edges)
		if len(d.final) > maxDFA || count > maxDFAEdges {
			return nil, errPattern
		}
		slices.SortFunc(d.edges[from], func(a, b dfaEdge) int { return int(a.ranges[0].lo) - int(b.ranges[0].lo) })
	}
	return d, nil
}

// intersect returns the automaton of texts that are of both.
func (d *dfa) intersect(o *dfa) (*dfa, error) {
	return explore([2]int{}, func(k [2]int) (bool, map[[2]int][]runeRange, error) {
		edges := map[[2]int][]runeRange{}
		for _, a := range d.edges[k[0]] {
			for _, b := range o.edges[k[1]] {
				if r := intersect(a.ranges, b.ranges); len(r) > 0 {
					to := [2]int{a.to, b.to}
					edges[to] = append(edges[to], r...)
				}
			}
		}
		return d.final[k[0]] && o.final[k[1]], edges, nil
	})
}

// counted returns the automaton of d's texts of so many characters. Only lengths that the automaton does not bound
// itself make it larger.
func (d *dfa) counted(least, most int) (*dfa, error) {
	last := most
	if most == unbounded {
		last = least
	}
	return explore([2]int{}, func(k [2]int) (bool, map[[2]int][]runeRange, error) {
		edges := map[[2]int][]runeRange{}
		if most == unbounded || k[1] < most {
			for _, e := range d.edges[k[0]] {
				to := [2]int{e.to, min(k[1]+1, last)}
				edges[to] = append(edges[to], e.ranges...)
			}
		}
		return d.final[k[0]] && k[1] >= least, edges, nil
	})
}

// nameTrie holds texts, to tell others from them. State 1 stands for texts that are already different.
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
func (t *nameTrie) others() *expr {
	for i, children := range t.child {
		var taken []runeRange
		for r, to := range children {
			taken = append(taken, runeRange{r, r})
			t.edges[i] = append(t.edges[i], dfaEdge{[]runeRange{{r, r}}, to})
		}
		t.edges[i] = append(t.edges[i], dfaEdge{complement(normalise(taken)), 1})
	}
	return t.expr()
}
