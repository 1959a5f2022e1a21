package vk

import (
	"runtime"
	"sync"
	"unsafe"
)

// Instance is a VkInstance with its functions.
type Instance struct {
	handle    uintptr
	messenger DebugUtilsMessenger
	messages  runtime.Pinner // what the messenger's callback is given
	fn        struct {
		DestroyInstance                                                  proc
		EnumeratePhysicalDevices                                         proc
		GetPhysicalDeviceProperties2                                     proc
		GetPhysicalDeviceFeatures2                                       proc
		GetPhysicalDeviceMemoryProperties2                               proc
		GetPhysicalDeviceQueueFamilyProperties                           proc
		EnumerateDeviceExtensionProperties                               proc
		CreateDevice                                                     proc
		GetDeviceProcAddr                                                proc
		GetPhysicalDeviceCooperativeMatrixPropertiesKHR                  proc
		GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV proc
		CreateDebugUtilsMessengerEXT                                     proc
		DestroyDebugUtilsMessengerEXT                                    proc
	}
}

// InstanceOptions are the choices made when an instance is created.
type InstanceOptions struct {
	Layers, Extensions []string
	Flags              uint32
	Validate           []uint32     // features of the validation layer, VK_VALIDATION_FEATURE_ENABLE_…
	Messages           func(string) // gets messages of layers and drivers, on any thread; nil: there are none
}

// messageSink is the user data of a messenger's callback.
type messageSink struct{ tell func(string) }

// messageCallback is the C function of all messengers: there is no way to free one.
var messageCallback = sync.OnceValue(func() uintptr {
	return callback(func(_, _ uint32, data *DebugUtilsMessengerCallbackData, user *messageSink) uintptr {
		user.tell(text(data.PMessageIdName) + ": " + text(data.PMessage))
		return 0
	})
})

// CreateInstance makes an instance of API version api.
func (l *Library) CreateInstance(api uint32, o InstanceOptions) (*Instance, error) {
	i := &Instance{}
	var pin runtime.Pinner
	defer pin.Unpin()
	app := &ApplicationInfo{SType: StructureTypeApplicationInfo, ApiVersion: api}
	pin.Pin(app)
	info := &InstanceCreateInfo{SType: StructureTypeInstanceCreateInfo, Flags: o.Flags, PApplicationInfo: app}
	info.EnabledLayerCount, info.PpEnabledLayerNames = names(&pin, o.Layers)
	info.EnabledExtensionCount, info.PpEnabledExtensionNames = names(&pin, o.Extensions)
	messenger := &DebugUtilsMessengerCreateInfo{
		SType: StructureTypeDebugUtilsMessengerCreateInfo, MessageSeverity: SeverityWarning | SeverityError,
		MessageType: MessageGeneral | MessageValidation | MessagePerformance,
	}
	pin.Pin(messenger)
	if o.Messages != nil {
		sink := &messageSink{o.Messages}
		i.messages.Pin(sink)
		messenger.PfnUserCallback, messenger.PUserData = messageCallback(), unsafe.Pointer(sink)
		info.PNext = unsafe.Pointer(messenger) // for messages of vkCreateInstance and vkDestroyInstance themselves
	}
	if len(o.Validate) > 0 {
		validate := &ValidationFeatures{
			SType: StructureTypeValidationFeatures, PNext: info.PNext,
			EnabledValidationFeatureCount: uint32(len(o.Validate)), PEnabledValidationFeatures: &o.Validate[0],
		}
		pin.Pin(validate)
		pin.Pin(&o.Validate[0])
		info.PNext = unsafe.Pointer(validate)
	}
	if err := result(l.fn.CreateInstance.call(uintptr(ptr(info)), 0, uintptr(ptr(&i.handle)))); err != nil {
		i.messages.Unpin()
		return nil, err
	}
	if err := load(&i.fn, func(name *byte) proc { return l.find(i.handle, name) }); err != nil {
		return nil, err
	}
	if o.Messages != nil {
		err := result(i.fn.CreateDebugUtilsMessengerEXT.call(i.handle, uintptr(ptr(messenger)), 0, uintptr(ptr(&i.messenger))))
		if err != nil {
			i.destroy()
			return nil, err
		}
	}
	return i, nil
}

// names are s as C strings, pinned.
func names(pin *runtime.Pinner, s []string) (uint32, **byte) {
	if len(s) == 0 {
		return 0, nil
	}
	c := make([]*byte, len(s))
	for i := range s {
		c[i] = CString(s[i])
		pin.Pin(c[i])
	}
	pin.Pin(&c[0])
	return uint32(len(c)), &c[0]
}

// destroy ends an instance that was not made whole. Others live as long as the process.
func (i *Instance) destroy() {
	if i.messenger != 0 {
		i.fn.DestroyDebugUtilsMessengerEXT.call(i.handle, uintptr(i.messenger), 0)
	}
	i.fn.DestroyInstance.call(i.handle, 0)
	i.messages.Unpin()
}

