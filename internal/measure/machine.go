package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Machine is a machine as measured or described. Bandwidths are bytes per second.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`  // physical ones available to this process
	Memory uint64 `json:"memory"` // bytes of RAM that this process may use
	RAM    []RAM  `json:"ram"`    // by rising number of threads
	GPUs   []GPU  `json:"gpus"`
	Taken  *Taken `json:"taken,omitempty"` // nil: the figures are described, or of a version that read in other ways

	// Of all cores; 0 if not measured.
	Products float64 `json:"products,omitempty"` // multiplications and additions a second of a prompt's products in Q4_0
	Packs    float64 `json:"packs,omitempty"`    // bytes a second that are packed to be sent to a GPU

	// Speeds are those of the CPU's operations in a model's layers, with the threads that are used next to the
	// machine's GPUs; nil: not measured.
	Speeds *placement.Speeds `json:"speeds,omitempty"`

	Kernels []Kernel `json:"kernels,omitempty"` // for types with several kernels; nil: not measured

	// Disks are those of a described machine; DiskOf keeps this machine's in another file.
	Disks []Disk `json:"disks,omitempty"`
}

// Best returns the number of threads with the highest bandwidth, and that bandwidth.
func (m *Machine) Best() RAM {
	return slices.MaxFunc(m.RAM, func(a, b RAM) int {
		switch {
		case a.Stream < b.Stream:
			return -1
		case a.Stream > b.Stream:
			return 1
		}
		return 0
	})
}

// Check reports figures that no machine has.
func (m *Machine) Check() error {
	if len(m.RAM) == 0 {
		return fmt.Errorf("ram: no bandwidth")
	}
	for _, r := range m.RAM {
		if r.Threads < 1 || !plausible(r.Stream) {
			return fmt.Errorf("ram: %g bytes/s with %d threads is no bandwidth", r.Stream, r.Threads)
		}
		for _, row := range r.Rows {
			if row.Bytes < 1 || !plausible(row.Read) {
				return fmt.Errorf("ram: %g bytes/s on rows of %d bytes is no bandwidth", row.Read, row.Bytes)
			}
		}
	}
	for _, v := range []float64{m.Products, m.Packs} {
		if v != 0 && !plausible(v) {
			return fmt.Errorf("%g multiplications or packed bytes a second are nothing that cores do", v)
		}
	}
	for i := range m.Kernels {
		if err := m.Kernels[i].check(); err != nil {
			return err
		}
	}
	for i := range m.Disks {
		if err := m.Disks[i].Check(); err != nil {
			return err
		}
	}
	if m.Speeds != nil {
		if err := m.Speeds.Check(); err != nil {
			return fmt.Errorf("the CPU: %w", err)
		}
	}
	for _, c := range m.GPUs {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

// plausible distinguishes bandwidths from figures in another unit and from nonsense.
func plausible(v float64) bool { return v >= 1e6 && v <= 1e15 }

// Kernels returns the name of the CPU's kernels for computing and measuring.
func Kernels() string { return cpu.Kernels() }

// Take measures the machine with its GPUs. progress gets the steps done, and the number of all steps. A GPU that cannot
// be measured has the reason in Lacks. TakeKernels measures kernels.
func Take(ctx context.Context, found []Found, progress func(done, total int64)) (Machine, error) {
	m := This(found)
	left, done := int64(ramSteps(m.Cores)+productSteps+speedSteps+gpuSteps()*len(found)), int64(0)
	step := func() {
		done, left = done+1, left-1
		if progress != nil {
			progress(done, done+left)
		}
	}
	buf, release, err := filled()
	if err != nil {
		return m, err
	}
	again := func() { left += int64(ramSteps(m.Cores)) }
	err = m.measureRAM(ctx, memory{buf}, hw.BusyTasks, step, again)
	release()
	if err != nil {
		return m, err
	}
	if err := m.measureProducts(step); err != nil {
		return m, err
	}
	for i := range found {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		m.GPUs[i].take(ctx, &found[i], usualLayers(gpuLayers, 0, true), step)
	}
	if err := m.measureSpeeds(ctx, step); err != nil {
		return m, err
	}
	return m, m.Check()
}

// Each part of a layer is measured on the CPU with weights of twice its caches, within these bounds in bytes.
const (
	leastCPULayers = 64 << 20
	mostCPULayers  = 512 << 20
)

// measureSpeeds sets Speeds. With a GPU one core is left to wait for it, and neurons in RAM are computed after pauses.
func (m *Machine) measureSpeeds(ctx context.Context, step func()) error {
	threads, gap := m.Cores, time.Duration(0)
	if slices.ContainsFunc(m.GPUs, func(c GPU) bool { return c.Usable() }) {
		threads, gap = max(1, threads-1), idleBeforeCold
	}
	bytes := min(max(2*int64(hw.Detect().L3All), leastCPULayers), mostCPULayers)
	measured, err := speeds(ctx, func() (compute.Device, error) { return cpu.New(cpu.Options{Threads: threads, ThreadsBatch: threads}) }, usualLayers(bytes, gap, false), step)
	if err != nil {
		return fmt.Errorf("measuring a model's layers on the CPU: %w", err)
	}
	m.Speeds = &measured
	return nil
}

// This returns the machine before it is measured.
func This(found []Found) Machine {
	cpu := hw.Detect()
	m := Machine{CPU: cpu.Name, Cores: cpu.Usable}
	if mem, err := hw.ReadMemory(); err == nil {
		m.Memory = mem.Total
	}
	for _, f := range found {
		m.GPUs = append(m.GPUs, GPU{ID: f.ID})
	}
	return m
}

// Placement returns the machine for package placement, for neurons with rows of rowBytes: RAM with the number of
// threads with the highest bandwidth, and the whole memory of usable GPUs. The caller sets budgets.
func (m *Machine) Placement(rowBytes int) placement.Machine {
	best := m.Best()
	p := placement.Machine{Stream: best.Stream, Rows: min(best.Row(rowBytes), best.Stream), Speeds: m.Speeds}
	for _, c := range m.GPUs {
		if c.Usable() {
			p.HandOff = max(p.HandOff, c.HandOff)
			p.GPUs = append(p.GPUs, placement.GPU{Name: c.Name, Read: c.Read, Launch: c.Launch, Speeds: c.Speeds, Budget: c.Memory})
		}
	}
	return p
}
