package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Setting is one way to run a model. nil or 0 stands for the file's value.
type Setting struct {
	File       string   `json:"file,omitempty"`       // another file in place of the swept one; empty: the swept file
	Digest     string   `json:"digest,omitempty"`     // SHA-256 of File
	Mode       string   `json:"mode"`                 // off, exact, predict or threshold
	Threshold  *float32 `json:"threshold,omitempty"`  // predict: the logit from which on a neuron is computed
	AlwaysOn   float64  `json:"always_on,omitempty"`  // predict: share of each layer's neurons, the hottest, that are computed for every token
	Activation string   `json:"activation,omitempty"` // instead of the file's: fatrelu:0.05
	MaxKLD     float64  `json:"max_kld,omitempty"`    // threshold: the bound that chooses a point of the file's curve
	Share      float64  `json:"share,omitempty"`      // threshold: the share of activations that this point sets to zero; for information only
	Budget     int64    `json:"budget,omitempty"`     // bytes of each GPU's memory that may be used
}

// Name names the setting in a few words; no two settings of a sweep have the same.
func (s Setting) Name() string {
	name := s.Mode
	if s.File != "" { // measured only in mode off
		name = s.File
	}
	add := func(format string, args ...any) { name += " " + fmt.Sprintf(format, args...) }
	if s.Threshold != nil {
		add("%s", decimal(*s.Threshold))
	}
	if s.AlwaysOn > 0 {
		add("on %s", decimal(s.AlwaysOn))
	}
	if s.Activation != "" {
		add("%s", s.Activation)
	}
	if s.Share > 0 {
		add("%.1f %%", 100*s.Share)
	}
	if s.Budget > 0 {
		add("%s GiB", budget(s.Budget))
	}
	return name
}

// key names the setting in the journal: a file by its content, so that a replaced one is measured again.
func (s Setting) key() string {
	if s.File != "" {
		s.File = "file " + s.Digest
	}
	return s.Name()
}

// Flags returns the flags of run, bench and perplexity that choose the setting.
func (s Setting) Flags() []string {
	flags := []string{"--sparse", s.Mode}
	if s.Threshold != nil {
		flags = append(flags, "--sparse-threshold", decimal(*s.Threshold))
	}
	if s.AlwaysOn > 0 {
		flags = append(flags, "--sparse-always-on", decimal(s.AlwaysOn))
	}
	if s.Activation != "" {
		flags = append(flags, "--activation", s.Activation)
	}
	if s.MaxKLD > 0 {
		flags = append(flags, "--max-kld", decimal(s.MaxKLD))
	}
	if s.Budget > 0 {
		flags = append(flags, "--vram-budget", budget(s.Budget))
	}
	return flags
}

// unplaced returns the setting without its budget.
func (s Setting) unplaced() Setting {
	s.Budget = 0
	return s
}

// take has o open a model in the setting.
func (s Setting) take(o *session.Options) error {
	mode, err := model.ParseSparseMode(s.Mode)
	if err != nil {
		return err
	}
	e := &o.Engine
	e.Sparse, e.AlwaysOn, e.Drafts.Most = mode, s.AlwaysOn, 0
	if s.Threshold != nil {
		e.Threshold = s.Threshold
	}
	if s.Activation != "" {
		e.Activation = s.Activation
	}
	e.Bound = model.Bound{KLD: s.MaxKLD} // not the recommendation's
	if s.Budget > 0 {
		o.Planner.VRAM = []int64{s.Budget}
	}
	return nil
}

