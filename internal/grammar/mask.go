package grammar

import "slices"

// mask is the set of tokens that may come next: a list if they are few, else bits. It is immutable.
type mask struct {
	ids  []int32  // sorted; used if bits is nil
	bits []uint32 // [(n_vocab+31)/32]
	end  bool     // the text may end here, so the end tokens are among them
	none bool     // nothing but the end may come
}

func words(n int) int { return (n + 31) / 32 }

// newMask returns the mask of ids, in bits or copied. It may overwrite ids.
func newMask(ids []int32, size int) mask {
	if len(ids) < words(size) {
		slices.Sort(ids)
		return mask{ids: slices.Clone(slices.Compact(ids))}
	}
	bits := make([]uint32, words(size))
	setBits(bits, ids)
	return mask{bits: bits}
}

func setBits(bits []uint32, ids []int32) {
	for _, id := range ids {
		bits[id>>5] |= 1 << (id & 31)
	}
}

func (m *mask) bytes() int { return 64 + 4*len(m.ids) + 4*len(m.bits) }

// position is a node with its count: the top of a stack.
type position struct{ node, count int32 }

// local is the part of a position's mask that does not depend on the stack below it.
type local struct {
	mask            // tokens that can be read from the position without returning below it, or that end as it returns
	returns []int32 // inner trie nodes after which the position may have returned: the stack below decides about their tokens
}

// walk reads the nodes of a trie from first to last-1 from state s at depth base, and appends the readable tokens to
// ids. Nodes with a state that contains the bottom are appended to returns, unless that is nil.
func (c *Compiled) walk(t *trie, s, first, last int32, base uint16, ids []int32, returns *[]int32) []int32 {
	r := c.arena
	if s == dead || r.err != nil {
		return ids
	}
	path := c.path
	path[base] = s
	n, of := int32(r.classes.n), &r.classes.of
	done := 0
	defer func() { r.works(1 + done/16) }()
	for i := first; i < last; {
		if done++; done == breath {
			if done = 0; !r.works(breath / 16) {
				break
			}
		}
		x := &t.nodes[i]
		from := path[x.depth-1]
		class := int32(of[x.char])
		to := r.next[from*n+class]
		if to <= unknown {
			if to == unknown {
				to = r.step(from, class)
			}
			if to == dead {
				i = x.skip
				continue
			}
		}
		if to == from && x.group >= 0 && r.repeats(to).contains(&t.groups[x.group].bytes) {
			ids = append(ids, t.order[x.tokens:t.groups[x.group].last]...)
			i = x.skip
			continue
		}
		path[x.depth] = to
		if x.ends {
			ids = append(ids, t.ending(i)...)
		}
		if returns != nil && r.returned[to] && x.skip > i+1 {
			*returns = append(*returns, i)
		}
		i++
	}
	return ids
}

// canonical returns a position equivalent to p for tokens of at most deep bytes: if enough was repeated and that much
// may still be, the count does not matter.
func (c *Compiled) canonical(p position, deep int32) position {
	f := frame{node: p.node, count: p.count}
	q := c.arena.counted(f)
	if q == nil {
		return p
	}
	least := int32(max(q.min, 1))
	if p.count > least && (q.max == unbounded || int32(q.max)-p.count > deep) {
		p.count = least
	}
	return p
}

// local returns what p says about the tokens of trie number i.
func (c *Compiled) local(i int, p position) *local {
	t := &c.vocabulary.tries[i]
	p = c.canonical(p, t.deep)
	if l, ok := c.locals[i][p]; ok {
		return l
	}
	var returns []int32
	ids := c.walk(t, c.arena.initial(p.node, p.count), 0, int32(len(t.nodes))-1, 0, c.ids[:0], &returns)
	c.ids = ids
	l := &local{newMask(ids, c.vocabulary.size), slices.Clip(returns)}
	if c.arena.err == nil {
		c.locals[i][p] = l
		c.localBytes += l.bytes() + 4*len(returns) + 64
	}
	return l
}

// mask returns the tokens allowed in state s.
func (c *Compiled) mask(s int32) (*mask, error) {
	r := c.arena
	if m := r.masks[s]; m != nil {
		return m, nil
	}
	var u union
	for _, i := range r.states[s] {
		if i != bottom && r.works(1) {
			c.stackMask(i, &u)
		}
	}
	bits, ids := u.bits, u.ids
	ids = c.literalTokens(s, ids)
	if r.err != nil {
		return nil, r.err
	}
	end := r.returned[s]
	none := bits == nil && len(ids) == 0
	if end {
		ids = append(ids, c.vocabulary.ends...)
	}
	m := mask{bits: bits}
	if bits == nil {
		m = newMask(ids, c.vocabulary.size)
	} else {
		setBits(bits, ids)
	}
	m.end, m.none = end, none
	r.masks[s] = &m
	r.bytes += m.bytes()
	return &m, nil
}

// union collects masks: a token is in it by bits or by ids.
type union struct {
	bits []uint32 // nil or [(n_vocab+31)/32]
	ids  []int32
}

func (u *union) add(m *mask) {
	u.ids = append(u.ids, m.ids...)
	switch {
	case m.bits == nil:
	case u.bits == nil:
		u.bits = slices.Clone(m.bits)
	default:
		for w, b := range m.bits {
			u.bits[w] |= b
		}
	}
}

// stackMask adds the tokens that stack i allows.
func (c *Compiled) stackMask(i int32, u *union) {
	r := c.arena
	f := r.frames[i]
	for k := range c.vocabulary.tries {
		t := &c.vocabulary.tries[k]
		if r.depth[i] > maxDepth/2 { // the result depends on the depth, too
			u.ids = c.walk(t, r.single(i), 0, int32(len(t.nodes))-1, 0, u.ids, nil)
			continue
		}
		l := c.local(k, position{f.node, f.count})
		u.add(&l.mask)
		r.works(l.bytes() / 64)
		if f.parent == bottom {
			continue
		}
		below := r.single(f.parent)
		for _, n := range l.returns {
			u.ids = c.walk(t, below, n+1, t.nodes[n].skip, t.nodes[n].depth, u.ids, nil)
		}
	}
	if len(u.ids) > c.vocabulary.size {
		r.works(len(u.ids) / 4)
		slices.Sort(u.ids)
		u.ids = slices.Compact(u.ids)
	}
}

// literalTokens appends the tokens that token literals allow in state s.
func (c *Compiled) literalTokens(s int32, ids []int32) []int32 {
	if len(c.literals) == 0 {
		return ids
	}
	r := c.arena
	for _, i := range r.states[s] {
		if i == bottom {
			continue
		}
		r.tokens(r.frames[i], func(literal, _ int32) {
			id := c.literals[literal]
			if !r.a.literals[literal].not {
				if id != none {
					ids = append(ids, id)
				}
				return
			}
			for other := range int32(c.vocabulary.size) {
				if c.matches(literal, other) {
					ids = append(ids, other)
				}
			}
			slices.Sort(ids)
			ids = slices.Compact(ids)
		})
	}
	return ids
}

// matches reports whether a token literal matches the token; a negated one matches no end of text.
func (c *Compiled) matches(literal, id int32) bool {
	if c.arena.a.literals[literal].not {
		return id != c.literals[literal] && !c.vocabulary.isEnd[id]
	}
	return id == c.literals[literal]
}
