package neuronreport

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// ExpertFigures describe how a layer's experts are used. Shares are 0…1.
type ExpertFigures struct {
	Layer     int              `json:"layer"`
	Experts   int              `json:"experts"`
	Used      int              `json:"used"`            // by a token
	Unused    int              `json:"unused"`          // by every token
	Entropy   float64          `json:"entropy"`         // bits of a use's expert; the logarithm of Experts for equal use
	Quarter   float64          `json:"hottest_quarter"` // uses that the hottest quarter of experts has
	Half      float64          `json:"hottest_half"`
	Ranked    []float64        `json:"tokens_by_rank"` // share of tokens that use each expert, the hottest first
	Again     []float64        `json:"again"`          // shares of uses that are repeated this many tokens later, by neuron.Lags
	Chance    float64          `json:"chance"`         // what Again would be if tokens chose independently
	Run       float64          `json:"run"`            // tokens in a row that use an expert, mean
	Agreement neuron.Agreement `json:"agreement"`      // between texts
	Law       neuron.PowerLaw  `json:"power_law"`
	Inactive  *float64         `json:"inactive,omitempty"` // share of (token, neuron) pairs of used experts; nil if neurons were not counted or no expert was used
	Share80   *float64         `json:"share_80,omitempty"` // share of the neurons of all experts that make 80 % of activations
}

// NewExperts checks x and computes its figures. The report has experts instead of neurons.
func NewExperts(model string, x *neuron.Experts) (*Report, error) {
	if err := x.Check(); err != nil {
		return nil, err
	}
	s, layers := x.Stats()
	p, err := New(model, s)
	if err != nil {
		return nil, fmt.Errorf("uses of experts: %w", err)
	}
	p.Use = x
	for i, l := range layers {
		p.Figures[i].Layer = l
		p.Experts = append(p.Experts, expertFigures(x, s, i, l, p.Figures[i].Law))
	}
	return p, nil
}

// expertFigures returns those of layer l, the i-th with experts.
func expertFigures(x *neuron.Experts, s *neuron.Stats, i, l int, law neuron.PowerLaw) ExpertFigures {
	y := &x.Layers[l]
	n := y.Count()
	curve := s.Cumulative(i)
	f := ExpertFigures{
		Layer: l, Experts: n, Used: x.Used(l), Entropy: x.Entropy(l), Quarter: curve[(n+3)/4], Half: curve[(n+1)/2], Ranked: x.Prior(l),
		Again: x.Again(l), Chance: x.Chance(l), Run: x.Run(l), Agreement: x.Agreement(l), Law: law,
	}
	slices.Sort(f.Ranked)
	slices.Reverse(f.Ranked)
	for _, uses := range s.Layers[i] {
		if uses == 0 {
			f.Unused++
		}
	}
	if inactive, share, ok := y.Inactive(); ok {
		f.Inactive, f.Share80 = &inactive, &share
	}
	return f
}

// terms are a report's words.
type terms struct {
	thing, things, events string
	rank, often, heat     string // titles
}

func (p *Report) terms() terms {
	if p.Experts != nil {
		return terms{"expert", "experts", "Uses", "rank of the expert", "used by this share of tokens", "Share of tokens that use each expert"}
	}
	return terms{"neuron", "neurons", "Activations", "rank of the neuron", "active for this share of tokens", "Share of tokens for which neurons are active"}
}

// titles returns the terms by name, for the page.
func (t terms) titles() map[string]string {
	return map[string]string{"thing": t.thing, "things": t.things, "Things": strings.ToUpper(t.things[:1]) + t.things[1:], "events": strings.ToLower(t.events)}
}

// textNames returns one line about the texts with counted uses.
func (p *Report) textNames() string {
	line := ""
	for i, t := range p.Use.Texts {
		if i > 0 {
			line += ", "
		}
		line += fmt.Sprintf("%s (%s)", printable(t.Name), grouped(t.Tokens))
	}
	return line
}

// expertText writes everything that can be said of experts without pictures.
func (p *Report) expertText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "experts of %s: %d layers that have some, %s tokens observed\ntexts, with their tokens: %s\n\n",
		p.Model, len(p.Experts), grouped(p.Stats.Tokens), p.textNames())
	if err == nil {
		err = p.expertTable(w)
	}
	if err == nil {
		_, err = io.WriteString(w, expertNotes)
	}
	if err == nil && p.Experts[0].Inactive != nil {
		_, err = io.WriteString(w, neuronNotes)
	}
	return err
}

// Legends of the table's columns.
const (
	expertNotes = `
entropy        of a use's expert, in bits, and the most that it could be
quarter, half  share of uses that the hottest quarter and half of the experts have
unused         experts that no token used
+1, +8, +64    share of uses whose expert is used again so many tokens later
chance         what that would be if tokens chose independently of each other
run            tokens in a row that use an expert, on average
rank, top      correlation of the experts' ranks in two texts; share of one's hottest quarter in the other's
`
	neuronNotes = `zeros          share of (token, neuron) pairs of used experts that are inactive
for80%         share of the neurons of all experts that makes 80 % of activations
`
)

