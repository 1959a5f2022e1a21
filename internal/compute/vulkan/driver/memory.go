package driver

import (
	"errors"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// View is a range of device memory.
type View struct {
	Slab     *Slab
	At, Size int64 // bytes
}

// Slice returns the view of size bytes from at on. For binding, at must be a multiple of the device's alignment.
func (v View) Slice(at, size int64) View {
	if at < 0 || size < 0 || at > v.Size-size {
		panic(fmt.Sprintf("vulkan: bytes %d…%d of a view of %d", at, at+size, v.Size))
	}
	return View{v.Slab, v.At + at, size}
}

// Host returns v's bytes; its memory must be mapped.
func (v View) Host() []byte { return v.Slab.mapped[v.At:][:v.Size:v.Size] }

// Slab is one allocation of memory and the buffer that spans it. Views are cut from its start and live until the device
// is closed.
type Slab struct {
	of     Purpose
	Buffer vk.Buffer
	memory vk.DeviceMemory
	Size   int64
	used   int64
	mapped []byte // nil if the host cannot see it
}

// Purpose is who reads and writes a slab's memory.
type Purpose int

const (
	Local    Purpose = iota // only the device accesses it
	ToDevice                // the host writes, the device reads; on the device where the host can reach it there
	Staged                  // the host writes, the device copies
	ToHost                  // the device writes, the host reads
)

// wanted returns the properties of memory for p, best first.
func (p Purpose) wanted() []uint32 {
	const host = vk.MemoryHostVisible | vk.MemoryHostCoherent
	switch p {
	case ToDevice:
		return []uint32{host | vk.MemoryDeviceLocal, host}
	case Staged:
		return []uint32{host}
	case ToHost:
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

func (e *OutOfMemory) Error() string { return e.Text(setting.Flags) }

// Text implements setting.Namer.
func (e *OutOfMemory) Text(n setting.Names) string {
	why := fmt.Sprintf("%s of a budget of %s are in use", Mebibytes(e.Used), Mebibytes(e.Budget))
	if e.ByDriver {
		why = fmt.Sprintf("the driver has no more after %s", Mebibytes(e.Used))
	}
	return setting.Sprintf(n, "%s of video memory on %s: %s; put less on the GPU (%s)", Mebibytes(e.Asked), e.Device, why, setting.Budgets)
}

// Mebibytes returns n bytes as text.
func Mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Memory hands out device memory in slabs.
type Memory struct {
	GPU    *GPU
	slabs  []*Slab
	Used   int64 // bytes of local slabs
	Apart  bool  // every view has its own slab, so that validation sees its end
	Budget int64 // for used
}

// Sizes of slabs: views of up to an eighth of a slab share it, and at most a small share of the memory in use is
// allocated without being filled.
const (
	smallestSlab = 256 << 10
	largestSlab  = 32 << 20
	slabShare    = 64
	slabViews    = 8
)

// Align returns the next multiple of to from n on.
func Align(n, to int64) int64 { return (n + to - 1) / to * to }

// Alignment returns what bound views start at multiples of, in bytes.
func (g *GPU) Alignment() int64 {
	return int64(max(g.Limits.MinStorageBufferOffsetAlignment, 64))
}

// Span returns how many bytes one binding may have.
func (g *GPU) Span() int64 { return int64(g.Limits.MaxStorageBufferRange) }

// Alloc cuts size bytes of memory for p. Its content is undefined.
func (m *Memory) Alloc(p Purpose, size int64) (View, error) {
	if size < 0 || size > m.GPU.MaxMemory {
		return View{}, fmt.Errorf("%s of memory on %s: one allocation has at most %s", Mebibytes(size), m.GPU.Info.Name, Mebibytes(m.GPU.MaxMemory))
	}
	size = Align(max(size, 4), 4)
	s := m.room(p, size)
	if s == nil {
		var err error
		if s, err = m.grow(p, size); err != nil {
			return View{}, err
		}
	}
	v := View{s, s.used, size}
	s.used = min(s.Size, Align(s.used+size, m.GPU.Alignment()))
	return v, nil
}

// room returns a slab for p that has size bytes left, or nil.
func (m *Memory) room(p Purpose, size int64) *Slab {
	for _, s := range m.slabs {
		if s.of == p && s.Size-s.used >= size && !m.Apart {
			return s
		}
	}
	return nil
}

// grow makes a slab for at least size bytes. A large view has its own slab.
func (m *Memory) grow(p Purpose, size int64) (*Slab, error) {
	least := Align(size, m.GPU.Alignment())
	want := min(largestSlab, max(smallestSlab, m.Used/slabShare))
	if size > want/slabViews || m.Apart {
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
func (m *Memory) slab(p Purpose, size int64) (*Slab, error) {
	if p == Local && size > m.Budget-m.Used {
		return nil, &OutOfMemory{m.GPU.Info.Name, size, m.Used, m.Budget, false}
	}
	s := &Slab{of: p, Size: size}
	if err := m.allocate(s, p); err != nil {
		m.free(s)
		if errors.Is(err, vk.ErrorOutOfDeviceMemory) {
			return nil, &OutOfMemory{m.GPU.Info.Name, size, m.Used, m.Budget, true}
		}
		return nil, fmt.Errorf("%s of memory on %s: %w", Mebibytes(size), m.GPU.Info.Name, err)
	}
	m.slabs = append(m.slabs, s)
	if p == Local {
		m.Used += size
	}
	return s, nil
}

func (m *Memory) allocate(s *Slab, p Purpose) error {
	if m.GPU.Counts() {
		return nil
	}
	var err error
	d := m.GPU.VK
	info := &vk.BufferCreateInfo{
		SType: vk.StructureTypeBufferCreateInfo, Size: uint64(s.Size),
		Usage: vk.BufferTransferSrc | vk.BufferTransferDst | vk.BufferStorage,
	}
	if families := m.GPU.Families; len(families) > 1 {
		info.SharingMode, info.QueueFamilyIndexCount, info.PQueueFamilyIndices = vk.SharingConcurrent, uint32(len(families)), &families[0]
		defer Pinned(&families[0])()
	}
	if s.Buffer, err = d.CreateBuffer(info); err != nil {
		return err
	}
	need := d.BufferMemoryRequirements(s.Buffer)
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
		if err = d.BindBufferMemory(s.Buffer, s.memory); err != nil {
			return err
		}
		if p != Local {
			s.mapped, err = d.MapMemory(s.memory, uint64(s.Size))
		}
		return err
	}
	if err == nil {
		err = errors.New("no kind of memory fits")
	}
	return err
}

// kind returns the first type of memory among bits with properties. Drivers list the better ones first.
func (m *Memory) kind(bits, properties uint32) (uint32, bool) {
	for i, t := range m.GPU.Memory.MemoryTypes[:m.GPU.Memory.MemoryTypeCount] {
		if bits>>i&1 == 1 && t.PropertyFlags&properties == properties {
			return uint32(i), true
		}
	}
	return 0, false
}

func (m *Memory) free(s *Slab) {
	if m.GPU.Counts() {
		return
	}
	m.GPU.VK.DestroyBuffer(s.Buffer)
	m.GPU.VK.FreeMemory(s.memory)
}

// Release frees everything. Nothing is running.
func (m *Memory) Release() {
	for _, s := range m.slabs {
		m.free(s)
	}
	*m = Memory{GPU: m.GPU, Budget: m.Budget, Apart: m.Apart}
}
