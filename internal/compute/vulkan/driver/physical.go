package driver

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// Physical is a device of the machine and what it can do.
type Physical struct {
	handle     vk.PhysicalDevice
	Info       Info
	Families   []uint32 // of the compute queue, and of the one that only copies, if there is one
	Extensions []string
	Limits     vk.PhysicalDeviceLimits
	identity   identity
	Memory     vk.PhysicalDeviceMemoryProperties
	MaxMemory  int64 // bytes that one allocation may have
	Subgroup   subgroup
	Dot        bool // 4×8-bit integer dot products
	Matrices   Matrices
	Workgroup  WorkgroupMatrices
	Budgets    bool   // the driver says how much memory is free
	StampBits  uint32 // of its time stamps that count; 0: there are none
	Resets     bool   // the host can reset them
}

// identity names the device and driver that compiled pipelines depend on.
type identity struct {
	vendor, device, driver uint32
	uuid                   [16]byte // of the pipeline cache's format
}

// Subgroup holds the sizes of a device's subgroups.
type subgroup struct {
	Size     int  // as shaders find it
	Required bool // there are others, and size is asked for with every pipeline
	Full     bool // workgroups of whole subgroups can be asked for
}

// Matrices are the cooperative matrices of a device: M×K times K×N halves, added to M×N floats; zero: it has none that
// serve.
type Matrices struct {
	M, N, K  int
	Subgroup int // that they are multiplied by
}

// WorkgroupMatrices are the cooperative matrices of a device that a whole workgroup multiplies (VK_NV_cooperative_matrix2).
type WorkgroupMatrices struct {
	Shapes []WorkgroupShape // none: the device has none
	Most   int              // rows, and columns, of the largest matrix
	Shared int              // bytes of shared memory that the driver keeps to itself
}

// WorkgroupShape says of what M, N and K must be multiples in products of F16 matrices with F32 sums by a workgroup of
// this many invocations.
type WorkgroupShape struct{ M, N, K, Invocations int }

// Multiplies reports whether a workgroup of this many invocations multiplies m×k by k×n F16 matrices.
func (w *WorkgroupMatrices) Multiplies(m, n, k, invocations int) bool {
	return max(m, n, k) <= w.Most && slices.ContainsFunc(w.Shapes, func(s WorkgroupShape) bool {
		return s.Invocations == invocations && m%s.M == 0 && n%s.N == 0 && k%s.K == 0
	})
}

func (w *WorkgroupMatrices) String() string {
	if len(w.Shapes) == 0 {
		return "none that serve"
	}
	var all []string
	for _, s := range w.Shapes {
		all = append(all, fmt.Sprintf("multiples of %d×%d×%d by %d invocations", s.M, s.N, s.K, s.Invocations))
	}
	return strings.Join(all, ", ") + fmt.Sprintf(", up to %d", w.Most)
}

const (
	matrixExtension     = "VK_KHR_cooperative_matrix"
	workgroupExtension  = "VK_NV_cooperative_matrix2"
	maintenance4        = "VK_KHR_maintenance4"
	dotExtension        = "VK_KHR_shader_integer_dot_product"
	pushExtension       = "VK_KHR_push_descriptor"
	sizeExtension       = "VK_EXT_subgroup_size_control"
	budgetExtension     = "VK_EXT_memory_budget"
	CalibratedExtension = "VK_EXT_calibrated_timestamps"
	portableSubset      = "VK_KHR_portability_subset"
	subgroupNeeds       = vk.SubgroupBasic | vk.SubgroupArithmetic | vk.SubgroupBallot | vk.SubgroupShuffle
	preferSubgroup      = 32 // of the sizes that can be asked for
	PushBytes           = 128
	MaxBindings         = 12
	workgroupLargest    = 256
	vendorIntel         = 0x8086
)