// expertTable writes the figures as text, one line a layer.
func (p *Report) expertTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%5s %7s %4s %9s %7s %6s %6s %6s %6s %6s %6s %5s %5s %5s", "layer", "experts", "used", "entropy", "quarter", "half", "unused", "+1", "+8", "+64",
		"chance", "run", "rank", "top")
	neurons := p.Experts[0].Inactive != nil
	if err == nil && neurons {
		_, err = fmt.Fprintf(w, " %6s %6s", "zeros", "for80%")
	}
	share := func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }
	for _, f := range p.Experts {
		if err != nil {
			return err
		}
		rank, top := "-", "-"
		if f.Agreement.Texts > 1 {
			rank, top = fmt.Sprintf("%.2f", f.Agreement.Rank), fmt.Sprintf("%.0f%%", 100*f.Agreement.Hottest)
		}
		_, err = fmt.Fprintf(w, "\n%5d %7d %4d %9s %7s %6s %6d %6s %6s %6s %6s %5.2f %5s %5s", f.Layer, f.Experts, f.Used, fmt.Sprintf("%.2f/%.2f", f.Entropy, f.Most()),
			share(f.Quarter), share(f.Half), f.Unused, share(f.at(1)), share(f.at(8)), share(f.at(64)), share(f.Chance), f.Run, rank, top)
		if err == nil && neurons && f.Inactive != nil {
			_, err = fmt.Fprintf(w, " %6s %6s", share(*f.Inactive), share(*f.Share80))
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}

// at returns the share of uses that are repeated this many tokens later.
func (f *ExpertFigures) at(lag int) float64 { return f.Again[slices.Index(neuron.Lags(), lag)] }

// After1, After8 and After64 return that for the page.
func (f ExpertFigures) After1() float64  { return f.at(1) }
func (f ExpertFigures) After8() float64  { return f.at(8) }
func (f ExpertFigures) After64() float64 { return f.at(64) }

// Most returns the largest entropy that the layer's uses could have.
func (f ExpertFigures) Most() float64 { return math.Log2(float64(f.Experts)) }

// expertJSON gives the figures of experts.
func (p *Report) expertJSON() ([]byte, error) {
	type text struct {
		Name   string `json:"name"`
		Tokens uint64 `json:"tokens"`
	}
	var texts []text
	for _, t := range p.Use.Texts {
		texts = append(texts, text{printable(t.Name), t.Tokens})
	}
	return json.Marshal(struct {
		Model  string          `json:"model"`
		Tokens uint64          `json:"tokens"`
		Texts  []text          `json:"texts"`
		Facts  []Fact          `json:"facts,omitempty"`
		Lags   []int           `json:"lags"` // tokens, of "again"
		Layers []ExpertFigures `json:"expert_layers"`
	}{p.Model, p.Stats.Tokens, texts, p.Facts, neuron.Lags(), p.Experts})
}

// Reuse writes a PNG: for every layer, the share of uses of an expert that is used again some tokens later. The report
// must be of experts.
func (p *Report) Reuse(w io.Writer) error { return p.picture(w, curvesHeight, p.drawReuse) }

func (p *Report) drawReuse(c canvas) {
	lags := neuron.Lags()
	most, last := 0.0, float64(lags[len(lags)-1])
	var ticks []float64
	for _, lag := range lags {
		ticks = append(ticks, float64(lag))
	}
	for _, f := range p.Experts {
		most = max(most, slices.Max(f.Again), f.Chance)
	}
	step := 0.2
	if most <= 0.5 {
		step = 0.1
	}
	most = math.Max(step, math.Min(1, step*math.Ceil(most/step)))
	f := newFrame(curvesHeight,
		axis{title: "tokens later", from: 1, to: last, log: true, ticks: ticks, format: grouped[float64]},
		axis{title: "uses whose expert is used again", from: 0, to: most, ticks: steps(step, most), format: percent})
	f.draw(c, "How long experts stay in use · "+p.Model)
	drawn := make([][]point, len(p.Experts))
	for l, e := range p.Experts {
		colour := depth(l, len(p.Experts))
		f.line(c, []point{{1, e.Chance}, {last, e.Chance}}, true, colour, fmt.Sprintf("layer %d if tokens chose independently: %s", e.Layer, percent(e.Chance)))
		for i, lag := range lags {
			if p.Use.Pairs[i] > 0 {
				drawn[l] = append(drawn[l], point{float64(lag), e.Again[i]})
			}
		}
		f.line(c, drawn[l], false, colour, fmt.Sprintf("layer %d: %s one token later, runs of %.2f tokens", e.Layer, percent(e.at(1)), e.Run))
	}
	f.outline(c)
	p.layerKey(c, f, drawn)
}

// steps returns the multiples of step up to most.
func steps(step, most float64) (all []float64) {
	for i := 0; float64(i)*step <= most*(1+1e-9); i++ {
		all = append(all, float64(i)*step)
	}
	return all
}
