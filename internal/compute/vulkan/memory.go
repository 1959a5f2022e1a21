package vulkan

import (
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// view is a range of device memory.
type view struct {
	slab     *slab
	at, size int64 // bytes
}

// slice is the view of size bytes from at on. at is a multiple of the device's alignment where it is to be bound.
func (v view) slice(at, size int64) view {
	if at < 0 || size < 0 || at > v.size-size {
		panic(fmt.Sprintf("vulkan: bytes %d…%d of a view of %d", at, at+size, v.size))
	}
	return view{v.slab, v.at + at, size}
}

// host is v's bytes, where its memory is mapped.
func (v view) host() []byte { return v.slab.mapped[v.at:][:v.size:v.size] }

// slab is one allocation of memory and the buffer that spans it. Views are cut off it from the start and live until the device is closed.
type slab struct {
	of     purpose
	buffer vk.Buffer
	memory vk.DeviceMemory
	size   int64
	used   int64
	mapped []byte // nil if the host cannot see it
}

// purpose is who reads and writes a slab's memory.
type purpose int

const (
	local    purpose = iota // the device alone
	toDevice                // the host writes, the device reads; on the device where the host can reach it there
	staged                  // the host writes, the device copies
	toHost                  // the device writes, the host reads
)

// wanted are the properties of memory for p, best first.
func (p purpose) wanted() []uint32 {
	const host = vk.MemoryHostVisible | vk.MemoryHostCoherent
	switch p {
	case toDevice:
		return []uint32{host | vk.MemoryDeviceLocal, host}
	case staged:
		return []uint32{host}
	case toHost:
		return []uint32{host | vk.MemoryHostCached, host}
	}
	return []uint32{vk.MemoryDeviceLocal, 0}
}

// OutOfMemory is the error of an allocation that does not fit.
type OutOfMemory struct {
	Device       string
	Asked        int64 // bytes
	Used, Budget int64 // bytes of device memory
	ByDriver     bool  // the driver refused, not the budget
}

func (e *OutOfMemory) Error() string {
	why := fmt.Sprintf("%s of a budget of %s are in use", mebibytes(e.Used), mebibytes(e.Budget))
	if e.ByDriver {
		why = fmt.Sprintf("the driver has no more after %s", mebibytes(e.Used))
	}
	return fmt.Sprintf("%s of video memory on %s: %s; put less on the GPU (--vram-budget)", mebibytes(e.Asked), e.Device, why)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// memory hands out device memory in slabs.
type memory struct {
	g      *gpu
	slabs  []*slab
	used   int64 // bytes of local slabs
	apart  bool  // every view has a slab of its own, for validation to see where it ends
	budget int64 // for used
}

// Slabs are for views of up to an eighth of them, and a small share of what is in use: no more than that is allocated and not filled.
const (
	smallestSlab = 256 << 10
	largestSlab  = 32 << 20
	slabShare    = 64
	slabViews    = 8
)

// ceil is how many times b fit a, the last perhaps in part.
func ceil(a, b int) int { return (a + b - 1) / b }

func align(n, to int64) int64 { return (n + to - 1) / to * to }

// alignment is what bound views start at.
func (g *gpu) alignment() int64 {
	return int64(max(g.limits.MinStorageBufferOffsetAlignment, 64))
}

// span is how many bytes one binding may have.
func (g *gpu) span() int64 { return int64(g.limits.MaxStorageBufferRange) }

// alloc cuts size bytes of memory for p. What lies there is whatever was there before.
func (m *memory) alloc(p purpose, size int64) (view, error) {
	if size < 0 || size > m.g.maxMemory {
		return view{}, fmt.Errorf("%s of memory on %s: one allocation has at most %s", mebibytes(size), m.g.info.Name, mebibytes(m.g.maxMemory))
	}
	size = align(max(size, 4), 4)
	s := m.room(p, size)
	if s == nil {
		var err error
		if s, err = m.grow(p, size); err != nil {
			return view{}, err
		}
	}
	v := view{s, s.used, size}
	s.used = min(s.size, align(s.used+size, m.g.alignment()))
	return v, nil
}

// room is a slab for p that has size bytes left, or nil.
func (m *memory) room(p purpose, size int64) *slab {
	for _, s := range m.slabs {
		if s.of == p && s.size-s.used >= size && !m.apart {
			return s
		}
	}
	return nil
}

// grow makes a slab for at least size bytes. A large view has a slab of its own.
func (m *memory) grow(p purpose, size int64) (*slab, error) {
	least := align(size, m.g.alignment())
	want := min(largestSlab, max(smallestSlab, m.used/slabShare))
	if size > want/slabViews || m.apart {
		return m.slab(p, least)
	}
	s, err := m.slab(p, want)
	var full *OutOfMemory
	if errors.As(err, &full) {
		return m.slab(p, least)
	}
	return s, err
}

// slab allocates one slab of size bytes.
func (m *memory) slab(p purpose, size int64) (*slab, error) {
	if p == local && size > m.budget-m.used {
		return nil, &OutOfMemory{m.g.info.Name, size, m.used, m.budget, false}
	}
	s := &slab{of: p, size: size}
	if err := m.allocate(s, p); err != nil {
		m.free(s)
		if errors.Is(err, vk.ErrorOutOfDeviceMemory) {
			return nil, &OutOfMemory{m.g.info.Name, size, m.used, m.budget, true}
		}
		return nil, fmt.Errorf("%s of memory on %s: %w", mebibytes(size), m.g.info.Name, err)
	}
	m.slabs = append(m.slabs, s)
	if p == local {
		m.used += size
	}
	return s, nil
}

func (m *memory) allocate(s *slab, p purpose) error {
	var err error
	d := m.g.vk
	s.buffer, err = d.CreateBuffer(&vk.BufferCreateInfo{
		SType: vk.StructureTypeBufferCreateInfo, Size: uint64(s.size),
		Usage: vk.BufferTransferSrc | vk.BufferTransferDst | vk.BufferStorage,
	})
	if err != nil {
		return err
	}
	need := d.BufferMemoryRequirements(s.buffer)
	for _, properties := range p.wanted() {
		kind, ok := m.kind(need.MemoryTypeBits, properties)
		if !ok {
			continue
		}
		if s.memory, err = d.AllocateMemory(&vk.MemoryAllocateInfo{
			SType: vk.StructureTypeMemoryAllocateInfo, AllocationSize: need.Size, MemoryTypeIndex: kind,
		}); err != nil {
			continue // the next kind may have room
		}
		if err = d.BindBufferMemory(s.buffer, s.memory); err != nil {
			return err
		}
		if p != local {
			s.mapped, err = d.MapMemory(s.memory, uint64(s.size))
		}
		return err
	}
	if err == nil {
		err = errors.New("no kind of memory fits")
	}
	return err
}

// kind is the first type of memory among bits with properties. Drivers list the better ones first.
func (m *memory) kind(bits, properties uint32) (uint32, bool) {
	for i, t := range m.g.memory.MemoryTypes[:m.g.memory.MemoryTypeCount] {
		if bits>>i&1 == 1 && t.PropertyFlags&properties == properties {
			return uint32(i), true
		}
	}
	return 0, false
}

func (m *memory) free(s *slab) {
	m.g.vk.DestroyBuffer(s.buffer)
	m.g.vk.FreeMemory(s.memory)
}

// release frees everything. Nothing is running.
func (m *memory) release() {
	for _, s := range m.slabs {
		m.free(s)
	}
	*m = memory{g: m.g, budget: m.budget, apart: m.apart}
}
