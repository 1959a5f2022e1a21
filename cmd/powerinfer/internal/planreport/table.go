package planreport

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// rows returns groups of consecutive layers with the same place and cost, each as its first and last layer.
func (d *Report) rows() (list [][2]int) {
	for first := 0; first < len(d.plan.Layers); {
		last := first
		for last+1 < len(d.layers()) && sameRow(&d.plan.Layers[first], &d.plan.Layers[last+1]) {
			last++
		}
		list = append(list, [2]int{first, last})
		first = last + 1
	}
	return list
}

// rowName returns the name of layers first to last. The layer after the last is the head.
func (d *Report) rowName(first, last int) string {
	switch {
	case first == len(d.layers()):
		return "head"
	case last > first:
		return fmt.Sprintf("%d-%d, each", first, last)
	}
	return fmt.Sprint(first)
}

// ms prints milliseconds, if times have a meaning.
func (d *Report) ms(seconds float64) string {
	if !d.timed {
		return "-"
	}
	return fmt.Sprintf("%.3f", 1e3*seconds)
}

// shape returns the number of layers, of their experts or neurons, and how many of these a token needs.
func (d *Report) shape() string {
	b := &d.b
	var experts, neurons int // of a layer
	routed := 0              // layers with experts
	for _, y := range b.Model.Layers {
		if y.Experts {
			routed, experts = routed+1, len(y.Units.Sometimes)
		} else {
			neurons = max(neurons, len(y.Units.Sometimes))
		}
	}
	says := fmt.Sprintf(": %s of %d experts, %d used", quantity.Of(routed, "layer"), experts, b.ExpertsUsed)
	switch {
	case routed == b.Layers:
		return says
	case routed > 0 && b.Mode == model.Off:
		return fmt.Sprintf("%s, %s of %d neurons", says, quantity.Of(b.Layers-routed, "layer"), neurons)
	case routed > 0:
		return fmt.Sprintf(", --sparse %s%s, %s of %d neurons, %.1f %% active", b.Mode, says, quantity.Of(b.Layers-routed, "layer"), neurons, 100*b.Active)
	}
	return fmt.Sprintf(", --sparse %s: %s of %d neurons, %.1f %% active", b.Mode, quantity.Of(b.Layers, "layer"), neurons, 100*b.Active)
}

// units names the parts of split layers.
func (d *Report) units() string {
	routed := func(y placement.Layer) bool { return y.Experts }
	switch layers := d.b.Model.Layers; {
	case !slices.ContainsFunc(layers, routed):
		return "neurons"
	case slices.ContainsFunc(layers, func(y placement.Layer) bool { return !y.Experts }):
		return "neurons and experts"
	}
	return "experts"
}

// hot returns how many of layer l's units are on its GPU.
func (d *Report) hot(l int) string {
	n, of := d.plan.Layers[l].Bound, len(d.b.Model.Layers[l].Units.Sometimes)
	return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(max(of, 1)))
}

