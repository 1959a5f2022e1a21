package vk

import "unsafe"

// Device is a VkDevice with its queues and its functions. Objects created on it are destroyed before it.
type Device struct {
	handle uintptr
	queues []Queue
	args   []uintptr // of a call on a token's path
	fn     struct {
		DestroyDevice               proc
		GetDeviceQueue              proc
		DeviceWaitIdle              proc
		AllocateMemory              proc
		FreeMemory                  proc
		MapMemory                   proc
		CreateBuffer                proc
		DestroyBuffer               proc
		GetBufferMemoryRequirements proc
		BindBufferMemory            proc
		CreateShaderModule          proc
		DestroyShaderModule         proc
		CreatePipelineCache         proc
		GetPipelineCacheData        proc
		DestroyPipelineCache        proc
		CreateComputePipelines      proc
		DestroyPipeline             proc
		CreateDescriptorSetLayout   proc
		DestroyDescriptorSetLayout  proc
		CreateDescriptorPool        proc
		DestroyDescriptorPool       proc
		AllocateDescriptorSets      proc
		UpdateDescriptorSets        proc
		CreatePipelineLayout        proc
		DestroyPipelineLayout       proc
		CreateCommandPool           proc
		DestroyCommandPool          proc
		AllocateCommandBuffers      proc
		FreeCommandBuffers          proc
		BeginCommandBuffer          proc
		EndCommandBuffer            proc
		CmdBindPipeline             proc
		CmdBindDescriptorSets       proc
		CmdPushConstants            proc
		CmdPushDescriptorSetKHR     proc
		CmdDispatch                 proc
		CmdPipelineBarrier          proc
		CmdCopyBuffer               proc
		CmdFillBuffer               proc
		CreateSemaphore             proc
		DestroySemaphore            proc
		GetSemaphoreCounterValue    proc
		WaitSemaphores              proc
		QueueSubmit                 proc
		CreateQueryPool             proc
		DestroyQueryPool            proc
		ResetQueryPool              proc
		GetQueryPoolResults         proc
		CmdWriteTimestamp           proc
		GetCalibratedTimestampsEXT  proc
	}
}

// Destroy ends the device.
func (d *Device) Destroy() { d.fn.DestroyDevice.call(d.handle, 0) }

// WaitIdle waits until the queue is empty.
func (d *Device) WaitIdle() error { return result(d.fn.DeviceWaitIdle.call(d.handle)) }

// AllocateMemory allocates info.AllocationSize bytes.
func (d *Device) AllocateMemory(info *MemoryAllocateInfo) (DeviceMemory, error) {
	var m DeviceMemory
	err := result(d.fn.AllocateMemory.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&m))))
	return m, err
}

// FreeMemory frees and unmaps m.
func (d *Device) FreeMemory(m DeviceMemory) { d.fn.FreeMemory.call(d.handle, uintptr(m), 0) }

// MapMemory maps all size bytes of m.
func (d *Device) MapMemory(m DeviceMemory, size uint64) ([]byte, error) {
	var p *byte
	if err := result(d.fn.MapMemory.call(d.handle, uintptr(m), 0, uintptr(WholeSize), 0, uintptr(ptr(&p)))); err != nil {
		return nil, err
	}
	return unsafe.Slice(p, size), nil
}

// CreateBuffer makes a buffer without memory.
func (d *Device) CreateBuffer(info *BufferCreateInfo) (Buffer, error) {
	var b Buffer
	err := result(d.fn.CreateBuffer.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&b))))
	return b, err
}

// DestroyBuffer destroys b.
func (d *Device) DestroyBuffer(b Buffer) { d.fn.DestroyBuffer.call(d.handle, uintptr(b), 0) }

// BufferMemoryRequirements says what memory b takes.
func (d *Device) BufferMemoryRequirements(b Buffer) MemoryRequirements {
	r := new(MemoryRequirements)
	d.fn.GetBufferMemoryRequirements.call(d.handle, uintptr(b), uintptr(ptr(r)))
	return *r
}

