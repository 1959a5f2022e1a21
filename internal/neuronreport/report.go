package neuronreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed report.html
var page string

// Report writes one HTML page with everything: it loads nothing from elsewhere, and its content policy forbids it.
func (p *Report) Report(w io.Writer) error {
	if p.Predictors != nil && len(p.Predictors) != len(p.Figures) {
		return fmt.Errorf("%d predictors for %d layers", len(p.Predictors), len(p.Figures))
	}
	t, err := template.New("report").Funcs(template.FuncMap{
		"percent": func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) },
		"short":   percent,
		"bytes":   size,
		"count":   grouped[int],
		"tokens":  grouped[uint64],
	}).Parse(page)
	if err != nil {
		panic(err) // the page is compiled in
	}
	type row struct {
		Figures
		Predictor *Predictor
	}
	rows := make([]row, len(p.Figures))
	for l := range rows {
		rows[l].Figures = p.Figures[l]
		if p.Predictors != nil {
			rows[l].Predictor = &p.Predictors[l]
		}
	}
	reuse, texts := template.HTML(""), ""
	if p.Experts != nil {
		reuse, texts = template.HTML(p.drawing(curvesHeight, p.drawReuse)), p.textNames()
	}
	// The drawings escape what comes from outside themselves.
	return t.Execute(w, map[string]any{
		"Report": p, "Rows": rows, "Overall": p.Overall(), "AlwaysOnShare": AlwaysOnShare, "Terms": p.terms().titles(), "Texts": texts, "Reuse": reuse,
		"Curves": template.HTML(p.drawing(curvesHeight, p.drawCurves)),
		"Ranks":  template.HTML(p.drawing(curvesHeight, p.drawRanks)),
		"Map":    template.HTML(p.drawing(p.mapHeight(), p.drawMap)),
	})
}

// size prints bytes with a binary unit.
func size(n int64) string {
	switch {
	case n == 0:
		return "–"
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
