package vulkan

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// A device may have a second queue, for copies. It fills a room while the first queue computes with the content of
// another. Semaphores keep the order of the two: a command buffer that touches a room waits for the copy that fills it,
// and a copy waits for the last command buffer that touched what the room held before. The recorder finds what must
// wait by what commands say that they read and write, as it finds barriers.

// roomUse says how a recording has used a room so far. Command buffers and copies are numbered in their segment, from 1
// on.
type roomUse struct {
	driver.View
	copied  uint64 // the copy that filled it last; 0: none did
	touched uint64 // the command buffer that touched it last; 0: none did
	read    uint64 // the command buffer that filled it last, where no copy did; 0: none did
}

// copyBeside records, on the queue for copies, a copy of the first size bytes of a room's host memory to its device
// memory. It reports false, and records nothing, if there is no such queue or this leg already uses the room: a leg's
// copies are submitted before its commands, so they can wait for earlier legs only.
func (r *recorder) copyBeside(to *room, size int64) bool {
	if !r.d.beside {
		return false
	}
	r.flush()
	u := r.roomUse(to.local)
	if u.touched > r.earlier || u.copied > r.seg.copied {
		return false
	}
	g := r.d.gpu
	if r.copies == 0 {
		var err error
		if r.copies, err = g.VK.AllocateCommandBuffer(g.Copies.Pool); err == nil {
			err = g.VK.Begin(r.copies, &r.d.bindings.begin)
		}
		if err != nil {
			r.fail(g.Fail(err))
			return true
		}
	}
	r.d.copy(r.copies, to.local.Slice(0, size), to.staged.Slice(0, size))
	r.after = max(r.after, u.touched)
	u.copied = r.seg.copied + 1
	return true
}

// roomUse returns the use of the room at v.
func (r *recorder) roomUse(v driver.View) *roomUse {
	for i := range r.rooms {
		if r.rooms[i].View == v {
			return &r.rooms[i]
		}
	}
	r.rooms = append(r.rooms, roomUse{View: v})
	return &r.rooms[len(r.rooms)-1]
}

// split begins another leg, without a turn of the host, if the next commands, which touch bind, must wait for a copy
// that the commands so far need not wait for.
func (r *recorder) split(bind []binding) {
	if !r.filled || r.overlap {
		return
	}
	for i := range r.rooms {
		u := &r.rooms[i]
		if u.copied > r.awaits && slices.ContainsFunc(bind, func(b binding) bool { return overlap(u.View, b.View) }) {
			r.leg(nil, nil)
			r.begin()
			return
		}
	}
}

// uses notes that the command buffer in recording touches v, and so waits for the copy that filled it.
func (r *recorder) uses(v driver.View) {
	for i := range r.rooms {
		if u := &r.rooms[i]; overlap(u.View, v) {
			u.touched = r.seg.commands + 1
			r.awaits = max(r.awaits, u.copied)
		}
	}
}

// endCopies ends the leg's command buffer of copies. It returns it and the number of the command buffer that it waits
// for, or zeros if there is none.
func (r *recorder) endCopies() (copies vk.CommandBuffer, after uint64) {
	copies, after = r.copies, r.after
	r.copies, r.after = 0, 0
	if copies == 0 {
		return 0, 0
	}
	if err := r.d.gpu.VK.End(copies); err != nil {
		r.fail(r.d.gpu.Fail(err))
	}
	r.seg.copied++
	return copies, after
}
