package vk

import "strconv"

// Constants carry their name in the registry.
const (
	APIVersion12 = 1<<22 | 2<<12 // VK_API_VERSION_1_2
	APIVersion13 = 1<<22 | 3<<12 // VK_API_VERSION_1_3
)

// The types of structures.
const (
	StructureTypeApplicationInfo                              = 0          // VK_STRUCTURE_TYPE_APPLICATION_INFO
	StructureTypeInstanceCreateInfo                           = 1          // VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
	StructureTypeDeviceQueueCreateInfo                        = 2          // VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO
	StructureTypeDeviceCreateInfo                             = 3          // VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO
	StructureTypeSubmitInfo                                   = 4          // VK_STRUCTURE_TYPE_SUBMIT_INFO
	StructureTypeMemoryAllocateInfo                           = 5          // VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO
	StructureTypeQueryPoolCreateInfo                          = 11         // VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO
	StructureTypeCalibratedTimestampInfo                      = 1000184000 // VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT
	StructureTypeBufferCreateInfo                             = 12         // VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO
	StructureTypeSemaphoreCreateInfo                          = 9          // VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO
	StructureTypeShaderModuleCreateInfo                       = 16         // VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO
	StructureTypePipelineCacheCreateInfo                      = 17         // VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO
	StructureTypePipelineShaderStageCreateInfo                = 18         // VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO
	StructureTypeComputePipelineCreateInfo                    = 29         // VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO
	StructureTypePipelineLayoutCreateInfo                     = 30         // VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO
	StructureTypeDescriptorSetLayoutCreateInfo                = 32         // VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO
	StructureTypeDescriptorPoolCreateInfo                     = 33         // VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO
	StructureTypeDescriptorSetAllocateInfo                    = 34         // VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO
	StructureTypeWriteDescriptorSet                           = 35         // VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
	StructureTypeCommandPoolCreateInfo                        = 39         // VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO
	StructureTypeCommandBufferAllocateInfo                    = 40         // VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO
	StructureTypeCommandBufferBeginInfo                       = 42         // VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
	StructureTypeMemoryBarrier                                = 46         // VK_STRUCTURE_TYPE_MEMORY_BARRIER
	StructureTypePhysicalDeviceVulkan11Features               = 49         // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES
	StructureTypePhysicalDeviceVulkan11Properties             = 50         // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES
	StructureTypePhysicalDeviceVulkan12Features               = 51         // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES
	StructureTypePhysicalDeviceFeatures2                      = 1000059000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
	StructureTypePhysicalDeviceProperties2                    = 1000059001 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
	StructureTypePhysicalDeviceMemoryProperties2              = 1000059006 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
	StructureTypePhysicalDevicePushDescriptorProperties       = 1000080000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR
	StructureTypeDebugUtilsMessengerCreateInfo                = 1000128004 // VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT
	StructureTypePhysicalDeviceDriverProperties               = 1000196000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES
	StructureTypeSemaphoreTypeCreateInfo                      = 1000207002 // VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO
	StructureTypeTimelineSemaphoreSubmitInfo                  = 1000207003 // VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO
	StructureTypeSemaphoreWaitInfo                            = 1000207004 // VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO
	StructureTypePhysicalDeviceSubgroupSizeControlProperties  = 1000225000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES
	StructureTypePipelineShaderStageRequiredSubgroupSize      = 1000225001 // VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO
	StructureTypePhysicalDeviceSubgroupSizeControlFeatures    = 1000225002 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES
	StructureTypePhysicalDeviceMemoryBudgetProperties         = 1000237000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
	StructureTypeValidationFeatures                           = 1000247000 // VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT
	StructureTypePhysicalDeviceShaderIntegerDotProductFeature = 1000280000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES
	StructureTypePhysicalDeviceCooperativeMatrixFeatures      = 1000506000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR
	StructureTypeCooperativeMatrixProperties                  = 1000506001 // VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
	StructureTypePhysicalDeviceMaintenance4Features           = 1000413000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES
	StructureTypePhysicalDeviceCooperativeMatrix2Features     = 1000593000 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV
	StructureTypeCooperativeMatrixFlexibleDimensions          = 1000593001 // VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV
	StructureTypePhysicalDeviceCooperativeMatrix2Properties   = 1000593002 // VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV
)

