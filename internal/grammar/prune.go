package grammar

import "slices"

// prune takes out the edges to nodes from which the procedure's end is out of reach, so that every stack of the
// automaton can be completed. It reports whether the root has a text.
func (a *automaton) prune() bool {
	p := pruner{
		a: a, live: make([]bool, len(a.nodes)), productive: make([]bool, len(a.procedures)),
		before: make([][]int32, len(a.nodes)), callers: make([][]int32, len(a.procedures)), owner: make(map[int32]int32, len(a.procedures)),
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

// shorten lets edges to a node that has but one empty edge lead to that one's end, so that fewer places mean the same.
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

// pruner finds live nodes backwards from those that accept.
type pruner struct {
	a          *automaton
	live       []bool          // [nodes] the end of the procedure can be reached
	productive []bool          // [procedures] there is a text that is not empty
	before     [][]int32       // [nodes] nodes with an edge or a call that continues at the index
	callers    [][]int32       // [procedures] nodes that call it
	owner      map[int32]int32 // start node -> procedure
	todo       []int32
}

func (p *pruner) run() {
	a := p.a
	for i := range a.nodes {
		from := int32(i)
		n := &a.nodes[i]
		for _, e := range n.bytes {
			p.before[e.to] = append(p.before[e.to], from)
		}
		for _, to := range n.empty {
			p.before[to] = append(p.before[to], from)
		}
		for _, e := range n.tokens {
			p.before[e.to] = append(p.before[e.to], from)
		}
		for _, c := range n.calls {
			p.before[c.to] = append(p.before[c.to], from)
			p.callers[c.procedure] = append(p.callers[c.procedure], from)
		}
		if n.accept {
			p.mark(from)
		}
	}
	for i, proc := range a.procedures {
		p.owner[proc.start] = int32(i)
		if proc.repeated {
			p.callers[proc.body] = append(p.callers[proc.body], proc.start)
		}
	}
	for len(p.todo) > 0 {
		n := p.todo[len(p.todo)-1]
		p.todo = p.todo[:len(p.todo)-1]
		if q, ok := p.owner[n]; ok {
			p.productive[q] = true
			for _, m := range p.callers[q] {
				p.check(m)
			}
		}
		for _, m := range p.before[n] {
			p.check(m)
		}
	}
}

func (p *pruner) mark(n int32) {
	if !p.live[n] {
		p.live[n] = true
		p.todo = append(p.todo, n)
	}
}

// check marks a node one of whose edges may have become live.
func (p *pruner) check(i int32) {
	if p.live[i] {
		return
	}
	if q := p.a.counter[i]; q >= 0 {
		if p.productive[p.a.procedures[q].body] {
			p.mark(i)
		}
		return
	}
	n := &p.a.nodes[i]
	alive := slices.ContainsFunc(n.bytes, func(e byteEdge) bool { return p.live[e.to] }) ||
		slices.ContainsFunc(n.empty, func(to int32) bool { return p.live[to] }) ||
		slices.ContainsFunc(n.tokens, func(e tokenEdge) bool { return p.live[e.to] }) ||
		slices.ContainsFunc(n.calls, func(c call) bool { return p.live[c.to] && p.productive[c.procedure] })
	if alive {
		p.mark(i)
	}
}
