package kvcache

// Sequence is a run of labels whose keys and values lie in the cache.
type Sequence struct {
	c     *Cache
	own   *node   // of a private sequence: the root of a tree of its own
	nodes []*node // the path of its pages; those behind the last label are reserved
	pages []int32 // of nodes
	len   int
}

// NewSequence returns an empty sequence. It holds no page.
func (c *Cache) NewSequence() *Sequence { return &Sequence{c: c} }

// NewPrivate returns an empty sequence whose keys and values never serve another, and which takes over none: they are computed in another
// way. It holds no page.
func (c *Cache) NewPrivate() *Sequence { return &Sequence{c: c, own: &node{page: -1}} }

// root returns where s's path begins.
func (s *Sequence) root() *node {
	if s.own != nil {
		return s.own
	}
	return s.c.root
}

// Len returns the number of positions whose keys and values are there.
func (s *Sequence) Len() int { return s.len }

// Pages returns the pages: number i holds positions [i·p, i·p+p) for pages of p positions. They are valid until s is used again.
func (s *Sequence) Pages() []int32 { return s.pages }

// Needs returns how many pages s lacks for n more positions.
func (s *Sequence) Needs(n int) int {
	return max(0, (s.len+n+s.c.positions-1)/s.c.positions-len(s.nodes))
}

// Reserve reports whether there is room for n more positions now. Idle prefixes make room as needed.
func (s *Sequence) Reserve(n int) bool {
	if s.Needs(n) > s.c.Available() {
		return false
	}
	for s.Needs(n) > 0 {
		s.push(s.c.take())
	}
	return true
}

// Append says that the next positions, for which there is room, hold what labels name.
func (s *Sequence) Append(labels ...Label) {
	for len(labels) > 0 {
		i := s.len / s.c.positions
		n := s.nodes[i]
		if n.parent == nil {
			n.parent = s.root()
			if i > 0 {
				n.parent = s.nodes[i-1]
			}
			n.parent.children = append(n.parent.children, n)
		}
		part := labels[:min(len(labels), s.c.positions-len(n.labels))]
		n.labels = append(n.labels, part...)
		s.len += len(part)
		labels = labels[len(part):]
		if len(n.labels) == s.c.positions {
			n = s.c.filled(n)
			s.nodes[i], s.pages[i] = n, n.page
		}
	}
}

// Follow continues s, which ends where a page ends, with what the cache holds of want, the labels behind s's own. It returns how many
// positions s gained. Full pages are shared; of a page that is in use or goes on differently, the common beginning is copied. If
// loose, tokens count, however they were evaluated.
func (s *Sequence) Follow(want []Label, loose bool) int {
	begin := s.len
	if s.len%s.c.positions != 0 || s.len/s.c.positions != len(s.nodes) {
		return 0
	}
	for {
		at := s.root()
		if len(s.nodes) > 0 {
			at = s.nodes[len(s.nodes)-1]
		}
		n, shared := at.match(want[s.len-begin:], loose)
		if shared == 0 {
			return s.len - begin
		}
		if shared == len(n.labels) && (shared == s.c.positions || n.refs == 0) { // or nobody else will write to it
			s.c.hold(n)
			s.push(n)
			s.len += shared
		} else {
			s.copy(n, shared)
		}
		if shared < s.c.positions {
			return s.len - begin
		}
	}
}

// copy continues s with the first labels of n in a page of its own, if there is one.
func (s *Sequence) copy(n *node, labels int) {
	s.c.hold(n) // it may not be evicted now
	defer s.c.release(n)
	if own := s.c.take(); own != nil {
		s.c.copy(own.page, n.page)
		s.push(own)
		s.Append(n.labels[:labels]...)
	}
}

func (s *Sequence) push(n *node) {
	s.nodes, s.pages = append(s.nodes, n), append(s.pages, n.page)
}

// Truncate forgets what lies behind the first n positions. Of a page that others may read it keeps nothing.
func (s *Sequence) Truncate(n int) {
	if n >= s.len {
		return
	}
	whole, rest := n/s.c.positions, n%s.c.positions
	keep := whole
	if rest > 0 {
		if last := s.nodes[whole]; last.refs == 1 && len(last.children) == 0 || len(last.labels) == rest {
			last.labels = last.labels[:rest]
			keep++
		} else {
			n = whole * s.c.positions
		}
	}
	s.len = n
	for i := len(s.nodes) - 1; i >= keep; i-- { // the end first: it is the first to be evicted
		s.c.release(s.nodes[i])
	}
	s.nodes, s.pages = s.nodes[:keep], s.pages[:keep]
}

// Release gives all pages back. They stay for their prefixes until they are needed, unless s is private.
func (s *Sequence) Release() {
	for i := len(s.nodes) - 1; i >= 0; i-- {
		if n := s.nodes[i]; s.own != nil {
			s.c.drop(n)
		} else {
			s.c.release(n)
		}
	}
	s.nodes, s.pages, s.len = s.nodes[:0], s.pages[:0], 0
}
