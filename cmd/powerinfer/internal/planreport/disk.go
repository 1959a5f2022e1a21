package planreport

import (
	"fmt"
	"io"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
)

// OnDisk reports whether the plan leaves experts or neurons on the disk.
func (d *Report) OnDisk() bool { return d.plan.Disk.Bytes > 0 }

// stays names the units that may stay on the disk.
func (d *Report) stays() string {
	if d.b.ExpertsUsed > 0 {
		return "experts"
	}
	return "neurons"
}

// tiers says what is in RAM and on the disk, and what a token reads from the disk.
func (d *Report) tiers() string {
	t := &d.plan.Disk
	says := fmt.Sprintf("RAM has no room for all %s that are on no GPU: it keeps %.2f GiB of them, those used most, and %.2f GiB are on the disk only.", d.stays(), quantity.GiB(t.Kept), quantity.GiB(t.Bytes))
	says += fmt.Sprintf(" Of their uses %.0f %% are expected to find them in RAM", 100*t.Hits)
	if left := d.leftOut(); left > 0 {
		says += fmt.Sprintf(", and %.0f %% of the others are left out", 100*left)
	}
	says += fmt.Sprintf("; a token reads %.0f from the disk, %.0f MB", t.Units, t.Read/1e6)
	return fmt.Sprintf("%s, at %.1f GB/s (%s).", says, d.on.Disk.Read/1e9, d.disk)
}

// leftOut returns the share of experts' uses that are left out instead of read from the disk.
func (d *Report) leftOut() (left float64) {
	for l := range d.b.Model.Layers {
		left = max(left, d.b.Model.Layers[l].Units.Left)
	}
	return left
}

// lacks says that RAM is too small even for the least that must be there.
func (d *Report) lacks() string {
	return fmt.Sprintf("This does not fit: with all %s on the disk, RAM lacks %.1f GiB for the rest of the model.", d.stays(), quantity.GiB(d.plan.Disk.Lacks))
}

// diskColumn returns a cell of the layers' table about the disk, or the heading; empty if nothing is on the disk.
func (d *Report) diskColumn(text string) string {
	if !d.OnDisk() {
		return ""
	}
	return text + "\t"
}

// tierRows prints what each tier has.
func (d *Report) tierRows(out io.Writer) {
	if !d.OnDisk() {
		return
	}
	fmt.Fprintf(out, "\ntiers:")
	for j, v := range d.plan.VRAM {
		fmt.Fprintf(out, " %.2f GiB on GPU %d,", quantity.GiB(v), j)
	}
	fmt.Fprintf(out, " %.2f GiB in RAM, %.2f GiB on the disk\n", quantity.GiB(d.ram()), quantity.GiB(d.plan.Disk.Bytes))
	fmt.Fprintf(out, "from the disk, a token: %.0f %s, %.0f MB, %.1f ms at %.1f GB/s (%s)\n", d.plan.Disk.Units, d.stays(), d.plan.Disk.Read/1e6, 1e3*d.plan.Disk.Read/d.on.Disk.Read, d.on.Disk.Read/1e9, d.disk)
}

// diskJSON is the object "disk" of plan --json. Sizes are in bytes, speeds in bytes per second.
type diskJSON struct {
	Bytes  int64   `json:"bytes"`       // bytes of experts or neurons that do not fit into RAM
	Kept   int64   `json:"kept"`        // bytes of RAM for experts or neurons
	Hits   float64 `json:"hits"`        // share of the uses outside GPUs that find them in RAM
	Units  float64 `json:"units_token"` // experts or neurons that a token reads
	Read   float64 `json:"bytes_token"` // bytes that a token reads
	Rate   float64 `json:"read"`
	Source string  `json:"source"` // where the rate is from
	Lacks  int64   `json:"ram_lacks,omitempty"`
}

func (d *Report) diskJSON() *diskJSON {
	t := &d.plan.Disk
	if t.Bytes == 0 && t.Lacks == 0 {
		return nil
	}
	return &diskJSON{t.Bytes, t.Kept, t.Hits, t.Units, t.Read, d.on.Disk.Read, d.disk, t.Lacks}
}
