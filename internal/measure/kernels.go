package measure

import (
	"context"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Kernel is the processor's kernel that was chosen by measuring for one token's products with weights of one type. Loading a model chooses
// anew, on its own weights.
type Kernel struct {
	Type string `json:"type"`
	// Scattered: of rows chosen by index, as those of predicted neurons
	Scattered bool `json:"scattered,omitempty"`
	// Prompts: of many tokens, by tiles of the processor's matrix unit or by vectors
	Prompts bool          `json:"prompts,omitempty"`
	Cols    int           `json:"cols"`   // elements of the rows measured; rows of about that length go by the same kernel
	Chosen  string        `json:"chosen"` // as --kernels names it
	Usual   string        `json:"usual"`  // taken without measuring, and where no other is clearly faster
	Speeds  []KernelSpeed `json:"speeds"` // of all kernels there are for the type
}

// KernelSpeed is a kernel's speed in bytes of weights a second, with all cores; of prompts in bytes times tokens, with one.
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

// Why says in a few words why the kernel was chosen.
func (k *Kernel) Why() string {
	if k.Chosen != k.Usual {
		return fmt.Sprintf("%.2f times as fast as %s, the usual one", k.Speed(k.Chosen)/k.Speed(k.Usual), k.Usual)
	}
	return "usual; no other is clearly faster"
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

// kernelBytes are the weights that kernels are measured on: more than the least that loading a model measures on.
const kernelBytes = 32 << 20

// kernelCols returns lengths of rows, in elements, as models of one to seventy billion weights have them.
func kernelCols() []int { return []int{2048, 4096, 8192, 14336, 28672} }

// scatteredCols is the length of the rows chosen by index, in elements, that are measured: that of a seven billion model's neurons. Those of all lengths
// go by one kernel.
const scatteredCols = 4096

// kernelSteps returns how many figures measuring kernels takes.
func kernelSteps() int { return len(cpu.TunableTypes(false)) + len(cpu.TunableTypes(true)) }

// measureKernels fills in Kernels, with all cores. The weights are zeros: products take as long whatever they are.
func (m *Machine) measureKernels(ctx context.Context, step func()) error {
	m.Kernels = []Kernel{}
	zeros := make([]byte, kernelBytes)
	for _, scattered := range []bool{false, true} {
		for _, t := range cpu.TunableTypes(scattered) {
			err := ctx.Err()
			switch {
			case err != nil:
			case scattered:
				err = m.measureShape(t, scatteredCols, compute.Rows, zeros)
			default:
				err = m.measureType(t, zeros)
			}
			if err != nil {
				return err
			}
			step()
		}
	}
	return nil
}

// measureType adds the kernels of weights of type t, one for each length of rows that has its own.
func (m *Machine) measureType(t quant.Type, zeros []byte) error {
	for i, cols := range kernelCols() {
		if i > 0 && cpu.SameKernel(t, cols, kernelCols()[i-1]) {
			continue
		}
		if err := m.measureShape(t, cols, compute.Dense, zeros); err != nil {
			return err
		}
	}
	return nil
}

// measureShape adds the kernel of weights of type t and such use with rows of cols elements, unless loading rounds them to another type.
func (m *Machine) measureShape(t quant.Type, cols int, use compute.Use, zeros []byte) error {
	d, err := cpu.New(cpu.Options{Threads: m.Cores, Kernels: cpu.KernelsAuto})
	if err != nil {
		return err
	}
	defer d.Close()
	rows := len(zeros) / t.RowBytes(cols)
	src := compute.Source{Name: "kernels", Type: t, Rows: rows, Cols: cols, Data: zeros[:rows*t.RowBytes(cols)]}
	w, err := d.Matrix(src, use)
	if err != nil || w.Type != t {
		return err
	}
	d.Tune()
	for _, c := range d.Choices() {
		k := Kernel{Type: c.Type.String(), Scattered: c.Scattered, Prompts: c.Prompts, Cols: c.Cols, Chosen: c.Kernel, Usual: c.Usual}
		for _, s := range c.Speeds {
			k.Speeds = append(k.Speeds, KernelSpeed(s))
		}
		m.Kernels = append(m.Kernels, k)
	}
	return nil
}
