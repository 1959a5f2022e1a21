package driver

import (
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// The numbers of a device's queues.
const (
	stepQueue = iota
	copyQueue
)

// Copies are submissions that steps do not wait for: on the device's queue for copies, if it has one, and else between steps on the one that computes. They have
// a timeline of their own.
type Copies struct {
	g      *GPU
	queue  int
	Pool   vk.CommandPool
	done   vk.Semaphore // the number of the last copy that has run
	last   uint64       // number of the last copy
	ran    uint64       // number of the last one that was seen done
	waited uint64       // that of the last one that a step was told to find done
	// What a submission reads, pinned with the GPU.
	batch   [1]vk.SubmitInfo
	signal  vk.TimelineSemaphoreSubmitInfo
	command vk.CommandBuffer
}

func (c *Copies) create(g *GPU, timeline *vk.SemaphoreTypeCreateInfo) (err error) {
	c.g, c.queue = g, min(copyQueue, len(g.Families)-1)
	if c.Pool, err = g.VK.CreateCommandPool(&vk.CommandPoolCreateInfo{
		SType: vk.StructureTypeCommandPoolCreateInfo, Flags: vk.CommandPoolResetBuffers, QueueFamilyIndex: g.Families[c.queue],
	}); err != nil {
		return err
	}
	if c.done, err = g.VK.CreateSemaphore(&vk.SemaphoreCreateInfo{SType: vk.StructureTypeSemaphoreCreateInfo, PNext: unsafe.Pointer(timeline)}); err != nil {
		return err
	}
	c.signal = vk.TimelineSemaphoreSubmitInfo{
		SType: vk.StructureTypeTimelineSemaphoreSubmitInfo, SignalSemaphoreValueCount: 1, PSignalSemaphoreValues: &c.last,
	}
	c.batch[0] = vk.SubmitInfo{
		SType: vk.StructureTypeSubmitInfo, PNext: unsafe.Pointer(&c.signal), CommandBufferCount: 1, PCommandBuffers: &c.command,
		SignalSemaphoreCount: 1, PSignalSemaphores: &c.done,
	}
	return nil
}

// Beside reports whether copies have a queue of their own.
func (c *Copies) Beside() bool { return c.queue == copyQueue }

// Submit queues a command of copies and returns its number. No step runs that reads what it writes.
func (c *Copies) Submit(command vk.CommandBuffer) (uint64, error) {
	if c.g.Lost != nil {
		return 0, c.g.Lost
	}
	from := c.g.Trace.Now()
	c.command = command
	c.last++
	if err := c.g.VK.Submit(c.queue, c.batch[:]); err != nil {
		return 0, c.g.Fail(err)
	}
	c.g.Trace.Span(trace.Calls, "submit copies", from)
	return c.last, nil
}

// Ran reports whether copy number n has run. That it never will the next submission tells.
func (c *Copies) Ran(n uint64) bool {
	if c.ran < n && c.g.VK.SemaphoreValue(c.done, &c.g.submission.reached) == nil {
		c.ran = c.g.submission.reached
	}
	return c.ran >= n
}

// seen returns the number of semaphores, 0 or 1, that a step is to wait for, and writes the value to wait for: that of the last copy that was seen done. The wait
// takes no time; it makes what was copied visible to the queue that computes.
func (c *Copies) seen(value *uint64) uint32 {
	if c.ran == c.waited {
		return 0
	}
	*value, c.waited = c.ran, c.ran
	return 1
}