// Kinds of devices.
const (
	DeviceOther      = 0 // VK_PHYSICAL_DEVICE_TYPE_OTHER
	DeviceIntegrated = 1 // VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
	DeviceDiscrete   = 2 // VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
	DeviceVirtual    = 3 // VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU
	DeviceCPU        = 4 // VK_PHYSICAL_DEVICE_TYPE_CPU
)

// Components and scope of cooperative matrices.
const (
	ComponentFloat16 = 0 // VK_COMPONENT_TYPE_FLOAT16_KHR
	ComponentFloat32 = 1 // VK_COMPONENT_TYPE_FLOAT32_KHR
	ScopeWorkgroup   = 2 // VK_SCOPE_WORKGROUP_KHR
	ScopeSubgroup    = 3 // VK_SCOPE_SUBGROUP_KHR
)

// Flags.
const (
	InstanceEnumeratePortability = 0x1 // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR

	QueueCompute   = 0x2  // VK_QUEUE_COMPUTE_BIT
	QueueTransfer  = 0x4  // VK_QUEUE_TRANSFER_BIT
	QueueSparse    = 0x8  // VK_QUEUE_SPARSE_BINDING_BIT
	QueueProtected = 0x10 // VK_QUEUE_PROTECTED_BIT

	SharingConcurrent = 1 // VK_SHARING_MODE_CONCURRENT

	MemoryDeviceLocal  = 0x1 // VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
	MemoryHostVisible  = 0x2 // VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
	MemoryHostCoherent = 0x4 // VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
	MemoryHostCached   = 0x8 // VK_MEMORY_PROPERTY_HOST_CACHED_BIT

	HeapDeviceLocal = 0x1 // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT

	BufferTransferSrc = 0x1  // VK_BUFFER_USAGE_TRANSFER_SRC_BIT
	BufferTransferDst = 0x2  // VK_BUFFER_USAGE_TRANSFER_DST_BIT
	BufferStorage     = 0x20 // VK_BUFFER_USAGE_STORAGE_BUFFER_BIT

	StageCompute = 0x20 // VK_SHADER_STAGE_COMPUTE_BIT

	ShaderStageFullSubgroups = 0x2 // VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT

	PipelineStageComputeShader = 0x800  // VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
	PipelineStageTransfer      = 0x1000 // VK_PIPELINE_STAGE_TRANSFER_BIT
	PipelineStageBottomOfPipe  = 0x2000 // VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT
	PipelineStageHost          = 0x4000 // VK_PIPELINE_STAGE_HOST_BIT

	AccessShaderRead    = 0x20   // VK_ACCESS_SHADER_READ_BIT
	AccessShaderWrite   = 0x40   // VK_ACCESS_SHADER_WRITE_BIT
	AccessTransferRead  = 0x800  // VK_ACCESS_TRANSFER_READ_BIT
	AccessTransferWrite = 0x1000 // VK_ACCESS_TRANSFER_WRITE_BIT
	AccessHostRead      = 0x2000 // VK_ACCESS_HOST_READ_BIT
	AccessHostWrite     = 0x4000 // VK_ACCESS_HOST_WRITE_BIT

	DescriptorTypeStorageBuffer = 7      // VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
	DescriptorLayoutPush        = 0x1    // VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR
	PipelineBindCompute         = 1      // VK_PIPELINE_BIND_POINT_COMPUTE
	CommandPoolResetBuffers     = 0x2    // VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
	CommandBufferOneTime        = 0x1    // VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
	SemaphoreTypeTimeline       = 1      // VK_SEMAPHORE_TYPE_TIMELINE
	QueryTypeTimestamp          = 2      // VK_QUERY_TYPE_TIMESTAMP
	QueryResult64               = 0x1    // VK_QUERY_RESULT_64_BIT
	TimeDomainDevice            = 0      // VK_TIME_DOMAIN_DEVICE_EXT
	SubgroupBasic               = 0x1    // VK_SUBGROUP_FEATURE_BASIC_BIT
	SubgroupArithmetic          = 0x4    // VK_SUBGROUP_FEATURE_ARITHMETIC_BIT
	SubgroupBallot              = 0x8    // VK_SUBGROUP_FEATURE_BALLOT_BIT
	SubgroupShuffle             = 0x10   // VK_SUBGROUP_FEATURE_SHUFFLE_BIT
	ValidateOnGPU               = 0      // VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT
	ValidateOnGPUSlot           = 1      // VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT
	ValidateSynchronization     = 4      // VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
	SeverityWarning             = 0x100  // VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
	SeverityError               = 0x1000 // VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT
	MessageGeneral              = 0x1    // VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT
	MessageValidation           = 0x2    // VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
	MessagePerformance          = 0x4    // VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT
)

