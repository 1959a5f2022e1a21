package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"

// hazards are the ranges that commands since the last barrier read and wrote.
type hazards struct {
	ranges []binding
	copied bool // one of these commands is a copy
	narrow bool // a barrier between shaders alone was recorded since the last one that copies wait for, too
}

// wait says which barrier a command needs before it.
type wait int

// The waits.
const (
	noWait     wait = iota
	shaderWait      // between shaders; drivers make it cheaper than one that copies take part in
	copyWait        // between shaders and copies
)

func (h *hazards) clear() { *h = hazards{ranges: h.ranges[:0]} }

// next returns what a command that touches bind must wait for, and takes the command up. A copy is no shader.
func (h *hazards) next(copies bool, bind []binding) wait {
	w := noWait
	for _, b := range bind {
		if h.conflict(b) {
			w = shaderWait
			break
		}
	}
	if copies && (h.narrow || w == shaderWait) || h.copied && w == shaderWait {
		w = copyWait
	}
	if w != noWait {
		narrow := w == shaderWait
		h.clear()
		h.narrow = narrow
	}
	h.copied = h.copied || copies
	for _, b := range bind {
		h.add(b)
	}
	return w
}

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
