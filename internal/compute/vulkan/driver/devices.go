package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// ErrNone means that the machine has no GPU, driver or loader, or that the binary was built without GPU support:
// another device computes. The wrapped error says which.
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
	Free   int64  // bytes of it that the driver would give this process now; Memory if the driver does not say
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

// Devices lists the machine's devices, in the drivers' order. The error is ErrNone if there are none.
func Devices() ([]Info, error) {
	i, _, err := shared(nil, false)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	all, err := i.physicals()
	if err != nil {
		return nil, err
	}
	return infos(all), nil
}

// Choose returns the index of the device of a name: an index, a part of a name, Software, or, if empty, the best one
// except software.
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
