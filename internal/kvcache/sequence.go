package kvcache

// Sequence is a run of labels with keys and values in the cache.
type Sequence struct {
	c     *Cache
	own   *node   // root of a private sequence's own tree
	nodes []*node // the path of its pages; those after the last label are reserved
	pages []int32 // of nodes
	near  []int32 // of nodes, in layers with windows; 0 before reach
	reach int     // the first page that its window reaches
	len   int

	state  int32 // the slot of its recurrent state; -1: it has none
	kept   int32 // the slot of a copy of the state at its last position, while the state reads more positions; -1: none
	marked int   // the position of the last checkpoint that it made or continued from
}

// NewSequence returns an empty sequence. It holds no page.
func (c *Cache) NewSequence() *Sequence { return &Sequence{c: c, state: -1, kept: -1} }

// NewPrivate returns an empty sequence that shares no keys and values with others, because they are computed in another
// way. It holds no page.
func (c *Cache) NewPrivate() *Sequence { return &Sequence{c: c, own: newRoot(), state: -1, kept: -1} }

// root returns where s's path begins.
func (s *Sequence) root() *node {
	if s.own != nil {
		return s.own
	}
	return s.c.root
}

// Len returns the number of positions with keys and values.
func (s *Sequence) Len() int { return s.len }

// Pages returns the pages: number i holds positions [i·p, i·p+p) for pages of p positions. They are valid until s is
// used again.
func (s *Sequence) Pages() []int32 { return s.pages }

// Near returns the pages in layers with windows; those that no window reaches any more are 0. It is nil without such
// layers.
func (s *Sequence) Near() []int32 {
	if s.c.Window == 0 {
		return nil
	}
	return s.near
}

// Needs returns how many more pages s needs for n more positions.
func (s *Sequence) Needs(n int) int {
	return max(0, (s.len+n+s.c.Positions-1)/s.c.Positions-len(s.nodes))
}

// Reserve reports whether there is room for n more positions now. Idle prefixes make room as needed.
func (s *Sequence) Reserve(n int) bool {
	pages := s.Needs(n)
	if !s.c.room(pages, max(0, len(s.nodes)+pages-max(s.reach, len(s.nodes)))) {
		return false
	}
	if s.c.States > 0 && s.state < 0 {
		if !s.c.spareSlot() {
			return false
		}
		s.state = s.c.takeSlot()
	}
	for range pages {
		s.push(s.c.take(len(s.nodes) >= s.reach))
	}
	return true
}

// Begin announces, before anything is reserved, n positions for s from outside, with pages of layers with windows from
// page near on. If there is no room for all of these, s has only those of the window before position n.
func (s *Sequence) Begin(n, near int) {
	s.reach = near
	if pages := (n + s.c.Positions - 1) / s.c.Positions; !s.c.room(0, pages-near) {
		s.reach = max(near, s.c.reach(n))
	}
}

// Continues reports whether a sequence can continue after the n positions that s was given from outside.
func (s *Sequence) Continues(n int) bool { return s.c.Window == 0 || s.reach <= s.c.reach(n) }

// Page returns page i.
func (s *Sequence) Page(i int) Page {
	page := s.nodes[i].Page
	if i < s.reach {
		page.Near = -1
	}
	return page
}

// Append records that the next positions hold what labels name. There must be room for them.
func (s *Sequence) Append(labels ...Label) {
	for len(labels) > 0 {
		i := s.len / s.c.Positions
		n := s.nodes[i]
		if n.parent == nil {
			n.parent = s.root()
			if i > 0 {
				n.parent = s.nodes[i-1]
			}
			n.parent.children = append(n.parent.children, n)
		}
		part := labels[:min(len(labels), s.c.Positions-len(n.labels))]
		n.labels = append(n.labels, part...)
		s.len += len(part)
		labels = labels[len(part):]
		if len(n.labels) == s.c.Positions {
			n = s.c.filled(n)
			s.nodes[i], s.pages[i], s.near[i] = n, n.Far, max(0, n.Near)
		}
	}
	s.moveTo(s.c.reach(s.len))
}

