package driver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
)

// process owns what the process has of Vulkan: the loader, and an instance for each kind that was asked for, with its
// list of devices. All devices share them, and they live as long as the process: NVIDIA's driver (580) fails after some
// twenty to thirty instances, even if each is destroyed before the next is made. What could not be opened is tried
// again when it is next asked for.
var process shares

type shares struct {
	sync.Mutex
	search    *search // nil: nobody looked yet
	library   *vk.Library
	instances map[instanceKind]*instance
	count     Count
}

// find returns the places of the loader and the drivers. The lock is held.
func (p *shares) find() *search {
	if p.search == nil {
		p.search = newSearch()
	}
	return p.search
}

// Count says how often the process opened something.
type Count struct {
	Instances int // now there, for none is ever destroyed
	Devices   int // opened so far
	Open      int // of them not closed yet
}

func (c Count) String() string {
	return fmt.Sprintf("opened %d devices, %d of them not closed, on %d instances of Vulkan", c.Devices, c.Open, c.Instances)
}

// Counted returns the process's counts.
func Counted() Count {
	process.Lock()
	defer process.Unlock()
	return process.count
}

// counted adds to the numbers of devices.
func counted(devices, open int) {
	process.Lock()
	defer process.Unlock()
	process.count.Devices += devices
	process.count.Open += open
}

// instanceKind distinguishes instances: their abilities are fixed when they are made.
type instanceKind struct {
	validated bool // by the validation layer
	assisted  bool // which looks at the addresses of every access instead of missing barriers
}

// instance is a Vulkan instance of the process.
type instance struct {
	vk   *vk.Instance
	hear listeners

	mu    sync.Mutex // held while devices are listed and made: Debian 12's layer crashes where two threads make one
	known []Physical // listed before; a GPU that is plugged in later is not seen
}

// listeners get the validation layer's messages. These do not name a device, so all listeners get them.
type listeners struct {
	mu  sync.Mutex
	all map[int]func(string)
	key int
}

// add has f told until stop is called. No f listens to nothing.
func (l *listeners) add(f func(string)) (stop func()) {
	if f == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[int]func(string){}
	}
	l.key++
	key := l.key
	l.all[key] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, key)
	}
}

// tell is called on any thread.
func (l *listeners) tell(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		f(message)
	}
}

// shared returns the process's instance for messages, which may be nil, and how to stop telling them.
func shared(messages func(string), assisted bool) (i *instance, stop func(), err error) {
	process.Lock()
	defer process.Unlock()
	kind := instanceKind{validated: messages != nil, assisted: messages != nil && assisted}
	if i := process.instances[kind]; i != nil {
		return i, i.hear.add(messages), nil
	}
	if process.library == nil {
		s := process.find()
		s.help(os.Setenv)
		if process.library, err = loader(s); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrNone, err)
		}
	}
	i = &instance{}
	stop = i.hear.add(messages)
	if i.vk, err = newInstance(process.library, kind, i.hear.tell); err != nil {
		return nil, nil, err
	}
	if process.instances == nil {
		process.instances = map[instanceKind]*instance{}
	}
	process.instances[kind] = i
	process.count.Instances++
	return i, stop, nil
}

// loader opens the loader.
func loader(s *search) (*vk.Library, error) { return vk.Load(s.loaders()...) }

const validationLayer = "VK_LAYER_KHRONOS_validation"

// newInstance makes an instance. messages gets the validation layer's messages, if kind has one.
func newInstance(lib *vk.Library, kind instanceKind, messages func(string)) (*vk.Instance, error) {
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
	if kind.validated {
		layers, err := lib.Layers()
		if err != nil || !slices.Contains(layers, validationLayer) {
			return nil, fmt.Errorf("the Vulkan layer %s is not installed", validationLayer)
		}
		o.Layers, o.Extensions = []string{validationLayer}, append(o.Extensions, "VK_EXT_debug_utils")
		o.Validate, o.Messages = []uint32{vk.ValidateSynchronization}, messages
		if kind.assisted {
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
	return i, nil
}

// physicals lists the devices with their abilities and their free memory. i.mu is held.
func (i *instance) physicals() ([]Physical, error) {
	if len(i.known) > 0 {
		all := slices.Clone(i.known)
		for k := range all {
			i.describeMemory(&all[k])
		}
		return all, nil
	}
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
	i.known = slices.Clone(all)
	return all, nil
}

// infos are the descriptions of all.
func infos(all []Physical) []Info {
	list := make([]Info, len(all))
	for k := range all {
		list[k] = all[k].Info
	}
	return list
}
