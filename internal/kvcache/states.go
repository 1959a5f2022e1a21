package kvcache

import "slices"

// mark is a checkpoint: a slot that holds the state of recurrent layers after some of a node's positions. A sequence
// can continue from it. Marks go when their slots are needed, or with their nodes.
type mark struct {
	node   *node
	labels int   // of the node; the state has read them
	slot   int32 // its own
	used   uint64
	held   int // prefixes that read it
}

// before returns how many positions would be evaluated again without m.
func (m *mark) before(c *Cache) int {
	gap := m.labels
	for _, o := range m.node.marks {
		if o.labels < m.labels {
			gap = min(gap, m.labels-o.labels)
		}
	}
	if gap < m.labels {
		return gap
	}
	for n := m.node.parent; n != nil && n.Far >= 0; n = n.parent {
		last := 0
		for _, o := range n.marks {
			last = max(last, o.labels)
		}
		if gap += c.Positions - last; last > 0 {
			break
		}
	}
	return gap
}

// markAt returns the node's checkpoint after this many of its positions, or nil.
func (n *node) markAt(labels int) *mark {
	i := slices.IndexFunc(n.marks, func(m *mark) bool { return m.labels == labels })
	if i < 0 {
		return nil
	}
	return n.marks[i]
}

// spareSlot reports whether takeSlot would find a slot.
func (c *Cache) spareSlot() bool {
	return len(c.slots) > 0 || slices.ContainsFunc(c.marks, func(m *mark) bool { return m.held == 0 })
}

// takeSlot returns a slot: a free one, or that of the checkpoint that is least worth keeping, by the positions it saves
// and the time since its last use. spareSlot must be true.
func (c *Cache) takeSlot() int32 {
	if len(c.slots) == 0 {
		var least *mark
		worth := 0.0
		for _, m := range c.marks {
			if m.held > 0 {
				continue
			}
			if w := float64(m.before(c)) / float64(c.clock-m.used+1); least == nil || w < worth {
				least, worth = m, w
			}
		}
		c.unmark(least)
	}
	last := len(c.slots) - 1
	slot := c.slots[last]
	c.slots = c.slots[:last]
	return slot
}

// unmark frees m's slot.
func (c *Cache) unmark(m *mark) {
	is := func(o *mark) bool { return o == m }
	c.slots = append(c.slots, m.slot)
	c.marks = slices.DeleteFunc(c.marks, is)
	m.node.marks = slices.DeleteFunc(m.node.marks, is)
}

// mark makes a slot the checkpoint after this many of n's positions.
func (c *Cache) mark(n *node, labels int, slot int32) {
	c.clock++
	m := &mark{node: n, labels: labels, slot: slot, used: c.clock}
	c.marks, n.marks = append(c.marks, m), append(n.marks, m)
}

// handMarks moves the checkpoints of n, which is dropped, to siblings that hold the same positions without one, and
// frees the others.
func (c *Cache) handMarks(n *node) {
	for len(n.marks) > 0 {
		m := n.marks[0]
		var to *node
		if n.parent != nil {
			for _, o := range n.parent.children {
				if o != n && len(o.labels) >= m.labels && slices.Equal(o.labels[:m.labels], n.labels[:m.labels]) && o.markAt(m.labels) == nil {
					to = o
				}
			}
		}
		if to == nil {
			c.unmark(m)
			continue
		}
		n.marks = n.marks[1:]
		m.node = to
		to.marks = append(to.marks, m)
	}
}

// resumable returns the path below n to the last checkpoint on the way of want, and that checkpoint; nil if there is
// none.
func (n *node) resumable(want []Label, loose bool) (path []shared, last *mark) {
	length := 0
	for _, o := range n.children {
		agreed := 0
		for agreed < min(len(o.labels), len(want)) && (o.labels[agreed] == want[agreed] || loose && o.labels[agreed].same(want[agreed])) {
			agreed++
		}
		for _, m := range o.marks {
			if m.labels <= agreed && m.labels > length {
				path, last, length = []shared{{o, m.labels}}, m, m.labels
			}
		}
		if agreed < cap(o.labels) || agreed == 0 {
			continue
		}
		if way, m := o.resumable(want[agreed:], loose); m != nil && agreed+lengthOf(way) > length {
			path, last, length = append([]shared{{o, agreed}}, way...), m, agreed+lengthOf(way)
		}
	}
	return path, last
}

