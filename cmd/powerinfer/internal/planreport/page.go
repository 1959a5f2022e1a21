package planreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
)

//go:embed page.html
var planPage string

// planRow is a line of the page's table: layers with the same place and cost.
type planRow struct {
	Name      string
	Place     string // place of attention
	Hot       string // empty for the head
	VRAM, RAM int64  // bytes of each layer
	Times     [4]string
}

// HTML writes the plan as one page that loads nothing from elsewhere.
func (d *Report) HTML(out io.Writer) error {
	t, err := template.New("plan").Funcs(template.FuncMap{
		"mib":  func(n int64) string { return fmt.Sprintf("%.1f", quantity.MiB(n)) },
		"gib":  func(n int64) string { return fmt.Sprintf("%.2f GiB", quantity.GiB(n)) },
		"rate": func(s float64) string { return fmt.Sprintf("%.2f tokens/s", 1/s) },
		"gbps": func(v float64) string { return fmt.Sprintf("%.1f GB/s", v/1e9) },
		"part": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
	}).Parse(planPage)
	if err != nil {
		panic(err) // the page is embedded
	}
	var rows []planRow
	for _, span := range d.rows() {
		y := &d.plan.Layers[span[0]]
		r := planRow{
			Name: d.rowName(span[0], span[1]), Place: "RAM", VRAM: y.VRAM, RAM: y.RAM,
			Times: [4]string{d.ms(y.Dense), d.ms(max(y.HotTime, y.ColdTime)), d.ms(y.Wait), d.ms(y.Seconds)},
		}
		if y.Attention {
			r.Place = fmt.Sprintf("GPU %d", y.Tier)
		}
		if span[0] < len(d.layers()) {
			r.Hot = d.hot(span[0])
		}
		rows = append(rows, r)
	}
	if place, vram, ram, ok := d.guessing(); ok {
		rows = append(rows, planRow{Name: d.guessingName(), Place: place, VRAM: vram, RAM: ram})
	}
	// The pictures hold numbers and fixed words only.
	return t.Execute(out, map[string]any{
		"B": d.b, "Units": d.units(), "On": d.on, "Plan": d.plan, "Rows": rows, "Notes": d.notes(), "Rest": d.ram(), "Disk": d.plan.Disk.Bytes, "Timed": d.timed,
		"Layers": d.byLayers, "Whole": d.whole, "InRAM": d.inRAM, "Total": d.b.Model.Bytes() + d.b.Rest, "All": d.ms(d.plan.Seconds),
		"Ways": d.wayRows(), "Following": d.following(), "Spilled": d.spilled(),
		"Bytes": template.HTML(d.bytePicture()), "Times": template.HTML(d.timePicture()),
	})
}

// wayRow is a line of the page's table of ways to compute a model with experts.
type wayRow struct {
	Name    string
	Figures []string
}

func (d *Report) wayRows() (rows []wayRow) {
	if len(d.ways) < 2 {
		return nil
	}
	for i := range d.ways {
		y := &d.ways[i]
		mb := func(v float64) string { return fmt.Sprintf("%.0f", v/1e6) }
		rows = append(rows, wayRow{y.Name, []string{
			d.wayRate(y), fmt.Sprintf("%.0f %%", 100*y.Hits), fmt.Sprintf("%.2f", quantity.GiB(y.VRAM)), fmt.Sprintf("%.2f", quantity.GiB(y.RAM)), mb(y.ReadVRAM), mb(y.ReadRAM), mb(y.ReadDisk),
		}})
	}
	return rows
}

// part is a piece of a layer's bar.
type part struct {
	class, says string
	value       float64
}

// bytePicture returns a bar for each layer: bytes on its GPU at the bottom, bytes in RAM above them.
func (d *Report) bytePicture() string {
	return stacked(len(d.plan.Layers), "MiB", func(l int) []part {
		y := &d.plan.Layers[l]
		var hot, cold int64
		if l < len(d.layers()) {
			u := &d.b.Model.Layers[l].Units
			hot, cold = u.Size*int64(y.Bound), u.Size*int64(len(u.Sometimes)-y.Bound)-y.Disk
		}
		return []part{
			{"gpu-dense", "attention, KV, predictor on the GPU", quantity.MiB(y.VRAM - hot)},
			{"gpu-hot", "hot " + d.units() + " on the GPU", quantity.MiB(hot)},
			{"ram-dense", "attention, KV, predictor in RAM", quantity.MiB(y.RAM - cold)},
			{"ram-cold", "cold " + d.units() + " in RAM", quantity.MiB(cold)},
			{"disk", d.units() + " on the disk", quantity.MiB(y.Disk)},
		}
	})
}

