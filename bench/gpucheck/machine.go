package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/measure"
)

// machine prints what is installed, what the GPU is, and the bandwidths of RAM, GPU and the bus.
func machine(ctx context.Context, c *check, w *checkup.Report) error {
	w.Table([]string{"what", "found"}, installed(ctx)...)
	for _, advice := range vulkan.Found().Advice() {
		w.Say("%s", advice)
	}
	all, err := vulkan.Devices()
	if err != nil {
		w.Say("Vulkan: %v.", err)
		if errors.Is(err, vulkan.ErrNone) {
			return nil
		}
		return err
	}
	var rows [][]string
	for _, d := range all {
		rows = append(rows, []string{fmt.Sprint(d.Index), d.Name, d.Kind.String(), d.Driver, fmt.Sprintf("%.1f GiB", gib(d.Memory)), d.Lacks})
	}
	w.Table([]string{"device", "name", "kind", "driver", "memory", "cannot be used because it"}, rows...)
	if c.info.Name == "" {
		return nil
	}
	if err := c.traits(w); err != nil {
		return err
	}
	_ = os.Remove(c.machineFile())
	m, err := c.measured(ctx)
	if err != nil {
		return err
	}
	measuredTables(w, &m)
	return c.busyHandOff(w)
}

// busyHandOff prints the time of a hand-off while all other cores compute, as in a layer on two processors.
func (c *check) busyHandOff(w *checkup.Report) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	defer d.Close()
	var done atomic.Bool
	var others sync.WaitGroup
	defer others.Wait()
	defer done.Store(true)
	n := max(hw.Detect().Usable-1, 0)
	for range n {
		others.Go(func() {
			for x := 1.0; !done.Load(); {
				for range 1 << 12 {
					x = math.Sqrt(x + 1)
				}
			}
		})
	}
	t, err := d.HandOff()
	if err != nil {
		return err
	}
	w.Say("While %d other cores compute, a hand-off takes %.1f µs.", n, 1e6*t)
	return nil
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// traits describes the GPU.
func (c *check) traits(w *checkup.Report) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	defer d.Close()
	rows := [][]string{{"name", c.info.Name}}
	for _, t := range d.Traits() {
		rows = append(rows, []string{t.Name, t.Value})
	}
	w.Table([]string{"gpu", ""}, rows...)
	return nil
}

// measuredTables are the figures that placement plans with.
func measuredTables(w *checkup.Report, m *measure.Machine) {
	head := []string{"threads", "RAM in order, GB/s"}
	for _, r := range m.RAM[0].Rows {
		head = append(head, fmt.Sprintf("rows of %.1f KB", float64(r.Bytes)/1e3))
	}
	var rows [][]string
	for _, r := range m.RAM {
		row := []string{fmt.Sprint(r.Threads), fmt.Sprintf("%.1f", r.Stream/1e9)}
		for _, s := range r.Rows {
			row = append(row, fmt.Sprintf("%.1f", s.Read/1e9))
		}
		rows = append(rows, row)
	}
	w.Table(head, rows...)
	for _, k := range m.GPUs {
		if k.Lacks != "" {
			w.Say("The GPU could not be measured: %s.", k.Lacks)
			continue
		}
		w.Table([]string{"gpu", "", ""},
			[]string{"reads its memory", fmt.Sprintf("%.0f GB/s", k.Read/1e9), "a kernel that only reads, best of several passes"},
			[]string{"takes", fmt.Sprintf("%.1f GB/s", k.Upload/1e9), "copies from host memory"},
			[]string{"gives", fmt.Sprintf("%.1f GB/s", k.Download/1e9), "copies to host memory"},
			[]string{"hand-off", fmt.Sprintf("%.1f µs", 1e6*k.HandOff), "a row of 4096 through a kernel and back, the wait included"},
			[]string{"launches", fmt.Sprintf("%.1f µs", 1e6*k.Launch), "20 kernels of a layer, each waiting for the one before"},
		)
	}
}

// installed returns which parts of the system, loaders and drivers are installed.
func installed(ctx context.Context) [][]string {
	cpu := hw.Detect()
	rows := [][]string{
		{"system", runtime.GOOS + "/" + runtime.GOARCH + " " + firstLine("/proc/sys/kernel/osrelease")},
		{"processor", fmt.Sprintf("%s, %d cores, %d of them usable", cpu.Name, cpu.PhysicalCores, cpu.Usable)},
	}
	if mem, err := hw.ReadMemory(); err == nil {
		rows = append(rows, []string{"memory", fmt.Sprintf("%.1f GiB, %.1f of them available", gib(int64(mem.Total)), gib(int64(mem.Available)))})
	}
	found := vulkan.Found()
	var drivers []string
	for _, m := range found.Drivers {
		drivers = append(drivers, m.Path)
	}
	rows = append(rows,
		[]string{"Vulkan loader", none(found.Loaders)},
		[]string{"CUDA driver", none(found.CUDA)},
		[]string{"Vulkan drivers", none(drivers)},
		[]string{"NVIDIA's kernel driver", none(lines(firstLine("/proc/driver/nvidia/version")))},
		[]string{"nvidia-smi", none(lines(output(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.memory,pcie.link.gen.current,pcie.link.width.current", "--format=csv,noheader")))},
	)
	for _, name := range []string{"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "LD_LIBRARY_PATH"} {
		if v := os.Getenv(name); v != "" {
			rows = append(rows, []string{name, v})
		}
	}
	return rows
}

func none(found []string) string {
	if len(found) == 0 {
		return "none"
	}
	return strings.Join(found, ", ")
}

func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// output returns what a program prints, empty if there is none of that name.
func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
