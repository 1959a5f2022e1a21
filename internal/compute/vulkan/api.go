package vulkan

import "github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"

// What users of the device need of the driver.
type (
	Info        = driver.Info
	Kind        = driver.Kind
	Count       = driver.Count
	Installed   = driver.Installed
	OutOfMemory = driver.OutOfMemory
)

// The kinds of devices.
const (
	Other      = driver.Other
	Integrated = driver.Integrated
	Discrete   = driver.Discrete
	Virtual    = driver.Virtual
	CPU        = driver.CPU
)

// Names that are no device's own.
const (
	None     = driver.None
	Software = driver.Software
)

// The errors of a machine without a GPU, and of a GPU that stopped working.
var (
	ErrNone = driver.ErrNone
	ErrLost = driver.ErrLost
)

// Devices lists the machine's devices, in the drivers' order. The error is ErrNone if there are none.
func Devices() ([]Info, error) { return driver.Devices() }

// Counted returns how many devices and instances the process opened.
func Counted() Count { return driver.Counted() }

// Found looks for what of Vulkan is installed. It loads drivers.
func Found() *Installed { return driver.Found() }