// moveTo makes page reach the first one that the window reaches.
func (s *Sequence) moveTo(reach int) {
	for i := s.reach; i < min(reach, len(s.nodes)); i++ {
		s.c.unsee(s.nodes[i], true)
		s.near[i] = 0
	}
	for i := reach; i < min(s.reach, len(s.nodes)); i++ {
		s.c.see(s.nodes[i])
		s.near[i] = max(0, s.nodes[i].Near)
	}
	s.reach = reach
}

// Follow continues s, which must end at the end of a page, with what the cache holds of want, the labels after s's own.
// It returns how many positions s gained. Full pages are shared. Of a page that is in use or continues differently the
// common beginning is copied. If loose, tokens are compared without their arithmetic. In a cache with states s
// continues from the last checkpoint on the way.
func (s *Sequence) Follow(want []Label, loose bool) int {
	begin := s.len
	if s.len%s.c.Positions != 0 || s.len/s.c.Positions != len(s.nodes) {
		return 0
	}
	if s.c.States > 0 {
		return s.resume(want, loose)
	}
	path := s.c.usable(s.match(want, loose), s.len, s.reach)
	if !s.join(path) {
		s.join(s.c.usable(path[:len(path)-1], begin, s.reach))
	}
	return s.len - begin
}

// join continues s with path. If the last node must be copied and there is no page for that, it does nothing and
// returns false.
func (s *Sequence) join(path []shared) bool {
	if len(path) == 0 {
		return true
	}
	begin, end := s.len, s.len+lengthOf(path)
	s.moveTo(s.c.reach(end))
	for _, n := range path {
		s.c.hold(n.node)
		s.push(n.node)
	}
	s.len = end
	last := path[len(path)-1]
	if last.labels == len(last.node.labels) && (last.labels == s.c.Positions || last.refs == 1) { // or nobody else will write to it
		return true
	}
	if s.c.room(1, 1) {
		s.copyLast(last.labels)
		return true
	}
	for len(s.nodes) > begin/s.c.Positions {
		s.c.release(s.pop())
	}
	s.len = begin
	s.moveTo(s.c.reach(begin))
	return false
}

// copyLast replaces s's last page by a copy of its first labels.
func (s *Sequence) copyLast(labels int) {
	own, n := s.c.take(true), s.nodes[len(s.nodes)-1] // held, so that it is not evicted
	s.c.copy(own.Page, n.Page)
	s.pop()
	s.push(own)
	s.len -= labels
	s.Append(n.labels[:labels]...)
	s.c.release(n)
}

// match returns the path of what the cache holds of want after s's end.
func (s *Sequence) match(want []Label, loose bool) (path []shared) {
	at := s.root()
	if len(s.nodes) > 0 {
		at = s.nodes[len(s.nodes)-1]
	}
	for {
		n, labels := at.match(want, loose)
		if labels == 0 {
			return path
		}
		path = append(path, shared{n, labels})
		if labels < s.c.Positions {
			return path
		}
		at, want = n, want[labels:]
	}
}

// push adds a page that s holds.
func (s *Sequence) push(n *node) {
	near := int32(0)
	if len(s.nodes) >= s.reach {
		s.c.see(n)
		near = max(0, n.Near)
	}
	s.nodes, s.pages, s.near = append(s.nodes, n), append(s.pages, n.Far), append(s.near, near)
}

// pop removes the last page, which s still holds.
func (s *Sequence) pop() *node {
	last := len(s.nodes) - 1
	n := s.nodes[last]
	if last >= s.reach {
		s.c.unsee(n, false)
	}
	s.nodes, s.pages, s.near = s.nodes[:last], s.pages[:last], s.near[:last]
	return n
}

// Release gives all pages back, last one first, so that it is evicted first. They stay for their prefixes until they
// are needed, unless s is private.
func (s *Sequence) Release() {
	s.leaveState()
	for len(s.nodes) > 0 {
		if n := s.pop(); s.own != nil {
			s.c.drop(n)
		} else {
			s.c.release(n)
		}
	}
	s.len, s.reach = 0, 0
}