// describe asks the driver about device number index.
func (i *instance) describe(h vk.PhysicalDevice, index int) (Physical, error) {
	d := Physical{handle: h}
	var err error
	if d.Extensions, err = i.vk.DeviceExtensions(h); err != nil {
		return d, fmt.Errorf("the extensions of device %d: %w", index, err)
	}
	sizes := &vk.PhysicalDeviceSubgroupSizeControlProperties{SType: vk.StructureTypePhysicalDeviceSubgroupSizeControlProperties}
	driver := &vk.PhysicalDeviceDriverProperties{SType: vk.StructureTypePhysicalDeviceDriverProperties}
	core := &vk.PhysicalDeviceVulkan11Properties{SType: vk.StructureTypePhysicalDeviceVulkan11Properties, PNext: unsafe.Pointer(driver)}
	props := &vk.PhysicalDeviceProperties2{SType: vk.StructureTypePhysicalDeviceProperties2, PNext: unsafe.Pointer(core)}
	defer Pinned(sizes, driver, core)()
	if d.Has(sizeExtension) {
		driver.PNext = unsafe.Pointer(sizes)
	}
	i.vk.Properties(h, props)
	p := &props.Properties
	d.Limits = p.Limits
	d.identity = identity{vendor: p.VendorID, device: p.DeviceID, driver: p.DriverVersion, uuid: p.PipelineCacheUUID}
	d.MaxMemory = int64(min(core.MaxMemoryAllocationSize, 1<<62))
	d.Info = Info{
		Index: index, Name: vk.GoString(p.DeviceName[:]), Kind: kind(p.DeviceType),
		UUID:   hex.EncodeToString(core.DeviceUUID[:]),
		Driver: strings.TrimSpace(vk.GoString(driver.DriverName[:]) + " " + vk.GoString(driver.DriverInfo[:])),
	}
	i.describeMemory(&d)
	lacks := i.describeFeatures(&d, sizes, int(core.SubgroupSize))
	switch {
	case p.ApiVersion < vk.APIVersion12:
		d.Info.Lacks = "has a driver older than Vulkan 1.2"
	case core.SubgroupSupportedOperations&subgroupNeeds != subgroupNeeds || core.SubgroupSupportedStages&vk.StageCompute == 0:
		lacks = append(lacks, "subgroup arithmetic, ballot and shuffle")
	}
	if d.Limits.MaxPushConstantsSize < PushBytes || d.Limits.MaxPerStageDescriptorStorageBuffers < MaxBindings || d.Limits.MaxComputeWorkGroupInvocations < workgroupLargest {
		lacks = append(lacks, fmt.Sprintf("%d bindings, %d bytes of push constants and workgroups of %d", MaxBindings, PushBytes, workgroupLargest))
	}
	if !i.queues(&d) {
		lacks = append(lacks, "a queue that computes")
	}
	d.Info.allocation = d.allocation()
	if d.Info.Lacks == "" && len(lacks) > 0 {
		d.Info.Lacks = "or its driver lacks " + strings.Join(lacks, ", ")
	}
	return d, nil
}

// Has reports whether the driver has an extension.
func (d *Physical) Has(extension string) bool { return slices.Contains(d.Extensions, extension) }

// queues finds the families of d's queues, and reports whether one can compute.
func (i *instance) queues(d *Physical) bool {
	all := i.vk.QueueFamilies(d.handle)
	if d.Families = families(all); len(d.Families) == 0 {
		return false
	}
	d.StampBits = all[d.Families[0]].TimestampValidBits
	return true
}

// families returns the first compute family and, after it, the first one for copies alone, if there is one: families
// that decode video may copy, too.
func families(all []vk.QueueFamilyProperties) (list []uint32) {
	for _, serves := range []func(flags uint32) bool{
		func(flags uint32) bool { return flags&vk.QueueCompute != 0 },
		func(flags uint32) bool { return flags&^(vk.QueueSparse|vk.QueueProtected) == vk.QueueTransfer },
	} {
		k := slices.IndexFunc(all, func(f vk.QueueFamilyProperties) bool { return serves(f.QueueFlags) })
		if k < 0 {
			break
		}
		list = append(list, uint32(k))
	}
	return list
}

// describeMemory sums the heaps that are the device's own.
func (i *instance) describeMemory(d *Physical) {
	budget := &vk.PhysicalDeviceMemoryBudgetProperties{SType: vk.StructureTypePhysicalDeviceMemoryBudgetProperties}
	props := &vk.PhysicalDeviceMemoryProperties2{SType: vk.StructureTypePhysicalDeviceMemoryProperties2}
	defer Pinned(budget)()
	if d.Budgets = d.Has(budgetExtension); d.Budgets {
		props.PNext = unsafe.Pointer(budget)
	}
	i.vk.MemoryProperties(d.handle, props)
	d.Memory, d.Info.Memory, d.Info.Free = props.MemoryProperties, 0, 0
	for k, h := range d.Memory.MemoryHeaps[:d.Memory.MemoryHeapCount] {
		if h.Flags&vk.HeapDeviceLocal == 0 {
			continue
		}
		d.Info.Memory += int64(h.Size)
		if d.Budgets {
			d.Info.Free += int64(budget.HeapBudget[k] - min(budget.HeapBudget[k], budget.HeapUsage[k]))
		} else {
			d.Info.Free += int64(h.Size)
		}
	}
}

