package kvcache

import "slices"

// Prefix is a beginning of a text in the cache, kept from eviction until Release. Its holder only reads its pages; a
// sequence that also holds its last page may write after the prefix's end meanwhile.
type Prefix struct {
	c      *Cache
	nodes  []*node
	labels []Label
	near   int   // the first page that it keeps in layers with windows
	mark   *mark // the checkpoint at its end; nil in a cache without states
}

// Find returns the longest beginning of want in the cache that a sequence can continue, whatever arithmetic evaluated
// it.
func (c *Cache) Find(want []Label) *Prefix {
	p := &Prefix{c: c}
	path, m := c.root.longest(want), (*mark)(nil)
	if c.States > 0 {
		path, m = c.root.resumable(want, true)
	}
	whole := len(path)
	if path = c.usable(path, 0, 0); m != nil && len(path) < whole {
		path, m = nil, nil
	}
	if p.mark = m; m != nil {
		m.held++
	}
	for _, n := range path {
		p.labels = append(p.labels, n.node.labels[:n.labels]...)
	}
	p.near = c.reach(len(p.labels))
	for i, n := range path {
		p.nodes = append(p.nodes, n.node)
		c.hold(n.node)
		if i >= p.near {
			c.see(n.node)
		}
	}
	return p
}

// Labels returns what the prefix's positions hold.
func (p *Prefix) Labels() []Label { return p.labels }

// Near returns the first page of the prefix in layers with windows. No position after the prefix can see earlier ones.
func (p *Prefix) Near() int { return p.near }

// State returns the slot of the state at the end of the prefix; -1: the cache has no states.
func (p *Prefix) State() int32 {
	if p.mark == nil {
		return -1
	}
	return p.mark.slot
}

// Page returns the page of positions [i·n, i·n+n), for pages of n positions.
func (p *Prefix) Page(i int) Page {
	page := p.nodes[i].Page
	if i < p.near {
		page.Near = -1
	}
	return page
}

// Release gives the pages back.
func (p *Prefix) Release() {
	if p.mark != nil {
		p.mark.held--
		p.mark = nil
	}
	for i := len(p.nodes) - 1; i >= 0; i-- {
		if i >= p.near {
			p.c.unsee(p.nodes[i], false)
		}
		p.c.release(p.nodes[i])
	}
	p.nodes = nil
}

// Erase frees the pages that hold only this text: those that no sequence holds and no other text continues.
func (c *Cache) Erase(text []Label) { c.erase(c.root, text) }

func (c *Cache) erase(below *node, text []Label) {
	for _, n := range slices.Clone(below.children) {
		shared := n.sharedWith(text)
		if shared == 0 || shared < min(len(n.labels), len(text)) { // it continues differently
			continue
		}
		c.erase(n, text[shared:])
		if n.refs == 0 && len(n.children) == 0 {
			c.idle--
			c.drop(n)
		}
	}
}

// sharedWith returns how many of n's leading labels name want's tokens.
func (n *node) sharedWith(want []Label) (shared int) {
	for shared < min(len(n.labels), len(want)) && n.labels[shared].same(want[shared]) {
		shared++
	}
	return shared
}

// longest returns the path below n that holds the longest beginning of want.
func (n *node) longest(want []Label) (path []shared) {
	most := 0
	for _, m := range n.children {
		labels := m.sharedWith(want)
		if labels == 0 {
			continue
		}
		way := []shared{{m, labels}}
		if labels == cap(m.labels) {
			way = append(way, m.longest(want[labels:])...)
		}
		if length := lengthOf(way); length > most {
			path, most = way, length
		}
	}
	return path
}

// lengthOf returns how many positions of a text a path holds.
func lengthOf(path []shared) (length int) {
	for _, n := range path {
		length += n.labels
	}
	return length
}
