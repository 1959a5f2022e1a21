// Package kvcache keeps account of the pages of a KV cache: who holds them, which tokens' keys and values they hold,
// and which of them can serve a new sequence that begins with the same tokens. It knows no device: its caller's
// function copies pages.
//
// Pages form a tree. A page's node is a child of the node of the positions before it, so the path from the root spells
// a prefix. Sequences with a common prefix hold the same nodes, also while they run. Nodes without a sequence stay for
// later sequences until their pages are needed; the least recently used one goes first.
//
// Layers with sliding windows have fewer pages, numbered separately. A node has one of these as long as a window can
// reach it, and then until another node needs it. A sequence continues a prefix only if the window before its end is
// still cached.
//
// Recurrent layers keep a state for a sequence, which cannot go back to an earlier position. Each sequence has a slot
// for it. Other slots hold checkpoints: states after some position of a node, where a sequence can continue.
package kvcache

import "slices"

// Label names what was computed at a position (a token or a row of a picture) and by which arithmetic. Equal labels at
// equal positions after equal labels mean equal keys and values, to the byte.
type Label uint64

// The bits of a label below its token.
const (
	decoded Label = 1 << iota
	foreign
	kindBits = 2
)

// The bits of a label above its token, for rows of pictures: the picture's number, and a mark.
const (
	pictureShift       = kindBits + 31
	pictureRow   Label = 1 << 63
)

// MostPictures is the number of pictures that labels tell apart.
const MostPictures = 1 << 30

// LabelOf returns the label of a token that was evaluated as part of a prompt, or, if single, by the arithmetic of
// single tokens of running sequences, which also evaluates short prompts.
func LabelOf(token int32, single bool) Label {
	l := Label(token) << kindBits
	if single {
		l |= decoded
	}
	return l
}

// PictureLabel returns the label of a row of a picture. Its number must be below MostPictures.
func PictureLabel(picture uint32, row int32, single bool) Label {
	return LabelOf(row, single) | Label(picture)<<pictureShift | pictureRow
}

// Token returns l's token. It is 0 for rows of pictures.
func (l Label) Token() int32 {
	if l&pictureRow != 0 {
		return 0
	}
	return int32(l >> kindBits)
}

// As returns l's label for evaluation as part of a prompt or, if single, as a single token.
func (l Label) As(single bool) Label {
	l &^= decoded | foreign
	if single {
		l |= decoded
	}
	return l
}

// Decoded reports whether the token was evaluated by the arithmetic of single tokens of running sequences.
func (l Label) Decoded() bool { return l&decoded != 0 }

// Foreign returns the label of l's token for evaluation on other devices, or with another placement on them, which
// rounds differently.
func (l Label) Foreign() Label { return l | foreign }

// IsForeign reports whether the token was evaluated on other devices, or with another placement.
func (l Label) IsForeign() bool { return l&foreign != 0 }

// same reports whether l and m name the same token, whatever the arithmetic.
func (l Label) same(m Label) bool { return l>>kindBits == m>>kindBits }

// Size is the size of a cache.
type Size struct {
	Pages     int
	Positions int // of a page
	Window    int // positions that a token sees in layers with windows, its own included; 0: there are no such layers
	Near      int // pages of layers with windows: at least those of a window and the largest step after it
	States    int // slots for states of recurrent layers; 0: there are no such layers
}

// Page names a page of keys and values.
type Page struct {
	Far   int32 // in layers with tokens that see all positions; -1: a slot of states only
	Near  int32 // in layers with windows; -1: it has none there
	State int32 // the slot in layers with recurrent states; -1: it has none there
}

// Cache is the pages of one KV cache. It must not be used concurrently.
type Cache struct {
	Size
	copy  func(to, from Page) // copies a page's keys and values in every layer
	root  *node
	free  []int32 // last in, first out: recently used pages are warm
	near  []int32 // free pages of layers with windows
	nodes []*node // [pages] the node of each page; nil if the page is free
	idle  int     // nodes that no sequence holds
	past  int     // nodes with a page of layers with windows that no window reaches
	clock uint64  // counts releases, and uses of checkpoints
	slots []int32 // free ones, of states
	marks []*mark // all checkpoints
}

