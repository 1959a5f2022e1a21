// Package driver is the half of the Vulkan device that knows Vulkan's objects and no tensors: devices of the machine,
// memory, pipelines and their cache, submissions.
package driver

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// GPU is an opened device: its queues, the one layout of all pipelines, and the timeline that counts submissions.
type GPU struct {
	*Physical
	silence func() // stops telling what the validation layer finds
	VK      *vk.Device
	Set     vk.DescriptorSetLayout
	Layout  vk.PipelineLayout
	Pool    vk.CommandPool
	done    vk.Semaphore // timeline: the number of the last submission that has run
	Last    uint64       // number of the last submission
	Copies  Copies       // in parallel to steps
	Push    bool         // descriptors are pushed
	Lost    error        // a submission failed: nothing can be computed any more
	Trace   *trace.Log   // nil: nobody wants to know
	running []running    // traced submissions that were not yet seen done
	Timed   bool         // new submissions have their own stamps

	// What the calls on a token's path read and write, pinned.
	pin        runtime.Pinner
	submission *submission

	Glance glance
}

// glance looks whether submissions have run, without waiting. The functions are made once, so that a look allocates
// nothing.
type glance struct {
	Ready, Done     uint64 // their numbers
	ReadyFn, DoneFn func() bool
}

// running is a submission in a trace.
type running struct {
	number uint64
	from   time.Duration
}

// submission are the structures of vkQueueSubmit, for up to two batches of one command buffer each, and of
// vkWaitSemaphores.
type submission struct {
	batches [2]vk.SubmitInfo
	signals [2]vk.TimelineSemaphoreSubmitInfo // with what a batch waits for
	command [2]vk.CommandBuffer
	value   [2]uint64 // that a batch signals
	copied  [2]uint64 // number of the copy that a batch waits for
	stages  uint32    // that read what it copied

	wait    vk.SemaphoreWaitInfo
	awaited vk.Semaphore
	target  uint64
	reached uint64
}

// Options say which device is opened, and how.
type Options struct {
	Device   string       // by index, name, Software, None; empty: the best
	Messages func(string) // enables the validation layer and gets its messages; nil: it is off
	Assisted bool         // the layer checks the address of every access instead of barriers
	Trace    *trace.Log   // keeps submissions and waits; may be nil
}

// Open opens the device that o means.
func Open(o Options) (*GPU, error) {
	if o.Device == None {
		return nil, fmt.Errorf("%w: none was asked for", ErrNone)
	}
	i, silence, err := shared(o.Messages, o.Assisted)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	g, err := i.open(o)
	if err != nil {
		silence()
		return nil, err
	}
	g.silence = silence
	counted(1, 1)
	return g, nil
}

// open opens a device. i.mu is held.
func (i *instance) open(o Options) (*GPU, error) {
	all, err := i.physicals()
	if err != nil {
		return nil, err
	}
	k, err := Choose(infos(all), o.Device)
	if err != nil {
		return nil, err
	}
	g := &GPU{Physical: &all[k], Trace: o.Trace}
	g.Push = g.Has(pushExtension) && !o.Assisted // the layer does not see pushed descriptors
	f := &features{}
	f.enabled(g.Physical)
	unpin := Pinned(f)
	defer unpin()
	var extensions []string
	for _, e := range []string{pushExtension, sizeExtension, dotExtension, budgetExtension, portableSubset} {
		if g.Has(e) {
			extensions = append(extensions, e)
		}
	}
	if g.Matrices.M > 0 {
		extensions = append(extensions, matrixExtension)
	}
	if len(g.Workgroup.Shapes) > 0 {
		extensions = append(extensions, workgroupExtension, maintenance4)
	}
	if g.Has(CalibratedExtension) {
		extensions = append(extensions, CalibratedExtension)
	}
	if g.VK, err = i.vk.CreateDevice(g.handle, g.Families, extensions, &f.two); err != nil {
		return nil, fmt.Errorf("device %d (%s) cannot be opened: %w", k, g.Info.Name, err)
	}
	if err := g.create(); err != nil {
		g.destroy()
		return nil, fmt.Errorf("device %d (%s): %w", k, g.Info.Name, err)
	}
	return g, nil
}

