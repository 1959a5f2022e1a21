package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/internal/blueprint"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// drawing is a plan with what it is compared to.
type drawing struct {
	b        blueprint.Blueprint
	on       placement.Machine
	memory   uint64 // of the machine; 0 where unknown
	plan     placement.Plan
	inRAM    placement.Plan // everything computed on the processor
	byLayers placement.Plan // as many dense layers as fit the cards
	whole    int            // of these
}

func newDrawing(b blueprint.Blueprint, on placement.Machine, stream []hybrid.Streaming, memory uint64, solve func(placement.Model, placement.Machine) (placement.Plan, error)) (*drawing, error) {
	d := &drawing{b: b, on: on, memory: memory}
	var err error
	if d.plan, err = b.Places(on, stream, solve); err != nil {
		return nil, err
	}
	d.on.GPUs = slices.Clone(on.GPUs)
	for j := range d.on.GPUs {
		d.on.GPUs[j].Overhead = d.plan.VRAM[j]
	}
	for _, y := range d.plan.Layers {
		if y.VRAM > 0 {
			d.on.GPUs[y.GPU].Overhead -= y.VRAM
		}
	}
	none := on
	none.GPUs = nil
	if d.inRAM, err = placement.Solve(b.Model, none); err != nil {
		return nil, err
	}
	d.whole, d.byLayers, err = placement.MostWhole(b.Model.Dense(), on)
	return d, err
}

// layers is the plan without the head, which is its last layer.
func (d *drawing) layers() []placement.Priced { return d.plan.Layers[:len(d.plan.Layers)-1] }

// notes are what must be known beside the table.
func (d *drawing) notes() []string {
	notes := d.b.Assumed
	if ram := d.plan.RAM + d.b.Rest; d.memory > 0 && uint64(ram) > d.memory {
		notes = append(notes, fmt.Sprintf("This does not fit: %.1f GiB lie in RAM, and the machine has %.1f.", gib(ram), gib(d.memory)))
	}
	if len(d.on.GPUs) == 0 {
		notes = append(notes, "No card: everything is computed on the processor. --card 24:1008 adds a card of 24 GiB and 1008 GB/s to the plan.")
	}
	return notes
}