// features holds the structures that device features are asked for and switched on with.
type features struct {
	two  vk.PhysicalDeviceFeatures2
	v11  vk.PhysicalDeviceVulkan11Features
	v12  vk.PhysicalDeviceVulkan12Features
	size vk.PhysicalDeviceSubgroupSizeControlFeatures
	dot  vk.PhysicalDeviceShaderIntegerDotProductFeatures
	mat  vk.PhysicalDeviceCooperativeMatrixFeatures
	mat2 vk.PhysicalDeviceCooperativeMatrix2Features
	main vk.PhysicalDeviceMaintenance4Features
}

// chain links the structures that d knows. The caller pins f.
func (f *features) chain(d *Physical) {
	f.two.SType, f.v11.SType, f.v12.SType = vk.StructureTypePhysicalDeviceFeatures2, vk.StructureTypePhysicalDeviceVulkan11Features, vk.StructureTypePhysicalDeviceVulkan12Features
	f.size.SType, f.dot.SType = vk.StructureTypePhysicalDeviceSubgroupSizeControlFeatures, vk.StructureTypePhysicalDeviceShaderIntegerDotProductFeature
	f.two.PNext, f.v11.PNext = unsafe.Pointer(&f.v11), unsafe.Pointer(&f.v12)
	next := &f.v12.PNext
	if d.Has(sizeExtension) {
		*next, next = unsafe.Pointer(&f.size), &f.size.PNext
	}
	if d.Has(dotExtension) {
		*next, next = unsafe.Pointer(&f.dot), &f.dot.PNext
	}
	f.mat.SType = vk.StructureTypePhysicalDeviceCooperativeMatrixFeatures
	if d.Has(matrixExtension) {
		*next, next = unsafe.Pointer(&f.mat), &f.mat.PNext
	}
	f.mat2.SType, f.main.SType = vk.StructureTypePhysicalDeviceCooperativeMatrix2Features, vk.StructureTypePhysicalDeviceMaintenance4Features
	if d.Has(workgroupExtension) && d.Has(maintenance4) {
		*next, f.mat2.PNext = unsafe.Pointer(&f.mat2), unsafe.Pointer(&f.main)
	}
}

// workgroup returns the features that matrices of a whole workgroup rely on.
func (f *features) workgroup() []*vk.Bool32 {
	return []*vk.Bool32{
		&f.mat2.CooperativeMatrixWorkgroupScope, &f.mat2.CooperativeMatrixFlexibleDimensions, &f.mat2.CooperativeMatrixPerElementOperations,
		&f.mat2.CooperativeMatrixTensorAddressing, &f.mat2.CooperativeMatrixReductions, &f.mat2.CooperativeMatrixConversions,
		&f.main.Maintenance4, // the workgroup's size is a constant of the pipeline
	}
}

// needed returns the features that all shaders rely on, by name.
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

// describeFeatures returns the missing features, and enables optional ones that are present.
func (i *instance) describeFeatures(d *Physical, sizes *vk.PhysicalDeviceSubgroupSizeControlProperties, size int) (lacks []string) {
	f := &features{}
	f.chain(d)
	defer Pinned(f)()
	i.vk.Features(d.handle, &f.two)
	for name, on := range f.needed() {
		if *on != vk.True {
			lacks = append(lacks, name)
		}
	}
	slices.Sort(lacks)
	d.Dot = f.dot.ShaderIntegerDotProduct == vk.True
	d.Resets = f.v12.HostQueryReset == vk.True
	d.Subgroup.Size = size
	least, most := int(sizes.MinSubgroupSize), int(sizes.MaxSubgroupSize)
	if f.size.SubgroupSizeControl == vk.True && sizes.RequiredSubgroupSizeStages&vk.StageCompute != 0 && least < most {
		d.Subgroup.Required, d.Subgroup.Size = true, max(least, min(most, preferSubgroup))
	}
	d.Subgroup.Full = f.size.ComputeFullSubgroups == vk.True && (d.Subgroup.Required || least == most)
	if f.mat.CooperativeMatrix == vk.True && f.v12.VulkanMemoryModel == vk.True && f.v12.VulkanMemoryModelDeviceScope == vk.True && d.Subgroup.Full {
		i.describeMatrices(d, least, most)
	}
	if d.Matrices.M > 0 && !slices.ContainsFunc(f.workgroup(), func(on *vk.Bool32) bool { return *on != vk.True }) {
		i.describeWorkgroup(d)
	}
	return lacks
}

