package measure

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
)

// Kernel is the CPU kernel that measuring chose for products with weights of one type. Loading a model chooses again,
// on its own weights.
type Kernel struct {
	Type string `json:"type"`
	// Scattered: rows chosen by index, such as those of predicted neurons
	Scattered bool `json:"scattered,omitempty"`
	// Mapped: rows in the file's layout, for --no-repack
	Mapped bool          `json:"mapped,omitempty"`
	Cols   int           `json:"cols"`   // elements of the rows measured; rows of about that length go by the same kernel
	Chosen string        `json:"chosen"` // as --kernels names it
	Usual  string        `json:"usual"`  // taken without measuring, and if no other is clearly faster
	Why    string        `json:"why"`    // in a few words; empty in files of a version that read from caches
	Speeds []KernelSpeed `json:"speeds"` // of all kernels for the type
}

// KernelSpeed is a kernel's speed in bytes of weights a second, with all cores.
type KernelSpeed struct {
	Kernel string  `json:"kernel"`
	Speed  float64 `json:"speed"`
}

// Speed returns the speed of the kernel of that name; 0: it was not measured.
func (k *Kernel) Speed(name string) float64 {
	for _, s := range k.Speeds {
		if s.Kernel == name {
			return s.Speed
		}
	}
	return 0
}

func (k *Kernel) check() error {
	if k.Speed(k.Chosen) == 0 || k.Speed(k.Usual) == 0 {
		return fmt.Errorf("kernels: %s has no speed of %q or of %q", k.Type, k.Chosen, k.Usual)
	}
	for _, s := range k.Speeds {
		if !plausible(s.Speed) {
			return fmt.Errorf("kernels: %g bytes/s with %s on %s is no speed", s.Speed, s.Kernel, k.Type)
		}
	}
	return nil
}

// kernelSteps returns how many figures measuring kernels takes.
func kernelSteps() int { return len(cpu.Shapes()) }

// TakeKernels sets m.Kernels. progress gets the steps done, and the number of all steps.
func (m *Machine) TakeKernels(ctx context.Context, progress func(done, total int64)) error {
	done := int64(0)
	return m.takeKernels(ctx, buffered(), func() {
		if done++; progress != nil {
			progress(done, int64(kernelSteps()))
		}
	})
}

// takeKernels sets m.Kernels, with all cores, over this many bytes of memory: far more than caches hold, like a model's
// weights. Weights are zeros, because products take as long with any values.
func (m *Machine) takeKernels(ctx context.Context, bytes int, step func()) error {
	m.Kernels = []Kernel{}
	d, err := cpu.New(cpu.Options{Threads: m.Cores})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, mapped := range []bool{false, true} {
		if err := m.measureShapes(ctx, d, mapped, bytes, step); err != nil {
			return err
		}
	}
	for _, c := range d.Choices() {
		k := Kernel{
			Type: c.Type.String(), Scattered: c.Scattered(), Mapped: c.Mapped(), Cols: c.Cols,
			Chosen: c.Kernel, Usual: c.Usual, Why: c.Why,
		}
		for _, s := range c.Speeds {
			k.Speeds = append(k.Speeds, KernelSpeed(s))
		}
		m.Kernels = append(m.Kernels, k)
	}
	return nil
}

// measureShapes makes d choose kernels for all shapes with packed rows, in huge pages, or with mapped ones, in small
// pages like a file's.
func (m *Machine) measureShapes(ctx context.Context, d *cpu.Device, mapped bool, bytes int, step func()) error {
	buf, release, err := buffer(bytes, !mapped)
	if err != nil {
		return fmt.Errorf("measuring kernels takes %d MiB of memory, so close other programs: %w", bytes>>20, err)
	}
	defer release()
	clear(buf) // unwritten pages are all the same one
	at := 0
	for _, s := range cpu.Shapes() {
		if s.Mapped() != mapped {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		at = d.TuneOn(s, buf, at)
		step()
	}
	return nil
}
