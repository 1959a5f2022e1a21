package grammar

import "slices"

// prune removes the edges to nodes that cannot reach the procedure's end, so that every stack of the automaton can be
// completed. It reports whether the root has a text.
func (a *automaton) prune() bool {
	p := pruner{
		a: a, live: make([]bool, len(a.nodes)), productive: make([]bool, len(a.procedures)),
		before: make([][]way, len(a.nodes)), callers: make([][]site, len(a.procedures)), owner: make(map[int32]int32, len(a.procedures)),
	}
	p.run()
	for i := range a.nodes {
		n := &a.nodes[i]
		n.bytes = slices.DeleteFunc(n.bytes, func(e byteEdge) bool { return !p.live[e.to] })
		n.empty = slices.DeleteFunc(n.empty, func(to int32) bool { return !p.live[to] })
		n.tokens = slices.DeleteFunc(n.tokens, func(e tokenEdge) bool { return !p.live[e.to] })
		n.calls = slices.DeleteFunc(n.calls, func(c call) bool { return !p.live[c.to] || !p.productive[c.procedure] })
	}
	a.shorten()
	return p.productive[a.root] || a.procedures[a.root].nullable
}

// longestChain bounds the number of edges that shorten follows.
const longestChain = 16

// shorten redirects edges to a node with only one empty edge to that edge's end, so that there are fewer equivalent
// places.
func (a *automaton) shorten() {
	end := func(n int32) int32 {
		for range longestChain {
			x := &a.nodes[n]
			if len(x.empty) != 1 || len(x.bytes)+len(x.calls)+len(x.tokens) > 0 || x.accept != a.nodes[x.empty[0]].accept {
				break
			}
			n = x.empty[0]
		}
		return n
	}
	for i := range a.nodes {
		n := &a.nodes[i]
		for k := range n.bytes {
			n.bytes[k].to = end(n.bytes[k].to)
		}
		for k := range n.calls {
			n.calls[k].to = end(n.calls[k].to)
		}
		for k := range n.tokens {
			n.tokens[k].to = end(n.tokens[k].to)
		}
	}
}

// pruner finds live nodes, backwards from accepting ones. It looks at each edge twice.
type pruner struct {
	a          *automaton
	live       []bool          // [nodes] the end of the procedure can be reached
	productive []bool          // [procedures] there is a non-empty text
	before     [][]way         // [nodes] the ways to the index
	callers    [][]site        // [procedures] its calls; for a repetition's body its start
	owner      map[int32]int32 // start node -> procedure
	todo       []int32
}

// way is an edge from a node, or a call of a procedure there.
type way struct{ from, procedure int32 }

// Values of way.procedure and site.to for none.
const (
	noCall  = -1
	nowhere = -1
)

func (p *pruner) run() {
	a := p.a
	for i := range a.nodes {
		from := int32(i)
		n := &a.nodes[i]
		for _, e := range n.bytes {
			p.before[e.to] = append(p.before[e.to], way{from, noCall})
		}
		for _, to := range n.empty {
			p.before[to] = append(p.before[to], way{from, noCall})
		}
		for _, e := range n.tokens {
			p.before[e.to] = append(p.before[e.to], way{from, noCall})
		}
		for _, c := range n.calls {
			p.before[c.to] = append(p.before[c.to], way{from, c.procedure})
			p.callers[c.procedure] = append(p.callers[c.procedure], site{from, c.to})
		}
		if n.accept {
			p.mark(from)
		}
	}
	for i, proc := range a.procedures {
		p.owner[proc.start] = int32(i)
		if proc.repeated {
			p.callers[proc.body] = append(p.callers[proc.body], site{proc.start, nowhere})
		}
	}
	for len(p.todo) > 0 {
		n := p.todo[len(p.todo)-1]
		p.todo = p.todo[:len(p.todo)-1]
		if q, ok := p.owner[n]; ok {
			p.productive[q] = true
			for _, c := range p.callers[q] {
				if c.to == nowhere || p.live[c.to] {
					p.mark(c.at)
				}
			}
		}
		for _, w := range p.before[n] {
			if w.procedure == noCall || p.productive[w.procedure] {
				p.mark(w.from)
			}
		}
	}
}

func (p *pruner) mark(n int32) {
	if !p.live[n] {
		p.live[n] = true
		p.todo = append(p.todo, n)
	}
}
