package vk

import "unsafe"

// Bool32 is VkBool32.
type Bool32 uint32

// True is VK_TRUE.
const True Bool32 = 1

// The handles that Vulkan dispatches on are pointers, the others 64-bit numbers.
type (
	PhysicalDevice uintptr
	Queue          uintptr
	CommandBuffer  uintptr

	Buffer              uint64
	BufferView          uint64
	CommandPool         uint64
	DebugUtilsMessenger uint64
	DescriptorPool      uint64
	DescriptorSet       uint64
	DescriptorSetLayout uint64
	DeviceMemory        uint64
	Pipeline            uint64
	PipelineCache       uint64
	PipelineLayout      uint64
	QueryPool           uint64
	Sampler             uint64
	Semaphore           uint64
	ShaderModule        uint64
)

// The structures have the names, members and layouts of the registry. Enumerations and flags are uint32.

type ApplicationInfo struct {
	SType                     uint32
	PNext                     unsafe.Pointer
	PApplicationName          *byte
	ApplicationVersion        uint32
	PEngineName               *byte
	EngineVersion, ApiVersion uint32
}

type InstanceCreateInfo struct {
	SType                   uint32
	PNext                   unsafe.Pointer
	Flags                   uint32
	PApplicationInfo        *ApplicationInfo
	EnabledLayerCount       uint32
	PpEnabledLayerNames     **byte
	EnabledExtensionCount   uint32
	PpEnabledExtensionNames **byte
}

type ValidationFeatures struct {
	SType                          uint32
	PNext                          unsafe.Pointer
	EnabledValidationFeatureCount  uint32
	PEnabledValidationFeatures     *uint32
	DisabledValidationFeatureCount uint32
	PDisabledValidationFeatures    *uint32
}

type DebugUtilsMessengerCreateInfo struct {
	SType                               uint32
	PNext                               unsafe.Pointer
	Flags, MessageSeverity, MessageType uint32
	PfnUserCallback                     uintptr
	PUserData                           unsafe.Pointer
}

type DebugUtilsMessengerCallbackData struct {
	SType            uint32
	PNext            unsafe.Pointer
	Flags            uint32
	PMessageIdName   *byte
	MessageIdNumber  int32
	PMessage         *byte
	QueueLabelCount  uint32
	PQueueLabels     unsafe.Pointer
	CmdBufLabelCount uint32
	PCmdBufLabels    unsafe.Pointer
	ObjectCount      uint32
	PObjects         unsafe.Pointer
}

type LayerProperties struct {
	LayerName                          [256]byte
	SpecVersion, ImplementationVersion uint32
	Description                        [256]byte
}

type ExtensionProperties struct {
	ExtensionName [256]byte
	SpecVersion   uint32
}

