// Package kvcache keeps account of the pages of a KV cache: who holds them, which tokens' keys and values they hold, and which of them
// can serve a new sequence that begins with the same tokens. It knows no device: what must be copied is copied by its caller's function.
//
// Pages form a tree. A page's node lies below the node of the positions before it, so that the path from the root spells
// a prefix. Sequences that share a prefix hold the same nodes, whether they are running or not. Nodes that no sequence holds stay
// for their prefixes until their pages are needed; the one not used for longest goes first.
package kvcache

import "slices"

// Label names what was computed at a position: a token, and by which arithmetic. Equal labels at equal places behind equal labels
// mean equal keys and values, to the byte.
type Label uint32

// The bits of a label below its token.
const (
	decoded Label = 1 << iota
	foreign
	kindBits = 2
)

// LabelOf returns the label of a token that was evaluated as part of a prompt, or, if single, by the arithmetic of single tokens of running
// sequences, which short prompts are evaluated by too.
func LabelOf(token int32, single bool) Label {
	l := Label(token) << kindBits
	if single {
		l |= decoded
	}
	return l
}

// Token returns l's token.
func (l Label) Token() int32 { return int32(l >> kindBits) }

// Decoded reports whether the token was evaluated by the arithmetic of single tokens of running sequences.
func (l Label) Decoded() bool { return l&decoded != 0 }

// Foreign returns the label of l's token where it was evaluated on other devices, or on another share of them, which round differently.
func (l Label) Foreign() Label { return l | foreign }

// IsForeign reports whether that is so.
func (l Label) IsForeign() bool { return l&foreign != 0 }

// same reports whether l and m name the same token, however evaluated.
func (l Label) same(m Label) bool { return l>>kindBits == m>>kindBits }

// Cache is the pages of one KV cache. It is used by one goroutine at a time.
type Cache struct {
	positions int                  // of a page
	copy      func(to, from int32) // copies a page's keys and values in every layer
	root      *node
	free      []int32 // last in, first out: recently used pages are warm
	nodes     []*node // [pages] the node of each page, nil where the page is free
	idle      int     // nodes that no sequence holds
	clock     uint64  // counts releases
}

// node is one page in use.
type node struct {
	page     int32
	labels   []Label // of its positions in order; capacity is the page's positions
	parent   *node   // nil until it is part of the tree
	children []*node
	refs     int    // sequences that hold it
	used     uint64 // when it was released last
}

// New returns a cache of so many empty pages, each of positions tokens. copy is called to copy page from to page to.
func New(pages, positions int, copy func(to, from int32)) *Cache {
	c := &Cache{positions: positions, copy: copy, root: &node{page: -1}, nodes: make([]*node, pages), free: make([]int32, pages)}
	for i := range c.free {
		c.free[i] = int32(pages - 1 - i)
	}
	return c
}

// Pages returns the number of pages.
func (c *Cache) Pages() int { return len(c.nodes) }

// Available returns the number of pages that a sequence can have: the free ones, and those kept for their prefixes only.
func (c *Cache) Available() int { return len(c.free) + c.idle }

// Held returns the number of pages that sequences hold.
func (c *Cache) Held() int { return c.Pages() - c.Available() }

// Kept returns the number of pages that no sequence holds and that are kept for their prefixes.
func (c *Cache) Kept() int { return c.idle }

// Positions returns the number of positions of a page.
func (c *Cache) Positions() int { return c.positions }

// Clear frees the pages that are kept for their prefixes only.
func (c *Cache) Clear() {
	for c.evict() {
	}
}

// Forget has no prefix found that was computed until now, as after a change of what is computed. Sequences keep what they hold.
func (c *Cache) Forget() {
	c.Clear()
	c.root = &node{page: -1}
}

// take returns a node of an empty page, or nil.
func (c *Cache) take() *node {
	if len(c.free) == 0 && !c.evict() {
		return nil
	}
	n := &node{page: c.free[len(c.free)-1], labels: make([]Label, 0, c.positions), refs: 1}
	c.free = c.free[:len(c.free)-1]
	c.nodes[n.page] = n
	return n
}

// evict frees the page that was idle for longest and that no other continues.
func (c *Cache) evict() bool {
	var oldest *node
	for _, n := range c.nodes {
		if n != nil && n.refs == 0 && len(n.children) == 0 && (oldest == nil || n.used < oldest.used) {
			oldest = n
		}
	}
	if oldest == nil {
		return false
	}
	c.idle--
	c.drop(oldest)
	return true
}

// drop frees n's page.
func (c *Cache) drop(n *node) {
	if p := n.parent; p != nil {
		p.children = slices.DeleteFunc(p.children, func(m *node) bool { return m == n })
	}
	c.nodes[n.page] = nil
	c.free = append(c.free, n.page)
}

// hold adds a holder to n.
func (c *Cache) hold(n *node) {
	if n.refs == 0 {
		c.idle--
	}
	n.refs++
}

// release takes a holder from n. Without one it stays for its prefix, unless nothing was written to it or another page holds the same.
func (c *Cache) release(n *node) {
	if n.refs--; n.refs > 0 {
		return
	}
	if n.parent == nil || len(n.children) == 0 && n.parent.holds(n) {
		c.drop(n)
		return
	}
	c.idle++
	c.clock++
	n.used = c.clock
}

// holds reports whether a child of p other than n begins with n's labels.
func (p *node) holds(n *node) bool {
	return slices.ContainsFunc(p.children, func(m *node) bool {
		return m != n && len(m.labels) >= len(n.labels) && slices.Equal(m.labels[:len(n.labels)], n.labels)
	})
}

// filled is called when n, a child of p, is full. It returns the child that stands for its labels: n, or an older one, where n is
// dropped. Idle children that hold a beginning of n only are of no more use.
func (c *Cache) filled(n *node) *node {
	p := n.parent
	for _, m := range slices.Clone(p.children) {
		switch {
		case m == n || len(m.labels) > len(n.labels) || !slices.Equal(m.labels, n.labels[:len(m.labels)]):
		case len(m.labels) == len(n.labels) && n.refs > 1: // a Prefix reads it
		case len(m.labels) == len(n.labels):
			c.hold(m)
			c.drop(n)
			return m
		case m.refs == 0:
			c.idle--
			c.drop(m)
		}
	}
	return n
}

// match returns the child of p that shares most leading labels with want, and how many. If loose, tokens count, however evaluated.
func (p *node) match(want []Label, loose bool) (best *node, most int) {
	for _, m := range p.children {
		n := 0
		for n < min(len(m.labels), len(want)) && (m.labels[n] == want[n] || loose && m.labels[n].same(want[n])) {
			n++
		}
		if n > most || n == most && n > 0 && m.refs == 0 && best.refs > 0 { // an idle one may not need to be copied
			best, most = m, n
		}
	}
	return best, most
}
