package grammar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) contains(t *byteSet) bool {
	return t[0]&^s[0]|t[1]&^s[1]|t[2]&^s[2]|t[3]&^s[3] == 0
}

func (s *byteSet) union(t *byteSet) {
	for i := range s {
		s[i] |= t[i]
	}
}

// node is a place in the body of a procedure.
type node struct {
	bytes  []byteEdge
	empty  []int32 // nodes reached without a byte
	calls  []call
	tokens []tokenEdge
	accept bool // the procedure may return here, perhaps after empty edges
}

type byteEdge struct {
	lo, hi byte
	to     int32
}

// call continues at to after a non-empty text of the procedure; if the procedure may also be empty, the node has an
// empty edge in addition to the call.
type call struct{ procedure, to int32 }

type tokenEdge struct{ literal, to int32 }

// repetition is the name of procedures that are no rules.
const repetition = ""

// procedure is a rule or a counted repetition as an automaton. Its start never accepts: a call consumes at least a byte
// or a token, so following calls without input ends, unless the grammar is left-recursive, which is refused.
type procedure struct {
	name     string
	start    int32
	end      int32   // end of its body; for a counted repetition its start
	nullable bool    // it has the empty text
	first    byteSet // first bytes of its texts
	token    bool    // its texts may begin with a token literal

	// A counted repetition has only a start node; its calls depend on the count (see arena.calls).
	repeated bool
	body     int32 // procedure
	min, max int   // max may be unbounded
}

// automaton is a grammar as procedures over bytes that call one another.
type automaton struct {
	nodes      []node
	counter    []int32 // [nodes] the repetition that starts at the node, or -1
	procedures []procedure
	root       int32
	literals   []tokenLiteral
}

// builder makes an automaton of rules.
type builder struct {
	automaton
	m       *meter
	repeats map[*expr]int32
	classes map[string]int32 // by their characters
	pending []pendingBody
	rule    string // the rule that is being compiled
	err     error
}

// pendingBody is a procedure without nodes yet; bodies are made one after the other, so they do not nest on the stack.
type pendingBody struct {
	procedure int32
	body      *expr
	rule      string // that it is part of
}

