package vulkan

// hazards are the ranges that commands since the last barrier read and wrote.
type hazards struct {
	ranges []binding
}

func (h *hazards) clear() { h.ranges = h.ranges[:0] }

// conflict reports whether b must wait: it reads what was written, or writes what was read or written.
func (h *hazards) conflict(b binding) bool {
	for _, o := range h.ranges {
		if (b.writes || o.writes) && overlap(b.view, o.view) {
			return true
		}
	}
	return false
}

func (h *hazards) add(b binding) { h.ranges = append(h.ranges, b) }

func overlap(a, b view) bool {
	return a.slab == b.slab && a.at < b.at+b.size && b.at < a.at+a.size
}