// BindBufferMemory puts b at the start of m.
func (d *Device) BindBufferMemory(b Buffer, m DeviceMemory) error {
	return result(d.fn.BindBufferMemory.call(d.handle, uintptr(b), uintptr(m), 0))
}

// CreateShaderModule takes SPIR-V in.
func (d *Device) CreateShaderModule(info *ShaderModuleCreateInfo) (ShaderModule, error) {
	var m ShaderModule
	err := result(d.fn.CreateShaderModule.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&m))))
	return m, err
}

// DestroyShaderModule destroys m; pipelines made of it live on.
func (d *Device) DestroyShaderModule(m ShaderModule) {
	d.fn.DestroyShaderModule.call(d.handle, uintptr(m), 0)
}

// CreatePipelineCache makes a cache with what PipelineCacheData once gave, or nothing.
func (d *Device) CreatePipelineCache(info *PipelineCacheCreateInfo) (PipelineCache, error) {
	var c PipelineCache
	err := result(d.fn.CreatePipelineCache.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&c))))
	return c, err
}

// PipelineCacheData returns what c holds, for a later process.
func (d *Device) PipelineCacheData(c PipelineCache) ([]byte, error) {
	var n uintptr
	if err := result(d.fn.GetPipelineCacheData.call(d.handle, uintptr(c), uintptr(ptr(&n)), 0)); err != nil || n == 0 {
		return nil, err
	}
	data := make([]byte, n)
	err := result(d.fn.GetPipelineCacheData.call(d.handle, uintptr(c), uintptr(ptr(&n)), uintptr(ptr(&data[0]))))
	return data[:n], err
}

// DestroyPipelineCache destroys c.
func (d *Device) DestroyPipelineCache(c PipelineCache) {
	d.fn.DestroyPipelineCache.call(d.handle, uintptr(c), 0)
}

// CreateComputePipeline compiles a pipeline, through a cache.
func (d *Device) CreateComputePipeline(c PipelineCache, info *ComputePipelineCreateInfo) (Pipeline, error) {
	var p Pipeline
	err := result(d.fn.CreateComputePipelines.call(d.handle, uintptr(c), 1, uintptr(ptr(info)), 0, uintptr(ptr(&p))))
	return p, err
}

// DestroyPipeline destroys p.
func (d *Device) DestroyPipeline(p Pipeline) { d.fn.DestroyPipeline.call(d.handle, uintptr(p), 0) }

// CreateDescriptorSetLayout makes the layout of a set.
func (d *Device) CreateDescriptorSetLayout(info *DescriptorSetLayoutCreateInfo) (DescriptorSetLayout, error) {
	var l DescriptorSetLayout
	err := result(d.fn.CreateDescriptorSetLayout.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&l))))
	return l, err
}

// DestroyDescriptorSetLayout destroys l.
func (d *Device) DestroyDescriptorSetLayout(l DescriptorSetLayout) {
	d.fn.DestroyDescriptorSetLayout.call(d.handle, uintptr(l), 0)
}

// CreateDescriptorPool makes a pool of sets.
func (d *Device) CreateDescriptorPool(info *DescriptorPoolCreateInfo) (DescriptorPool, error) {
	var p DescriptorPool
	err := result(d.fn.CreateDescriptorPool.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&p))))
	return p, err
}

// DestroyDescriptorPool destroys p and its sets.
func (d *Device) DestroyDescriptorPool(p DescriptorPool) {
	d.fn.DestroyDescriptorPool.call(d.handle, uintptr(p), 0)
}

// AllocateDescriptorSet makes the one set that info asks for.
func (d *Device) AllocateDescriptorSet(info *DescriptorSetAllocateInfo) (DescriptorSet, error) {
	var s DescriptorSet
	err := result(d.fn.AllocateDescriptorSets.call(d.handle, uintptr(ptr(info)), uintptr(ptr(&s))))
	return s, err
}

// UpdateDescriptorSets makes writes, which are not empty, to the sets that they name.
func (d *Device) UpdateDescriptorSets(writes []WriteDescriptorSet) {
	d.fn.UpdateDescriptorSets.call(d.handle, uintptr(len(writes)), uintptr(ptr(&writes[0])), 0, 0)
}