// node is one page in use.
type node struct {
	Page
	labels   []Label // of its positions in order; the capacity is a page
	parent   *node   // nil until it is part of the tree
	children []*node
	marks    []*mark // checkpoints after some of its positions
	refs     int     // sequences that hold it
	used     uint64  // when it was last released

	seen   int    // how many of refs have a window that reaches it
	behind bool   // the last window that reached it moved on, rather than ending with its sequence
	unseen uint64 // when that was
}

// New returns a cache of empty pages. copy copies page from to page to.
func New(size Size, copy func(to, from Page)) *Cache {
	return &Cache{Size: size, copy: copy, root: newRoot(), nodes: make([]*node, size.Pages), free: numbers(size.Pages), near: numbers(size.Near), slots: numbers(size.States)}
}

func newRoot() *node { return &node{Page: Page{-1, -1, -1}} }

// numbers returns the numbers from n-1 down to 0.
func numbers(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(n - 1 - i)
	}
	return list
}

// Available returns the number of pages that a sequence can get: free ones, and those kept only for their prefixes.
func (c *Cache) Available() int { return len(c.free) + c.idle }

// Held returns the number of pages that sequences hold.
func (c *Cache) Held() int { return c.Pages - c.Available() }

// Kept returns the number of pages without a sequence that are kept for their prefixes.
func (c *Cache) Kept() int { return c.idle }

// room reports whether sequences can get n more pages, and near more in layers with windows.
func (c *Cache) room(n, near int) bool {
	return n <= c.Available() && (c.Window == 0 || near <= len(c.near)+c.past)
}

// reach returns the first page that the token after n positions sees in layers with windows.
func (c *Cache) reach(n int) int {
	if c.Window == 0 {
		return 0
	}
	return max(0, n+1-c.Window) / c.Positions
}

// Clear frees the pages that are kept only for their prefixes.
func (c *Cache) Clear() {
	for c.evict() {
	}
}

// Forget drops all prefixes, so that nothing computed before is found again. It is called when the model will compute
// other keys and values. Sequences keep what they hold.
func (c *Cache) Forget() {
	c.Clear()
	c.root = newRoot()
}

// take returns a node of an empty page, with a page in layers with windows if near. There must be room for it.
func (c *Cache) take(near bool) *node {
	if len(c.free) == 0 {
		c.evict()
	}
	n := &node{Page: Page{c.free[len(c.free)-1], -1, -1}, labels: make([]Label, 0, c.Positions), refs: 1}
	c.free = c.free[:len(c.free)-1]
	c.nodes[n.Far] = n
	if near && c.Window > 0 {
		if len(c.near) == 0 {
			c.evictNear()
		}
		n.Near = c.near[len(c.near)-1]
		c.near = c.near[:len(c.near)-1]
		c.past++ // until it is seen
	}
	return n
}

// evictNear takes the page of layers with windows from a node that no window reaches: first from nodes that windows
// have moved past, then from the ends of texts, where another request may continue; of each kind, from the one left
// longest ago.
func (c *Cache) evictNear() {
	var first *node
	for _, n := range c.nodes {
		if n == nil || n.Near < 0 || n.seen > 0 {
			continue
		}
		if first == nil || n.behind && !first.behind || n.behind == first.behind && n.unseen < first.unseen {
			first = n
		}
	}
	c.dropNear(first)
}

// dropNear frees n's page of layers with windows, if it has one.
func (c *Cache) dropNear(n *node) {
	if n.Near < 0 {
		return
	}
	if n.seen == 0 {
		c.past--
	}
	c.near = append(c.near, n.Near)
	n.Near = -1
}

