package driver

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// ErrNone is the error of a machine without a GPU, a driver or a loader, or of a binary built without GPU support:
// computing goes on elsewhere. What it wraps says which.
var ErrNone = errors.New("no GPU")

// Names that are no device's own.
const (
	None     = "none"     // no device, for Open an error that is ErrNone
	Software = "lavapipe" // Mesa's CPU device, whatever it calls itself
)

// Info describes a device of the machine.
type Info struct {
	Index  int    // among all devices, as --device takes it
	Name   string // of the model
	Kind   Kind
	Driver string // name and version
	UUID   string // of this very GPU, in hex
	Memory int64  // bytes of device memory
	Free   int64  // bytes of it that the driver would give this process now; Memory where it does not say
	Lacks  string // why it cannot be used; empty if it can

	allocation allocation
}

// Kind is the kind of processor that a device is.
type Kind int

// The kinds of devices.
const (
	Other Kind = iota
	Integrated
	Discrete
	Virtual
	CPU // Vulkan on the processor: for tests, never chosen unless named
)

func (k Kind) String() string {
	return [...]string{"other", "integrated", "discrete", "virtual", "software"}[k]
}

func kind(t uint32) Kind {
	switch t {
	case vk.DeviceIntegrated:
		return Integrated
	case vk.DeviceDiscrete:
		return Discrete
	case vk.DeviceVirtual:
		return Virtual
	case vk.DeviceCPU:
		return CPU
	}
	return Other
}

// Devices lists what the machine has, in the drivers' order. The error is ErrNone where there is nothing.
func Devices() ([]Info, error) {
	i, err := openInstance(nil, false)
	if err != nil {
		return nil, err
	}
	defer i.vk.Destroy()
	all, err := i.physicals()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(all))
	for k := range all {
		infos[k] = all[k].Info
	}
	return infos, nil
}

// instance is a Vulkan instance.
type instance struct{ vk *vk.Instance }

const validationLayer = "VK_LAYER_KHRONOS_validation"

// openInstance makes an instance, with the validation layer if messages is not nil: it looks for missing barriers or,
// if assisted, at the addresses of every access.
func openInstance(messages func(string), assisted bool) (*instance, error) {
	lib, err := vk.Load()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	version, err := lib.Version()
	if err != nil || version < vk.APIVersion12 {
		return nil, fmt.Errorf("%w: the Vulkan loader is older than 1.2", ErrNone)
	}
	var o vk.InstanceOptions
	extensions, err := lib.Extensions("")
	if err != nil {
		return nil, fmt.Errorf("the Vulkan loader's extensions: %w", err)
	}
	if name := "VK_KHR_portability_enumeration"; slices.Contains(extensions, name) { // MoltenVK hides without it
		o.Extensions, o.Flags = append(o.Extensions, name), vk.InstanceEnumeratePortability
	}
	if messages != nil {
		layers, err := lib.Layers()
		if err != nil || !slices.Contains(layers, validationLayer) {
			return nil, fmt.Errorf("the Vulkan layer %s is not installed", validationLayer)
		}
		o.Layers, o.Extensions = []string{validationLayer}, append(o.Extensions, "VK_EXT_debug_utils")
		o.Validate, o.Messages = []uint32{vk.ValidateSynchronization}, messages
		if assisted {
			o.Validate = []uint32{vk.ValidateOnGPU, vk.ValidateOnGPUSlot}
		}
	}
	i, err := lib.CreateInstance(min(version, vk.APIVersion13), o) // shaders for workgroups' matrices are SPIR-V 1.6
	if errors.Is(err, vk.ErrorIncompatibleDriver) {
		return nil, fmt.Errorf("%w: no Vulkan driver is installed", ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("starting Vulkan: %w", err)
	}
	return &instance{i}, nil
}

// physicals lists the devices with what they can do.
func (i *instance) physicals() ([]Physical, error) {
	handles, err := i.vk.PhysicalDevices()
	if err != nil {
		return nil, fmt.Errorf("the devices of Vulkan: %w", err)
	}
	if len(handles) == 0 {
		return nil, fmt.Errorf("%w: no Vulkan driver found a device", ErrNone)
	}
	all := make([]Physical, len(handles))
	for k, h := range handles {
		if all[k], err = i.describe(h, k); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Choose returns the number of the device that name means: an index, a part of a name, Software, or, if empty, the best
// of those that are no software.
func Choose(all []Info, name string) (int, error) {
	if name == "" {
		best := -1
		for k, d := range all {
			if d.Kind != CPU && d.Lacks == "" && (best < 0 || rank(d) > rank(all[best])) {
				best = k
			}
		}
		if best >= 0 {
			return best, nil
		}
		for _, d := range all {
			if d.Kind != CPU {
				return 0, fmt.Errorf("%w that can be used: %s %s", ErrNone, d.Name, d.Lacks)
			}
		}
		return 0, setting.Errorf("%w: Vulkan has only a software device here (it can be asked for by %s)", ErrNone, setting.Devices.To(Software))
	}
	for k, d := range all {
		if strconv.Itoa(d.Index) == name || strings.EqualFold(d.Name, name) {
			return usable(all, k)
		}
	}
	_, notNumber := strconv.Atoi(name)
	for k, d := range all {
		if notNumber != nil && strings.Contains(strings.ToLower(d.Name), strings.ToLower(name)) || name == Software && d.Kind == CPU {
			return usable(all, k)
		}
	}
	return 0, fmt.Errorf("no device is called %q; there are: %s", name, listed(all))
}

func usable(all []Info, k int) (int, error) {
	if all[k].Lacks != "" {
		return 0, fmt.Errorf("device %d (%s) cannot be used: it %s", all[k].Index, all[k].Name, all[k].Lacks)
	}
	return k, nil
}

// rank prefers GPUs over integrated processors, and then memory.
func rank(d Info) int64 {
	if d.Kind == Discrete {
		return 1<<62 + d.Memory
	}
	return d.Memory
}

func listed(all []Info) string {
	var s []string
	for _, d := range all {
		s = append(s, fmt.Sprintf("%d (%s)", d.Index, d.Name))
	}
	return strings.Join(s, ", ")
}

// Pinned pins pointers until the returned function is called.
func Pinned(all ...any) func() {
	var p runtime.Pinner
	for _, x := range all {
		p.Pin(x)
	}
	return p.Unpin
}