type PhysicalDeviceLimits struct {
	MaxImageDimension1D, MaxImageDimension2D, MaxImageDimension3D, MaxImageDimensionCube, MaxImageArrayLayers, MaxTexelBufferElements, MaxUniformBufferRange, MaxStorageBufferRange, MaxPushConstantsSize, MaxMemoryAllocationCount, MaxSamplerAllocationCount                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      uint32
	BufferImageGranularity, SparseAddressSpaceSize                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  uint64
	MaxBoundDescriptorSets, MaxPerStageDescriptorSamplers, MaxPerStageDescriptorUniformBuffers, MaxPerStageDescriptorStorageBuffers, MaxPerStageDescriptorSampledImages, MaxPerStageDescriptorStorageImages, MaxPerStageDescriptorInputAttachments, MaxPerStageResources, MaxDescriptorSetSamplers, MaxDescriptorSetUniformBuffers, MaxDescriptorSetUniformBuffersDynamic, MaxDescriptorSetStorageBuffers, MaxDescriptorSetStorageBuffersDynamic, MaxDescriptorSetSampledImages, MaxDescriptorSetStorageImages, MaxDescriptorSetInputAttachments, MaxVertexInputAttributes, MaxVertexInputBindings, MaxVertexInputAttributeOffset, MaxVertexInputBindingStride, MaxVertexOutputComponents, MaxTessellationGenerationLevel, MaxTessellationPatchSize, MaxTessellationControlPerVertexInputComponents, MaxTessellationControlPerVertexOutputComponents, MaxTessellationControlPerPatchOutputComponents, MaxTessellationControlTotalOutputComponents, MaxTessellationEvaluationInputComponents, MaxTessellationEvaluationOutputComponents, MaxGeometryShaderInvocations, MaxGeometryInputComponents, MaxGeometryOutputComponents, MaxGeometryOutputVertices, MaxGeometryTotalOutputComponents, MaxFragmentInputComponents, MaxFragmentOutputAttachments, MaxFragmentDualSrcAttachments, MaxFragmentCombinedOutputResources, MaxComputeSharedMemorySize uint32
	MaxComputeWorkGroupCount                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        [3]uint32
	MaxComputeWorkGroupInvocations                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  uint32
	MaxComputeWorkGroupSize                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         [3]uint32
	SubPixelPrecisionBits, SubTexelPrecisionBits, MipmapPrecisionBits, MaxDrawIndexedIndexValue, MaxDrawIndirectCount                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               uint32
	MaxSamplerLodBias, MaxSamplerAnisotropy                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         float32
	MaxViewports                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    uint32
	MaxViewportDimensions                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           [2]uint32
	ViewportBoundsRange                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                             [2]float32
	ViewportSubPixelBits                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            uint32
	MinMemoryMapAlignment                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           uintptr
	MinTexelBufferOffsetAlignment, MinUniformBufferOffsetAlignment, MinStorageBufferOffsetAlignment                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 uint64
	MinTexelOffset                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  int32
	MaxTexelOffset                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  uint32
	MinTexelGatherOffset                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            int32
	MaxTexelGatherOffset                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            uint32
	MinInterpolationOffset, MaxInterpolationOffset                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  float32
	SubPixelInterpolationOffsetBits, MaxFramebufferWidth, MaxFramebufferHeight, MaxFramebufferLayers, FramebufferColorSampleCounts, FramebufferDepthSampleCounts, FramebufferStencilSampleCounts, FramebufferNoAttachmentsSampleCounts, MaxColorAttachments, SampledImageColorSampleCounts, SampledImageIntegerSampleCounts, SampledImageDepthSampleCounts, SampledImageStencilSampleCounts, StorageImageSampleCounts, MaxSampleMaskWords                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           uint32
	TimestampComputeAndGraphics                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     Bool32
	TimestampPeriod                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 float32
	MaxClipDistances, MaxCullDistances, MaxCombinedClipAndCullDistances, DiscreteQueuePriorities                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    uint32
	PointSizeRange, LineWidthRange                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  [2]float32
	PointSizeGranularity, LineWidthGranularity                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      float32
	StrictLines, StandardSampleLocations                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                            Bool32
	OptimalBufferCopyOffsetAlignment, OptimalBufferCopyRowPitchAlignment, NonCoherentAtomSize                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       uint64
}

type PhysicalDeviceSparseProperties struct {
	ResidencyStandard2DBlockShape, ResidencyStandard2DMultisampleBlockShape, ResidencyStandard3DBlockShape, ResidencyAlignedMipSize, ResidencyNonResidentStrict Bool32
}

type PhysicalDeviceProperties struct {
	ApiVersion, DriverVersion, VendorID, DeviceID, DeviceType uint32
	DeviceName                                                [256]byte
	PipelineCacheUUID                                         [16]byte
	Limits                                                    PhysicalDeviceLimits
	SparseProperties                                          PhysicalDeviceSparseProperties
}

type PhysicalDeviceProperties2 struct {
	SType      uint32
	PNext      unsafe.Pointer
	Properties PhysicalDeviceProperties
}

