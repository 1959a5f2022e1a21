package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/diagnosis"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "measure this machine, once, and estimate how fast models would be",
		Description: "Memory, the CPU's kernels, GPUs and a disk are measured once, and kept with the date. -v shows all figures: for each type of\n" +
			"weights and length of rows which kernel was the fastest, and by how much.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "again", Usage: "measure anew what was kept from an earlier time"},
			&cli.StringFlag{Name: "machine", Usage: "explain a machine's `FILE`, as --json prints it, instead of measuring"},
			diskFlag(),
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "show bandwidths and kernels, too"},
			&cli.BoolFlag{Name: "json", Usage: "print the figures as JSON, for plan --machine"},
		},
		Action: doctor,
	}
}

func doctor(ctx context.Context, c *cli.Command) error {
	if err := noArguments(c); err != nil {
		return err
	}
	var m measure.Machine
	var why error // why there are no GPUs
	var err error
	described := c.String("machine")
	if described != "" {
		m, err = measure.Read(described)
	} else {
		var all []vulkan.Info
		all, why = vulkan.Devices()
		m, err = thisMachine(ctx, all, c.Bool("again"), c.Bool("verbose") || c.Bool("json"))
	}
	if err != nil {
		return err
	}
	var notMeasured error // why the disk was not measured
	if described == "" {
		var d *measure.Disk
		if d, notMeasured = thisDisk(ctx, c); d != nil {
			m.Disks = []measure.Disk{*d}
		} else if err := ctx.Err(); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		enc := json.NewEncoder(screen.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	}
	out := bufio.NewWriter(screen.Out)
	if described == "" {
		diagnosis.Machine(out)
	} else {
		fmt.Fprintf(out, "%s, %d cores, %.1f GiB of memory, as described\n", m.CPU, m.Cores, quantity.GiB(m.Memory))
	}
	best := m.Best()
	fmt.Fprintf(out, "memory is read at %.1f GB/s with %s", best.Stream/1e9, quantity.Of(best.Threads, "thread"))
	if m.Taken != nil && len(m.Taken.Doubts) > 0 {
		fmt.Fprint(out, "\nOther programs were busy meanwhile: doctor --again measures anew.")
	}
	fmt.Fprintln(out)
	if notMeasured != nil {
		fmt.Fprintf(out, "disk: not measured: %v\n", notMeasured)
	}
	for i := range m.Disks {
		diagnosis.Disk(out, &m.Disks[i])
	}
	verbose := c.Bool("verbose")
	diagnosis.GPUs(out, &m, why, verbose)
	if described == "" {
		diagnosis.Drivers(out, vulkan.Found(), verbose)
	}
	if err := diagnosis.Expected(out, &m); err != nil {
		return err
	}
	if !verbose {
		fmt.Fprintln(out, "For your model: powerinfer plan -m MODEL. All figures: powerinfer doctor -v")
		return out.Flush()
	}
	fmt.Fprintln(out, "For your model: powerinfer plan -m MODEL")
	diagnosis.Details(out, &m)
	return out.Flush()
}

// thisMachine returns the figures of this machine and its GPUs, measured or cached. kernels adds those of the CPU's
// kernels.
func thisMachine(ctx context.Context, all []vulkan.Info, again, kernels bool) (measure.Machine, error) {
	if again {
		planner.Forget()
	}
	bar := progress.New("measuring", progress.Time)
	defer bar.Finish()
	if kernels {
		return planner.AllFigures(ctx, all, bar.Set)
	}
	return planner.Figures(ctx, all, bar.Set)
}

// noDisk is the value of --disk that measures no disk.
const noDisk = "none"

func diskFlag() cli.Flag {
	return &cli.StringFlag{Name: "disk", Usage: "`PATH` of a large file to read from, or of a folder where 256 MiB may be written, to measure its disk; none measures no disk. By default it is the disk of the largest model that was downloaded"}
}

// thisDisk returns the speed of the disk that --disk names, measured or cached; nil if none is asked for.
func thisDisk(ctx context.Context, c *cli.Command) (*measure.Disk, error) {
	path := c.String("disk")
	if path == noDisk {
		return nil, nil
	}
	kept, err := measure.DisksFile()
	if err != nil {
		kept = "" // without a home folder nothing is kept
	}
	if c.Bool("again") && kept != "" {
		_ = os.Remove(kept)
	}
	if path == "" {
		if path, err = usualDisk(c, kept); err != nil {
			return nil, err
		}
	}
	bar := progress.New("measuring the disk", progress.Time)
	defer bar.Finish()
	d, err := measure.DiskOf(ctx, kept, path, bar.Set)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// usualDisk returns the largest downloaded model file, or the folder of the cache file kept.
func usualDisk(c *cli.Command, kept string) (string, error) {
	largest, size := "", int64(0)
	if h, err := modelname.Hub(c); err == nil {
		models, _ := h.List()
		for i := range models {
			for _, f := range models[i].Files {
				if info, err := os.Stat(f); err == nil && info.Size() > size {
					largest, size = f, info.Size()
				}
			}
		}
	}
	if size >= measure.LeastFile || kept == "" && largest != "" {
		return largest, nil
	}
	if kept == "" {
		return os.TempDir(), nil
	}
	folder := filepath.Dir(kept)
	return folder, os.MkdirAll(folder, 0o755)
}
