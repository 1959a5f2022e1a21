package measure

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// ID says which GPU it is; where it changes, the GPU is measured anew.
type ID struct {
	Name     string `json:"name"`
	Driver   string `json:"driver"` // with its version
	UUID     string `json:"uuid"`
	Memory   int64  `json:"memory"`          // bytes
	Software bool   `json:"software"`        // it computes on the processor
	Spare    bool   `json:"spare,omitempty"` // it computes only where it is named, beside others that are GPUs or better
}

// Found is a GPU that the machine has, before it is measured.
type Found struct {
	ID
	Lacks string                 // why it cannot be used; empty if it can
	Open  func() (Device, error) // nil where it cannot
}

// Device is what is measured of a GPU; the device that computes on it implements it.
type Device interface {
	compute.Device
	// ReadBandwidth returns what its memory gives to a kernel that reads far more than its caches hold, bytes per
	// second.
	ReadBandwidth() (float64, error)
	// TransferBandwidth returns what the bus gives from RAM to the GPU and back, bytes per second.
	TransferBandwidth() (up, down float64, err error)
	// HandOff returns the time from activations in RAM, through a kernel that does nothing, to a wait that has ended,
	// in seconds.
	HandOff() (float64, error)
	// Launch returns the time that the kernels of one layer take to start beyond what they read, in seconds.
	Launch() (float64, error)
	// Packing returns how many bytes of src's rows, as a file has them, are brought into the form that is sent to the
	// GPU, a second. fill fills in the only matrix.
	Packing(src compute.Source, fill func(f compute.Filler)) (float64, error)
	// Products returns how many multiplications and additions a second products of a prompt of so many tokens with src
	// take.
	Products(src compute.Source, tokens int) (float64, error)
}

// GPU is what was measured of a GPU. All figures are 0 where Lacks is not empty.
type GPU struct {
	ID
	Lacks    string  `json:"lacks,omitempty"` // why nothing was measured
	Read     float64 `json:"read"`            // bytes per second of its memory
	Upload   float64 `json:"upload"`          // bytes per second
	Download float64 `json:"download"`        // bytes per second
	HandOff  float64 `json:"hand_off"`        // seconds
	Launch   float64 `json:"launch"`          // seconds a layer
	// Speeds are what the GPU's operations reach in a model's layers; nil: they were not measured.
	Speeds *placement.Speeds `json:"speeds,omitempty"`

	// 0 where it was not measured.
	Products float64 `json:"products,omitempty"` // multiplications and additions a second of a prompt's products in Q4_0
	Packs    float64 `json:"packs,omitempty"`    // bytes a second, as in a file, that all cores pack to be sent to it
}

// Usable reports whether models may be placed on the GPU without being told to.
func (c *GPU) Usable() bool { return c.Lacks == "" && !c.Software && !c.Spare }

// check reports figures that no GPU has.
func (c *GPU) check() error {
	if c.Lacks != "" {
		return nil
	}
	for _, v := range []float64{c.Read, c.Upload, c.Download} {
		if !plausible(v) {
			return fmt.Errorf("GPU %q: %g bytes/s is no bandwidth", c.Name, v)
		}
	}
	for _, v := range []float64{c.Products, c.Packs} {
		if v != 0 && !plausible(v) {
			return fmt.Errorf("GPU %q: %g multiplications or packed bytes a second are nothing that a machine does", c.Name, v)
		}
	}
	if !(c.HandOff >= 0 && c.HandOff < 1) || !(c.Launch >= 0 && c.Launch < 1) {
		return fmt.Errorf("GPU %q: %g s to hand off and %g s to launch are no latencies", c.Name, c.HandOff, c.Launch)
	}
	if c.Speeds != nil {
		if err := c.Speeds.Check(); err != nil {
			return fmt.Errorf("GPU %q: %w", c.Name, err)
		}
	}
	return nil
}

// gpuSteps is how many figures a GPU takes.
const gpuSteps = 6 + speedSteps

// gpuLayers are the bytes of weights that each part of a layer is measured with on a GPU: several times the largest
// second-level caches.
const gpuLayers = 256 << 20

// take measures the GPU; what fails is said in Lacks.
func (c *GPU) take(ctx context.Context, f *Found, layers layerTrial, step func()) {
	if c.Lacks = f.Lacks; c.Lacks == "" && f.Open == nil {
		c.Lacks = "it cannot be opened"
	}
	if c.Lacks != "" {
		return
	}
	err := c.takeDevice(f, step)
	if err == nil {
		err = c.check()
	}
	if err == nil { // the device's memory is free again
		var measured placement.Speeds
		measured, err = speeds(ctx, func() (compute.Device, error) { return f.Open() }, layers, step)
		c.Speeds = &measured
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		*c = GPU{ID: c.ID, Lacks: err.Error()}
	}
}

// takeDevice measures memory, bus and waits, and products of prompts.
func (c *GPU) takeDevice(f *Found, step func()) error {
	g, err := f.Open()
	if err != nil {
		return err
	}
	defer g.Close()
	if c.Read, err = g.ReadBandwidth(); err != nil {
		return err
	}
	step()
	if c.Upload, c.Download, err = g.TransferBandwidth(); err != nil {
		return err
	}
	step()
	if c.HandOff, err = g.HandOff(); err != nil {
		return err
	}
	step()
	if c.Launch, err = g.Launch(); err != nil {
		return err
	}
	step()
	return c.takeProducts(g, step)
}

// gpuTokens are those of a prompt whose products are timed on a GPU, which is faster with more of them.
const gpuTokens = 512

// takeProducts measures products of prompts, and how fast weights are packed for them.
func (c *GPU) takeProducts(g Device, step func()) error {
	d, w, src, err := product(1)
	if err != nil {
		return err
	}
	defer d.Close()
	fill := func(f compute.Filler) { compute.FillFrom(f, 0, d, w, func(row int) int { return row }) }
	if c.Packs, err = g.Packing(src, fill); err != nil {
		return err
	}
	step()
	c.Products, err = g.Products(src, gpuTokens)
	step()
	return err
}