type PhysicalDeviceVulkan11Properties struct {
	SType                                                                   uint32
	PNext                                                                   unsafe.Pointer
	DeviceUUID, DriverUUID                                                  [16]byte
	DeviceLUID                                                              [8]byte
	DeviceNodeMask                                                          uint32
	DeviceLUIDValid                                                         Bool32
	SubgroupSize, SubgroupSupportedStages, SubgroupSupportedOperations      uint32
	SubgroupQuadOperationsInAllStages                                       Bool32
	PointClippingBehavior, MaxMultiviewViewCount, MaxMultiviewInstanceIndex uint32
	ProtectedNoFault                                                        Bool32
	MaxPerSetDescriptors                                                    uint32
	MaxMemoryAllocationSize                                                 uint64
}

type PhysicalDeviceDriverProperties struct {
	SType                  uint32
	PNext                  unsafe.Pointer
	DriverID               uint32
	DriverName, DriverInfo [256]byte
	ConformanceVersion     [4]byte
}

type PhysicalDeviceSubgroupSizeControlProperties struct {
	SType                                                                                      uint32
	PNext                                                                                      unsafe.Pointer
	MinSubgroupSize, MaxSubgroupSize, MaxComputeWorkgroupSubgroups, RequiredSubgroupSizeStages uint32
}

type PhysicalDevicePushDescriptorProperties struct {
	SType              uint32
	PNext              unsafe.Pointer
	MaxPushDescriptors uint32
}

type PhysicalDeviceFeatures struct {
	RobustBufferAccess, FullDrawIndexUint32, ImageCubeArray, IndependentBlend, GeometryShader, TessellationShader, SampleRateShading, DualSrcBlend, LogicOp, MultiDrawIndirect, DrawIndirectFirstInstance, DepthClamp, DepthBiasClamp, FillModeNonSolid, DepthBounds, WideLines, LargePoints, AlphaToOne, MultiViewport, SamplerAnisotropy, TextureCompressionETC2, TextureCompressionASTC_LDR, TextureCompressionBC, OcclusionQueryPrecise, PipelineStatisticsQuery, VertexPipelineStoresAndAtomics, FragmentStoresAndAtomics, ShaderTessellationAndGeometryPointSize, ShaderImageGatherExtended, ShaderStorageImageExtendedFormats, ShaderStorageImageMultisample, ShaderStorageImageReadWithoutFormat, ShaderStorageImageWriteWithoutFormat, ShaderUniformBufferArrayDynamicIndexing, ShaderSampledImageArrayDynamicIndexing, ShaderStorageBufferArrayDynamicIndexing, ShaderStorageImageArrayDynamicIndexing, ShaderClipDistance, ShaderCullDistance, ShaderFloat64, ShaderInt64, ShaderInt16, ShaderResourceResidency, ShaderResourceMinLod, SparseBinding, SparseResidencyBuffer, SparseResidencyImage2D, SparseResidencyImage3D, SparseResidency2Samples, SparseResidency4Samples, SparseResidency8Samples, SparseResidency16Samples, SparseResidencyAliased, VariableMultisampleRate, InheritedQueries Bool32
}

type PhysicalDeviceFeatures2 struct {
	SType    uint32
	PNext    unsafe.Pointer
	Features PhysicalDeviceFeatures
}

type PhysicalDeviceVulkan11Features struct {
	SType                                                                                                                                                                                                                                                                                      uint32
	PNext                                                                                                                                                                                                                                                                                      unsafe.Pointer
	StorageBuffer16BitAccess, UniformAndStorageBuffer16BitAccess, StoragePushConstant16, StorageInputOutput16, Multiview, MultiviewGeometryShader, MultiviewTessellationShader, VariablePointersStorageBuffer, VariablePointers, ProtectedMemory, SamplerYcbcrConversion, ShaderDrawParameters Bool32
}

