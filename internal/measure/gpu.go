package measure

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// ID identifies the GPU; if it changes, the GPU is measured again.
type ID struct {
	Name     string `json:"name"`
	Driver   string `json:"driver"` // with its version
	UUID     string `json:"uuid"`
	Memory   int64  `json:"memory"`          // bytes
	Software bool   `json:"software"`        // it computes on the CPU
	Spare    bool   `json:"spare,omitempty"` // it computes only if it is named, because others are GPUs or better
}

// Found is a GPU that the machine has, before it is measured.
type Found struct {
	ID
	Lacks string                 // why it cannot be used; empty if it can
	Open  func() (Device, error) // nil if it cannot be opened
}

// Device measures a GPU; the device that computes on it implements it.
type Device interface {
	compute.Device
	// ReadBandwidth returns what its memory gives to a kernel that reads far more than its caches hold, bytes per
	// second.
	ReadBandwidth() (float64, error)
	// TransferBandwidth returns the bus's bandwidth from RAM to the GPU and back, in bytes per second.
	TransferBandwidth() (up, down float64, err error)
	// HandOff returns the time from activations in RAM, through a kernel that does nothing, to a wait that has ended,
	// in seconds.
	HandOff() (float64, error)
	// Launch returns the time that starting the kernels of one layer takes in addition to what they read, in seconds.
	Launch() (float64, error)
	// Packing returns how many bytes a second of src's rows, in the file's form, are converted to the form sent to the
	// GPU. fill fills in the only matrix.
	Packing(src compute.Source, fill func(f compute.Filler)) (float64, error)
	// Products returns how many multiplications and additions a second products of a prompt with this many tokens and
	// src take.
	Products(src compute.Source, tokens int) (float64, error)
}

// GPU is the measurement of a GPU. All figures are 0 if Lacks is not empty.
type GPU struct {
	ID
	Lacks    string  `json:"lacks,omitempty"` // why nothing was measured
	Read     float64 `json:"read"`            // bytes per second of its memory
	Upload   float64 `json:"upload"`          // bytes per second
	Download float64 `json:"download"`        // bytes per second
	HandOff  float64 `json:"hand_off"`        // seconds
	Launch   float64 `json:"launch"`          // seconds a layer
	// Speeds are those of the GPU's operations in a model's layers; nil: not measured.
	Speeds *placement.Speeds `json:"speeds,omitempty"`
	// Neurons are the rates of neurons in other types than that of Speeds, by the types' names.
	Neurons map[string]Neurons `json:"neurons,omitempty"`

	// 0 if not measured.
	Products float64 `json:"products,omitempty"` // multiplications and additions a second of a prompt's products in Q4_0
	Packs    float64 `json:"packs,omitempty"`    // bytes a second, in the file's form, that all cores pack for sending
}

// Usable reports whether models may be placed on the GPU by default.
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
	if c.Speeds == nil {
		return nil
	}
	for _, t := range append(neuronTypes(), layerType) {
		if err := c.SpeedsOf(t.String()).Check(); err != nil {
			return fmt.Errorf("GPU %q: %w", c.Name, err)
		}
	}
	return nil
}

// gpuSteps returns how many figures a GPU takes.
func gpuSteps() int { return 6 + speedSteps + 2 + neuronSteps*len(neuronTypes()) }

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
		open := func() (compute.Device, error) { return f.Open() }
		measured, err = speeds(ctx, open, layers, step)
		c.Speeds = &measured
		c.Neurons = map[string]Neurons{}
		for _, t := range neuronTypes() {
			if n, failed := neuronSpeeds(ctx, open, layers, t, step); failed == nil { // a small GPU has no room for large types
				c.Neurons[t.String()] = n
			}
		}
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

// gpuTokens is the length of the prompt for timing products on a GPU, which is faster with more tokens.
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
