package planreport

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// described returns the plan of a described model for a machine of the PowerInfer paper.
func described(t *testing.T, model string) *Report {
	t.Helper()
	s, err := modelcost.Describe(model)
	if err != nil {
		t.Fatal(err)
	}
	m, err := planner.PC("pc-high")
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(planner.With(m, s.Cost(4096, 0), planner.Options{GPUs: planner.GPUs{VRAM: []int64{8 << 30}}}))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func htmlOf(t *testing.T, d *Report) string {
	t.Helper()
	var b strings.Builder
	if err := d.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReportRows: the page has the terminal's rows; equal layers share one.
func TestReportRows(t *testing.T) {
	d := described(t, "llama-70b,type=q4_0,active=0.1")
	var text strings.Builder
	if err := d.Text(&text); err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^ +(\d+-\d+, each|\d+|head) +(?:GPU|RAM)`).FindAllStringSubmatch(text.String(), -1)
	rows := regexp.MustCompile(`<tr><td>([^<]*)</td>`).FindAllStringSubmatch(htmlOf(t, d), -1)
	rows = rows[:len(rows)-1] // all
	if len(rows) != len(names) || len(rows) > 10 {
		t.Fatalf("%d rows on the page, %d in the terminal, of 81 layers", len(rows), len(names))
	}
	for i := range rows {
		if rows[i][1] != names[i][1] {
			t.Errorf("row %d is %q on the page and %q in the terminal", i, rows[i][1], names[i][1])
		}
	}
}

// TestSoftwareIsNotPredicted: plans for software devices show no speed in any form.
func TestSoftwareIsNotPredicted(t *testing.T) {
	d := described(t, "llama-7b,type=q4_0,active=0.1")
	d.timed, d.on.GPUs[0].Read = false, 0
	var text, json strings.Builder
	if err := d.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := d.JSON(&json); err != nil {
		t.Fatal(err)
	}
	html := htmlOf(t, d)
	expected := fmt.Sprintf("%.2f", 1/d.plan.Seconds)
	for form, s := range map[string]string{"text": text.String(), "JSON": json.String(), "HTML": html} {
		if strings.Contains(s, expected) || !strings.Contains(s, "is software on the processor: its speed is not predicted") {
			t.Errorf("%s: it expects %s tokens/s, or does not say that it expects nothing:\n%.600s", form, expected, s)
		}
	}
	if !strings.Contains(json.String(), `"tokens_per_second": null`) || strings.Contains(html, "of a token's time") {
		t.Error("times of software are shown")
	}
}

// label is a text of a chart: its extent in CSS pixels, from the left edge of the chart's bars.
type label struct {
	text        string
	left, right float64
	y           string
}

// labels returns the labels of a chart with bars of this total width, with or without the labels that only wide pages
// have. A letter of the font takes at most two thirds of its size.
func labels(t *testing.T, svg string, width float64, wide bool) (list []label) {
	t.Helper()
	const letter = 12 * 2.0 / 3
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if err != nil {
			return list
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "text" {
			continue
		}
		at := map[string]string{}
		for _, a := range e.Attr {
			at[a.Name.Local] = a.Value
		}
		var s string
		if err := d.DecodeElement(&s, &e); err != nil {
			t.Fatal(err)
		}
		if at["class"] == "wide" && !wide {
			continue
		}
		number, percent := strings.CutSuffix(at["x"], "%")
		x, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		if percent {
			x *= width / 100
		}
		long := letter * float64(len(s))
		l := label{s, x, x + long, at["y"]}
		switch at["text-anchor"] {
		case "middle":
			l.left, l.right = x-long/2, x+long/2
		case "end":
			l.left, l.right = x-long, x
		}
		list = append(list, l)
	}
}

// TestChartLabels: no label of a chart is cut off or covers another, on wide and narrow pages, with few and many
// layers.
func TestChartLabels(t *testing.T) {
	const left = 60 // .bars leaves this many pixels on its left
	if !strings.Contains(planPage, "padding-left: 60px") {
		t.Fatal("the page leaves another margin")
	}
	for _, n := range []int{2, 3, 7, 13, 27, 33, 41, 43, 47, 48, 61, 81, 97, 127} {
		for _, tall := range []float64{0.0123, 3.21, 123, 98765} {
			svg := stacked(n, "MiB", func(int) []part { return []part{{"wait", "x", tall}} })
			for _, width := range []float64{240, 1100} { // of pages of 375 and 1200 pixels
				list := labels(t, svg, width, width > 600)
				for i, a := range list {
					if a.left < -left || a.right > width {
						t.Errorf("%d bars of %g on %g pixels: %q reaches from %.0f to %.0f", n, tall, width, a.text, a.left, a.right)
					}
					for _, b := range list[:i] {
						if a.y == b.y && a.left < b.right && b.left < a.right {
							t.Errorf("%d bars of %g on %g pixels: %q covers %q", n, tall, width, a.text, b.text)
						}
					}
				}
				if last := list[len(list)-1]; last.text != "head" {
					t.Errorf("the last label is %q", last.text)
				}
			}
		}
	}
}

// TestChartClasses: the page's style sheet has every class of the charts.
func TestChartClasses(t *testing.T) {
	html := htmlOf(t, described(t, "llama-7b,type=q4_0,active=0.1"))
	for _, m := range regexp.MustCompile(`<(?:rect|text|svg|line) class="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		if !strings.Contains(html, "."+m[1]+" {") {
			t.Fatalf("the style sheet has no class %s", m[1])
		}
	}
}

// TestPlanShape: the first line tells experts from neurons, and shows the mode if some layer has neurons to skip.
func TestPlanShape(t *testing.T) {
	experts := placement.Layer{Experts: true, Units: placement.Units{Sometimes: make([]float64, 8)}}
	neurons := placement.Layer{Units: placement.Units{Sometimes: make([]float64, 96)}}
	for _, c := range []struct {
		mode   model.SparseMode
		layers []placement.Layer
		want   string
	}{
		{model.Exact, []placement.Layer{neurons, neurons}, ", --sparse exact: 2 layers of 96 neurons, 25.0 % active"},
		{model.Off, []placement.Layer{experts, experts}, ": 2 layers of 8 experts, 2 used"},
		{model.Off, []placement.Layer{neurons, experts, experts}, ": 2 layers of 8 experts, 2 used, 1 layer of 96 neurons"},
		{model.Exact, []placement.Layer{neurons, experts, experts}, ", --sparse exact: 2 layers of 8 experts, 2 used, 1 layer of 96 neurons, 25.0 % active"},
	} {
		d := Report{b: modelcost.Cost{Mode: c.mode, Layers: len(c.layers), Active: 0.25, ExpertsUsed: 2, Model: placement.Model{Layers: c.layers}}}
		if got := d.shape(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestPlanOfGuesses: a plan shows the place and the memory of the MTP layer if --spec-type makes it draft. The planner
// that opens the model agrees.
func TestPlanOfGuesses(t *testing.T) {
	f := synthtest.Further(t, synth.Spec{Arch: "deepseek2", Layers: 3, Embd: 64, FF: 32, Heads: 4, Type: quant.F16, Experts: 4, Used: 2, Activation: "silu", Seed: 3}, false)
	cost := func(further bool) modelcost.Cost {
		b, err := modelcost.Of(f, modelcost.Options{Context: 256, Drafts: 8, Further: further, Law: modelcost.UsualLaw()})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	m := planner.Described(8<<30, 60e9)
	m.Add("a GPU", 1<<30, 500e9)
	all := -1
	draw := func(b modelcost.Cost, o planner.Options) (*Report, string) {
		d, err := New(planner.With(m, b, o))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := d.Text(&text); err != nil {
			t.Fatal(err)
		}
		return d, text.String()
	}
	for place, o := range map[string]planner.Options{"GPU 0": {GPUs: planner.GPUs{Layers: &all}}, "RAM": {GPUs: planner.GPUs{Layers: &all, KVInRAM: true}}} {
		b := cost(true)
		d, text := draw(b, o)
		without, plain := draw(cost(false), o)
		plan, err := planner.With(m, b, o).Plan()
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^ +mtp +`+place+` +\d`).MatchString(text) || strings.Contains(plain, "mtp") {
			t.Errorf("%s: the plan is\n%s\nand without guesses\n%s", place, text, plain)
		}
		ram, vram := b.Further.Bytes()+b.Further.Expanded, int64(0)
		if place == "GPU 0" {
			ram, vram = 0, b.Further.Bytes()
		}
		if got := d.ram() - without.ram(); got != ram {
			t.Errorf("%s: %d bytes more in RAM with the layer, want %d", place, got, ram)
		}
		if layout := plan.Layout(); layout.Further() != (vram > 0) || d.plan.VRAM[0] != plan.GPUs[0].Planned || d.plan.VRAM[0]-without.plan.VRAM[0] < vram {
			t.Errorf("%s: %d bytes of the GPU, %d without the layer of %d; the planner has %d", place, d.plan.VRAM[0], without.plan.VRAM[0], vram, plan.GPUs[0].Planned)
		}
	}
}