type PhysicalDeviceVulkan12Features struct {
	SType                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          uint32
	PNext                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          unsafe.Pointer
	SamplerMirrorClampToEdge, DrawIndirectCount, StorageBuffer8BitAccess, UniformAndStorageBuffer8BitAccess, StoragePushConstant8, ShaderBufferInt64Atomics, ShaderSharedInt64Atomics, ShaderFloat16, ShaderInt8, DescriptorIndexing, ShaderInputAttachmentArrayDynamicIndexing, ShaderUniformTexelBufferArrayDynamicIndexing, ShaderStorageTexelBufferArrayDynamicIndexing, ShaderUniformBufferArrayNonUniformIndexing, ShaderSampledImageArrayNonUniformIndexing, ShaderStorageBufferArrayNonUniformIndexing, ShaderStorageImageArrayNonUniformIndexing, ShaderInputAttachmentArrayNonUniformIndexing, ShaderUniformTexelBufferArrayNonUniformIndexing, ShaderStorageTexelBufferArrayNonUniformIndexing, DescriptorBindingUniformBufferUpdateAfterBind, DescriptorBindingSampledImageUpdateAfterBind, DescriptorBindingStorageImageUpdateAfterBind, DescriptorBindingStorageBufferUpdateAfterBind, DescriptorBindingUniformTexelBufferUpdateAfterBind, DescriptorBindingStorageTexelBufferUpdateAfterBind, DescriptorBindingUpdateUnusedWhilePending, DescriptorBindingPartiallyBound, DescriptorBindingVariableDescriptorCount, RuntimeDescriptorArray, SamplerFilterMinmax, ScalarBlockLayout, ImagelessFramebuffer, UniformBufferStandardLayout, ShaderSubgroupExtendedTypes, SeparateDepthStencilLayouts, HostQueryReset, TimelineSemaphore, BufferDeviceAddress, BufferDeviceAddressCaptureReplay, BufferDeviceAddressMultiDevice, VulkanMemoryModel, VulkanMemoryModelDeviceScope, VulkanMemoryModelAvailabilityVisibilityChains, ShaderOutputViewportIndex, ShaderOutputLayer, SubgroupBroadcastDynamicId Bool32
}

type PhysicalDeviceSubgroupSizeControlFeatures struct {
	SType                                     uint32
	PNext                                     unsafe.Pointer
	SubgroupSizeControl, ComputeFullSubgroups Bool32
}

type PhysicalDeviceShaderIntegerDotProductFeatures struct {
	SType                   uint32
	PNext                   unsafe.Pointer
	ShaderIntegerDotProduct Bool32
}

type PhysicalDeviceCooperativeMatrixFeatures struct {
	SType                                                  uint32
	PNext                                                  unsafe.Pointer
	CooperativeMatrix, CooperativeMatrixRobustBufferAccess Bool32
}

type CooperativeMatrixProperties struct {
	SType                                                uint32
	PNext                                                unsafe.Pointer
	MSize, NSize, KSize, AType, BType, CType, ResultType uint32
	SaturatingAccumulation                               Bool32
	Scope                                                uint32
}

type PhysicalDeviceMaintenance4Features struct {
	SType        uint32
	PNext        unsafe.Pointer
	Maintenance4 Bool32
}

type PhysicalDeviceCooperativeMatrix2Features struct {
	SType                                                                                                                                                                                                                                  uint32
	PNext                                                                                                                                                                                                                                  unsafe.Pointer
	CooperativeMatrixWorkgroupScope, CooperativeMatrixFlexibleDimensions, CooperativeMatrixReductions, CooperativeMatrixConversions, CooperativeMatrixPerElementOperations, CooperativeMatrixTensorAddressing, CooperativeMatrixBlockLoads Bool32
}

type PhysicalDeviceCooperativeMatrix2Properties struct {
	SType                                                                                                                                                 uint32
	PNext                                                                                                                                                 unsafe.Pointer
	CooperativeMatrixWorkgroupScopeMaxWorkgroupSize, CooperativeMatrixFlexibleDimensionsMaxDimension, CooperativeMatrixWorkgroupScopeReservedSharedMemory uint32
}

