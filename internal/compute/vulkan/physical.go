package vulkan

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// physical is a device of the machine and what it can do.
type physical struct {
	handle     vk.PhysicalDevice
	info       Info
	family     uint32 // of the queue
	extensions []string
	limits     vk.PhysicalDeviceLimits
	identity   identity
	memory     vk.PhysicalDeviceMemoryProperties
	maxMemory  int64 // bytes that one allocation may have
	subgroup   subgroup
	dot        bool // 4×8-bit integer dot products
	matrices   matrices
	budgets    bool   // the driver says how much memory is free
	stampBits  uint32 // of its time stamps that count; 0: there are none
	resets     bool   // the host can reset them
}

// identity is what compiled pipelines depend on.
type identity struct {
	vendor, device, driver uint32
	uuid                   [16]byte // of the pipeline cache's format
}

// subgroup are the sizes of a device's subgroups.
type subgroup struct {
	size     int  // as shaders find it
	required bool // there are others, and size is asked for with every pipeline
	full     bool // workgroups of whole subgroups can be asked for
}

// matrices are the cooperative matrices of a device: M×K times K×N halves, added to M×N floats; zero: it has none that serve.
type matrices struct {
	m, n, k  int
	subgroup int // that they are multiplied by
}

const (
	matrixExtension  = "VK_KHR_cooperative_matrix"
	dotExtension     = "VK_KHR_shader_integer_dot_product"
	pushExtension    = "VK_KHR_push_descriptor"
	sizeExtension    = "VK_EXT_subgroup_size_control"
	budgetExtension  = "VK_EXT_memory_budget"
	portableSubset   = "VK_KHR_portability_subset"
	subgroupNeeds    = vk.SubgroupBasic | vk.SubgroupArithmetic | vk.SubgroupBallot | vk.SubgroupShuffle
	preferSubgroup   = 32 // of the sizes that can be asked for
	pushBytes        = 128
	maxBindings      = 12
	workgroupLargest = 256
	vendorIntel      = 0x8086
)

// describe asks the driver about device number index.
func (i *instance) describe(h vk.PhysicalDevice, index int) (physical, error) {
	d := physical{handle: h}
	var err error
	if d.extensions, err = i.vk.DeviceExtensions(h); err != nil {
		return d, fmt.Errorf("the extensions of device %d: %w", index, err)
	}
	sizes := &vk.PhysicalDeviceSubgroupSizeControlProperties{SType: vk.StructureTypePhysicalDeviceSubgroupSizeControlProperties}
	driver := &vk.PhysicalDeviceDriverProperties{SType: vk.StructureTypePhysicalDeviceDriverProperties}
	core := &vk.PhysicalDeviceVulkan11Properties{SType: vk.StructureTypePhysicalDeviceVulkan11Properties, PNext: unsafe.Pointer(driver)}
	props := &vk.PhysicalDeviceProperties2{SType: vk.StructureTypePhysicalDeviceProperties2, PNext: unsafe.Pointer(core)}
	defer pinned(sizes, driver, core)()
	if d.has(sizeExtension) {
		driver.PNext = unsafe.Pointer(sizes)
	}
	i.vk.Properties(h, props)
	p := &props.Properties
	d.limits = p.Limits
	d.identity = identity{vendor: p.VendorID, device: p.DeviceID, driver: p.DriverVersion, uuid: p.PipelineCacheUUID}
	d.maxMemory = int64(min(core.MaxMemoryAllocationSize, 1<<62))
	d.info = Info{
		Index: index, Name: vk.GoString(p.DeviceName[:]), Kind: kind(p.DeviceType),
		UUID:   hex.EncodeToString(core.DeviceUUID[:]),
		Driver: strings.TrimSpace(vk.GoString(driver.DriverName[:]) + " " + vk.GoString(driver.DriverInfo[:])),
	}
	i.describeMemory(&d)
	lacks := i.describeFeatures(&d, sizes, int(core.SubgroupSize))
	switch {
	case p.ApiVersion < vk.APIVersion12:
		d.info.Lacks = "has a driver older than Vulkan 1.2"
	case core.SubgroupSupportedOperations&subgroupNeeds != subgroupNeeds || core.SubgroupSupportedStages&vk.StageCompute == 0:
		lacks = append(lacks, "subgroup arithmetic, ballot and shuffle")
	}
	if d.limits.MaxPushConstantsSize < pushBytes || d.limits.MaxPerStageDescriptorStorageBuffers < maxBindings || d.limits.MaxComputeWorkGroupInvocations < workgroupLargest {
		lacks = append(lacks, fmt.Sprintf("%d bindings, %d bytes of push constants and workgroups of %d", maxBindings, pushBytes, workgroupLargest))
	}
	if !i.queue(&d) {
		lacks = append(lacks, "a queue that computes")
	}
	if d.info.Lacks == "" && len(lacks) > 0 {
		d.info.Lacks = "or its driver lacks " + strings.Join(lacks, ", ")
	}
	return d, nil
}