// State returns the slot of s's state; -1: it has none yet, or the cache has no states.
func (s *Sequence) State() int32 { return s.state }

// Mark makes a checkpoint of s's state, at its last position, if a slot is available. A sequence that follows the same
// labels continues from there; so could s itself, if later positions were taken back.
func (s *Sequence) Mark() {
	if s.state < 0 || s.own != nil || s.len == 0 {
		return
	}
	n, labels := s.last()
	if m := n.markAt(labels); m != nil {
		s.c.clock++
		m.used = s.c.clock
	} else if s.c.spareSlot() {
		slot := s.c.takeSlot()
		s.c.copy(Page{-1, -1, slot}, Page{-1, -1, s.state})
		s.c.mark(n, labels, slot)
	} else {
		return
	}
	s.marked = s.len
}

// Keep copies s's state, which may then read positions that are not s's yet. It reports whether a slot was available.
// TakeBack, Settle or Release follows.
func (s *Sequence) Keep() bool {
	if s.state < 0 || !s.c.spareSlot() {
		return false
	}
	s.kept = s.c.takeSlot()
	s.c.copy(Page{-1, -1, s.kept}, Page{-1, -1, s.state})
	return true
}

// TakeBack makes the copy s's state, if there is one, and forgets what was read since.
func (s *Sequence) TakeBack() {
	if s.kept >= 0 {
		s.state, s.kept = s.kept, s.state
		s.Settle()
	}
}

// Settle frees the copy, if there is one: what the state has read since belongs to s, or will.
func (s *Sequence) Settle() {
	if s.kept >= 0 {
		s.c.slots = append(s.c.slots, s.kept)
		s.kept = -1
	}
}

// Spoil records that s's state has read positions that s will never have. Unless Keep made a copy, the state is freed,
// so that it becomes no checkpoint. Release follows.
func (s *Sequence) Spoil() {
	if s.kept < 0 {
		s.freeState()
	}
}

// Marked returns the position of the last checkpoint that s made or continued from.
func (s *Sequence) Marked() int { return s.marked }

// last returns the node of s's last position, and how many of its positions s has.
func (s *Sequence) last() (n *node, labels int) {
	i := (s.len - 1) / s.c.Positions
	return s.nodes[i], s.len - i*s.c.Positions
}

// leaveState makes s's slot the checkpoint at its last position, or frees it.
func (s *Sequence) leaveState() {
	if s.state < 0 {
		return
	}
	s.TakeBack()
	if s.own == nil && s.len > 0 {
		if n, labels := s.last(); n.markAt(labels) == nil {
			s.c.mark(n, labels, s.state)
			s.state, s.marked = -1, 0
			return
		}
	}
	s.freeState()
}

// freeState frees s's slot, if it has one.
func (s *Sequence) freeState() {
	if s.state >= 0 {
		s.c.slots = append(s.c.slots, s.state)
		s.state, s.marked = -1, 0
	}
}

// resume is Follow in a cache with states: s continues from the last checkpoint on the way of want.
func (s *Sequence) resume(want []Label, loose bool) int {
	c, begin := s.c, s.len
	from := s.root()
	if len(s.nodes) > 0 {
		from = s.nodes[len(s.nodes)-1]
	}
	path, m := from.resumable(want, loose)
	if m == nil || len(c.usable(path, s.len, s.reach)) < len(path) {
		return 0
	}
	m.held++ // while a slot is looked for
	defer func() { m.held-- }()
	if s.state < 0 && !c.spareSlot() || !s.join(path) {
		return 0
	}
	if s.state < 0 {
		s.state = c.takeSlot()
	}
	c.copy(Page{-1, -1, s.state}, Page{-1, -1, m.slot})
	c.clock++
	m.used, s.marked = c.clock, s.len
	return s.len - begin
}