type CooperativeMatrixFlexibleDimensionsProperties struct {
	SType                                                                     uint32
	PNext                                                                     unsafe.Pointer
	MGranularity, NGranularity, KGranularity, AType, BType, CType, ResultType uint32
	SaturatingAccumulation                                                    Bool32
	Scope, WorkgroupInvocations                                               uint32
}

type MemoryType struct {
	PropertyFlags, HeapIndex uint32
}

type MemoryHeap struct {
	Size  uint64
	Flags uint32
}

type PhysicalDeviceMemoryProperties struct {
	MemoryTypeCount uint32
	MemoryTypes     [32]MemoryType
	MemoryHeapCount uint32
	MemoryHeaps     [16]MemoryHeap
}

type PhysicalDeviceMemoryProperties2 struct {
	SType            uint32
	PNext            unsafe.Pointer
	MemoryProperties PhysicalDeviceMemoryProperties
}

type PhysicalDeviceMemoryBudgetProperties struct {
	SType                 uint32
	PNext                 unsafe.Pointer
	HeapBudget, HeapUsage [16]uint64
}

type Extent3D struct {
	Width, Height, Depth uint32
}

type QueueFamilyProperties struct {
	QueueFlags, QueueCount, TimestampValidBits uint32
	MinImageTransferGranularity                Extent3D
}

type DeviceQueueCreateInfo struct {
	SType                               uint32
	PNext                               unsafe.Pointer
	Flags, QueueFamilyIndex, QueueCount uint32
	PQueuePriorities                    *float32
}

type DeviceCreateInfo struct {
	SType                       uint32
	PNext                       unsafe.Pointer
	Flags, QueueCreateInfoCount uint32
	PQueueCreateInfos           *DeviceQueueCreateInfo
	EnabledLayerCount           uint32
	PpEnabledLayerNames         **byte
	EnabledExtensionCount       uint32
	PpEnabledExtensionNames     **byte
	PEnabledFeatures            *PhysicalDeviceFeatures
}

type BufferCreateInfo struct {
	SType                                     uint32
	PNext                                     unsafe.Pointer
	Flags                                     uint32
	Size                                      uint64
	Usage, SharingMode, QueueFamilyIndexCount uint32
	PQueueFamilyIndices                       *uint32
}

type MemoryRequirements struct {
	Size, Alignment uint64
	MemoryTypeBits  uint32
}

type MemoryAllocateInfo struct {
	SType           uint32
	PNext           unsafe.Pointer
	AllocationSize  uint64
	MemoryTypeIndex uint32
}

type ShaderModuleCreateInfo struct {
	SType    uint32
	PNext    unsafe.Pointer
	Flags    uint32
	CodeSize uintptr
	PCode    *uint32
}

type SpecializationMapEntry struct {
	ConstantID, Offset uint32
	Size               uintptr
}

type SpecializationInfo struct {
	MapEntryCount uint32
	PMapEntries   *SpecializationMapEntry
	DataSize      uintptr
	PData         unsafe.Pointer
}

type PipelineShaderStageCreateInfo struct {
	SType               uint32
	PNext               unsafe.Pointer
	Flags, Stage        uint32
	Module              ShaderModule
	PName               *byte
	PSpecializationInfo *SpecializationInfo
}

type PipelineShaderStageRequiredSubgroupSizeCreateInfo struct {
	SType                uint32
	PNext                unsafe.Pointer
	RequiredSubgroupSize uint32
}

type ComputePipelineCreateInfo struct {
	SType              uint32
	PNext              unsafe.Pointer
	Flags              uint32
	Stage              PipelineShaderStageCreateInfo
	Layout             PipelineLayout
	BasePipelineHandle Pipeline
	BasePipelineIndex  int32
}

type PipelineCacheCreateInfo struct {
	SType           uint32
	PNext           unsafe.Pointer
	Flags           uint32
	InitialDataSize uintptr
	PInitialData    unsafe.Pointer
}

type DescriptorSetLayoutBinding struct {
	Binding, DescriptorType, DescriptorCount, StageFlags uint32
	PImmutableSamplers                                   *Sampler
}