func (d *physical) has(extension string) bool { return slices.Contains(d.extensions, extension) }

// queue finds the first family that computes.
func (i *instance) queue(d *physical) bool {
	for k, f := range i.vk.QueueFamilies(d.handle) {
		if f.QueueFlags&vk.QueueCompute != 0 {
			d.family, d.stampBits = uint32(k), f.TimestampValidBits
			return true
		}
	}
	return false
}

// describeMemory sums the heaps that are the device's own.
func (i *instance) describeMemory(d *physical) {
	budget := &vk.PhysicalDeviceMemoryBudgetProperties{SType: vk.StructureTypePhysicalDeviceMemoryBudgetProperties}
	props := &vk.PhysicalDeviceMemoryProperties2{SType: vk.StructureTypePhysicalDeviceMemoryProperties2}
	defer pinned(budget)()
	if d.budgets = d.has(budgetExtension); d.budgets {
		props.PNext = unsafe.Pointer(budget)
	}
	i.vk.MemoryProperties(d.handle, props)
	d.memory = props.MemoryProperties
	for k, h := range d.memory.MemoryHeaps[:d.memory.MemoryHeapCount] {
		if h.Flags&vk.HeapDeviceLocal == 0 {
			continue
		}
		d.info.Memory += int64(h.Size)
		if d.budgets {
			d.info.Free += int64(budget.HeapBudget[k] - min(budget.HeapBudget[k], budget.HeapUsage[k]))
		} else {
			d.info.Free += int64(h.Size)
		}
	}
}

// features are the structures that device features are asked for and switched on with.
type features struct {
	two  vk.PhysicalDeviceFeatures2
	v11  vk.PhysicalDeviceVulkan11Features
	v12  vk.PhysicalDeviceVulkan12Features
	size vk.PhysicalDeviceSubgroupSizeControlFeatures
	dot  vk.PhysicalDeviceShaderIntegerDotProductFeatures
	mat  vk.PhysicalDeviceCooperativeMatrixFeatures
}

// chain links the structures that d knows. The caller pins f.
func (f *features) chain(d *physical) {
	f.two.SType, f.v11.SType, f.v12.SType = vk.StructureTypePhysicalDeviceFeatures2, vk.StructureTypePhysicalDeviceVulkan11Features, vk.StructureTypePhysicalDeviceVulkan12Features
	f.size.SType, f.dot.SType = vk.StructureTypePhysicalDeviceSubgroupSizeControlFeatures, vk.StructureTypePhysicalDeviceShaderIntegerDotProductFeature
	f.two.PNext, f.v11.PNext = unsafe.Pointer(&f.v11), unsafe.Pointer(&f.v12)
	next := &f.v12.PNext
	if d.has(sizeExtension) {
		*next, next = unsafe.Pointer(&f.size), &f.size.PNext
	}
	if d.has(dotExtension) {
		*next, next = unsafe.Pointer(&f.dot), &f.dot.PNext
	}
	f.mat.SType = vk.StructureTypePhysicalDeviceCooperativeMatrixFeatures
	if d.has(matrixExtension) {
		*next = unsafe.Pointer(&f.mat)
	}
}

