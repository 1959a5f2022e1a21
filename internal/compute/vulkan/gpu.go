package vulkan

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// gpu is an opened device: its queue, the one layout of all pipelines, and the timeline that counts submissions.
type gpu struct {
	*physical
	instance *instance
	vk       *vk.Device
	set      vk.DescriptorSetLayout
	layout   vk.PipelineLayout
	pool     vk.CommandPool
	done     vk.Semaphore // timeline: the number of the last submission that has run
	last     uint64       // number of the last submission
	push     bool         // descriptors are pushed
	lost     error        // a submission failed: nothing can be computed any more
	trace    *trace.Log   // nil: nobody wants to know
	running  []running    // submissions that are traced, and were not yet seen done
	timed    bool         // what is submitted now has stamps of its own

	// What the calls on a token's path read and write, pinned.
	pin        runtime.Pinner
	submission *submission

	glance glance
}

// glance looks whether submissions have run, without waiting. The functions are made once, so that a look allocates nothing.
type glance struct {
	ready, done     uint64 // their numbers
	readyFn, doneFn func() bool
}

// running is a submission in a trace.
type running struct {
	number uint64
	from   time.Duration
}

// submission are the structures of vkQueueSubmit, for up to two batches of one command buffer each, and of vkWaitSemaphores.
type submission struct {
	batches [2]vk.SubmitInfo
	signals [2]vk.TimelineSemaphoreSubmitInfo
	command [2]vk.CommandBuffer
	value   [2]uint64 // that a batch signals

	wait    vk.SemaphoreWaitInfo
	target  uint64
	reached uint64
}

// openGPU opens the device that o means.
func openGPU(o Options) (*gpu, error) {
	if o.Device == None {
		return nil, fmt.Errorf("%w: none was asked for", ErrNone)
	}
	i, err := openInstance(o.Messages, o.assisted)
	if err != nil {
		return nil, err
	}
	g, err := i.open(o)
	if err != nil {
		i.vk.Destroy()
		return nil, err
	}
	return g, nil
}

func (i *instance) open(o Options) (*gpu, error) {
	all, err := i.physicals()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(all))
	for k := range all {
		infos[k] = all[k].info
	}
	k, err := choose(infos, o.Device)
	if err != nil {
		return nil, err
	}
	g := &gpu{physical: &all[k], instance: i}
	g.push = g.has(pushExtension) && !o.assisted // the layer does not see what is pushed
	f := &features{}
	f.enabled(g.physical)
	unpin := pinned(f)
	defer unpin()
	var extensions []string
	for _, e := range []string{pushExtension, sizeExtension, dotExtension, budgetExtension, portableSubset} {
		if g.has(e) {
			extensions = append(extensions, e)
		}
	}
	if g.matrices.m > 0 {
		extensions = append(extensions, matrixExtension)
	}
	if o.Trace != nil && g.has(calibratedExtension) {
		extensions = append(extensions, calibratedExtension)
	}
	if g.vk, err = i.vk.CreateDevice(g.handle, g.family, extensions, &f.two); err != nil {
		return nil, fmt.Errorf("device %d (%s) cannot be opened: %w", k, g.info.Name, err)
	}
	if err := g.create(); err != nil {
		g.destroy()
		return nil, fmt.Errorf("device %d (%s): %w", k, g.info.Name, err)
	}
	return g, nil
}

// create makes what every submission needs.
func (g *gpu) create() error {
	bindings := make([]vk.DescriptorSetLayoutBinding, maxBindings)
	for i := range bindings {
		bindings[i] = vk.DescriptorSetLayoutBinding{Binding: uint32(i), DescriptorType: vk.DescriptorTypeStorageBuffer, DescriptorCount: 1, StageFlags: vk.StageCompute}
	}
	flags := uint32(0)
	if g.push {
		flags = vk.DescriptorLayoutPush
	}
	push := &vk.PushConstantRange{StageFlags: vk.StageCompute, Size: pushBytes}
	kind := &vk.SemaphoreTypeCreateInfo{SType: vk.StructureTypeSemaphoreTypeCreateInfo, SemaphoreType: vk.SemaphoreTypeTimeline}
	defer pinned(&bindings[0], push, kind, &g.set)()
	var err error
	if g.set, err = g.vk.CreateDescriptorSetLayout(&vk.DescriptorSetLayoutCreateInfo{
		SType: vk.StructureTypeDescriptorSetLayoutCreateInfo, Flags: flags, BindingCount: uint32(len(bindings)), PBindings: &bindings[0],
	}); err != nil {
		return err
	}
	if g.layout, err = g.vk.CreatePipelineLayout(&vk.PipelineLayoutCreateInfo{
		SType: vk.StructureTypePipelineLayoutCreateInfo, SetLayoutCount: 1, PSetLayouts: &g.set,
		PushConstantRangeCount: 1, PPushConstantRanges: push,
	}); err != nil {
		return err
	}
	if g.pool, err = g.vk.CreateCommandPool(&vk.CommandPoolCreateInfo{
		SType: vk.StructureTypeCommandPoolCreateInfo, Flags: vk.CommandPoolResetBuffers, QueueFamilyIndex: g.family,
	}); err != nil {
		return err
	}
	if g.done, err = g.vk.CreateSemaphore(&vk.SemaphoreCreateInfo{SType: vk.StructureTypeSemaphoreCreateInfo, PNext: unsafe.Pointer(kind)}); err != nil {
		return err
	}
	s := &submission{}
	g.submission = s
	g.glance.readyFn = func() bool { return g.ran(g.glance.ready) }
	g.glance.doneFn = func() bool { return g.ran(g.glance.done) }
	g.pin.Pin(s)
	g.pin.Pin(&g.done)
	for i := range s.batches {
		s.signals[i] = vk.TimelineSemaphoreSubmitInfo{
			SType: vk.StructureTypeTimelineSemaphoreSubmitInfo, SignalSemaphoreValueCount: 1, PSignalSemaphoreValues: &s.value[i],
		}
		s.batches[i] = vk.SubmitInfo{
			SType: vk.StructureTypeSubmitInfo, PNext: unsafe.Pointer(&s.signals[i]), CommandBufferCount: 1, PCommandBuffers: &s.command[i],
			SignalSemaphoreCount: 1, PSignalSemaphores: &g.done,
		}
	}
	s.wait = vk.SemaphoreWaitInfo{SType: vk.StructureTypeSemaphoreWaitInfo, SemaphoreCount: 1, PSemaphores: &g.done, PValues: &s.target}
	return nil
}

