package kvcache

import "slices"

// Prefix is a beginning of a text that the cache holds, kept from eviction until Release. Whoever has it only reads its pages; a sequence
// that holds its last page too may write behind the prefix's end meanwhile.
type Prefix struct {
	c      *Cache
	nodes  []*node
	labels []Label
}

// Find returns the longest beginning of want that the cache holds, tokens however they were evaluated.
func (c *Cache) Find(want []Label) *Prefix {
	p := &Prefix{c: c}
	p.nodes = c.root.longest(want)
	for _, n := range p.nodes {
		c.hold(n)
		shared := n.sharedWith(want[len(p.labels):])
		p.labels = append(p.labels, n.labels[:shared]...)
	}
	return p
}

// Labels returns what the prefix's positions hold.
func (p *Prefix) Labels() []Label { return p.labels }

// Page returns the page of positions [i·n, i·n+n), for pages of n positions.
func (p *Prefix) Page(i int) int32 { return p.nodes[i].page }

// Release gives the pages back.
func (p *Prefix) Release() {
	for i := len(p.nodes) - 1; i >= 0; i-- {
		p.c.release(p.nodes[i])
	}
	p.nodes = nil
}

// Erase frees the pages that hold a text and serve no other: that no sequence holds, that have nothing else, and behind which no other text goes
// on.
func (c *Cache) Erase(text []Label) { c.erase(c.root, text) }

func (c *Cache) erase(below *node, text []Label) {
	for _, n := range slices.Clone(below.children) {
		shared := n.sharedWith(text)
		if shared == 0 || shared < min(len(n.labels), len(text)) { // it goes on differently
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

// longest returns the nodes below n that hold the longest beginning of want. Only the last may hold less than all its labels of it.
func (n *node) longest(want []Label) (path []*node) {
	most := 0
	for _, m := range n.children {
		shared := m.sharedWith(want)
		if shared == 0 {
			continue
		}
		way := []*node{m}
		if shared == cap(m.labels) {
			way = append(way, m.longest(want[shared:])...)
		}
		if length := lengthOf(way, want); length > most {
			path, most = way, length
		}
	}
	return path
}

// lengthOf returns how many positions of want the nodes of a path hold.
func lengthOf(path []*node, want []Label) (length int) {
	for _, n := range path {
		length += n.sharedWith(want[length:])
	}
	return length
}
