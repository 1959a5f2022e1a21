package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// drawing is a plan with what it is compared to.
type drawing struct {
	b        modelcost.Cost
	on       placement.Machine
	memory   uint64   // of the machine; 0 where unknown
	doubts   []string // of the machine's figures
	timed    bool     // the plan's times mean something: there is no software among the GPUs
	plan     placement.Plan
	inRAM    placement.Plan // everything computed on the processor
	byLayers placement.Plan // as many dense layers as fit the GPUs
	whole    int            // of these
	ways     []planner.Way  // of a model with experts
	follows  bool           // plan is the one in which experts follow the text
	tower    string         // what shows the model pictures takes; empty: nothing does
	disk     string         // where the figures of the machine's disk are from
	further  int            // the GPU of the layer for multi-token prediction, where it guesses; -1: it lies in RAM
}

func newDrawing(b modelcost.Cost, m *planner.Machine, o planner.Options) (*drawing, error) {
	p := planner.With(m, b, o)
	s, err := p.Solve()
	if err != nil {
		return nil, err
	}
	on := s.Machine
	d := &drawing{b: b, on: on, memory: m.Memory, doubts: m.Doubts(), timed: m.Predictable(), plan: s.Plan, disk: m.DiskSource()}
	if b := o.RAM.Whole; b > 0 && (d.memory == 0 || uint64(b) < d.memory) {
		d.memory = uint64(b)
	}
	d.on.GPUs = slices.Clone(on.GPUs)
	for j := range d.on.GPUs {
		if m.Software(j) {
			d.on.GPUs[j].Read = 0
		}
	}
	none := on
	none.GPUs = nil
	if d.inRAM, err = placement.Solve(b.Model, none); err != nil {
		return nil, err
	}
	mapped := on // other programs leave it to the system what of a file is in memory
	mapped.Disk, mapped.RAM = placement.Rate{}, 0
	if d.whole, d.byLayers, err = placement.MostWhole(b.Model.Dense(), mapped); err != nil {
		return nil, err
	}
	if d.ways, err = planner.Ways(&b, &s, d.memory); err != nil {
		return nil, err
	}
	follow, follows, err := p.Following(&s)
	if d.follows = follows; follows {
		s = follow
		d.plan, d.b.Model = s.Plan, b.Following()
		for i := range d.ways {
			if y := &d.ways[i]; y.Name == planner.ThisPlan {
				y.Name = "experts stay where they are"
			}
		}
	}
	if err != nil {
		return nil, err
	}
	var vram []int64
	if d.further, vram, err = p.Further(&s, d.follows); vram != nil {
		d.plan.VRAM = vram
	}
	return d, err
}

// ram returns the bytes that the plan has in RAM.
func (d *drawing) ram() int64 {
	ram := d.plan.RAM + d.b.Rest
	if y := &d.b.Further; d.further >= 0 {
		ram -= y.Bytes() + y.Expanded
	}
	return ram
}

// guessing returns where the layer for multi-token prediction lies, and its bytes there; ok: there is one that guesses.
func (d *drawing) guessing() (place string, vram, ram int64, ok bool) {
	y := &d.b.Further
	if d.further >= 0 {
		return fmt.Sprintf("GPU %d", d.further), y.Bytes(), 0, true
	}
	ram = y.Bytes() + y.Expanded
	return "RAM", 0, ram, ram > 0
}

// layers returns the plan without the head, which is its last layer.
func (d *drawing) layers() []placement.Priced { return d.plan.Layers[:len(d.plan.Layers)-1] }

// notes returns remarks that the table has no column for.
func (d *drawing) notes() []string {
	notes := slices.Clip(d.b.Assumed)
	if d.tower != "" {
		notes = append(notes, d.tower)
	}
	if d.plan.Disk.Lacks > 0 {
		notes = append(notes, d.lacks())
	} else if d.onDisk() {
		notes = append(notes, d.tiers())
	} else if ram := d.ram(); d.memory > 0 && uint64(ram) > d.memory {
		notes = append(notes, fmt.Sprintf("This does not fit: %.1f GiB lie in RAM, and the machine has %.1f. %s", quantity.GiB(ram), quantity.GiB(d.memory), d.mapped(ram)))
	}
	if len(d.on.GPUs) == 0 {
		notes = append(notes, "No GPU: everything is computed on the processor. --gpu 24:1008 adds a GPU of 24 GiB and 1008 GB/s to the plan.")
	}
	for _, g := range d.on.GPUs {
		if g.Read == 0 {
			notes = append(notes, g.Name+" is software on the processor: its speed is not predicted.")
		}
	}
	for _, s := range d.doubts {
		notes = append(notes, "The machine's figures are doubtful: "+s+". powerinfer doctor --again measures them anew.")
	}
	return notes
}

