// Package kvcache keeps account of the pages of a KV cache: who holds them, which tokens' keys and values they hold,
// and which of them can serve a new sequence that begins with the same tokens. It knows no device: what must be copied
// is copied by its caller's function.
//
// Pages form a tree. A page's node lies below the node of the positions before it, so that the path from the root
// spells a prefix. Sequences that share a prefix hold the same nodes, whether they are running or not. Nodes that no
// sequence holds stay for their prefixes until their pages are needed; the one not used for longest goes first.
//
// Layers with sliding windows have fewer pages, numbered on their own. A node has one of these only as long as a window
// can reach it, and then until another needs it. A sequence goes on behind a prefix only where the window before its
// end is still there.
//
// Recurrent layers keep a state for a sequence, which cannot be taken back to an earlier position. Each sequence has a
// slot for it, and other slots hold checkpoints: states behind positions of a node, where a sequence can go on.
package kvcache

import "slices"

// Label names what was computed at a position: a token or a row of a picture, and by which arithmetic. Equal labels at
// equal places after equal labels mean equal keys and values, to the byte.
type Label uint64

// The bits of a label below its token.
const (
	decoded Label = 1 << iota
	foreign
	kindBits = 2
)

// The bits of a label above its token, of rows of pictures: the picture's number, and that it is one.
const (
	pictureShift       = kindBits + 31
	pictureRow   Label = 1 << 63
)

// MostPictures is the number of pictures that labels tell apart.
const MostPictures = 1 << 30

// LabelOf returns the label of a token that was evaluated as part of a prompt, or, if single, by the arithmetic of
// single tokens of running sequences, which short prompts are evaluated by too.
func LabelOf(token int32, single bool) Label {
	l := Label(token) << kindBits
	if single {
		l |= decoded
	}
	return l
}

// PictureLabel returns the label of a row of a picture, whose number is below MostPictures.
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

// As returns the label of what l names where it is evaluated as part of a prompt or, if single, as a single token.
func (l Label) As(single bool) Label {
	l &^= decoded | foreign
	if single {
		l |= decoded
	}
	return l
}

// Decoded reports whether the token was evaluated by the arithmetic of single tokens of running sequences.
func (l Label) Decoded() bool { return l&decoded != 0 }

// Foreign returns the label of l's token where it was evaluated on other devices, or on another share of them, which
// round differently.
func (l Label) Foreign() Label { return l | foreign }

// IsForeign reports whether the token was evaluated on other devices, or on another share of them.
func (l Label) IsForeign() bool { return l&foreign != 0 }

// same reports whether l and m name the same token, however evaluated.
func (l Label) same(m Label) bool { return l>>kindBits == m>>kindBits }

// Size is the room of a cache.
type Size struct {
	Pages     int
	Positions int // of a page
	Window    int // positions that a token sees in layers with windows, the last of which is its own; 0: there are no such layers
	Near      int // pages of layers with windows: at least those of a window and of the largest step behind it
	States    int // slots for states of recurrent layers; 0: there are no such layers
}

// Page names a page of keys and values.
type Page struct {
	Far   int32 // in layers whose tokens see all positions; -1: it is a slot of states only
	Near  int32 // in layers with windows; -1: it has none there
	State int32 // the slot in layers with recurrent states; -1: it has none there
}

// Cache is the pages of one KV cache. It is used by one goroutine at a time.
type Cache struct {
	Size
	copy  func(to, from Page) // copies a page's keys and values in every layer
	root  *node
	free  []int32 // last in, first out: recently used pages are warm
	near  []int32 // free pages of layers with windows, likewise
	nodes []*node // [pages] the node of each page, nil where the page is free
	idle  int     // nodes that no sequence holds
	past  int     // nodes with a page of layers with windows that no window reaches
	clock uint64  // counts releases, and uses of checkpoints
	slots []int32 // free ones, of states
	marks []*mark // all checkpoints
}