// create makes what every submission needs.
func (g *GPU) create() error {
	bindings := make([]vk.DescriptorSetLayoutBinding, MaxBindings)
	for i := range bindings {
		bindings[i] = vk.DescriptorSetLayoutBinding{Binding: uint32(i), DescriptorType: vk.DescriptorTypeStorageBuffer, DescriptorCount: 1, StageFlags: vk.StageCompute}
	}
	flags := uint32(0)
	if g.Push {
		flags = vk.DescriptorLayoutPush
	}
	push := &vk.PushConstantRange{StageFlags: vk.StageCompute, Size: PushBytes}
	kind := &vk.SemaphoreTypeCreateInfo{SType: vk.StructureTypeSemaphoreTypeCreateInfo, SemaphoreType: vk.SemaphoreTypeTimeline}
	defer Pinned(&bindings[0], push, kind, &g.Set)()
	var err error
	if g.Set, err = g.VK.CreateDescriptorSetLayout(&vk.DescriptorSetLayoutCreateInfo{
		SType: vk.StructureTypeDescriptorSetLayoutCreateInfo, Flags: flags, BindingCount: uint32(len(bindings)), PBindings: &bindings[0],
	}); err != nil {
		return err
	}
	if g.Layout, err = g.VK.CreatePipelineLayout(&vk.PipelineLayoutCreateInfo{
		SType: vk.StructureTypePipelineLayoutCreateInfo, SetLayoutCount: 1, PSetLayouts: &g.Set,
		PushConstantRangeCount: 1, PPushConstantRanges: push,
	}); err != nil {
		return err
	}
	if g.Pool, err = g.VK.CreateCommandPool(&vk.CommandPoolCreateInfo{
		SType: vk.StructureTypeCommandPoolCreateInfo, Flags: vk.CommandPoolResetBuffers, QueueFamilyIndex: g.Families[0],
	}); err != nil {
		return err
	}
	if g.done, err = g.VK.CreateSemaphore(&vk.SemaphoreCreateInfo{SType: vk.StructureTypeSemaphoreCreateInfo, PNext: unsafe.Pointer(kind)}); err != nil {
		return err
	}
	if err := g.Copies.create(g, kind); err != nil {
		return err
	}
	s := &submission{stages: vk.PipelineStageComputeShader | vk.PipelineStageTransfer}
	g.submission = s
	g.Glance.ReadyFn = func() bool { return g.ran(g.Glance.Ready) }
	g.Glance.DoneFn = func() bool { return g.ran(g.Glance.Done) }
	g.pin.Pin(s)
	g.pin.Pin(&g.done)
	for i := range s.batches {
		s.signals[i] = vk.TimelineSemaphoreSubmitInfo{
			SType: vk.StructureTypeTimelineSemaphoreSubmitInfo, SignalSemaphoreValueCount: 1, PSignalSemaphoreValues: &s.value[i], PWaitSemaphoreValues: &s.copied[i],
		}
		s.batches[i] = vk.SubmitInfo{
			SType: vk.StructureTypeSubmitInfo, PNext: unsafe.Pointer(&s.signals[i]), CommandBufferCount: 1, PCommandBuffers: &s.command[i],
			SignalSemaphoreCount: 1, PSignalSemaphores: &g.done, PWaitSemaphores: &g.Copies.done, PWaitDstStageMask: &s.stages,
		}
	}
	s.wait = vk.SemaphoreWaitInfo{SType: vk.StructureTypeSemaphoreWaitInfo, SemaphoreCount: 1, PSemaphores: &s.awaited, PValues: &s.target}
	return nil
}

// Close ends the device. Its instance is the process's.
func (g *GPU) Close() {
	g.destroy()
	g.silence()
	counted(0, -1)
}

// destroy ends the device. Handles that were not made are zero, which Vulkan takes.
func (g *GPU) destroy() {
	if g.VK != nil {
		_ = g.VK.WaitIdle() // a lost device is destroyed all the same
		g.VK.DestroySemaphore(g.Copies.done)
		g.VK.DestroyCommandPool(g.Copies.Pool)
		g.VK.DestroySemaphore(g.done)
		g.VK.DestroyCommandPool(g.Pool)
		g.VK.DestroyPipelineLayout(g.Layout)
		g.VK.DestroyDescriptorSetLayout(g.Set)
		g.VK.Destroy()
	}
	g.pin.Unpin()
}