// mapped tells what happens where so many bytes do not fit into RAM.
func (d *drawing) mapped(ram int64) string {
	read, _ := d.b.Model.Reads(&d.plan)
	disk := planner.FromDisk(ram, read, d.memory)
	says := fmt.Sprintf("With --no-repack the file is mapped, and a token reads %.0f MB of it from the disk", disk/1e6)
	if !d.timed {
		return says + "."
	}
	return fmt.Sprintf("%s: %.2f tokens/s at %.0f GB/s, which is assumed.", says, 1/(d.plan.Seconds+disk/planner.AssumedDisk), planner.AssumedDisk/1e9)
}

// rows returns the layers that lie and cost alike together, from first to last.
func (d *drawing) rows() (list [][2]int) {
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

// rowName names layers first to last, of which the last of all is the head.
func (d *drawing) rowName(first, last int) string {
	switch {
	case first == len(d.layers()):
		return "head"
	case last > first:
		return fmt.Sprintf("%d-%d, each", first, last)
	}
	return fmt.Sprint(first)
}

// ms prints milliseconds, where they mean something.
func (d *drawing) ms(seconds float64) string {
	if !d.timed {
		return "-"
	}
	return fmt.Sprintf("%.3f", 1e3*seconds)
}

// shape tells how many layers there are, of how many experts or neurons, and how many of these a token needs.
func (d *drawing) shape() string {
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

// units names what layers are split into.
func (d *drawing) units() string {
	routed := func(y placement.Layer) bool { return y.Experts }
	switch layers := d.b.Model.Layers; {
	case !slices.ContainsFunc(layers, routed):
		return "neurons"
	case slices.ContainsFunc(layers, func(y placement.Layer) bool { return !y.Experts }):
		return "neurons and experts"
	}
	return "experts"
}

// hot tells how many of layer l's units lie on its GPU.
func (d *drawing) hot(l int) string {
	n, of := d.plan.Layers[l].Bound, len(d.b.Model.Layers[l].Units.Sometimes)
	return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(max(of, 1)))
}

func (d *drawing) text(out io.Writer) error {
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
		fmt.Fprintf(w, "%s\t%s\t\t\t%.1f\t%.1f\t%s\t\t\t\t\t\n", guessingLayer, place, quantity.MiB(vram), quantity.MiB(ram), d.diskColumn(""))
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

// guessingLayer is the name of the layer for multi-token prediction. What it takes of a token's time depends on the
// text, and is not predicted.
const guessingLayer = "mtp"

// sameRow reports whether two layers lie and cost alike.
func sameRow(a, b *placement.Priced) bool {
	const alike = 1e-7 // seconds: what the table can show
	return a.Place == b.Place && a.VRAM == b.VRAM && a.RAM == b.RAM && a.Disk == b.Disk && max(a.Seconds-b.Seconds, b.Seconds-a.Seconds) < alike
}

func (d *drawing) row(w io.Writer, first, last int) {
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

// closing tells the speeds.
func (d *drawing) closing(out io.Writer) error {
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
		if d.onDisk() {
			return nil
		}
		fmt.Fprintf(out, "whole dense layers, as llama.cpp -ngl %d: %.2f tokens/s; this is %.2f times that\n", d.whole, 1/d.byLayers.Seconds, d.byLayers.Seconds/d.plan.Seconds)
		return nil
	}
	if d.onDisk() {
		return nil
	}
	_, err := fmt.Fprintf(out, "dense: %.2f tokens/s; this is %.2f times that\n", 1/d.byLayers.Seconds, d.byLayers.Seconds/d.plan.Seconds)
	return err
}

// following explains the last of the ways, where there is none to be followed it is empty.
func (d *drawing) following() string {
	if len(d.ways) < 4 {
		return ""
	}
	says := "Experts follow the text: those on a GPU are exchanged for what the text uses;\n" +
		"hits are a simulated text's (docs/placement.md). That is the default where RAM has room\n" +
		"and it should be 5 % faster; --moe-cache-mib N has it anyway, 0 never."
	if d.follows {
		says += "\nThe layers above are those of this way."
	}
	return says
}

// compare prints what is expected of the ways to compute a model with experts.
func (d *drawing) compare(out io.Writer) error {
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
func (d *drawing) spilled() string {
	if !d.timed || !slices.ContainsFunc(d.ways, func(y planner.Way) bool { return y.ReadDisk > 0 }) {
		return ""
	}
	if d.onDisk() {
		return "*: RAM has too little room; the rest is read from the disk. llama.cpp reads it through its mapped file, which\nis taken to come as fast, and in practice comes several times slower."
	}
	return fmt.Sprintf("*: RAM has too little room; the rest is read from the file, at %.0f GB/s.", planner.AssumedDisk/1e9)
}

// wayRate returns a way's tokens per second, where they mean something.
func (d *drawing) wayRate(y *planner.Way) string {
	if !d.timed && y.VRAM > 0 {
		return "-"
	}
	rate := fmt.Sprintf("%.2f", 1/y.Seconds)
	if y.ReadDisk > 0 {
		rate += "*"
	}
	return rate
}

// line tells where the model would be stored and how fast that should be, in a line.
func (d *drawing) line() string {
	ram := d.ram()
	where := fmt.Sprintf("%.2f GiB in RAM", quantity.GiB(ram))
	for j, v := range d.plan.VRAM {
		where += fmt.Sprintf(", %.2f on GPU %d", quantity.GiB(v), j)
	}
	if d.onDisk() && d.plan.Disk.Lacks == 0 {
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

// number is null in JSON where it means nothing.
type number float64

func (f number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// planJSON is the output of plan --json; bytes, seconds and bytes per second throughout. Figures are null where no
// speed is predicted.
type planJSON struct {
	Model        string            `json:"model"`
	Type         string            `json:"type"`
	Sparse       string            `json:"sparse"`
	Context      int               `json:"context"`
	Active       float64           `json:"active"`                 // share of the neurons, outside of experts
	ExpertsUsed  int               `json:"experts_used,omitempty"` // by a token in each layer with experts
	Notes        []string          `json:"notes"`
	Machine      placement.Machine `json:"machine"`
	Layers       []layerJSON       `json:"layers"` // the head is the last
	MTP          *mtpJSON          `json:"mtp,omitempty"`
	VRAM         []int64           `json:"vram"` // of each GPU
	RAM          int64             `json:"ram"`
	Disk         *diskJSON         `json:"disk,omitempty"`
	Seconds      number            `json:"seconds"`
	TokensPerSec number            `json:"tokens_per_second"`
	RAMOnly      float64           `json:"ram_only_tokens_per_second"`
	WholeLayers  int               `json:"whole_layers"`
	WholeSpeed   number            `json:"whole_layers_tokens_per_second"`
	Ways         []wayJSON         `json:"ways,omitempty"` // to compute a model with experts
}

type wayJSON struct {
	Name         string  `json:"name"`
	TokensPerSec number  `json:"tokens_per_second"`
	Hits         float64 `json:"hits"` // share of the uses of experts that find them on a GPU
	VRAM         int64   `json:"vram"`
	RAM          int64   `json:"ram"`
	ReadVRAM     float64 `json:"read_vram"` // bytes that a token reads
	ReadRAM      float64 `json:"read_ram"`
	ReadDisk     float64 `json:"read_disk"` // of these, because the machine has too little RAM
}

// mtpJSON is the layer for multi-token prediction, where --spec-type has it guess.
type mtpJSON struct {
	GPU  int   `json:"gpu"` // -1: none
	VRAM int64 `json:"vram"`
	RAM  int64 `json:"ram"`
}

type layerJSON struct {
	GPU       int    `json:"gpu"` // -1: none
	Attention bool   `json:"attention_on_gpu"`
	Predictor bool   `json:"predictor_on_gpu"`
	Hot       int    `json:"hot"`               // neurons or experts on the GPU
	Experts   int    `json:"experts,omitempty"` // 0: the layer has none, or is the head
	VRAM      int64  `json:"vram"`
	RAM       int64  `json:"ram"`
	Disk      int64  `json:"disk,omitempty"`
	Dense     number `json:"dense_seconds"`
	HotTime   number `json:"hot_seconds"`
	ColdTime  number `json:"cold_seconds"`
	Wait      number `json:"wait_seconds"`
	Seconds   number `json:"seconds"`
}

func (d *drawing) json(out io.Writer) error {
	of := func(v float64) number {
		if !d.timed {
			v = math.NaN()
		}
		return number(v)
	}
	j := planJSON{
		Model: d.b.Name, Type: d.b.Type, Sparse: d.b.Mode.String(), Context: d.b.Context, Active: d.b.Active, ExpertsUsed: d.b.ExpertsUsed, Notes: d.notes(), Machine: d.on,
		VRAM: d.plan.VRAM, RAM: d.ram(), Disk: d.diskJSON(), Seconds: of(d.plan.Seconds), TokensPerSec: of(1 / d.plan.Seconds),
		RAMOnly: 1 / d.inRAM.Seconds, WholeLayers: d.whole, WholeSpeed: of(1 / d.byLayers.Seconds),
	}
	for l, y := range d.plan.Layers {
		experts := 0
		if l < len(d.layers()) && d.b.Model.Layers[l].Experts {
			experts = len(d.b.Model.Layers[l].Units.Sometimes)
		}
		j.Layers = append(j.Layers, layerJSON{
			int(y.Tier), y.Attention, y.Predictor, y.Bound, experts, y.VRAM, y.RAM, y.Disk, of(y.Dense), of(y.HotTime), of(y.ColdTime), of(y.Wait), of(y.Seconds),
		})
	}
	if _, vram, ram, ok := d.guessing(); ok {
		j.MTP = &mtpJSON{d.further, vram, ram}
	}
	for _, y := range d.ways {
		rate := number(1 / y.Seconds)
		if y.VRAM > 0 {
			rate = of(float64(rate))
		}
		j.Ways = append(j.Ways, wayJSON{y.Name, rate, y.Hits, y.VRAM, y.RAM, y.ReadVRAM, y.ReadRAM, y.ReadDisk})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
}

// publishedTable prints published figures and, next to them, the cost model's for the same settings.
func publishedTable(out io.Writer) error {
	list, err := planner.Simulate()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "machine\tmodel\ttype\tPowerInfer\tplan\tllama.cpp\tplan\tspeed-up\tplan\tsource\t")
	number := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", v)
	}
	for i := range list {
		s := &list[i]
		ratio := 0.0
		if s.PowerInfer > 0 && s.LlamaCPP > 0 {
			ratio = s.PowerInfer / s.LlamaCPP
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t%s\t%.2f\t%s\t%.2f\t%s\t\n", s.PC, s.Shape, s.Type, number(s.PowerInfer), 1/s.Plan.Seconds,
			number(s.LlamaCPP), 1/s.ByLayers.Seconds, number(ratio), s.ByLayers.Seconds/s.Plan.Seconds, s.Source)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err = fmt.Fprintln(out, "\nTokens per second. The plan counts memory alone: where most activations are on the GPU, something else limited the original.\n"+
		"llama.cpp is that of 2023; its plan is whole dense layers. Assumptions: docs/placement.md."); err != nil {
		return err
	}
	return largerTable(out)
}

// largerTable prints what is expected of models that are larger than memory.
func largerTable(out io.Writer) error {
	list, err := planner.SimulateLarger()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nLarger than memory: %d GiB of RAM at %.0f GB/s, a GPU of %d GB, and SSDs\n\n", planner.LargerRAM>>30, planner.LargerStream/1e9, planner.LargerGPU)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "model\ttype\tGiB\tSSD GB/s\tplan\tGPU GiB\tRAM GiB\tdisk GiB\thits\tdisk MB\t")
	for i := range list {
		y := &list[i]
		d := &y.Plan.Disk
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%.1f\t%.0f %%\t%.0f\t\n", y.Model, y.Type, quantity.GiB(y.Bytes), y.SSD/1e9, 1/y.Plan.Seconds, quantity.GiB(y.Plan.VRAM[0]), quantity.GiB(y.RAM), quantity.GiB(d.Bytes), 100*d.Hits, d.Read/1e6)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "\nTokens per second; hits are uses of experts that are on no GPU and are found in RAM, MB what a token reads from the SSD.")
	return err
}

// expertsTable prints what is expected of models with experts on described machines, as Markdown: of one model, or of
// all published ones.
func expertsTable(out io.Writer, description string) error {
	list := modelcost.PublishedExperts()
	if description != "" {
		list = []string{description}
	}
	for i, text := range list {
		all, err := planner.Expect(text)
		if err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintf(out, "Tokens per second. *: the model does not fit into RAM, and a part of what a token reads comes from the disk, at %.0f GB/s.\n"+
				"llama.cpp is at its best -ngl and -ncmoe; hits are uses of experts on the GPU, of experts that stay and of experts that follow the text.\n", planner.AssumedDisk/1e9)
		}
		fmt.Fprintf(out, "\n%s, %s, %.1f GiB with keys and values of %d tokens\n\n", all[0].Model, all[0].Type, quantity.GiB(all[0].Bytes), planner.ExpertsContext)
		fmt.Fprint(out, "| GPU | RAM | processor | llama.cpp | at | plan | hits | following | hits |\n|---|---|---:|---:|---|---:|---:|---:|---:|\n")
		for i := range all {
			e := &all[i]
			memory := fmt.Sprintf("%d GiB, %.0f GB/s", e.Memory, e.Stream/1e9)
			rate := func(w *planner.Way) string {
				if w.ReadDisk > 0 {
					return fmt.Sprintf("%.1f*", 1/w.Seconds)
				}
				return fmt.Sprintf("%.1f", 1/w.Seconds)
			}
			w := e.Ways
			_, at, _ := strings.Cut(w[1].Name, " ")
			following := "– | –" // experts on the disk follow no text
			if len(w) > 3 {
				following = fmt.Sprintf("%s | %.0f %%", rate(&w[3]), 100*w[3].Hits)
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | `%s` | %s | %.0f %% | %s |\n", e.Card, memory, rate(&w[0]), rate(&w[1]), at, rate(&w[2]), 100*w[2].Hits, following)
		}
	}
	return nil
}
