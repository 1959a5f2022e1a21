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

// Copies submits to the device's queue for copies if it has one, else to the compute queue. Copies have their own
// timeline. Waits between the copy and compute timelines are explicit.
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
	signal  vk.TimelineSemaphoreSubmitInfo // with what it waits for
	command vk.CommandBuffer
	after   uint64 // number of the step's submission that is waited for
	stages  uint32 // that wait
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
	c.stages = vk.PipelineStageTransfer
	c.signal = vk.TimelineSemaphoreSubmitInfo{
		SType: vk.StructureTypeTimelineSemaphoreSubmitInfo, SignalSemaphoreValueCount: 1, PSignalSemaphoreValues: &c.last, PWaitSemaphoreValues: &c.after,
	}
	c.batch[0] = vk.SubmitInfo{
		SType: vk.StructureTypeSubmitInfo, PNext: unsafe.Pointer(&c.signal), CommandBufferCount: 1, PCommandBuffers: &c.command,
		SignalSemaphoreCount: 1, PSignalSemaphores: &c.done, PWaitSemaphores: &g.done, PWaitDstStageMask: &c.stages,
	}
	return nil
}

// Beside reports whether copies have a queue of their own.
func (c *Copies) Beside() bool { return c.queue == copyQueue }

// Last returns the number of the last copy.
func (c *Copies) Last() uint64 { return c.last }

// Submit queues a command of copies, to run when the steps' submission number after has, and returns its number. After
// 0 it waits for none: then no step runs that touches what it does.
func (c *Copies) Submit(command vk.CommandBuffer, after uint64) (uint64, error) {
	if c.g.Lost != nil {
		return 0, c.g.Lost
	}
	from := c.g.Trace.Now()
	c.command, c.after = command, after
	waits := uint32(min(after, 1))
	c.batch[0].WaitSemaphoreCount, c.signal.WaitSemaphoreValueCount = waits, waits
	c.last++
	if err := c.g.VK.Submit(c.queue, c.batch[:]); err != nil {
		return 0, c.g.Fail(err)
	}
	c.g.Trace.Span(trace.Calls, "submit copies", from)
	return c.last, nil
}

// Ran reports whether copy number n has run. If the device is lost, the next submission says so.
func (c *Copies) Ran(n uint64) bool {
	if c.ran < n && c.g.VK.SemaphoreValue(c.done, &c.g.submission.reached) == nil {
		c.ran = c.g.submission.reached
	}
	return c.ran >= n
}

// Wait returns when copy number n has run.
func (c *Copies) Wait(n uint64) error {
	if c.ran >= n {
		return nil
	}
	from := c.g.Trace.Now()
	if err := c.g.reach(c.done, n); err != nil {
		return err
	}
	c.ran = n
	c.g.Trace.Span(trace.Calls, "wait for copies", from)
	return nil
}

// before returns the number of semaphores, 0 or 1, that a step's submission is to wait for, and writes the value to
// wait for: that of the last copy that was seen done, for which the wait takes no time but makes what was copied
// visible to the queue that computes, or of copy number n, if that is a later one.
func (c *Copies) before(n uint64, value *uint64) uint32 {
	n = max(n, c.ran)
	if n <= c.waited {
		return 0
	}
	*value, c.waited = n, n
	return 1
}
