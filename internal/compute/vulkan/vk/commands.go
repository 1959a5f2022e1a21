package vk

// A recording takes structures that its caller keeps, pinned, from call to call.

// Begin starts recording c.
func (d *Device) Begin(c CommandBuffer, info *CommandBufferBeginInfo) error {
	return result(d.fn.BeginCommandBuffer.call(uintptr(c), uintptr(ptr(info))))
}

// End ends recording c, and says if anything since Begin failed.
func (d *Device) End(c CommandBuffer) error {
	return result(d.fn.EndCommandBuffer.call(uintptr(c)))
}

// CmdBindPipeline makes p what dispatches run.
func (d *Device) CmdBindPipeline(c CommandBuffer, p Pipeline) {
	d.fn.CmdBindPipeline.call(uintptr(c), PipelineBindCompute, uintptr(p))
}

// CmdPushConstants copies data, which is not empty.
func (d *Device) CmdPushConstants(c CommandBuffer, l PipelineLayout, data []uint32) {
	d.fn.CmdPushConstants.call(uintptr(c), uintptr(l), StageCompute, 0, uintptr(4*len(data)), uintptr(ptr(&data[0])))
}

// CmdPushDescriptors binds writes, which are not empty, in set 0.
func (d *Device) CmdPushDescriptors(c CommandBuffer, l PipelineLayout, writes []WriteDescriptorSet) {
	d.fn.CmdPushDescriptorSetKHR.call(uintptr(c), PipelineBindCompute, uintptr(l), 0, uintptr(len(writes)), uintptr(ptr(&writes[0])))
}

// CmdBindDescriptorSet binds s as set 0.
func (d *Device) CmdBindDescriptorSet(c CommandBuffer, l PipelineLayout, s DescriptorSet) {
	d.fn.CmdBindDescriptorSets.call(uintptr(c), PipelineBindCompute, uintptr(l), 0, 1, uintptr(ptr(&s)), 0, 0)
}

// CmdDispatch runs x·y·z workgroups.
func (d *Device) CmdDispatch(c CommandBuffer, x, y, z uint32) {
	d.fn.CmdDispatch.call(uintptr(c), uintptr(x), uintptr(y), uintptr(z))
}

// CmdPipelineBarrier is a barrier for all memory.
func (d *Device) CmdPipelineBarrier(c CommandBuffer, from, to uint32, m *MemoryBarrier) {
	d.fn.CmdPipelineBarrier.call(uintptr(c), uintptr(from), uintptr(to), 0, 1, uintptr(ptr(m)), 0, 0, 0, 0)
}

// CmdCopyBuffer copies regions, which are not empty.
func (d *Device) CmdCopyBuffer(c CommandBuffer, from, to Buffer, regions []BufferCopy) {
	d.fn.CmdCopyBuffer.call(uintptr(c), uintptr(from), uintptr(to), uintptr(len(regions)), uintptr(ptr(&regions[0])))
}

// CmdFillBuffer fills a multiple of four bytes with word.
func (d *Device) CmdFillBuffer(c CommandBuffer, b Buffer, at, size uint64, word uint32) {
	d.fn.CmdFillBuffer.call(uintptr(c), uintptr(b), uintptr(at), uintptr(size), uintptr(word))
}

// CmdWriteTimestamp has query n of p hold the time at which everything before it has passed a stage.
func (d *Device) CmdWriteTimestamp(c CommandBuffer, stage uint32, p QueryPool, n uint32) {
	d.fn.CmdWriteTimestamp.call(uintptr(c), uintptr(stage), uintptr(p), uintptr(n))
}

// The functions below are on a token's path. They pass arguments in memory that the device keeps, so that a call
// allocates nothing; what they point to is pinned by the caller.

// SemaphoreValue returns what a timeline semaphore has reached.
func (d *Device) SemaphoreValue(s Semaphore, value *uint64) error {
	d.args = append(d.args[:0], d.handle, uintptr(s), uintptr(ptr(value)))
	return result(d.fn.GetSemaphoreCounterValue.with(d.args))
}

// WaitSemaphores waits for at most this many nanoseconds; Timeout is an error.
func (d *Device) WaitSemaphores(info *SemaphoreWaitInfo, nanoseconds uint64) error {
	d.args = append(d.args[:0], d.handle, uintptr(ptr(info)), uintptr(nanoseconds))
	return result(d.fn.WaitSemaphores.with(d.args))
}

// Submit has a queue, by its number, run batches, which are not empty, in their order.
func (d *Device) Submit(queue int, batches []SubmitInfo) error {
	d.args = append(d.args[:0], uintptr(d.queues[queue]), uintptr(len(batches)), uintptr(ptr(&batches[0])), 0)
	return result(d.fn.QueueSubmit.with(d.args))
}
