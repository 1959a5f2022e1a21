package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
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
	view
	reads, writes bool
}

func read(v view) binding   { return binding{v, true, false} }
func write(v view) binding  { return binding{v, false, true} }
func update(v view) binding { return binding{v, true, true} }

// recorder writes a segment's verbs to a command buffer. It implements compute.Verbs.
type recorder struct {
	d        *Device
	seg      *segment
	command  vk.CommandBuffer // in recording; 0: none
	filled   bool             // something was recorded in it
	now      *compute.Params  // of the run that records: for Host only
	live     bool             // Host was called
	timed    bool             // it has stamps
	sizing   bool             // nothing is recorded: scratch is only to be known
	first    int              // of the command buffer's stamps
	beside   bool             // what is recorded runs beside the host
	late     bool             // that has shown something, for which a later turn of the host waits
	wanted   []place          // what is copied to the host in the end
	err      error            // the first one
	hazards  hazards
	forms    packedForms
	held     *product // the last dispatch, if it is still to be recorded
	counters counters
	bound    vk.Pipeline
	swaps    []swapped
	param    view                   // of the params, once a verb asked for them
	ropes    map[*compute.Rope]view // of cosines and sines

	idle func(ready, done func() bool) // of the next leg's host
}

// fail keeps the first error; Run returns it.
func (r *recorder) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// dispatch records c, behind a barrier if it needs one.
func (r *recorder) dispatch(c call) {
	if c.groups[0] == 0 || c.groups[1] == 0 || c.groups[2] == 0 {
		return
	}
	most := r.d.gpu.limits.MaxComputeWorkGroupCount
	for i, n := range c.groups {
		if n < 0 || n > int(most[i]) {
			panic(fmt.Sprintf("vulkan: %s: %v workgroups, and at most %v are possible", c.shader, c.groups, most))
		}
	}
	if r.prepare(c) {
		r.d.gpu.vk.CmdDispatch(r.command, uint32(c.groups[0]), uint32(c.groups[1]), uint32(c.groups[2]))
	}
}

// prepare records everything of c but the dispatch itself.
func (r *recorder) prepare(c call) bool {
	r.flush()
	if r.err != nil {
		return false
	}
	g, b := r.d.gpu, r.d.bindings
	if len(c.bind) > maxBindings || 4*len(c.push) > pushBytes || len(c.spec) > maxSpec {
		panic("vulkan: " + c.shader + ": too many bindings or constants")
	}
	v := variant{shader: c.shader, local: uint32(c.local), specs: len(c.spec)}
	copy(v.spec[:], c.spec)
	pipeline, err := r.d.pipelines.get(v)
	if err != nil {
		r.fail(err)
		return false
	}
	for i, bound := range c.bind {
		if bound.size == 0 || bound.size > g.span() || bound.at%g.alignment() != 0 {
			panic(fmt.Sprintf("vulkan: %s: binding %d has %d bytes at %d", c.shader, i, bound.size, bound.at))
		}
		b.infos[i] = vk.DescriptorBufferInfo{Buffer: bound.slab.buffer, Offset: uint64(bound.at), Range: uint64(bound.size)}
	}
	r.order(c.bind...)
	if pipeline != r.bound {
		g.vk.CmdBindPipeline(r.command, pipeline)
		r.bound = pipeline
	}
	r.describe(len(c.bind))
	if len(c.push) > 0 {
		g.vk.CmdPushConstants(r.command, g.layout, c.push)
	}
	return true
}

// copy records a copy of from to to, of the same size.
func (r *recorder) copy(to, from view) {
	r.flush()
	if r.err != nil || to.size == 0 {
		return
	}
	r.order(write(to), read(from))
	region := []vk.BufferCopy{{SrcOffset: uint64(from.at), DstOffset: uint64(to.at), Size: uint64(to.size)}}
	r.d.gpu.vk.CmdCopyBuffer(r.command, from.slab.buffer, to.slab.buffer, region)
}

// fill records that every word of v becomes word.
func (r *recorder) fill(v view, word uint32) {
	r.flush()
	if r.err != nil || v.size == 0 {
		return
	}
	r.order(write(v))
	r.d.gpu.vk.CmdFillBuffer(r.command, v.slab.buffer, uint64(v.at), uint64(v.size), word)
}

// begin starts a command buffer. What earlier submissions and the host wrote is visible to what follows.
func (r *recorder) begin() {
	if r.err != nil {
		return
	}
	command, err := r.d.gpu.vk.AllocateCommandBuffer(r.d.gpu.pool)
	if err != nil {
		r.fail(r.d.gpu.fail(err))
		return
	}
	r.beginWith(command)
}

func (r *recorder) beginWith(command vk.CommandBuffer) {
	if err := r.d.gpu.vk.Begin(command, &r.d.bindings.begin); err != nil {
		r.fail(r.d.gpu.fail(err))
		return
	}
	r.command, r.filled, r.bound = command, false, 0
	r.hazards.clear()
	r.barrier(vk.PipelineStageHost, vk.AccessHostWrite, 0, 0)
	r.stampBegin()
}

// end ends the command buffer. What it wrote is visible to the host. Of an empty one nothing remains.
func (r *recorder) end() vk.CommandBuffer {
	r.flush()
	if r.command == 0 { // begin failed
		return 0
	}
	r.stampEnd()
	r.barrier(0, 0, vk.PipelineStageHost, vk.AccessHostRead)
	command := r.command
	r.command = 0
	if err := r.d.gpu.vk.End(command); err != nil {
		r.fail(r.d.gpu.fail(err))
	}
	if !r.filled {
		r.d.gpu.vk.FreeCommandBuffer(r.d.gpu.pool, command)
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

// barrier orders all work before it, and stages and accesses given besides, before all work behind it, and those given besides.
func (r *recorder) barrier(fromStages, fromAccess, toStages, toAccess uint32) {
	m := &r.d.bindings.memory
	m.SrcAccessMask = workWrites | fromAccess
	m.DstAccessMask = workReads | workWrites | toAccess
	r.d.gpu.vk.CmdPipelineBarrier(r.command, workStages|fromStages, workStages|toStages, m)
}

// order records a barrier if what follows touches memory in a way that must wait for what came since the last one.
func (r *recorder) order(bind ...binding) {
	r.filled = true
	conflict := false
	for _, b := range bind {
		conflict = conflict || r.hazards.conflict(b)
	}
	if conflict {
		r.barrier(0, 0, 0, 0)
		r.hazards.clear()
	}
	for _, b := range bind {
		if b.writes {
			r.forms.forget(b.view)
		}
		r.hazards.add(b)
	}
}