// Command is a recorded command buffer, or none if Buffer is 0.
type Command struct {
	Buffer vk.CommandBuffer
	Copies uint64 // number of the copy that must have run before it; 0: none
}

// From returns c where Copies counts from another number than 0.
func (c Command) From(copies uint64) Command {
	if c.Copies > 0 {
		c.Copies += copies
	}
	return c
}

// Submit queues commands, one or two, and returns the number that the first signals; the second's is the next.
func (g *GPU) Submit(commands ...Command) (uint64, error) {
	if g.Lost != nil {
		return 0, g.Lost
	}
	from := g.Trace.Now()
	s := g.submission
	for i, c := range commands {
		s.command[i], s.value[i] = c.Buffer, g.Last+1+uint64(i)
		waits := g.Copies.before(c.Copies, &s.copied[i])
		s.batches[i].WaitSemaphoreCount, s.signals[i].WaitSemaphoreValueCount = waits, waits
	}
	if err := g.VK.Submit(stepQueue, s.batches[:len(commands)]); err != nil {
		return 0, g.Fail(err)
	}
	g.Last += uint64(len(commands))
	if g.Trace != nil {
		g.traceSubmission(len(commands), from)
	}
	return g.Last - uint64(len(commands)) + 1, nil
}

// Before a thread goes to sleep for the device, it looks polls times whether it is done, for some 300 µs: a look costs
// some 200 ns, a wake-up tens of microseconds in every layer that two processors share. Not on a software device, which
// needs the core itself.
const polls = 1500

// traceSubmission traces the time of submitting this many commands, and that they run.
func (g *GPU) traceSubmission(commands int, from time.Duration) {
	g.Trace.Span(trace.Calls, "submit", from)
	for i := range commands {
		if g.Timed {
			break
		}
		g.running = append(g.running, running{g.Last - uint64(commands-1-i), g.Trace.Now()})
	}
}

// Wait returns when submission number n has run.
func (g *GPU) Wait(n uint64) error {
	from := g.Trace.Now()
	err := g.reach(g.done, n)
	if g.Trace != nil && n > 0 {
		g.traceWait(n, from)
	}
	return err
}

// traceWait keeps a wait, and what it has seen done.
func (g *GPU) traceWait(n uint64, from time.Duration) {
	now := g.Trace.Now()
	g.Trace.Between(trace.Calls, "wait", from, now)
	for len(g.running) > 0 && g.running[0].number <= n {
		g.Trace.Between(trace.GPU, "run", g.running[0].from, now)
		g.running = g.running[1:]
	}
	if len(g.running) > 0 {
		g.running[0].from = max(g.running[0].from, now) // the queue is in order
	}
}

// reach returns when a timeline has come to n.
func (g *GPU) reach(timeline vk.Semaphore, n uint64) error {
	if g.Lost != nil {
		return g.Lost
	}
	s := g.submission
	if g.Info.Kind != CPU {
		for range polls {
			if err := g.VK.SemaphoreValue(timeline, &s.reached); err != nil {
				return g.Fail(err)
			}
			if s.reached >= n {
				return nil
			}
		}
	}
	s.awaited, s.target = timeline, n
	if err := g.VK.WaitSemaphores(&s.wait, ^uint64(0)); err != nil {
		return g.Fail(err)
	}
	return nil
}

// ran reports whether submission number n has run, or never will; waiting for it tells which.
func (g *GPU) ran(n uint64) bool {
	return g.Lost != nil || g.VK.SemaphoreValue(g.done, &g.submission.reached) != nil || g.submission.reached >= n
}

// Ran reports whether submission number n has run, or never will; waiting for it tells which.
func (g *GPU) Ran(n uint64) bool { return g.ran(n) }

// Fail remembers that the device is gone.
func (g *GPU) Fail(err error) error {
	err = fmt.Errorf("device %s: %w", g.Info.Name, err)
	if errors.Is(err, vk.ErrorDeviceLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	g.Lost = err
	return err
}

// ErrLost is the error of a device that stopped working: what lay in its memory is gone.
var ErrLost = errors.New("the GPU was lost; its driver's log says why")