// CreatePipelineLayout makes the layout of pipelines.
func (d *Device) CreatePipelineLayout(info *PipelineLayoutCreateInfo) (PipelineLayout, error) {
	var l PipelineLayout
	err := result(d.fn.CreatePipelineLayout.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&l))))
	return l, err
}

// DestroyPipelineLayout destroys l.
func (d *Device) DestroyPipelineLayout(l PipelineLayout) {
	d.fn.DestroyPipelineLayout.call(d.handle, uintptr(l), 0)
}

// CreateCommandPool makes a pool of command buffers.
func (d *Device) CreateCommandPool(info *CommandPoolCreateInfo) (CommandPool, error) {
	var p CommandPool
	err := result(d.fn.CreateCommandPool.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&p))))
	return p, err
}

// DestroyCommandPool destroys p and its command buffers.
func (d *Device) DestroyCommandPool(p CommandPool) {
	d.fn.DestroyCommandPool.call(d.handle, uintptr(p), 0)
}

// AllocateCommandBuffer makes one command buffer of p.
func (d *Device) AllocateCommandBuffer(p CommandPool) (CommandBuffer, error) {
	info := &CommandBufferAllocateInfo{SType: StructureTypeCommandBufferAllocateInfo, CommandPool: p, CommandBufferCount: 1}
	var c CommandBuffer
	err := result(d.fn.AllocateCommandBuffers.call(d.handle, uintptr(ptr(info)), uintptr(ptr(&c))))
	return c, err
}

// FreeCommandBuffer gives c back to p.
func (d *Device) FreeCommandBuffer(p CommandPool, c CommandBuffer) {
	d.fn.FreeCommandBuffers.call(d.handle, uintptr(p), 1, uintptr(ptr(&c)))
}

// CreateSemaphore makes a semaphore.
func (d *Device) CreateSemaphore(info *SemaphoreCreateInfo) (Semaphore, error) {
	var s Semaphore
	err := result(d.fn.CreateSemaphore.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&s))))
	return s, err
}

// DestroySemaphore destroys s.
func (d *Device) DestroySemaphore(s Semaphore) { d.fn.DestroySemaphore.call(d.handle, uintptr(s), 0) }

// CreateQueryPool makes a pool of queries, which are reset before they are used.
func (d *Device) CreateQueryPool(info *QueryPoolCreateInfo) (QueryPool, error) {
	var p QueryPool
	err := result(d.fn.CreateQueryPool.call(d.handle, uintptr(ptr(info)), 0, uintptr(ptr(&p))))
	return p, err
}

// DestroyQueryPool destroys p.
func (d *Device) DestroyQueryPool(p QueryPool) { d.fn.DestroyQueryPool.call(d.handle, uintptr(p), 0) }

// ResetQueryPool resets p's first n queries, which must not be in use.
func (d *Device) ResetQueryPool(p QueryPool, n uint32) {
	d.fn.ResetQueryPool.call(d.handle, uintptr(p), 0, uintptr(n))
}

// QueryResults reads p's first queries, one for each of results, which is not empty; NotReady if one has not ended.
func (d *Device) QueryResults(p QueryPool, results []uint64) error {
	n := uintptr(len(results))
	return result(d.fn.GetQueryPoolResults.call(d.handle, uintptr(p), 0, n, 8*n, uintptr(ptr(&results[0])), 8, QueryResult64))
}

// CalibratedTimestamp returns what the device's clock shows. It has VK_EXT_calibrated_timestamps.
func (d *Device) CalibratedTimestamp() (uint64, error) {
	info := &CalibratedTimestampInfo{SType: StructureTypeCalibratedTimestampInfo, TimeDomain: TimeDomainDevice}
	var tick, deviation uint64
	err := result(d.fn.GetCalibratedTimestampsEXT.call(d.handle, 1, uintptr(ptr(info)), uintptr(ptr(&tick)), uintptr(ptr(&deviation))))
	return tick, err
}