// decimal prints a number in as few digits as it has.
func decimal[T float32 | float64](v T) string {
	bits := 64
	if _, ok := any(v).(float32); ok {
		bits = 32
	}
	return strconv.FormatFloat(float64(v), 'f', -1, bits)
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// budget prints bytes in GiB as given: 0.1 GiB is not a whole number of bytes.
func budget(n int64) string {
	const digits = 1e6 // about a KiB
	return decimal(math.Round(gib(n)*digits) / digits)
}

// Grid says which settings are measured. A nil list means the usual values; an empty list means only the file's own.
type Grid struct {
	Modes       []string
	Thresholds  []float32
	AlwaysOn    []float64
	Activations []string
	Budgets     []int64
	All         bool // every value with every other; else each list is varied by itself
}

// usualThresholds are distances from a file's own threshold, in logits.
var usualThresholds = []float32{-4, -2, -1, 0, 1, 2, 4}

// usualAlwaysOn are shares of a layer's neurons.
var usualAlwaysOn = []float64{0.1, 0.25}

// Settings returns the settings of the grid for a model, dense ones first.
func (g *Grid) Settings(c *model.Config) ([]Setting, error) {
	modes := g.Modes
	if modes == nil {
		modes = modesOf(c)
	}
	var all []Setting
	for _, name := range modes {
		mode, err := model.ParseSparseMode(name)
		if err != nil {
			return nil, err
		}
		switch mode {
		case model.Auto:
			return nil, fmt.Errorf("mode auto is one of the others; name it: %s", strings.Join(modesOf(c), ", "))
		case model.Predict:
			all = append(all, g.predicting(c)...)
		case model.Threshold:
			all = append(all, byMagnitude(c)...)
		default:
			all = append(all, Setting{Mode: name})
		}
		if mode == model.Exact {
			for _, a := range g.Activations {
				all = append(all, Setting{Mode: name, Activation: a})
			}
		}
	}
	return g.placed(all, c.Threshold), nil
}

// placed returns settings, plus each mode's own settings, or all settings, with every budget. own is the file's
// threshold.
func (g *Grid) placed(settings []Setting, own float32) []Setting {
	all := settings
	for _, b := range g.Budgets {
		for _, s := range settings {
			if g.All || s.usual(own) {
				s.Budget = b
				all = append(all[:len(all):len(all)], s)
			}
		}
	}
	return all
}

// usual reports whether the setting is a mode as the file has it.
func (s Setting) usual(own float32) bool {
	return s.AlwaysOn == 0 && s.Activation == "" && (s.Threshold == nil || *s.Threshold == own)
}

// modesOf returns the modes that a model can be computed in.
func modesOf(c *model.Config) []string {
	var modes []string
	for _, m := range []model.SparseMode{model.Off, model.Exact, model.Predict, model.Threshold} {
		of := *c
		if m == model.Threshold && c.Curve != nil && c.Curve.Way == prepared.ByMagnitude {
			of.Magnitudes = make([]float32, c.Layers)
		}
		if _, err := of.Resolve(m); err == nil {
			modes = append(modes, m.String())
		}
	}
	return modes
}

// predicting returns the settings of mode predict.
func (g *Grid) predicting(c *model.Config) []Setting {
	thresholds, alwaysOn := g.Thresholds, g.AlwaysOn
	if thresholds == nil {
		for _, d := range usualThresholds {
			thresholds = append(thresholds, c.Threshold+d)
		}
	}
	if alwaysOn == nil && c.Prepared != nil {
		alwaysOn = usualAlwaysOn
	}
	own := c.Threshold
	if !slices.Contains(thresholds, own) {
		thresholds = append(slices.Clone(thresholds), own)
	}
	slices.Sort(thresholds)
	var all []Setting
	for _, t := range slices.Compact(thresholds) {
		all = append(all, Setting{Mode: model.Predict.String(), Threshold: &t})
		for _, share := range alwaysOn {
			if share > 0 && (g.All || t == own) {
				all = append(all, Setting{Mode: model.Predict.String(), Threshold: &t, AlwaysOn: share})
			}
		}
	}
	return all
}

// rounded returns a number in four digits that is a little more than v.
func rounded(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(v, 1e-12)))-3)
	return math.Ceil(v/unit+1e-3) * unit
}

// byMagnitude returns the points of a model's curve that a bound can choose, each with such a bound.
func byMagnitude(c *model.Config) []Setting {
	var all []Setting
	if c.Curve == nil || c.Curve.Way != prepared.ByMagnitude { // which possible refuses, with the reason
		return []Setting{{Mode: model.Threshold.String()}}
	}
	worst := 0.0 // so far
	for i := range c.Curve.Points {
		p := &c.Curve.Points[i]
		worst = max(worst, float64(p.MostKLD))
		if bound := rounded(worst); c.Curve.Within(model.Bound{KLD: bound}) == p {
			all = append(all, Setting{Mode: model.Threshold.String(), MaxKLD: bound, Share: float64(p.Setting)})
		}
	}
	return all
}