// node is one page in use.
type node struct {
	Page
	labels   []Label // of its positions in order; capacity is the page's positions
	parent   *node   // nil until it is part of the tree
	children []*node
	marks    []*mark // checkpoints behind some of its positions
	refs     int     // sequences that hold it
	used     uint64  // when it was released last

	seen   int    // of refs, those whose window reaches it
	behind bool   // the last window that reached it went on, and did not end with its sequence
	unseen uint64 // when that was
}

// New returns a cache of empty pages. copy is called to copy page from to page to.
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

// Available returns the number of pages that a sequence can have: the free ones, and those kept for their prefixes
// only.
func (c *Cache) Available() int { return len(c.free) + c.idle }

// Held returns the number of pages that sequences hold.
func (c *Cache) Held() int { return c.Pages - c.Available() }

// Kept returns the number of pages that no sequence holds and that are kept for their prefixes.
func (c *Cache) Kept() int { return c.idle }

// room reports whether sequences can have n pages more, and near in layers with windows.
func (c *Cache) room(n, near int) bool {
	return n <= c.Available() && (c.Window == 0 || near <= len(c.near)+c.past)
}

// reach returns the first page that the token behind n positions sees in layers with windows.
func (c *Cache) reach(n int) int {
	if c.Window == 0 {
		return 0
	}
	return max(0, n+1-c.Window) / c.Positions
}

// Clear frees the pages that are kept for their prefixes only.
func (c *Cache) Clear() {
	for c.evict() {
	}
}

// Forget drops all prefixes, so that none that was computed until now is found again. It is called when the model
// computes other keys and values from now on. Sequences keep what they hold.
func (c *Cache) Forget() {
	c.Clear()
	c.root = newRoot()
}

// take returns a node of an empty page, for which there is room, with one in layers with windows if near.
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
// have gone past, then from the ends of texts, where another request may go on; of either kind from the one that was
// left the longest time ago.
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

// unsee takes a window away that reached n: it has gone on past n if behind, or else its sequence has ended.
func (c *Cache) unsee(n *node, behind bool) {
	if n.seen--; n.seen == 0 && n.Near >= 0 {
		c.past++
		c.clock++
		n.behind, n.unseen = behind, c.clock
	}
}

// evict frees the page that was idle for longest, of those that no other page continues. It reports whether there was
// one.
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

// release takes a holder from n. A node without holders stays for its prefix, unless nothing was written to it or
// another page holds the same.
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

// handOver makes the window that reaches n reach m instead, which holds the same, and gives it n's page of layers with
// windows if it has none.
func (c *Cache) handOver(m, n *node) {
	if m.Near < 0 && n.Near >= 0 {
		m.Near, n.Near = n.Near, -1
		c.past++ // until it is seen
	}
	c.see(m)
}

// holds reports whether a child of p other than n begins with n's labels, in all layers that n has them in.
func (p *node) holds(n *node) bool {
	return slices.ContainsFunc(p.children, func(m *node) bool {
		return m != n && len(m.labels) >= len(n.labels) && slices.Equal(m.labels[:len(n.labels)], n.labels) && (m.Near >= 0 || n.Near < 0)
	})
}

// filled is called by the sequence that has filled n. It returns the sibling that stands for n's labels: n, or an older
// one, where n is dropped. Idle siblings that hold a beginning of n only are of no more use.
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

// match returns the child of p that shares most leading labels with want, and how many. If loose, tokens count, however
// evaluated.
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

// before reports whether m rather than n serves a text that both begin with: it is there in all layers, or an idle one,
// which may not need to be copied.
func (m *node) before(n *node) bool {
	if (m.Near < 0) != (n.Near < 0) {
		return m.Near >= 0
	}
	return m.refs == 0 && n.refs > 0
}

// shared is a node of a path from the root, and how many of its labels a text has. Only the last may have less than a
// page.
type shared struct {
	*node
	labels int
}

// usable cuts a path that begins at position at, up to which the pages from near on are there in layers with windows,
// to what a sequence can go on behind: at its end the whole window is there.
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
