package sweep

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/model"
)

//go:embed page.html
var page string

// view is a picture with its name.
type view struct {
	ID, Name string
	Picture  template.HTML
}

// verdicts compare the other files, by the speeds of a machine.
type verdicts struct {
	Machine string // empty: this one
	All     []*Comparison
}

// knob shows what turning one thing does.
type knob struct {
	Name     string
	Pictures []view
}

// HTML writes the report as one page that loads nothing from elsewhere, which its content policy forbids, too.
func (rep *Report) HTML(w io.Writer) error {
	t, err := template.New("sweep").Funcs(template.FuncMap{
		"short": short, "percent": func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) },
		"mb":    func(v float64) string { return short(v / 1e6) },
		"times": func(a, b float64) string { return fmt.Sprintf("%.2f", a/b) },
		"nats":  func(v float64) string { return fmt.Sprintf("%.6f", v) },
		"size":  func(n int64) string { return short(float64(n)/1e6) + " MB" },
	}).Parse(page)
	if err != nil {
		panic(err) // the page is compiled in
	}
	type row struct {
		*Point
		Active, Computed float64
		Chosen           bool
	}
	type other struct {
		Model
		*Point // with no budget of a GPU
	}
	var rows []row
	var others []other
	for i := range rep.Points {
		p := &rep.Points[i]
		r := row{Point: p, Chosen: rep.recommended(p)}
		if p.Quality != nil {
			r.Active, r.Computed = p.Quality.Active()
		}
		rows = append(rows, r)
		if k := slices.IndexFunc(rep.Others, func(m Model) bool { return m.File == p.File }); k >= 0 && p.Budget == 0 {
			others = append(others, other{rep.Others[k], p})
		}
	}
	var says []verdicts
	for i := range rep.Beside {
		c := &rep.Beside[i]
		if n := len(says); n == 0 || says[n-1].Machine != c.Machine {
			says = append(says, verdicts{Machine: c.Machine})
		}
		last := &says[len(says)-1]
		last.All = append(last.All, c)
	}
	// Pictures hold numbers, fixed words and escaped names.
	return t.Execute(w, map[string]any{
		"Report": rep, "Rows": rows, "Others": others, "Verdicts": says, "Views": rep.views(), "Knobs": rep.knobs(), "Bytes": template.HTML(rep.byteBars()), "Layers": rep.layerViews(),
		"Scores": rep.scores(), "Modes": rep.modes(), "Fields": rep.scoreViews(),
	})
}

// axes returns the ways to look at results that have data.
func (rep *Report) axes() []axis {
	all := []axis{
		{id: "speed", name: "tokens per second, measured", of: func(p *Point) (float64, float64, float64, bool) {
			if p.Speed == nil {
				return 0, 0, 0, false
			}
			return p.Speed.Median, p.Speed.Least, p.Speed.Most, true
		}},
		{id: "bytes", name: "MB of weights read for a token", less: true, of: func(p *Point) (float64, float64, float64, bool) {
			if p.Reads == nil {
				return 0, 0, 0, false
			}
			v := p.Reads.All() / 1e6
			return v, v, v, true
		}},
	}
	for i, m := range rep.Described {
		all = append(all, axis{id: fmt.Sprint("machine", i), name: "tokens per second, expected on " + m, of: func(p *Point) (float64, float64, float64, bool) {
			if i >= len(p.Expected) {
				return 0, 0, 0, false
			}
			v := p.Expected[i].Rate
			return v, v, v, true
		}})
	}
	return all
}

func (rep *Report) views() (all []view) {
	for _, a := range rep.axes() {
		if picture := rep.front(a); picture != "" {
			all = append(all, view{a.id, a.name, template.HTML(picture)})
		}
	}
	return all
}

