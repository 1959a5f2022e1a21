package vulkan

import (
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// call is one dispatch of a shader.
type call struct {
	shader string
	local  int       // invocations of a workgroup; a multiple of the largest subgroup, 64, or less than any barrier needs
	spec   []uint32  // specialisation constants 2 and on
	bind   []binding // bindings 0 and on
	push   []uint32  // push constants; math.Float32bits for floats
	groups [3]int    // workgroups; none if one is zero
}

// binding is a view that a shader reads, writes, or both.
type binding struct {
	driver.View
	reads, writes bool
}

func read(v driver.View) binding   { return binding{v, true, false} }
func write(v driver.View) binding  { return binding{v, false, true} }
func update(v driver.View) binding { return binding{v, true, true} }

// recorder writes a segment's operations to a command buffer. It implements hybrid.Recorder and compute.Operations.
type recorder struct {
	compute.Unforeseeing
	d        *Device
	seg      *segment
	buffer   vk.CommandBuffer // in recording; 0: none
	filled   bool             // something was recorded in it
	now      *compute.Params  // of the run that records, for Host only
	live     bool             // Host was called
	timed    bool             // it has stamps
	sizing   bool             // nothing is recorded: scratch is only to be known
	first    int              // the command buffer's first stamp
	overlap  bool             // the host computes while the recorded operations run
	late     bool             // that has shown something, for which a later turn of the host waits
	awaits   uint64           // number of the segment's copy that the command buffer, or an earlier one, waits for
	hosts    int              // turns of the host so far
	earlier  uint64           // commands of earlier legs
	rooms    []roomUse        // rooms filled by copies in the other queue
	copies   vk.CommandBuffer // on the queue for copies, in recording; 0: none
	after    uint64           // number of the segment's command that it waits for
	passed   uint64           // number of the last command that read Device.passage
	wanted   []place          // copied to the host in the end
	err      error            // the first one
	hazards  hazards
	forms    packedForms
	queue    queue
	weight   string    // that was last named
	held     *product  // the last dispatch, if it is still to be recorded
	elected  *election // a predictor's, if it is still to be recorded: with the rows of its members, if they come next
	decodes  int       // weights decoded so far
	counters counters
	bound    vk.Pipeline
	swaps    []swapped
	param    driver.View                   // memory of the params, once an operation needs them
	paramOut driver.View                   // memory of the params of rows with logits
	run      driver.View                   // memory of the runs, once an operation needs them
	ropes    map[*compute.Rope]driver.View // memory of cosines and sines

	idle func(ready, done func() bool) // what the host of the next leg does while it waits
}

// fail keeps the first error; Run returns it.
func (r *recorder) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// dispatch records c, after a barrier if c needs one.
func (r *recorder) dispatch(c call) {
	if c.groups[0] == 0 || c.groups[1] == 0 || c.groups[2] == 0 {
		return
	}
	most := r.d.gpu.Limits.MaxComputeWorkGroupCount
	for i, n := range c.groups {
		if n < 0 || n > int(most[i]) {
			panic(fmt.Sprintf("vulkan: %s: %v workgroups, and at most %v are possible", c.shader, c.groups, most))
		}
	}
	if r.prepare(c) {
		r.d.gpu.VK.CmdDispatch(r.buffer, uint32(c.groups[0]), uint32(c.groups[1]), uint32(c.groups[2]))
	}
}

// variant is the pipeline that c takes.
func (c *call) variant() driver.Variant {
	v := driver.Variant{Shader: c.shader, Local: uint32(c.local), Specs: len(c.spec)}
	copy(v.Spec[:], c.spec)
	return v
}

// prepare records everything of c but the dispatch itself.
func (r *recorder) prepare(c call) bool {
	r.flush()
	if tally := r.d.tally; tally != nil && r.err == errSizing && !r.sizing {
		tally(&c, r.weight, r.waits(c.bind))
	}
	if r.err != nil {
		r.foresee(c)
		return false
	}
	g, b := r.d.gpu, r.d.bindings
	if len(c.bind) > driver.MaxBindings || 4*len(c.push) > driver.PushBytes || len(c.spec) > driver.MaxSpec {
		panic("vulkan: " + c.shader + ": too many bindings or constants")
	}
	pipeline, err := r.d.pipelines.Get(c.variant())
	if err != nil {
		r.fail(err)
		return false
	}
	for i, bound := range c.bind {
		if bound.Size == 0 || bound.Size > g.Span() || bound.At%g.Alignment() != 0 {
			panic(fmt.Sprintf("vulkan: %s: binding %d has %d bytes at %d", c.shader, i, bound.Size, bound.At))
		}
		b.infos[i] = vk.DescriptorBufferInfo{Buffer: bound.Slab.Buffer, Offset: uint64(bound.At), Range: uint64(bound.Size)}
	}
	r.order(c.bind...)
	if pipeline != r.bound {
		g.VK.CmdBindPipeline(r.buffer, pipeline)
		r.bound = pipeline
	}
	r.describe(len(c.bind))
	if len(c.push) > 0 {
		g.VK.CmdPushConstants(r.buffer, g.Layout, c.push)
	}
	return true
}

// copy records a copy of from to to, of the same size.
func (r *recorder) copy(to, from driver.View) {
	r.flush()
	if r.err != nil || to.Size == 0 {
		return
	}
	r.order(write(to), read(from))
	r.d.copy(r.buffer, to, from)
}

// fill records that every word of v becomes word.
func (r *recorder) fill(v driver.View, word uint32) {
	r.flush()
	if r.err != nil || v.Size == 0 {
		return
	}
	r.order(write(v))
	r.d.gpu.VK.CmdFillBuffer(r.buffer, v.Slab.Buffer, uint64(v.At), uint64(v.Size), word)
}

// begin starts a command buffer. What earlier submissions and the host wrote is visible to what follows.
func (r *recorder) begin() {
	if r.err != nil {
		return
	}
	command, err := r.d.gpu.VK.AllocateCommandBuffer(r.d.gpu.Pool)
	if err != nil {
		r.fail(r.d.gpu.Fail(err))
		return
	}
	r.beginWith(command)
}

func (r *recorder) beginWith(command vk.CommandBuffer) {
	if err := r.d.gpu.VK.Begin(command, &r.d.bindings.begin); err != nil {
		r.fail(r.d.gpu.Fail(err))
		return
	}
	r.buffer, r.filled, r.bound = command, false, 0
	r.hazards.clear()
	r.barrier(vk.PipelineStageHost, vk.AccessHostWrite, 0, 0)
	r.stampBegin()
}

// end ends the command buffer. What it wrote is visible to the host. Of an empty one nothing remains.
func (r *recorder) end() vk.CommandBuffer {
	r.flush()
	if r.buffer == 0 { // begin failed
		return 0
	}
	r.stampEnd()
	r.barrier(0, 0, vk.PipelineStageHost, vk.AccessHostRead)
	command := r.buffer
	r.buffer = 0
	if err := r.d.gpu.VK.End(command); err != nil {
		r.fail(r.d.gpu.Fail(err))
	}
	if !r.filled {
		r.d.gpu.VK.FreeCommandBuffer(r.d.gpu.Pool, command)
		return 0
	}
	return command
}

// The stages that work is done in, and how they touch memory.
const (
	workStages = vk.PipelineStageComputeShader | vk.PipelineStageTransfer
	workReads  = vk.AccessShaderRead | vk.AccessTransferRead
	workWrites = vk.AccessShaderWrite | vk.AccessTransferWrite
)

// barrier makes all work before it, and the given stages and accesses, complete before all work after it and the given
// later stages and accesses.
func (r *recorder) barrier(fromStages, fromAccess, toStages, toAccess uint32) {
	m := &r.d.bindings.memory
	m.SrcAccessMask = workWrites | fromAccess
	m.DstAccessMask = workReads | workWrites | toAccess
	r.d.gpu.VK.CmdPipelineBarrier(r.buffer, workStages|fromStages, workStages|toStages, m)
}

// order records a barrier if what follows touches memory in a way that must wait for what came since the last one.
func (r *recorder) order(bind ...binding) {
	r.split(bind)
	r.filled = true
	if r.waits(bind) {
		r.barrier(0, 0, 0, 0)
	}
	for _, b := range bind {
		r.uses(b.View)
	}
}

// waits reports whether what touches bind must wait for what came since the last barrier, and takes it up.
func (r *recorder) waits(bind []binding) bool {
	conflict := slices.ContainsFunc(bind, r.hazards.conflict)
	if conflict {
		r.hazards.clear()
	}
	for _, b := range bind {
		if b.writes {
			r.forms.forget(b.View)
		}
		r.hazards.add(b)
	}
	return conflict
}