// Sizes.
const WholeSize = ^uint64(0) // VK_WHOLE_SIZE

// Result is VkResult; other than Success it is an error.
type Result int32

// Results that callers distinguish.
const (
	Success                  Result = 0           // VK_SUCCESS
	NotReady                 Result = 1           // VK_NOT_READY
	Timeout                  Result = 2           // VK_TIMEOUT
	Incomplete               Result = 5           // VK_INCOMPLETE
	ErrorOutOfHostMemory     Result = -1          // VK_ERROR_OUT_OF_HOST_MEMORY
	ErrorOutOfDeviceMemory   Result = -2          // VK_ERROR_OUT_OF_DEVICE_MEMORY
	ErrorInitialization      Result = -3          // VK_ERROR_INITIALIZATION_FAILED
	ErrorDeviceLost          Result = -4          // VK_ERROR_DEVICE_LOST
	ErrorMemoryMap           Result = -5          // VK_ERROR_MEMORY_MAP_FAILED
	ErrorLayerNotPresent     Result = -6          // VK_ERROR_LAYER_NOT_PRESENT
	ErrorExtensionNotPresent Result = -7          // VK_ERROR_EXTENSION_NOT_PRESENT
	ErrorFeatureNotPresent   Result = -8          // VK_ERROR_FEATURE_NOT_PRESENT
	ErrorIncompatibleDriver  Result = -9          // VK_ERROR_INCOMPATIBLE_DRIVER
	ErrorTooManyObjects      Result = -10         // VK_ERROR_TOO_MANY_OBJECTS
	ErrorFragmentation       Result = -1000161000 // VK_ERROR_FRAGMENTATION
	ErrorUnknown             Result = -13         // VK_ERROR_UNKNOWN
)

func (r Result) Error() string {
	switch r {
	case Success:
		return "success"
	case NotReady:
		return "not ready"
	case Timeout:
		return "timeout"
	case Incomplete:
		return "incomplete"
	case ErrorOutOfHostMemory:
		return "out of host memory"
	case ErrorOutOfDeviceMemory:
		return "out of device memory"
	case ErrorInitialization:
		return "initialisation failed"
	case ErrorDeviceLost:
		return "device lost"
	case ErrorMemoryMap:
		return "memory map failed"
	case ErrorLayerNotPresent:
		return "layer not present"
	case ErrorExtensionNotPresent:
		return "extension not present"
	case ErrorFeatureNotPresent:
		return "feature not present"
	case ErrorIncompatibleDriver:
		return "no driver"
	case ErrorTooManyObjects:
		return "too many objects"
	case ErrorFragmentation:
		return "memory is fragmented"
	}
	return "VkResult " + strconv.Itoa(int(r))
}