// needed are the features that all shaders rely on, by name.
func (f *features) needed() map[string]*vk.Bool32 {
	return map[string]*vk.Bool32{
		"16-bit storage":      &f.v11.StorageBuffer16BitAccess,
		"8-bit storage":       &f.v12.StorageBuffer8BitAccess,
		"16-bit floats":       &f.v12.ShaderFloat16,
		"8-bit integers":      &f.v12.ShaderInt8,
		"16-bit integers":     &f.two.Features.ShaderInt16,
		"timeline semaphores": &f.v12.TimelineSemaphore,
	}
}

// describeFeatures says what is missing, and finds out what may be used where it is there.
func (i *instance) describeFeatures(d *physical, sizes *vk.PhysicalDeviceSubgroupSizeControlProperties, size int) (lacks []string) {
	f := &features{}
	f.chain(d)
	defer pinned(f)()
	i.vk.Features(d.handle, &f.two)
	for name, on := range f.needed() {
		if *on != vk.True {
			lacks = append(lacks, name)
		}
	}
	slices.Sort(lacks)
	d.dot = f.dot.ShaderIntegerDotProduct == vk.True
	d.resets = f.v12.HostQueryReset == vk.True
	d.subgroup.size = size
	least, most := int(sizes.MinSubgroupSize), int(sizes.MaxSubgroupSize)
	if f.size.SubgroupSizeControl == vk.True && sizes.RequiredSubgroupSizeStages&vk.StageCompute != 0 && least < most {
		d.subgroup.required, d.subgroup.size = true, max(least, min(most, preferSubgroup))
	}
	d.subgroup.full = f.size.ComputeFullSubgroups == vk.True && (d.subgroup.required || least == most)
	if f.mat.CooperativeMatrix == vk.True && f.v12.VulkanMemoryModel == vk.True && f.v12.VulkanMemoryModelDeviceScope == vk.True && d.subgroup.full {
		i.describeMatrices(d, least, most)
	}
	return lacks
}

// describeMatrices finds the largest cooperative matrices that tiles are made of.
func (i *instance) describeMatrices(d *physical, least, most int) {
	all, err := i.vk.CooperativeMatrices(d.handle)
	if err != nil {
		return // without them everything works, only later
	}
	for _, p := range all {
		m := matrices{m: int(p.MSize), n: int(p.NSize), k: int(p.KSize), subgroup: d.subgroup.size}
		if p.AType != vk.ComponentFloat16 || p.BType != vk.ComponentFloat16 || p.CType != vk.ComponentFloat32 || p.ResultType != vk.ComponentFloat32 ||
			p.Scope != vk.ScopeSubgroup || p.SaturatingAccumulation == vk.True {
			continue
		}
		if d.identity.vendor == vendorIntel { // its matrix units serve subgroups as wide as a matrix of sums
			if m.subgroup = m.n; m.n < least || m.n > most || !d.subgroup.required && m.n != d.subgroup.size {
				continue
			}
		}
		if d.info.Kind == CPU && m.subgroup > m.n {
			continue // Mesa's lavapipe, as of 26.2, crashes on these
		}
		if m.tiles(narrowTile) && m.m*m.n*m.k > d.matrices.m*d.matrices.n*d.matrices.k {
			d.matrices = m
		}
	}
}

// enabled are the features of d to switch on: what is needed, and what is there of the rest.
func (f *features) enabled(d *physical) {
	for _, on := range f.needed() {
		*on = vk.True
	}
	f.chain(d)
	truth := map[bool]vk.Bool32{true: vk.True}
	f.dot.ShaderIntegerDotProduct, f.v12.HostQueryReset = truth[d.dot], truth[d.resets]
	f.mat.CooperativeMatrix = truth[d.matrices.m > 0]
	f.v12.VulkanMemoryModel, f.v12.VulkanMemoryModelDeviceScope = f.mat.CooperativeMatrix, f.mat.CooperativeMatrix // the latter for atomics of other shaders
	f.size.SubgroupSizeControl, f.size.ComputeFullSubgroups = truth[d.subgroup.required], truth[d.subgroup.full]
}