// timePicture returns a bar a layer: its share of a token's time.
func (d *Report) timePicture() string {
	return stacked(len(d.plan.Layers), "ms", func(l int) []part {
		y := &d.plan.Layers[l]
		dense := "ram-dense"
		if y.Attention {
			dense = "gpu-dense"
		}
		both := min(y.HotTime, y.ColdTime)
		longer, says := "ram-cold", "then the processor alone"
		if y.HotTime > y.ColdTime {
			longer, says = "gpu-hot", "then the GPU alone"
		}
		return []part{
			{dense, "attention and predictor", 1e3 * y.Dense},
			{"both", "both on " + d.units(), 1e3 * both},
			{longer, says, 1e3 * (max(y.HotTime, y.ColdTime) - both)},
			{"wait", "hand-offs", 1e3 * y.Wait},
		}
	})
}

// Sizes of a bar chart in CSS pixels. It is as wide as the page: places along its axis are percentages, so that labels
// keep their size.
const (
	barsHeight = 250 // height of the highest bar
	barsTop    = 10
	barsFoot   = 20 // below the bars, for their names
)

// stacked returns an SVG of n bars of stacked parts, with the largest sum as the top of its scale.
func stacked(n int, unit string, of func(i int) []part) string {
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
	const foot = barsTop + barsHeight
	fmt.Fprintf(&b, `<svg class="bars" width="100%%" height="%d" role="img" xmlns="http://www.w3.org/2000/svg">`, foot+barsFoot)
	for _, share := range []float64{0, 0.5, 1} {
		y := barsTop + barsHeight*(1-share)
		fmt.Fprintf(&b, `<line class="grid" x1="0" x2="100%%" y1="%g" y2="%g"/><text x="-6" y="%g" text-anchor="end">%s</text>`, y, y, y+4, short(share*largest))
	}
	fmt.Fprintf(&b, `<text x="-6" y="%d" text-anchor="end">%s</text>`, foot+barsFoot-5, unit)
	step := 100 / float64(n)
	for i := range n {
		at := float64(foot)
		for _, p := range of(i) {
			h := barsHeight * p.value / largest
			if h <= 0 {
				continue
			}
			at -= h
			fmt.Fprintf(&b, `<rect class="%s" x="%.3f%%" y="%.2f" width="%.3f%%" height="%.2f"><title>%s: %s, %.4g %s</title></rect>`,
				p.class, step*(float64(i)+0.1), at, 0.8*step, h, barName(i, n), p.says, p.value, unit)
		}
	}
	b.WriteString(barNames(n))
	return b.String() + "</svg>"
}

// barNames names at most eleven of n bars below them. The last name ends where the bars do. A narrow page has no room
// for every second name and for those near the last; their class hides them there.
func barNames(n int) string {
	var b strings.Builder
	every := (n + 9) / 10
	for i, k := 0, 0; 3*i+2*every <= 3*(n-1); i, k = i+every, k+1 {
		class := ""
		if k%2 == 1 || i+2*every > n-1 {
			class = ` class="wide"`
		}
		fmt.Fprintf(&b, `<text%s x="%.2f%%" y="%d" text-anchor="middle">%s</text>`, class, 100*(float64(i)+0.5)/float64(n), barsTop+barsHeight+barsFoot-5, barName(i, n))
	}
	fmt.Fprintf(&b, `<text x="100%%" y="%d" text-anchor="end">%s</text>`, barsTop+barsHeight+barsFoot-5, barName(n-1, n))
	return b.String()
}

// short prints a number in few digits and without an exponent.
func short(v float64) string {
	if v >= 100 || v == 0 {
		return fmt.Sprintf("%.0f", v)
	}
	return strconv.FormatFloat(v, 'f', min(2-int(math.Floor(math.Log10(v))), 4), 64)
}

// barName returns the layer's number; the last bar is the head.
func barName(i, n int) string {
	if i == n-1 {
		return "head"
	}
	return fmt.Sprint(i)
}
