package diagnosis

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/measure"
)

// Disk prints how fast a disk is.
func Disk(out io.Writer, d *measure.Disk) {
	s := d.Speeds
	fmt.Fprintf(out, "a disk is read at %.2f GB/s in order, in pieces of 1 MiB at %.2f, of 8 KiB at %.2f\n", s.InOrder()/1e9, s.At(1<<20)/1e9, s.At(8<<10)/1e9)
}

// diskSpeeds prints all speeds of a disk.
func diskSpeeds(out io.Writer, d *measure.Disk) {
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
