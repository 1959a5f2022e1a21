package sample

// maxPrealloc bounds what a history allocates before tokens arrive; longer ones grow as they do.
const maxPrealloc = 1 << 16

// history is a ring of the last accepted tokens.
type history struct {
	ids  []int32 // at most last
	next int     // index of the next token once the ring is full
	last int     // capacity; 0 keeps nothing
}

func newHistory(last int) history {
	return history{ids: make([]int32, 0, min(last, maxPrealloc)), last: last}
}

func (h *history) add(id int32) {
	switch {
	case h.last == 0:
	case len(h.ids) < h.last:
		h.ids = append(h.ids, id)
	default:
		h.ids[h.next] = id
		h.next++
		if h.next == h.last {
			h.next = 0
		}
	}
}

// at returns the token that n others came after; n is less than len(ids).
func (h *history) at(n int) int32 {
	i := h.next - 1 - n // next is 0 while the ring is not full
	if i < 0 {
		i += len(h.ids)
	}
	return h.ids[i]
}

func (h *history) reset() {
	h.ids, h.next = h.ids[:0], 0
}

func (h *history) clone() history {
	c := newHistory(h.last)
	c.ids, c.next = append(c.ids, h.ids...), h.next
	return c
}
