package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/measure"
)

// noDisk is the value of --disk for none.
const noDisk = "none"

func diskFlag() cli.Flag {
	return &cli.StringFlag{Name: "disk", Usage: "`PATH` of a large file to read from, or of a folder where 256 MiB may be written, to measure its disk; none measures no disk. By default it is the disk of the largest model that was downloaded"}
}

// thisDisk returns how fast the disk is read that --disk names, measured or kept; nil: none is asked for.
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
	bar := progress.New("measuring the disk", progress.Runs)
	defer bar.Finish()
	d, err := measure.DiskOf(ctx, kept, path, bar.Set)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// usualDisk returns the largest file of the models that were downloaded, or the folder of the file at kept.
func usualDisk(c *cli.Command, kept string) (string, error) {
	largest, size := "", int64(0)
	if h, err := openHub(c); err == nil {
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

// diskLine prints what a disk gives.
func diskLine(out io.Writer, d *measure.Disk) {
	s := d.Speeds
	fmt.Fprintf(out, "a disk is read at %.2f GB/s in order, in pieces of 1 MiB at %.2f, of 8 KiB at %.2f\n", s.InOrder()/1e9, s.At(1<<20)/1e9, s.At(8<<10)/1e9)
}

// diskTable prints all speeds of a disk.
func diskTable(out io.Writer, d *measure.Disk) {
	speed := map[int64]map[int]float64{}
	depths := map[int]bool{}
	for _, v := range d.Speeds {
		if v.InOrder {
			continue
		}
		if speed[v.Bytes] == nil {
			speed[v.Bytes] = map[int]float64{}
		}
		speed[v.Bytes][v.Depth], depths[v.Depth] = v.Read, true
	}
	sizes := slices.Sorted(maps.Keys(speed))
	fmt.Fprintln(out, "\nDisk, GB/s read in pieces at random offsets:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "at a time\t")
	for _, n := range sizes {
		if n < 1<<20 {
			fmt.Fprintf(w, "%d KiB\t", n>>10)
		} else {
			fmt.Fprintf(w, "%d MiB\t", n>>20)
		}
	}
	fmt.Fprintln(w)
	for _, depth := range slices.Sorted(maps.Keys(depths)) {
		fmt.Fprintf(w, "%d\t", depth)
		for _, n := range sizes {
			if v, ok := speed[n][depth]; ok {
				fmt.Fprintf(w, "%.3f\t", v/1e9)
			} else {
				fmt.Fprint(w, "\t")
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	if len(sizes) > 0 {
		least := sizes[0]
		fmt.Fprintf(out, "%.0f pieces of %d KiB a second\n", d.Speeds.At(least)/float64(least), least>>10)
	}
	fmt.Fprintf(out, "measured %s with %s\n", d.At.Local().Format("2006-01-02 15:04"), d.Path)
	if d.Busy > 0 {
		fmt.Fprintf(out, "doubtful: other programs were busy with %s\n", quantity.Of(d.Busy, "task"))
	}
}