// Text writes the plan as a table.
func (d *Report) Text(out io.Writer) error {
	b := &d.b
	fmt.Fprintf(out, "%s, %s%s, %.2f GiB with the KV cache of %d tokens\n", screen.Plain(b.Name), b.Type, d.shape(), quantity.GiB(b.Model.Bytes()+b.Rest), b.Context)
	fmt.Fprintf(out, "RAM reads %.1f GB/s in order, %.1f on rows\n", d.on.Stream/1e9, d.on.Rows/1e9)
	for j, g := range d.on.GPUs {
		if g.Read == 0 {
			fmt.Fprintf(out, "GPU %d: %s; budget %.2f GiB, %.2f of it for compute buffers\n", j, g.Name, quantity.GiB(g.Budget), quantity.GiB(g.Overhead))
			continue
		}
		fmt.Fprintf(out, "GPU %d: %s reads %.0f GB/s; budget %.2f GiB, %.2f of it for compute buffers; hand-off %.0f µs\n",
			j, g.Name, g.Read/1e9, quantity.GiB(g.Budget), quantity.GiB(g.Overhead), 1e6*d.on.HandOff)
	}
	for _, n := range d.notes() {
		fmt.Fprintln(out, n)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tattention\tpredictor\thot\tVRAM MiB\tRAM MiB\t"+d.diskColumn("disk MiB")+"dense ms\thot ms\tcold ms\twait ms\tms\t")
	for _, r := range d.rows() {
		d.row(w, r[0], r[1])
	}
	if place, vram, ram, ok := d.guessing(); ok {
		fmt.Fprintf(w, "%s\t%s\t\t\t%.1f\t%.1f\t%s\t\t\t\t\t\n", d.guessingName(), place, quantity.MiB(vram), quantity.MiB(ram), d.diskColumn(""))
	}
	var vram int64
	for _, v := range d.plan.VRAM {
		vram += v
	}
	fmt.Fprintf(w, "all\t\t\t\t%.1f\t%.1f\t%s\t\t\t\t%s\t\n", quantity.MiB(vram), quantity.MiB(d.ram()), d.diskColumn(fmt.Sprintf("%.1f", quantity.MiB(d.plan.Disk.Bytes))), d.ms(d.plan.Seconds))
	if err := w.Flush(); err != nil {
		return err
	}
	if len(d.on.GPUs) > 1 {
		fmt.Fprintln(out)
		for j, v := range d.plan.VRAM {
			fmt.Fprintf(out, "GPU %d: %.2f of %.2f GiB\n", j, quantity.GiB(v), quantity.GiB(d.on.GPUs[j].Budget))
		}
	}
	d.tierRows(out)
	return d.closing(out)
}

// guessingName returns the name of the MTP layer, or of the draft model in its place. Its share of a token's time
// depends on the text and is not predicted.
func (d *Report) guessingName() string {
	if d.b.DraftHead != nil {
		return "draft"
	}
	return "mtp"
}

// sameRow reports whether two layers have the same place and cost.
func sameRow(a, b *placement.Priced) bool {
	const alike = 1e-7 // seconds: what the table can show
	return a.Place == b.Place && a.VRAM == b.VRAM && a.RAM == b.RAM && a.Disk == b.Disk && max(a.Seconds-b.Seconds, b.Seconds-a.Seconds) < alike
}

func (d *Report) row(w io.Writer, first, last int) {
	y := &d.plan.Layers[first]
	where := func(gpu bool) string {
		if gpu {
			return fmt.Sprintf("GPU %d", y.Tier)
		}
		return "RAM"
	}
	attention, predictor, hot := where(y.Attention), "", ""
	if first < len(d.layers()) {
		if d.b.Model.Layers[first].Predictor > 0 {
			predictor = where(y.Predictor)
		}
		hot = d.hot(first)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%.1f\t%s%s\t%s\t%s\t%s\t%s\t\n", d.rowName(first, last), attention, predictor, hot,
		quantity.MiB(y.VRAM), quantity.MiB(y.RAM), d.diskColumn(fmt.Sprintf("%.1f", quantity.MiB(y.Disk))), d.ms(y.Dense), d.ms(y.HotTime), d.ms(y.ColdTime), d.ms(y.Wait), d.ms(y.Seconds))
}

// closing prints the speeds.
func (d *Report) closing(out io.Writer) error {
	if len(d.ways) > 1 {
		return d.compare(out)
	}
	if !d.timed {
		_, err := fmt.Fprintf(out, "\nno speed is predicted, because a GPU is software; without a GPU, at a context of %d tokens: %.2f tokens/s\n", d.b.Context, 1/d.inRAM.Seconds)
		return err
	}
	fmt.Fprintf(out, "\nexpected at a context of %d tokens: %.2f tokens/s (%.1f ms a token, %.1f %% of it in hand-offs)\n", d.b.Context, 1/d.plan.Seconds, 1e3*d.plan.Seconds, 100*waits(&d.plan)/d.plan.Seconds)
	if len(d.on.GPUs) > 0 {
		fmt.Fprintf(out, "without a GPU: %.2f tokens/s\n", 1/d.inRAM.Seconds)
		if d.OnDisk() {
			return nil
		}
		fmt.Fprintf(out, "whole dense layers, as llama.cpp -ngl %d: %.2f tokens/s; this is %.2f times that\n", d.whole, 1/d.byLayers.Seconds, d.byLayers.Seconds/d.plan.Seconds)
		return nil
	}
	if d.OnDisk() {
		return nil
	}
	_, err := fmt.Fprintf(out, "dense: %.2f tokens/s; this is %.2f times that\n", 1/d.byLayers.Seconds, d.byLayers.Seconds/d.plan.Seconds)
	return err
}

// following explains the last of the ways; empty if nothing follows the text.
func (d *Report) following() string {
	if len(d.ways) < 4 {
		return ""
	}
	says := "Experts follow the text: those on a GPU are exchanged for what the text uses;\n" +
		"hits are a simulated text's (docs/placement.md). That is the default where it should be\n" +
		"5 % faster and RAM has room, or experts stay on the disk; --moe-cache-mib N has it anyway, 0 never."
	if d.follows {
		says += "\nThe layers above are those of this way."
	}
	return says
}

// compare prints expected speeds of the ways to compute a model with experts.
func (d *Report) compare(out io.Writer) error {
	fmt.Fprintf(out, "\nexpected at a context of %d tokens; hits: uses of experts on GPUs; MB: for a token\n\n", d.b.Context)
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "way\ttokens/s\thits\tVRAM GiB\tRAM GiB\tVRAM MB\tRAM MB\t"+d.diskColumn("disk MB"))
	for i := range d.ways {
		y := &d.ways[i]
		fmt.Fprintf(w, "%s\t%s\t%.0f %%\t%.2f\t%.2f\t%.0f\t%.0f\t%s\n", y.Name, d.wayRate(y), 100*y.Hits, quantity.GiB(y.VRAM), quantity.GiB(y.RAM), y.ReadVRAM/1e6, y.ReadRAM/1e6, d.diskColumn(fmt.Sprintf("%.0f", y.ReadDisk/1e6)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if says := d.spilled(); says != "" {
		fmt.Fprintln(out, says)
	}
	if says := d.following(); says != "" {
		fmt.Fprintln(out, says)
	}
	return nil
}

// spilled explains rates with an asterisk, if there is one.
func (d *Report) spilled() string {
	if !d.timed || !slices.ContainsFunc(d.ways, func(y planner.Way) bool { return y.ReadDisk > 0 }) {
		return ""
	}
	if d.OnDisk() {
		return "*: RAM has too little room; the rest is read from the disk. llama.cpp reads it through its mapped file, which\nis taken to come as fast, and in practice comes several times slower."
	}
	return fmt.Sprintf("*: RAM has too little room; the rest is read from the file, at %.0f GB/s.", planner.AssumedDisk/1e9)
}

// wayRate returns a way's tokens per second, if times have a meaning.
func (d *Report) wayRate(y *planner.Way) string {
	if !d.timed && y.VRAM > 0 {
		return "-"
	}
	rate := fmt.Sprintf("%.2f", 1/y.Seconds)
	if y.ReadDisk > 0 {
		rate += "*"
	}
	return rate
}

// Line returns the plan in a line: where the model's parts go and how fast that should be.
func (d *Report) Line() string {
	ram := d.ram()
	where := fmt.Sprintf("%.2f GiB in RAM", quantity.GiB(ram))
	for j, v := range d.plan.VRAM {
		where += fmt.Sprintf(", %.2f on GPU %d", quantity.GiB(v), j)
	}
	if d.OnDisk() && d.plan.Disk.Lacks == 0 {
		where += fmt.Sprintf(", %.2f on the disk", quantity.GiB(d.plan.Disk.Bytes))
	} else if d.memory > 0 && uint64(ram) > d.memory || d.plan.Disk.Lacks > 0 {
		return fmt.Sprintf("does not fit: %s, and the machine has %.2f", where, quantity.GiB(d.memory))
	}
	if !d.timed {
		return fmt.Sprintf("%s, with a context of %d tokens; no speed is predicted of a GPU that is software", where, d.b.Context)
	}
	return fmt.Sprintf("%s; %.2f tokens/s expected at a context of %d", where, 1/d.plan.Seconds, d.b.Context)
}

func waits(p *placement.Plan) (sum float64) {
	for _, y := range p.Layers {
		sum += y.Wait
	}
	return sum
}