func (d *drawing) text(out io.Writer) error {
	b := &d.b
	fmt.Fprintf(out, "%s, %s, --sparse %s: %d layers of %d neurons, %.1f %% active, %.2f GiB with the KV cache of %d tokens\n",
		b.Name, b.Type, b.Mode, b.Layers, b.FF, 100*b.Active, gib(b.Model.Bytes()+b.Rest), b.Context)
	fmt.Fprintf(out, "RAM reads %.1f GB/s in order, %.1f on rows\n", d.on.Stream/1e9, d.on.Rows/1e9)
	for j, g := range d.on.GPUs {
		fmt.Fprintf(out, "card %d: %s reads %.0f GB/s; budget %.2f GiB, of which %.2f for compute buffers; hand-off %.0f µs\n",
			j, g.Name, g.Read/1e9, gib(g.Budget), gib(g.Overhead), 1e6*d.on.HandOff)
	}
	for _, n := range d.notes() {
		fmt.Fprintln(out, n)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tattention\tpredictor\thot\tVRAM MiB\tRAM MiB\tdense ms\thot ms\tcold ms\twait ms\tms\t")
	for first := 0; first < len(d.plan.Layers); {
		last := first
		for last+1 < len(d.layers()) && sameRow(&d.plan.Layers[first], &d.plan.Layers[last+1]) {
			last++
		}
		d.row(w, first, last)
		first = last + 1
	}
	var vram int64
	for _, v := range d.plan.VRAM {
		vram += v
	}
	fmt.Fprintf(w, "all\t\t\t\t%.1f\t%.1f\t\t\t\t\t%.3f\t\n", mib(vram), mib(d.plan.RAM+b.Rest), 1e3*d.plan.Seconds)
	if err := w.Flush(); err != nil {
		return err
	}
	if len(d.on.GPUs) > 1 {
		fmt.Fprintln(out)
		for j, v := range d.plan.VRAM {
			fmt.Fprintf(out, "card %d: %.2f of %.2f GiB\n", j, gib(v), gib(d.on.GPUs[j].Budget))
		}
	}
	return d.closing(out)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// sameRow reports whether two layers lie and cost alike.
func sameRow(a, b *placement.Priced) bool {
	const alike = 1e-7 // seconds: what the table can show
	return a.Place == b.Place && a.VRAM == b.VRAM && a.RAM == b.RAM && max(a.Seconds-b.Seconds, b.Seconds-a.Seconds) < alike
}

func (d *drawing) row(w io.Writer, first, last int) {
	y := &d.plan.Layers[first]
	name := fmt.Sprint(first)
	if last > first {
		name = fmt.Sprintf("%d-%d, each", first, last)
	}
	where := func(card bool) string {
		if card {
			return fmt.Sprintf("card %d", y.GPU)
		}
		return "RAM"
	}
	attention, predictor, hot := where(y.Attention), "", ""
	if first == len(d.layers()) {
		name = "head"
	} else {
		if d.b.Model.Layers[first].Predictor > 0 {
			predictor = where(y.Predictor)
		}
		hot = fmt.Sprintf("%d (%.1f %%)", y.Hot, 100*float64(y.Hot)/float64(max(d.b.FF, 1)))
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%.1f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t\n", name, attention, predictor, hot,
		mib(y.VRAM), mib(y.RAM), 1e3*y.Dense, 1e3*y.HotTime, 1e3*y.ColdTime, 1e3*y.Wait, 1e3*y.Seconds)
}

// closing tells the speeds.
func (d *drawing) closing(out io.Writer) error {
	fmt.Fprintf(out, "\nexpected: %.2f tokens/s (%.1f ms a token, of which %.1f %% hand-offs)\n", 1/d.plan.Seconds, 1e3*d.plan.Seconds, 100*waits(&d.plan)/d.plan.Seconds)
	if len(d.on.GPUs) > 0 {
		fmt.Fprintf(out, "without a card: %.2f tokens/s\n", 1/d.inRAM.Seconds)
		fmt.Fprintf(out, "whole dense layers, as llama.cpp -ngl %d: %.2f tokens/s; this is %.2f times that\n", d.whole, 1/d.byLayers.Seconds, d.byLayers.Seconds/d.plan.Seconds)
		return nil
	}
	_, err := fmt.Fprintf(out, "dense: %.2f tokens/s; this is %.2f times that\n", 1/d.byLayers.Seconds, d.byLayers.Seconds/d.plan.Seconds)
	return err
}

func waits(p *placement.Plan) (sum float64) {
	for _, y := range p.Layers {
		sum += y.Wait
	}
	return sum
}

// planJSON is what plan --json prints; bytes, seconds and bytes per second throughout.
type planJSON struct {
	Model        string            `json:"model"`
	Type         string            `json:"type"`
	Sparse       string            `json:"sparse"`
	Context      int               `json:"context"`
	Active       float64           `json:"active"`
	Notes        []string          `json:"notes"`
	Machine      placement.Machine `json:"machine"`
	Layers       []layerJSON       `json:"layers"` // the head is the last
	VRAM         []int64           `json:"vram"`   // of each card
	RAM          int64             `json:"ram"`
	Seconds      float64           `json:"seconds"`
	TokensPerSec float64           `json:"tokens_per_second"`
	RAMOnly      float64           `json:"ram_only_tokens_per_second"`
	WholeLayers  int               `json:"whole_layers"`
	WholeSpeed   float64           `json:"whole_layers_tokens_per_second"`
}

type layerJSON struct {
	Card      int     `json:"card"` // -1: none
	Attention bool    `json:"attention_on_card"`
	Predictor bool    `json:"predictor_on_card"`
	Hot       int     `json:"hot"`
	VRAM      int64   `json:"vram"`
	RAM       int64   `json:"ram"`
	Dense     float64 `json:"dense_seconds"`
	HotTime   float64 `json:"hot_seconds"`
	ColdTime  float64 `json:"cold_seconds"`
	Wait      float64 `json:"wait_seconds"`
	Seconds   float64 `json:"seconds"`
}

func (d *drawing) json(out io.Writer) error {
	j := planJSON{
		Model: d.b.Name, Type: d.b.Type, Sparse: d.b.Mode.String(), Context: d.b.Context, Active: d.b.Active, Notes: d.notes(), Machine: d.on,
		VRAM: d.plan.VRAM, RAM: d.plan.RAM + d.b.Rest, Seconds: d.plan.Seconds, TokensPerSec: 1 / d.plan.Seconds,
		RAMOnly: 1 / d.inRAM.Seconds, WholeLayers: d.whole, WholeSpeed: 1 / d.byLayers.Seconds,
	}
	for _, y := range d.plan.Layers {
		j.Layers = append(j.Layers, layerJSON{y.GPU, y.Attention, y.Predictor, y.Hot, y.VRAM, y.RAM, y.Dense, y.HotTime, y.ColdTime, y.Wait, y.Seconds})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
}

// publishedTable prints what was published beside what the cost model says of the same setting.
func publishedTable(out io.Writer) error {
	list, err := blueprint.Simulate()
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
	_, err = fmt.Fprintln(out, "\nTokens per second. The plan counts memory alone: where most activations are on the card, something else limited the original.\n"+
		"llama.cpp is that of 2023; its plan is whole dense layers. Assumptions: docs/placement.md.")
	return err
}