// destroy ends the device and the instance. Handles that were not made are zero, which Vulkan takes.
func (g *gpu) destroy() {
	if g.vk != nil {
		_ = g.vk.WaitIdle() // a lost device is destroyed all the same
		g.vk.DestroySemaphore(g.done)
		g.vk.DestroyCommandPool(g.pool)
		g.vk.DestroyPipelineLayout(g.layout)
		g.vk.DestroyDescriptorSetLayout(g.set)
		g.vk.Destroy()
	}
	g.pin.Unpin()
}

// submit queues commands, one or two, and returns the number that the first signals; the second's is the next.
func (g *gpu) submit(commands ...vk.CommandBuffer) (uint64, error) {
	if g.lost != nil {
		return 0, g.lost
	}
	from := g.trace.Now()
	s := g.submission
	for i, c := range commands {
		s.command[i], s.value[i] = c, g.last+1+uint64(i)
	}
	if err := g.vk.Submit(s.batches[:len(commands)]); err != nil {
		return 0, g.fail(err)
	}
	g.last += uint64(len(commands))
	if g.trace != nil {
		g.traceSubmission(commands, from)
	}
	return g.last - uint64(len(commands)) + 1, nil
}

// Before a thread goes to sleep for the device, it looks polls times whether it is done, for some 300 µs: a look costs some 200 ns, a
// wake-up tens of microseconds in every layer that two processors share. Not on a software device, which needs the core itself.
const polls = 1500

// traceSubmission keeps what submitting commands took, and that they run.
func (g *gpu) traceSubmission(commands []vk.CommandBuffer, from time.Duration) {
	g.trace.Span(trace.Calls, "submit", from)
	for i := range commands {
		if g.timed {
			break
		}
		g.running = append(g.running, running{g.last - uint64(len(commands)-1-i), g.trace.Now()})
	}
}

// wait returns when submission number n has run.
func (g *gpu) wait(n uint64) error {
	from := g.trace.Now()
	err := g.reach(n)
	if g.trace != nil && n > 0 {
		g.traceWait(n, from)
	}
	return err
}

// traceWait keeps a wait, and what it has seen done.
func (g *gpu) traceWait(n uint64, from time.Duration) {
	now := g.trace.Now()
	g.trace.Between(trace.Calls, "wait", from, now)
	for len(g.running) > 0 && g.running[0].number <= n {
		g.trace.Between(trace.Card, "run", g.running[0].from, now)
		g.running = g.running[1:]
	}
	if len(g.running) > 0 {
		g.running[0].from = max(g.running[0].from, now) // the queue is in order
	}
}

func (g *gpu) reach(n uint64) error {
	if g.lost != nil {
		return g.lost
	}
	s := g.submission
	if g.info.Kind != CPU {
		for range polls {
			if err := g.vk.SemaphoreValue(g.done, &s.reached); err != nil {
				return g.fail(err)
			}
			if s.reached >= n {
				return nil
			}
		}
	}
	s.target = n
	if err := g.vk.WaitSemaphores(&s.wait, ^uint64(0)); err != nil {
		return g.fail(err)
	}
	return nil
}

// ran says whether submission number n has run, or never will: a wait for it tells which.
func (g *gpu) ran(n uint64) bool {
	return g.lost != nil || g.vk.SemaphoreValue(g.done, &g.submission.reached) != nil || g.submission.reached >= n
}

// fail remembers that the device is gone.
func (g *gpu) fail(err error) error {
	err = fmt.Errorf("device %s: %w", g.info.Name, err)
	if errors.Is(err, vk.ErrorDeviceLost) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	g.lost = err
	return err
}

// ErrLost is the error of a device that stopped working: what lay in its memory is gone.
var ErrLost = errors.New("the GPU was lost; its driver's log says why")