func newAutomaton(m *meter, rules []rule) (*automaton, error) {
	b := &builder{m: m, repeats: map[*expr]int32{}, classes: map[string]int32{}}
	for i, r := range rules {
		b.procedures = append(b.procedures, procedure{name: r.name})
		b.pending = append(b.pending, pendingBody{int32(i), r.body, r.name})
	}
	for len(b.pending) > 0 && b.err == nil {
		p := b.pending[0]
		b.pending = b.pending[1:]
		if b.rule = p.rule; m.take(procedureBytes) == nil {
			b.fill(p)
		}
		if m.err != nil && b.err == nil {
			b.err = fmt.Errorf("%s: %w", p.rule, m.err)
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	// What follows looks at each node and edge a few times.
	a := &b.automaton
	steps := []func() error{
		func() error { a.skipEmptyCalls(); return nil },
		func() error { a.markAccepting(); return nil },
		a.orderFirst,
	}
	for _, step := range steps {
		if err := cmp.Or(m.spend(4*len(a.nodes)), step()); err != nil {
			return nil, err
		}
	}
	if err := m.spend(8 * len(a.nodes)); err != nil {
		return nil, err
	}
	a.nodes, a.counter, a.procedures = slices.Clone(a.nodes), slices.Clone(a.counter), slices.Clone(a.procedures) // without room to grow
	if !a.prune() {
		return nil, fmt.Errorf("no text is complete by the grammar: %s needs itself again and again", rules[0].name)
	}
	return a, nil
}

func (b *builder) node() int32 {
	if b.m.take(nodeBytes) != nil {
		return 0
	}
	if len(b.nodes) >= maxNodes {
		b.err = cmp.Or(b.err, fmt.Errorf("%s: the grammar takes more than %d states; make it smaller: fewer alternatives and properties, shorter texts, smaller counts", b.rule, maxNodes))
		return 0
	}
	b.nodes = append(b.nodes, node{})
	b.counter = append(b.counter, -1)
	return int32(len(b.nodes) - 1)
}

// failed reports whether no automaton will be made.
func (b *builder) failed() bool { return b.err != nil || b.m.err != nil }

// fill makes the nodes of a procedure. Nothing leads back to the start node.
func (b *builder) fill(p pendingBody) {
	start := b.node()
	b.procedures[p.procedure].start = start
	if b.procedures[p.procedure].repeated {
		b.counter[start] = p.procedure
		b.procedures[p.procedure].end = start
		return
	}
	inner, end := b.node(), b.node()
	b.procedures[p.procedure].end = end
	b.nodes[start].empty = []int32{inner}
	b.nodes[end].accept = true
	if p.body.op == opClass { // this is the procedure of a large class
		b.addClass(p.body.ranges, inner, end)
		return
	}
	b.add(p.body, inner, end)
}

// add makes the nodes and edges of e between two nodes.
func (b *builder) add(e *expr, from, to int32) {
	if b.m.spend(2); b.failed() {
		return
	}
	switch e.op {
	case opEmpty:
		b.join(from, to)
	case opBytes:
		for i := range len(e.text) {
			next := to
			if i < len(e.text)-1 {
				next = b.node()
			}
			if b.failed() {
				return
			}
			b.nodes[from].bytes = append(b.nodes[from].bytes, byteEdge{e.text[i], e.text[i], next})
			from = next
		}
	case opClass:
		if len(e.ranges) > fewRanges {
			b.addCall(b.classProcedure(e), from, to)
			return
		}
		b.addClass(e.ranges, from, to)
	case opSequence:
		for i, s := range e.subs {
			next := to
			if i < len(e.subs)-1 {
				next = b.node()
			}
			b.add(s, from, next)
			from = next
		}
		if len(e.subs) == 0 {
			b.join(from, to)
		}
	case opChoice:
		b.addChoice(e.subs, from, to)
	case opRepeat:
		b.addRepeat(e, from, to)
	case opRule:
		b.addCall(e.index, from, to)
	case opToken:
		b.nodes[from].tokens = append(b.nodes[from].tokens, tokenEdge{int32(len(b.literals)), to})
		b.literals = append(b.literals, e.token)
	case opGraph:
		b.addGraph(e.graph, from, to)
	}
}

// fewRanges is the most ranges of a class that is compiled wherever it stands. A larger class is a procedure, compiled
// once.
const fewRanges = 8

// classProcedure returns the procedure of a class.
func (b *builder) classProcedure(e *expr) int32 {
	key := rangesKey(e.ranges)
	b.m.spend(len(e.ranges))
	p, ok := b.classes[key]
	if !ok {
		b.m.take(len(key))
		p = int32(len(b.procedures))
		b.procedures = append(b.procedures, procedure{name: repetition})
		b.pending = append(b.pending, pendingBody{p, e, b.rule})
		b.classes[key] = p
	}
	return p
}

// addChoice adds a choice. Its texts share their beginnings, so that a long list of values has one state at a time.
func (b *builder) addChoice(subs []*expr, from, to int32) {
	var texts []string
	for _, s := range subs {
		if s.op == opBytes {
			texts = append(texts, s.text)
		} else {
			b.add(s, from, to)
		}
	}
	slices.Sort(texts)
	path := []int32{from} // nodes along the last text, to its last byte
	last := ""
	for i, text := range slices.Compact(texts) {
		shared := 0
		for i > 0 && shared < len(path)-1 && shared < len(text)-1 && text[shared] == last[shared] {
			shared++
		}
		path = path[:shared+1]
		for k := shared; k < len(text); k++ {
			next := to
			if k < len(text)-1 {
				next = b.node()
				path = append(path, next)
			}
			if b.failed() {
				return
			}
			at := &b.nodes[path[k]]
			at.bytes = append(at.bytes, byteEdge{text[k], text[k], next})
		}
		last = text
		b.m.spend(len(text))
	}
}

func (b *builder) join(from, to int32) { b.nodes[from].empty = append(b.nodes[from].empty, to) }

func (b *builder) addCall(p, from, to int32) {
	b.nodes[from].calls = append(b.nodes[from].calls, call{p, to})
}

// addClass shares the nodes before equal ends of byte sequences: most classes have a few lead bytes and the same
// continuation.
func (b *builder) addClass(ranges []runeRange, from, to int32) {
	type tail struct {
		n   int
		seq [3]byteRange
	}
	ends := map[tail]int32{}
	utf8Sequences(ranges, func(seq []byteRange) {
		if b.m.take(32); b.failed() {
			return
		}
		next := to
		for i := len(seq) - 1; i > 0; i-- {
			key := tail{n: len(seq) - i}
			copy(key.seq[:], seq[i:])
			at, ok := ends[key]
			if !ok {
				at = b.node()
				b.nodes[at].bytes = []byteEdge{{seq[i].lo, seq[i].hi, next}}
				ends[key] = at
			}
			next = at
		}
		b.nodes[from].bytes = append(b.nodes[from].bytes, byteEdge{seq[0].lo, seq[0].hi, next})
	})
}

func (b *builder) addRepeat(e *expr, from, to int32) {
	body := e.subs[0]
	switch {
	case e.min == 0 && e.max == 1:
		b.add(body, from, to)
		b.join(from, to)
	case e.min == 0 && e.max == unbounded:
		loop := b.node()
		b.join(from, loop)
		b.add(body, loop, loop)
		b.join(loop, to)
	case e.min == 1 && e.max == unbounded:
		loop, back := b.node(), b.node()
		b.join(from, loop)
		b.add(body, loop, back)
		b.join(back, loop)
		b.join(back, to)
	default:
		p, ok := b.repeats[e]
		if !ok {
			p = b.addCounter(e)
			b.repeats[e] = p
		}
		b.addCall(p, from, to)
	}
}

// addCounter makes the two procedures of a counted repetition: its body, and the count.
func (b *builder) addCounter(e *expr) int32 {
	body := int32(len(b.procedures))
	b.procedures = append(b.procedures,
		procedure{name: repetition},
		procedure{name: repetition, repeated: true, body: body, min: e.min, max: e.max})
	b.pending = append(b.pending, pendingBody{body, e.subs[0], b.rule}, pendingBody{procedure: body + 1, rule: b.rule})
	return body + 1
}

func (b *builder) addGraph(g []vertex, from, to int32) {
	at := make([]int32, len(g))
	for i := range g {
		at[i] = b.node()
	}
	if b.failed() {
		return
	}
	b.join(from, at[0])
	for i, v := range g {
		if v.final {
			b.join(at[i], to)
		}
		for _, e := range v.edges {
			b.add(e.by, at[i], at[e.to])
		}
	}
}

// skipEmptyCalls finds the procedures that have an empty text, and adds an empty edge to each call of them. If a
// counted repetition's body may be empty, it may count less than its minimum.
func (a *automaton) skipEmptyCalls() {
	e := emptiness{a: a, seen: make([]bool, len(a.nodes)), sites: make([][]site, len(a.procedures)), owner: make(map[int32]int32, len(a.procedures))}
	for i := range a.nodes {
		for _, c := range a.nodes[i].calls {
			e.sites[c.procedure] = append(e.sites[c.procedure], site{int32(i), c.to})
		}
	}
	counters := make([][]int32, len(a.procedures)) // the repetitions of a body
	for i, p := range a.procedures {
		e.owner[p.end] = int32(i)
		if !p.repeated {
			e.mark(p.start)
			continue
		}
		counters[p.body] = append(counters[p.body], int32(i))
		if p.min == 0 {
			e.mark(p.end)
		}
	}
	for len(e.todo) > 0 {
		at := e.todo[len(e.todo)-1]
		e.todo = e.todo[:len(e.todo)-1]
		for _, to := range a.nodes[at].empty {
			e.mark(to)
		}
		for _, c := range a.nodes[at].calls {
			if a.procedures[c.procedure].nullable {
				e.mark(c.to)
			}
		}
		if p, ok := e.owner[at]; ok {
			e.found(p)
			for _, q := range counters[p] {
				a.procedures[q].min = 0
				e.mark(a.procedures[q].end)
			}
		}
	}
}

// emptiness is a search for what can be reached from procedures' starts without input.
type emptiness struct {
	a     *automaton
	seen  []bool          // [nodes]
	sites [][]site        // [procedures] their calls
	owner map[int32]int32 // end node -> procedure
	todo  []int32
}

// site is a call at a node, which continues at to.
type site struct{ at, to int32 }

func (e *emptiness) mark(n int32) {
	if !e.seen[n] {
		e.seen[n] = true
		e.todo = append(e.todo, n)
	}
}

func (e *emptiness) found(p int32) {
	e.a.procedures[p].nullable = true
	for _, s := range e.sites[p] {
		n := &e.a.nodes[s.at]
		n.empty = append(n.empty, s.to)
		if e.seen[s.at] {
			e.mark(s.to)
		}
	}
}

// markAccepting spreads accept backwards over empty edges, except to starts.
func (a *automaton) markAccepting() {
	before := make([][]int32, len(a.nodes)) // nodes with an empty edge to the index
	var todo []int32
	for i, n := range a.nodes {
		for _, to := range n.empty {
			before[to] = append(before[to], int32(i))
		}
		if n.accept {
			todo = append(todo, int32(i))
		}
	}
	start := make(map[int32]bool, len(a.procedures))
	for _, p := range a.procedures {
		start[p.start] = true
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range before[at] {
			if !a.nodes[i].accept && !start[i] {
				a.nodes[i].accept = true
				todo = append(todo, i)
			}
		}
	}
}

// reachable calls visit with every node that empty edges lead to from a node, itself included, until it returns false.
func (a *automaton) reachable(from int32, visit func(n int32) bool) {
	if len(a.nodes[from].empty) == 0 {
		visit(from)
		return
	}
	seen := map[int32]bool{from: true}
	todo := []int32{from}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !visit(at) {
			return
		}
		for _, to := range a.nodes[at].empty {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
}

// begins calls visit with every procedure that p may call before any input.
func (a *automaton) begins(p int32, visit func(q int32)) {
	if a.procedures[p].repeated {
		visit(a.procedures[p].body)
		return
	}
	a.reachable(a.procedures[p].start, func(n int32) bool {
		for _, c := range a.nodes[n].calls {
			visit(c.procedure)
		}
		return true
	})
}

// orderFirst computes the first bytes of every procedure, callees first, and refuses left recursion.
func (a *automaton) orderFirst() error {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(a.procedures))
	type frame struct {
		p     int32
		calls []int32
	}
	enter := func(p int32) frame {
		state[p] = open
		f := frame{p: p}
		a.begins(p, func(q int32) { f.calls = append(f.calls, q) })
		return f
	}
	for p := range a.procedures {
		if state[p] != unseen {
			continue
		}
		stack := []frame{enter(int32(p))}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if len(f.calls) == 0 {
				a.setFirst(f.p)
				state[f.p] = done
				stack = stack[:len(stack)-1]
				continue
			}
			q := f.calls[0]
			f.calls = f.calls[1:]
			switch state[q] {
			case unseen:
				stack = append(stack, enter(q))
			case open:
				var path []int32
				for _, g := range stack {
					path = append(path, g.p)
				}
				return a.leftRecursion(path, q)
			}
		}
	}
	return nil
}

// leftRecursion returns the error for a cycle of calls without input: the end of path, from q on.
func (a *automaton) leftRecursion(path []int32, q int32) error {
	for path[0] != q {
		path = path[1:]
	}
	var names []string
	for _, p := range path {
		if n := a.procedures[p].name; n != repetition && (len(names) == 0 || names[len(names)-1] != n) {
			names = append(names, n)
		}
	}
	names = append(names, names[0])
	return fmt.Errorf("left recursion: %s begins with itself before any character; write it as a repetition or with the recursion at the end", strings.Join(names, " → "))
}

func (a *automaton) setFirst(p int32) {
	proc := &a.procedures[p]
	a.begins(p, func(q int32) {
		proc.first.union(&a.procedures[q].first)
		proc.token = proc.token || a.procedures[q].token
	})
	if proc.repeated {
		return
	}
	a.reachable(proc.start, func(n int32) bool {
		for _, e := range a.nodes[n].bytes {
			proc.first.add(e.lo, e.hi)
		}
		proc.token = proc.token || len(a.nodes[n].tokens) > 0
		return true
	})
}
