package tokenizer

// symbol is a part of a word that is one token so far. Symbols form a list by index, from left to right.
type symbol struct {
	start, end int // bytes of the word; equal once the symbol went into its left neighbour
	prev, next int // -1 at the ends
	id         int32
}

// candidate is a pair of neighbours that could become one symbol.
type candidate struct {
	priority    float64 // the greatest goes first
	left, right int     // indices of symbols
	size        int     // bytes of both together; another number shows that one has changed since
	id          int32   // their product
}

// before orders the queue: by priority, then the left one.
func (c *candidate) before(d *candidate) bool {
	return c.priority > d.priority || c.priority == d.priority && c.left < d.left
}

// merger joins the symbols of a word until no pair of neighbours can be joined, the best pair first:
// Sennrich et al., Neural Machine Translation of Rare Words with Subword Units (2016), in O(n log n) by a queue.
type merger struct {
	symbols []symbol
	queue   []candidate // a binary heap, the first at 0
}

// add puts a symbol at the word's end.
func (m *merger) add(start, end int, id int32) {
	n := len(m.symbols)
	if n > 0 {
		m.symbols[n-1].next = n
	}
	m.symbols = append(m.symbols, symbol{start: start, end: end, prev: n - 1, next: -1, id: id})
}

// room makes room for n symbols and the pairs of them that may wait at once: a pair that is joined makes two others.
func (m *merger) room(n int) {
	if cap(m.symbols) < n {
		m.symbols, m.queue = make([]symbol, 0, n+n/2), make([]candidate, 0, n+n/2)
	}
}

// merge joins all pairs that can be joined. join returns a pair's product and priority.
func (m *merger) merge(join func(left, right *symbol) (id int32, priority float64, ok bool)) {
	try := func(left, right int) {
		if left < 0 || right < 0 {
			return
		}
		l, r := &m.symbols[left], &m.symbols[right]
		if id, priority, ok := join(l, r); ok {
			m.push(candidate{priority, left, right, r.end - l.start, id})
		}
	}
	m.queue = m.queue[:0]
	for i := 1; i < len(m.symbols); i++ {
		try(i-1, i)
	}
	for len(m.queue) > 0 {
		c := m.pop()
		l, r := &m.symbols[c.left], &m.symbols[c.right]
		if l.start == l.end || r.start == r.end || r.end-l.start != c.size {
			continue
		}
		l.end, l.id, l.next = r.end, c.id, r.next
		r.start = r.end
		if r.next >= 0 {
			m.symbols[r.next].prev = c.left
		}
		try(l.prev, c.left)
		try(c.left, l.next)
	}
}

func (m *merger) push(c candidate) {
	m.queue = append(m.queue, c)
	q, i := m.queue, len(m.queue)-1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(&q[up]) {
			break
		}
		q[i], i = q[up], up
	}
	q[i] = c
}

func (m *merger) pop() candidate {
	first, last := m.queue[0], m.queue[len(m.queue)-1]
	m.queue = m.queue[:len(m.queue)-1]
	q, i := m.queue, 0
	for {
		down := 2*i + 1
		if down >= len(q) {
			break
		}
		if down+1 < len(q) && q[down+1].before(&q[down]) {
			down++
		}
		if !q[down].before(&last) {
			break
		}
		q[i], i = q[down], down
	}
	if len(q) > 0 {
		q[i] = last
	}
	return first
}
