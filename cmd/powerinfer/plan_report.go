package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed plan.html
var planPage string

// html writes the plan as one page that loads nothing from elsewhere.
func (d *drawing) html(out io.Writer) error {
	t, err := template.New("plan").Funcs(template.FuncMap{
		"mib":  func(n int64) string { return fmt.Sprintf("%.1f", mib(n)) },
		"gib":  func(n int64) string { return fmt.Sprintf("%.2f GiB", gib(n)) },
		"ms":   func(s float64) string { return fmt.Sprintf("%.3f", 1e3*s) },
		"rate": func(s float64) string { return fmt.Sprintf("%.2f tokens/s", 1/s) },
		"gbps": func(v float64) string { return fmt.Sprintf("%.1f GB/s", v/1e9) },
		"part": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
	}).Parse(planPage)
	if err != nil {
		panic(err) // the page is compiled in
	}
	type row struct {
		Name         string
		Place        string // of attention
		Share        float64
		Hot          int
		VRAM, RAM    int64
		Dense, Units float64
		Wait, All    float64
	}
	var rows []row
	for l, y := range d.plan.Layers {
		r := row{Name: fmt.Sprint(l), Place: "RAM", Hot: y.Hot, VRAM: y.VRAM, RAM: y.RAM, Dense: y.Dense, Units: max(y.HotTime, y.ColdTime), Wait: y.Wait, All: y.Seconds}
		if y.Attention {
			r.Place = fmt.Sprintf("card %d", y.GPU)
		}
		r.Share = float64(y.Hot) / float64(max(d.b.FF, 1))
		if l == len(d.layers()) {
			r.Name = "head"
		}
		rows = append(rows, r)
	}
	// The pictures hold numbers and fixed words only.
	return t.Execute(out, map[string]any{
		"B": d.b, "On": d.on, "Plan": d.plan, "Rows": rows, "Notes": d.notes(), "Rest": d.plan.RAM + d.b.Rest,
		"Layers": d.byLayers, "Whole": d.whole, "InRAM": d.inRAM, "Total": d.b.Model.Bytes() + d.b.Rest,
		"Bytes": template.HTML(d.bytePicture()), "Times": template.HTML(d.timePicture()),
	})
}

// part is a piece of a layer's bar.
type part struct {
	class, says string
	value       float64
}

// bytePicture is a bar a layer: what lies on its card from below, what lies in RAM above it.
func (d *drawing) bytePicture() string {
	return stacked(len(d.plan.Layers), "MiB", func(l int) []part {
		y := &d.plan.Layers[l]
		var hot, cold int64
		if l < len(d.layers()) {
			u := &d.b.Model.Layers[l].Units
			hot, cold = u.Size*int64(y.Hot), u.Size*int64(len(u.Sometimes)-y.Hot)
		}
		return []part{
			{"card-dense", "attention, KV, predictor on the card", mib(y.VRAM - hot)},
			{"card-hot", "hot neurons on the card", mib(hot)},
			{"ram-dense", "attention, KV, predictor in RAM", mib(y.RAM - cold)},
			{"ram-cold", "cold neurons in RAM", mib(cold)},
		}
	})
}

// timePicture is a bar a layer: its share of a token's time.
func (d *drawing) timePicture() string {
	return stacked(len(d.plan.Layers), "ms", func(l int) []part {
		y := &d.plan.Layers[l]
		dense := "ram-dense"
		if y.Attention {
			dense = "card-dense"
		}
		both := min(y.HotTime, y.ColdTime)
		longer, says := "ram-cold", "then the processor alone"
		if y.HotTime > y.ColdTime {
			longer, says = "card-hot", "then the card alone"
		}
		return []part{
			{dense, "attention and predictor", 1e3 * y.Dense},
			{"both", "both on neurons", 1e3 * both},
			{longer, says, 1e3 * (max(y.HotTime, y.ColdTime) - both)},
			{"wait", "hand-offs", 1e3 * y.Wait},
		}
	})
}

// stacked is an SVG of n bars of stacked parts, with the largest sum as the top of its scale.
func stacked(n int, unit string, of func(i int) []part) string {
	const width, height, left, bottom = 1000.0, 260.0, 60.0, 20.0
	largest := 0.0
	for i := range n {
		sum := 0.0
		for _, p := range of(i) {
			sum += p.value
		}
		largest = max(largest, sum)
	}
	if largest == 0 {
		largest = 1
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" xmlns="http://www.w3.org/2000/svg">`, width, height+bottom)
	for _, share := range []float64{0, 0.5, 1} {
		y := 10 + (height-10)*(1-share)
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%.3g</text>`, left, width, y, y, left-6, y+4, share*largest)
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="end">%s</text>`, left-6, height+bottom-2, unit)
	step := (width - left) / float64(n)
	for i := range n {
		at := height
		x := left + step*float64(i)
		for _, p := range of(i) {
			h := (height - 10) * p.value / largest
			if h <= 0 {
				continue
			}
			at -= h
			fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>%s: %s, %.4g %s</title></rect>`,
				p.class, x+0.1*step, at, 0.8*step, h, barName(i, n), p.says, p.value, unit)
		}
		if i%max(n/10, 1) == 0 || i == n-1 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`, x+step/2, height+bottom-5, barName(i, n))
		}
	}
	return b.String() + "</svg>"
}

// barName is the layer's number; the last bar is the head.
func barName(i, n int) string {
	if i == n-1 {
		return "head"
	}
	return fmt.Sprint(i)
}