// PhysicalDevices lists the devices of all drivers.
func (i *Instance) PhysicalDevices() ([]PhysicalDevice, error) {
	return list(func(n *uint32, all *PhysicalDevice) error {
		return result(i.fn.EnumeratePhysicalDevices.call(i.handle, uintptr(ptr(n)), uintptr(ptr(all))))
	})
}

// Properties fills p and the structures chained to it, which are pinned.
func (i *Instance) Properties(d PhysicalDevice, p *PhysicalDeviceProperties2) {
	i.fn.GetPhysicalDeviceProperties2.call(uintptr(d), uintptr(ptr(p)))
}

// Features fills f and the structures chained to it, which are pinned.
func (i *Instance) Features(d PhysicalDevice, f *PhysicalDeviceFeatures2) {
	i.fn.GetPhysicalDeviceFeatures2.call(uintptr(d), uintptr(ptr(f)))
}

// MemoryProperties fills p and the structures chained to it, which are pinned.
func (i *Instance) MemoryProperties(d PhysicalDevice, p *PhysicalDeviceMemoryProperties2) {
	i.fn.GetPhysicalDeviceMemoryProperties2.call(uintptr(d), uintptr(ptr(p)))
}

// QueueFamilies lists the kinds of queues of d.
func (i *Instance) QueueFamilies(d PhysicalDevice) []QueueFamilyProperties {
	all, _ := list(func(n *uint32, all *QueueFamilyProperties) error { // the call has no result
		i.fn.GetPhysicalDeviceQueueFamilyProperties.call(uintptr(d), uintptr(ptr(n)), uintptr(ptr(all)))
		return nil
	})
	return all
}

// DeviceExtensions lists the names of what d can be extended with.
func (i *Instance) DeviceExtensions(d PhysicalDevice) ([]string, error) {
	all, err := list(func(n *uint32, all *ExtensionProperties) error {
		return result(i.fn.EnumerateDeviceExtensionProperties.call(uintptr(d), 0, uintptr(ptr(n)), uintptr(ptr(all))))
	})
	return extensionNames(all), err
}

// CooperativeMatrices lists the shapes that d multiplies. It has VK_KHR_cooperative_matrix.
func (i *Instance) CooperativeMatrices(d PhysicalDevice) ([]CooperativeMatrixProperties, error) {
	if i.fn.GetPhysicalDeviceCooperativeMatrixPropertiesKHR == 0 { // by an older loader
		return nil, nil
	}
	return typed(func(n *uint32, all *CooperativeMatrixProperties) error {
		return result(i.fn.GetPhysicalDeviceCooperativeMatrixPropertiesKHR.call(uintptr(d), uintptr(ptr(n)), uintptr(ptr(all))))
	}, func(p *CooperativeMatrixProperties) { p.SType = StructureTypeCooperativeMatrixProperties })
}

// FlexibleMatrices lists the granularities of the shapes that d multiplies. It has VK_NV_cooperative_matrix2.
func (i *Instance) FlexibleMatrices(d PhysicalDevice) ([]CooperativeMatrixFlexibleDimensionsProperties, error) {
	if i.fn.GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV == 0 { // by an older loader
		return nil, nil
	}
	return typed(func(n *uint32, all *CooperativeMatrixFlexibleDimensionsProperties) error {
		return result(i.fn.GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV.call(uintptr(d), uintptr(ptr(n)), uintptr(ptr(all))))
	}, func(p *CooperativeMatrixFlexibleDimensionsProperties) {
		p.SType = StructureTypeCooperativeMatrixFlexibleDimensions
	})
}

// CreateDevice makes a device with one queue of each of the families, which differ, and with the features chained at
// features, which are pinned.
func (i *Instance) CreateDevice(d PhysicalDevice, families []uint32, extensions []string, features *PhysicalDeviceFeatures2) (*Device, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	priority := float32(1)
	queues := make([]DeviceQueueCreateInfo, len(families))
	for k, family := range families {
		queues[k] = DeviceQueueCreateInfo{SType: StructureTypeDeviceQueueCreateInfo, QueueFamilyIndex: family, QueueCount: 1, PQueuePriorities: &priority}
	}
	pin.Pin(&priority)
	pin.Pin(&queues[0])
	pin.Pin(features)
	info := &DeviceCreateInfo{SType: StructureTypeDeviceCreateInfo, PNext: unsafe.Pointer(features), QueueCreateInfoCount: uint32(len(queues)), PQueueCreateInfos: &queues[0]}
	info.EnabledExtensionCount, info.PpEnabledExtensionNames = names(&pin, extensions)
	dev := &Device{queues: make([]Queue, len(families))}
	if err := result(i.fn.CreateDevice.call(uintptr(d), uintptr(ptr(info)), 0, uintptr(ptr(&dev.handle)))); err != nil {
		return nil, err
	}
	err := load(&dev.fn, func(name *byte) proc { return proc(i.fn.GetDeviceProcAddr.call(dev.handle, uintptr(ptr(name)))) })
	if err != nil {
		return nil, err
	}
	for k, family := range families {
		dev.fn.GetDeviceQueue.call(dev.handle, uintptr(family), 0, uintptr(ptr(&dev.queues[k])))
	}
	return dev, nil
}