// modes returns the modes of the swept file's points, in their order.
func (rep *Report) modes() (all []string) {
	for i := range rep.Points {
		if m := rep.Points[i].Mode; rep.Points[i].File == "" && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

// knobs returns pictures of what thresholds, shares that are always on and shares that are left out do.
func (rep *Report) knobs() (all []knob) {
	predict := model.Predict.String()
	var own *float32 // the threshold at which the share that is always on is varied
	for i := range rep.Points {
		if p := &rep.Points[i]; p.AlwaysOn > 0 && own == nil {
			own = p.Threshold
		}
	}
	for _, k := range []struct {
		name string
		of   func(p *Point) (float64, bool)
	}{
		{"threshold of the predictors' logits", func(p *Point) (float64, bool) {
			if p.Mode != predict || p.Threshold == nil {
				return 0, false
			}
			return float64(*p.Threshold), p.AlwaysOn == 0
		}},
		{"share of neurons always on", func(p *Point) (float64, bool) {
			return p.AlwaysOn, p.Mode == predict && own != nil && p.Threshold != nil && *p.Threshold == *own
		}},
		{"share of activations left out", func(p *Point) (float64, bool) { return p.Share, p.Mode == model.Threshold.String() }},
	} {
		var points []*Point
		for i := range rep.Points {
			p := &rep.Points[i]
			if _, ok := k.of(p); ok && p.Quality != nil && p.Budget == 0 && p.Activation == "" {
				points = append(points, p)
			}
		}
		if len(points) < 3 {
			continue
		}
		slices.SortStableFunc(points, func(a, b *Point) int {
			x, _ := k.of(a)
			y, _ := k.of(b)
			return int(max(-1, min(1, (x-y)*1e9)))
		})
		curve := func(name, class string, of func(p *Point) (value, error float64, ok bool)) series {
			s := series{name: name, class: class}
			for _, p := range points {
				if v, e, ok := of(p); ok {
					x, _ := k.of(p)
					s.x, s.y, s.error = append(s.x, x), append(s.y, v), append(s.error, e)
				}
			}
			return s
		}
		shown := knob{Name: k.name}
		add := func(title string, log, share bool, all ...series) {
			if picture := curves(title, k.name, log, share, all...); picture != "" {
				shown.Pictures = append(shown.Pictures, view{Name: title, Picture: template.HTML(picture)})
			}
		}
		mode := points[0].Mode
		add("KL divergence, nats a token", true, false, curve("KL divergence", mode, func(p *Point) (float64, float64, bool) {
			return p.Quality.KLDivergence.Value, p.Quality.KLDivergence.Error, true
		}))
		add("same top token", false, true, curve("same top token", mode, func(p *Point) (float64, float64, bool) {
			return p.Quality.SameTop.Value, p.Quality.SameTop.Error, true
		}))
		add("recall and precision of predictors", false, true,
			curve("recall", "recall", func(p *Point) (float64, float64, bool) {
				if p.Predictor == nil {
					return 0, 0, false
				}
				return p.Predictor.Recall, 0, true
			}),
			curve("precision", "precision", func(p *Point) (float64, float64, bool) {
				if p.Predictor == nil {
					return 0, 0, false
				}
				return p.Predictor.Precision, 0, true
			}))
		add("perplexity", false, false, curve("perplexity", mode, func(p *Point) (float64, float64, bool) { return p.Quality.Perplexity.Value, 0, true }))
		add("MB of weights read for a token", false, false, curve("MB", mode, func(p *Point) (float64, float64, bool) {
			if p.Reads == nil {
				return 0, 0, false
			}
			return p.Reads.All() / 1e6, 0, true
		}))
		add("neurons computed and active", false, true,
			curve("computed", mode, func(p *Point) (float64, float64, bool) { _, c := p.Quality.Active(); return c, 0, true }),
			curve("active", "recall", func(p *Point) (float64, float64, bool) { a, _ := p.Quality.Active(); return a, 0, true }))
		all = append(all, shown)
	}
	return all
}

// byteBars draws what a token reads from where.
func (rep *Report) byteBars() string {
	var rows []bar
	for i := range rep.Points {
		p := &rep.Points[i]
		if p.Reads == nil {
			continue
		}
		r := p.Reads
		all := r.All()
		ffn := min(r.FFN, all)
		shareRAM := 1.0
		if all > 0 {
			shareRAM = r.RAM / all
		}
		parts := []part{
			{"ram-dense", "attention and head from RAM", (all - ffn) * shareRAM / 1e6},
			{"ram-cold", "feed-forward layers from RAM", ffn * shareRAM / 1e6},
			{"gpu-dense", "from GPUs", r.VRAM / 1e6},
		}
		rows = append(rows, bar{name: p.Name, parts: parts, says: short(all/1e6) + " MB"})
	}
	return bars("bytes that a token reads, by setting", "MB of weights read for a token", rows)
}

// layerViews draws each layer's own divergence from dense.
func (rep *Report) layerViews() (all []view) {
	for i := range rep.Layers {
		s := &rep.Layers[i]
		var rows []bar
		for _, y := range s.Layers {
			v := y.KLDivergence
			rows = append(rows, bar{name: fmt.Sprint("layer ", y.Layer), parts: []part{{"sensitive", "KL divergence", v.Value}}, error: v.Error, says: fmt.Sprintf("%.6f", v.Value)})
		}
		picture := bars("KL divergence of each layer alone", "KL divergence from dense, nats a token, of "+s.Name+" in this layer alone; whiskers: two standard errors", rows)
		all = append(all, view{ID: s.Name, Name: fmt.Sprintf("Added up they come to %s; all layers at once to %s, in the same %d windows.", short(s.Sum()), short(s.All.Value), s.Windows), Picture: template.HTML(picture)})
	}
	return all
}

// scoreViews draws the tasks' scores.
func (rep *Report) scoreViews() (all []view) {
	for i, of := range rep.scores() {
		var rows []bar
		for k := range rep.Points {
			if p := &rep.Points[k]; i < len(p.Scores) {
				f := p.Scores[i].Figure
				rows = append(rows, bar{
					name: p.Name, parts: []part{{"sensitive", of.Metric, 100 * f.Value}}, error: 100 * (f.High - f.Low) / 4,
					says: fmt.Sprintf("%.1f [%.1f, %.1f]", 100*f.Value, 100*f.Low, 100*f.High),
				})
			}
		}
		all = append(all, view{Name: of.Task + ", " + of.Metric, Picture: template.HTML(bars(of.Task, of.Metric+", %; whiskers: intervals of 95 % confidence", rows))})
	}
	return all
}