type DescriptorSetLayoutCreateInfo struct {
	SType               uint32
	PNext               unsafe.Pointer
	Flags, BindingCount uint32
	PBindings           *DescriptorSetLayoutBinding
}

type PushConstantRange struct {
	StageFlags, Offset, Size uint32
}

type PipelineLayoutCreateInfo struct {
	SType                  uint32
	PNext                  unsafe.Pointer
	Flags, SetLayoutCount  uint32
	PSetLayouts            *DescriptorSetLayout
	PushConstantRangeCount uint32
	PPushConstantRanges    *PushConstantRange
}

type DescriptorPoolSize struct {
	Type, DescriptorCount uint32
}

type DescriptorPoolCreateInfo struct {
	SType                         uint32
	PNext                         unsafe.Pointer
	Flags, MaxSets, PoolSizeCount uint32
	PPoolSizes                    *DescriptorPoolSize
}

type DescriptorSetAllocateInfo struct {
	SType              uint32
	PNext              unsafe.Pointer
	DescriptorPool     DescriptorPool
	DescriptorSetCount uint32
	PSetLayouts        *DescriptorSetLayout
}

type DescriptorBufferInfo struct {
	Buffer        Buffer
	Offset, Range uint64
}

type WriteDescriptorSet struct {
	SType                                                        uint32
	PNext                                                        unsafe.Pointer
	DstSet                                                       DescriptorSet
	DstBinding, DstArrayElement, DescriptorCount, DescriptorType uint32
	PImageInfo                                                   unsafe.Pointer
	PBufferInfo                                                  *DescriptorBufferInfo
	PTexelBufferView                                             *BufferView
}

type CommandPoolCreateInfo struct {
	SType                   uint32
	PNext                   unsafe.Pointer
	Flags, QueueFamilyIndex uint32
}

type CommandBufferAllocateInfo struct {
	SType                     uint32
	PNext                     unsafe.Pointer
	CommandPool               CommandPool
	Level, CommandBufferCount uint32
}

type CommandBufferBeginInfo struct {
	SType            uint32
	PNext            unsafe.Pointer
	Flags            uint32
	PInheritanceInfo unsafe.Pointer
}

type MemoryBarrier struct {
	SType                        uint32
	PNext                        unsafe.Pointer
	SrcAccessMask, DstAccessMask uint32
}

type BufferCopy struct {
	SrcOffset, DstOffset, Size uint64
}

type SemaphoreTypeCreateInfo struct {
	SType         uint32
	PNext         unsafe.Pointer
	SemaphoreType uint32
	InitialValue  uint64
}

type SemaphoreCreateInfo struct {
	SType uint32
	PNext unsafe.Pointer
	Flags uint32
}

type TimelineSemaphoreSubmitInfo struct {
	SType                     uint32
	PNext                     unsafe.Pointer
	WaitSemaphoreValueCount   uint32
	PWaitSemaphoreValues      *uint64
	SignalSemaphoreValueCount uint32
	PSignalSemaphoreValues    *uint64
}

type SubmitInfo struct {
	SType                uint32
	PNext                unsafe.Pointer
	WaitSemaphoreCount   uint32
	PWaitSemaphores      *Semaphore
	PWaitDstStageMask    *uint32
	CommandBufferCount   uint32
	PCommandBuffers      *CommandBuffer
	SignalSemaphoreCount uint32
	PSignalSemaphores    *Semaphore
}

type SemaphoreWaitInfo struct {
	SType                 uint32
	PNext                 unsafe.Pointer
	Flags, SemaphoreCount uint32
	PSemaphores           *Semaphore
	PValues               *uint64
}

type QueryPoolCreateInfo struct {
	SType                                            uint32
	PNext                                            unsafe.Pointer
	Flags, QueryType, QueryCount, PipelineStatistics uint32
}

type CalibratedTimestampInfo struct {
	SType      uint32
	PNext      unsafe.Pointer
	TimeDomain uint32
}
