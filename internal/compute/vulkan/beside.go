package vulkan

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// Rooms are filled on the queue for copies, where the device has one, while it computes with others' content. Semaphores order the two queues by what commands say that
// they read and write, as barriers order the commands of one: a command buffer that touches a room waits for the copy that fills it, and the copy for the last one
// that touched what was there before.

// roomUse says where a recording has last filled and touched a room. Numbers are the segment's.
type roomUse struct {
	driver.View
	copied  uint64 // by this copy; 0: not by one
	touched uint64 // by this command; 0: by none
}

// copyBeside records for the queue for copies, if there is one, that so many bytes of a room's content come to it, and reports whether it did. The copy is submitted
// with the leg, before its commands, which can wait for it. It waits for those of earlier legs alone.
func (r *recorder) copyBeside(to *room, size int64) bool {
	if !r.d.beside {
		return false
	}
	r.flush()
	u := r.roomUse(to.local)
	if u.touched > r.earlier || u.copied > r.seg.copied { // in this leg
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
	g.VK.CmdCopyBuffer(r.copies, to.staged.Slab.Buffer, to.local.Slab.Buffer, []vk.BufferCopy{{SrcOffset: uint64(to.staged.At), DstOffset: uint64(to.local.At), Size: uint64(size)}})
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

// split begins another leg, without a turn of the host, if what is recorded next waits for a copy: what was recorded so far need not wait.
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

// uses says that the command buffer in recording touches v.
func (r *recorder) uses(v driver.View) {
	for i := range r.rooms {
		if u := &r.rooms[i]; overlap(u.View, v) {
			u.touched = r.seg.commands + 1
			r.awaits = max(r.awaits, u.copied)
		}
	}
}

// endCopies ends the leg's command buffer of copies, if it has one, and returns it and the number of the command that it waits for.
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
