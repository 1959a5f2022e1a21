package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"

// hazards are the ranges that commands since the last barrier read and wrote.
type hazards struct {
	ranges []binding
}

func (h *hazards) clear() { h.ranges = h.ranges[:0] }

// conflict reports whether b must wait: it reads what was written, or writes what was read or written.
func (h *hazards) conflict(b binding) bool {
	for _, o := range h.ranges {
		if (b.writes || o.writes) && overlap(b.View, o.View) {
			return true
		}
	}
	return false
}

func (h *hazards) add(b binding) { h.ranges = append(h.ranges, b) }

func overlap(a, b driver.View) bool {
	return a.Slab == b.Slab && a.At < b.At+b.Size && b.At < a.At+a.Size
}
