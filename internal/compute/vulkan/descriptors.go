package vulkan

import (
	"runtime"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// bindings are structures that recordings are made with, pinned; one set serves every dispatch, because the driver
// reads them at once.
type bindings struct {
	pin    runtime.Pinner
	infos  [driver.MaxBindings]vk.DescriptorBufferInfo
	writes [driver.MaxBindings]vk.WriteDescriptorSet
	memory vk.MemoryBarrier
	begin  vk.CommandBufferBeginInfo
	copied [1]vk.BufferCopy
	layout vk.DescriptorSetLayout
}

func newBindings(g *driver.GPU) *bindings {
	b := &bindings{
		memory: vk.MemoryBarrier{SType: vk.StructureTypeMemoryBarrier},
		begin:  vk.CommandBufferBeginInfo{SType: vk.StructureTypeCommandBufferBeginInfo},
		layout: g.Set,
	}
	b.pin.Pin(b)
	for i := range b.writes {
		b.writes[i] = vk.WriteDescriptorSet{
			SType: vk.StructureTypeWriteDescriptorSet, DstBinding: uint32(i), DescriptorCount: 1,
			DescriptorType: vk.DescriptorTypeStorageBuffer, PBufferInfo: &b.infos[i],
		}
	}
	return b
}

// copy records in c that to gets the bytes of from, which are as many.
func (d *Device) copy(c vk.CommandBuffer, to, from driver.View) {
	b := d.bindings
	b.copied[0] = vk.BufferCopy{SrcOffset: uint64(from.At), DstOffset: uint64(to.At), Size: uint64(to.Size)}
	d.gpu.VK.CmdCopyBuffer(c, from.Slab.Buffer, to.Slab.Buffer, b.copied[:])
}

// describe gives the next dispatch its first n bindings: pushed into the command buffer or, if the driver cannot do
// that, by a set that belongs to the recording.
func (r *recorder) describe(n int) {
	g, writes := r.d.gpu, r.d.bindings.writes[:n]
	if g.Push {
		g.VK.CmdPushDescriptors(r.buffer, g.Layout, writes)
		return
	}
	set, err := r.seg.set(g, r.d.bindings)
	if err != nil {
		r.fail(err)
		return
	}
	for i := range writes {
		writes[i].DstSet = set
	}
	g.VK.UpdateDescriptorSets(writes)
	g.VK.CmdBindDescriptorSet(r.buffer, g.Layout, set)
}

// poolSets is the number of descriptor sets that a recording allocates at a time.
const poolSets = 256

// set returns a new set of s's own.
func (s *segment) set(g *driver.GPU, b *bindings) (vk.DescriptorSet, error) {
	if s.sets == 0 {
		size := &vk.DescriptorPoolSize{Type: vk.DescriptorTypeStorageBuffer, DescriptorCount: poolSets * driver.MaxBindings}
		defer driver.Pinned(size)()
		p, err := g.VK.CreateDescriptorPool(&vk.DescriptorPoolCreateInfo{
			SType: vk.StructureTypeDescriptorPoolCreateInfo, MaxSets: poolSets, PoolSizeCount: 1, PPoolSizes: size,
		})
		if err != nil {
			return 0, err
		}
		s.pools, s.sets = append(s.pools, p), poolSets
	}
	s.sets--
	return g.VK.AllocateDescriptorSet(&vk.DescriptorSetAllocateInfo{
		SType: vk.StructureTypeDescriptorSetAllocateInfo, DescriptorPool: s.pools[len(s.pools)-1], DescriptorSetCount: 1, PSetLayouts: &b.layout,
	})
}