// see adds a window that reaches n.
func (c *Cache) see(n *node) {
	if n.seen == 0 && n.Near >= 0 {
		c.past--
	}
	n.seen++
}

// unsee removes a window that reached n: it moved past n if behind, else its sequence has ended.
func (c *Cache) unsee(n *node, behind bool) {
	if n.seen--; n.seen == 0 && n.Near >= 0 {
		c.past++
		c.clock++
		n.behind, n.unseen = behind, c.clock
	}
}

// evict frees the least recently used page that no other page continues. It reports whether there was one.
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
	c.handMarks(n)
	c.dropNear(n)
	c.nodes[n.Far] = nil
	c.free = append(c.free, n.Far)
}

// hold adds a holder to n.
func (c *Cache) hold(n *node) {
	if n.refs == 0 {
		c.idle--
	}
	n.refs++
}

// release removes a holder from n. A node without holders stays for its prefix, unless it is empty or another page
// holds the same.
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

// handOver moves the window that reaches n to m, which holds the same, with n's page of layers with windows if m has
// none.
func (c *Cache) handOver(m, n *node) {
	if m.Near < 0 && n.Near >= 0 {
		m.Near, n.Near = n.Near, -1
		c.past++ // until it is seen
	}
	c.see(m)
}

// holds reports whether a child of p other than n begins with n's labels, in every layer in which n has them.
func (p *node) holds(n *node) bool {
	return slices.ContainsFunc(p.children, func(m *node) bool {
		return m != n && len(m.labels) >= len(n.labels) && slices.Equal(m.labels[:len(n.labels)], n.labels) && (m.Near >= 0 || n.Near < 0)
	})
}

// filled is called by the sequence that has filled n. It returns the node that stands for n's labels: n, or an older
// sibling, and then n is dropped. Idle siblings that hold only a beginning of n are dropped.
func (c *Cache) filled(n *node) *node {
	p := n.parent
	for _, m := range slices.Clone(p.children) {
		switch {
		case m == n || len(m.labels) > len(n.labels) || !slices.Equal(m.labels, n.labels[:len(m.labels)]):
		case len(m.labels) == len(n.labels) && n.refs > 1: // a Prefix reads it
		case len(m.labels) == len(n.labels):
			c.hold(m)
			if n.seen > 0 {
				c.handOver(m, n)
			}
			c.drop(n)
			return m
		case m.refs == 0:
			c.idle--
			c.drop(m)
		}
	}
	return n
}

// match returns the child of p with the longest common beginning with want, and its length. If loose, tokens are
// compared without their arithmetic.
func (p *node) match(want []Label, loose bool) (best *node, most int) {
	for _, m := range p.children {
		n := 0
		for n < min(len(m.labels), len(want)) && (m.labels[n] == want[n] || loose && m.labels[n].same(want[n])) {
			n++
		}
		if n > most || n == most && n > 0 && m.before(best) {
			best, most = m, n
		}
	}
	return best, most
}

// before reports whether m is a better match than n for a text that both begin: it is present in all layers, or idle,
// so that it may not have to be copied.
func (m *node) before(n *node) bool {
	if (m.Near < 0) != (n.Near < 0) {
		return m.Near >= 0
	}
	return m.refs == 0 && n.refs > 0
}

// shared is a node of a path from the root, and how many of its labels a text shares. Only the last may share less than
// a page.
type shared struct {
	*node
	labels int
}

// usable cuts a path that begins at position at to what a sequence can continue: the whole window before its end must
// be present. Up to at, layers with windows have the pages from near on.
func (c *Cache) usable(path []shared, at, near int) []shared {
	if c.Window == 0 {
		return path
	}
	best := 0
	for i, n := range path {
		page := at / c.Positions
		at += n.labels
		if n.Near < 0 {
			near = page + 1
		} else if near <= c.reach(at) {
			best = i + 1
		}
	}
	return path[:best]
}