// describeWorkgroup finds the shapes of matrices that a whole workgroup multiplies.
func (i *instance) describeWorkgroup(d *Physical) {
	two := &vk.PhysicalDeviceCooperativeMatrix2Properties{SType: vk.StructureTypePhysicalDeviceCooperativeMatrix2Properties}
	defer Pinned(two)()
	i.vk.Properties(d.handle, &vk.PhysicalDeviceProperties2{SType: vk.StructureTypePhysicalDeviceProperties2, PNext: unsafe.Pointer(two)})
	all, err := i.vk.FlexibleMatrices(d.handle)
	if err != nil {
		return // without them everything works, only later
	}
	d.Workgroup.Most, d.Workgroup.Shared = int(two.CooperativeMatrixFlexibleDimensionsMaxDimension), int(two.CooperativeMatrixWorkgroupScopeReservedSharedMemory)
	for _, p := range all {
		if p.AType == vk.ComponentFloat16 && p.BType == vk.ComponentFloat16 && p.CType == vk.ComponentFloat32 && p.ResultType == vk.ComponentFloat32 &&
			p.Scope == vk.ScopeWorkgroup && p.SaturatingAccumulation != vk.True && p.MGranularity > 0 && p.NGranularity > 0 && p.KGranularity > 0 {
			d.Workgroup.Shapes = append(d.Workgroup.Shapes, WorkgroupShape{int(p.MGranularity), int(p.NGranularity), int(p.KGranularity), int(p.WorkgroupInvocations)})
		}
	}
}

// describeMatrices finds the largest cooperative matrices that serve.
func (i *instance) describeMatrices(d *Physical, least, most int) {
	all, err := i.vk.CooperativeMatrices(d.handle)
	if err != nil {
		return // without them everything works, only later
	}
	for _, p := range all {
		m := Matrices{M: int(p.MSize), N: int(p.NSize), K: int(p.KSize), Subgroup: d.Subgroup.Size}
		if p.AType != vk.ComponentFloat16 || p.BType != vk.ComponentFloat16 || p.CType != vk.ComponentFloat32 || p.ResultType != vk.ComponentFloat32 ||
			p.Scope != vk.ScopeSubgroup || p.SaturatingAccumulation == vk.True {
			continue
		}
		if d.identity.vendor == vendorIntel { // its matrix units serve subgroups as wide as a matrix of sums
			if m.Subgroup = m.N; m.N < least || m.N > most || !d.Subgroup.Required && m.N != d.Subgroup.Size {
				continue
			}
		}
		if d.Info.Kind == CPU && m.Subgroup > m.N {
			continue // Mesa's lavapipe, as of 26.2, crashes on these
		}
		if m.serve() && m.M*m.N*m.K > d.Matrices.M*d.Matrices.N*d.Matrices.K {
			d.Matrices = m
		}
	}
}

// enabled switches on features of d: the required ones, and optional ones that are present.
func (f *features) enabled(d *Physical) {
	for _, on := range f.needed() {
		*on = vk.True
	}
	f.chain(d)
	truth := map[bool]vk.Bool32{true: vk.True}
	f.dot.ShaderIntegerDotProduct, f.v12.HostQueryReset = truth[d.Dot], truth[d.Resets]
	f.mat.CooperativeMatrix = truth[d.Matrices.M > 0]
	f.v12.VulkanMemoryModel, f.v12.VulkanMemoryModelDeviceScope = f.mat.CooperativeMatrix, f.mat.CooperativeMatrix // the latter for atomics of other shaders
	for _, on := range f.workgroup() {
		*on = truth[len(d.Workgroup.Shapes) > 0]
	}
	f.size.SubgroupSizeControl, f.size.ComputeFullSubgroups = truth[d.Subgroup.Required], truth[d.Subgroup.Full]
}

// serve reports whether cooperative.comp makes tiles of these matrices.
func (m Matrices) serve() bool {
	divides := func(a, b int) bool { return a > 0 && b%a == 0 }
	return divides(m.M, shaders.SubgroupTile) && divides(m.N, shaders.SubgroupTile) && divides(m.K, shaders.LeastStep) && m.M%8 == 0 && m.K%8 == 0 && m.Subgroup > 0
}

func (m Matrices) String() string {
	if m.M == 0 {
		return "none that serve"
	}
	return fmt.Sprintf("%d×%d×%d by subgroups of %d", m.M, m.N, m.K, m.Subgroup)
}
