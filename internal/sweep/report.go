package sweep

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// Report is the result of a sweep.
type Report struct {
	Model     Model            `json:"model"`
	Text      Text             `json:"text"`
	Machine   Here             `json:"machine"`
	Bounds    Bounds           `json:"bounds"`
	Others    []Model          `json:"other_files,omitempty"` // files that were measured in addition
	Points    []Point          `json:"points"`
	Best      []Recommendation `json:"recommended"`
	Beside    []Comparison     `json:"beside,omitempty"` // compare the other files with the settings
	Layers    []Sensitivity    `json:"layers,omitempty"`
	Described []string         `json:"described_machines,omitempty"`
	Command   string           `json:"command"`
	Version   string           `json:"version"`
	Date      string           `json:"date"`
}

// Model says what was measured.
type Model struct {
	File       string `json:"file"`
	Name       string `json:"name"`
	Type       string `json:"type"`
	Bytes      int64  `json:"bytes"` // of weights
	Layers     int    `json:"layers"`
	Neurons    int    `json:"neurons"` // neurons of the widest layer
	Activation string `json:"activation"`
	Digest     string `json:"digest"`
}

// Text says on what.
type Text struct {
	Name      string `json:"name"`
	SHA256    string `json:"sha256"`
	Window    int    `json:"window"`
	Windows   int    `json:"windows"`
	Documents int    `json:"documents"`            // that limits are found from
	Single    bool   `json:"windows_as_documents"` // as there are so few documents
}

// Here describes the machine.
type Here struct {
	Processor string `json:"processor"`
	Threads   int    `json:"threads"` // 0: the idle cores
	Generated int    `json:"generated"`
	Rounds    int    `json:"rounds"`
}

// report collects what was measured.
func (r *run) report() (*Report, error) {
	o := r.o
	id := r.identity()
	rep := &Report{
		Model:   r.told(r.file.Path),
		Text:    Text{o.Command.Text, r.textSum, r.lab.window, r.lab.count, r.lab.text.Documents, r.lab.text.Single},
		Machine: Here{id["processor"], o.Session.Planner.Threads, o.Generate, o.Rounds}, Bounds: Bounds{o.MaxKLD, o.LeastSameTop},
		Command: quoted(o.Command.Line), Version: o.Command.Commit, Date: time.Now().UTC().Format(time.DateOnly),
	}
	for _, m := range o.Machines {
		rep.Described = append(rep.Described, m.Name)
	}
	for _, b := range o.Beside {
		rep.Others = append(rep.Others, r.lab.files[b.Path].told(b.Path))
	}
	labels := r.labels()
	for _, s := range r.settings {
		p, err := r.point(s)
		if err != nil {
			return nil, err
		}
		if s.File != "" {
			s.File = labels[s.File]
			p.Name = s.Name()
		}
		p.Within = rep.Bounds.keeps(&p)
		rep.Points = append(rep.Points, p)
	}
	fronts(rep.Points)
	rep.recommend()
	var err error
	rep.Layers, err = r.sensitivities(rep.Points)
	return rep, err
}

// point collects what was measured of a setting.
func (r *run) point(s Setting) (Point, error) {
	p := Point{Name: s.Name(), Setting: s, Commands: r.o.commands(s)}
	var q Quality
	key := keyQuality(s)
	if !r.journal.has(key) {
		key = keyQuality(s.unplaced()) // placement changes only rounding
	}
	ok, err := r.journal.get(key, &q)
	if err != nil {
		return p, err
	}
	if ok {
		q.limit(&r.lab.text)
		p.Quality = &q
	}
	var j judged
	if ok, err = r.journal.get(keyRecall(s), &j); err != nil {
		return p, err
	} else if ok {
		p.Predictor, p.Choices = &j.All, j.Layers
	}
	var runs []float64
	for round := range r.o.Rounds {
		var v timed
		if ok, err = r.journal.get(keySpeed(s, round), &v); err != nil {
			return p, err
		} else if ok {
			runs = append(runs, v.Rate)
			p.Reads = &v.Reads
		}
	}
	p.Speed = speedOf(runs)
	for i := range r.o.Tasks {
		var v Score
		if ok, err = r.journal.get(keyScore(s, &r.o.Tasks[i]), &v); err != nil {
			return p, err
		} else if ok {
			p.Scores = append(p.Scores, v)
		}
	}
	p.Expected, err = r.expected(&p)
	return p, err
}

// mostContext is the context that speeds are expected at, if the model has it: the KV cache takes its place on GPUs.
const mostContext = 4096

// expected plans a point for the described machines, with what the text was measured to need.
func (r *run) expected(p *Point) (all []Expected, err error) {
	if p.Quality == nil {
		return nil, nil
	}
	so, f := r.o.Session, r.lab.of(p.Setting)
	if err := p.take(&so); err != nil {
		return nil, err
	}
	of := modelcost.Options{
		Context: min(mostContext, f.config.Context), Neurons: so.Engine.Neurons, CacheTypes: so.Engine.CacheTypes, Law: modelcost.UsualLaw(),
	}
	for _, y := range p.Quality.Layers {
		of.Uses = append(of.Uses, modelcost.Use{Active: y.Active, Computed: y.Computed, AlwaysOn: p.AlwaysOn})
	}
	for _, m := range r.o.Machines {
		cost, err := modelcost.Of(f.file, of)
		if err != nil {
			return nil, err
		}
		s, err := planner.With(m.Machine, cost, so.Planner).Solve()
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", m.Name, p.Name, err)
		}
		x := Expected{Machine: m.Name, Rate: 1 / s.Plan.Seconds, Fits: m.Machine.Memory == 0 || uint64(s.Plan.RAM+cost.Rest) <= m.Machine.Memory}
		var units, hot int
		for i, y := range cost.Model.Layers {
			units, hot = units+len(y.Units.Sometimes), hot+s.Plan.Layers[i].Bound
		}
		x.Hot = float64(hot) / float64(max(1, units))
		all = append(all, x)
	}
	return all, nil
}

// commands returns what reproduces a point's figures.
func (o *Options) commands(s Setting) []string {
	c := &o.Command
	line := func(words ...[]string) string {
		all := []string{c.Program}
		for _, w := range words {
			all = append(all, w...)
		}
		return quoted(all)
	}
	of := c.Model // the files that the point's own commands open
	if s.File != "" {
		of = []string{"-m", s.File}
	}
	window, windows := strconv.Itoa(o.Window), strconv.Itoa(o.Windows)
	if o.Windows == 0 {
		windows = "-1"
	}
	list := []string{
		line([]string{"perplexity"}, c.Model, c.Flags, []string{"--sparse", "off", "-f", c.Text, "-c", window, "--chunks", windows, "--by-document", "--kl-divergence-base", baseName}),
		line([]string{"perplexity"}, of, c.Flags, s.Flags(), []string{"--kl-divergence", "--kl-divergence-base", baseName}),
		line([]string{"bench"}, of, c.Flags, s.Flags(), []string{"-p", "0", "-n", strconv.Itoa(o.Generate), "-r", strconv.Itoa(max(1, o.Rounds)), "-f", c.Text}),
	}
	for _, t := range o.Tasks {
		last := []string{"-f", t.File}
		if n := t.Data.Len(); n < t.Data.All {
			last = append(last, "--limit", strconv.Itoa(n))
		}
		if t.Data.Kind.Generates() {
			last = append(last, "--execute")
		}
		list = append(list, line([]string{"eval", string(t.Data.Kind)}, of, c.Flags, s.Flags(), last))
	}
	return list
}

// quoted joins words as a shell takes them.
func quoted(words []string) string {
	var all []string
	for _, w := range words {
		if w == "" || strings.ContainsFunc(w, func(c rune) bool {
			return !strings.ContainsRune("-_./:=,+@%", c) && (c < '0' || c > 'z' || c > '9' && c < 'A' || c > 'Z' && c < 'a')
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		all = append(all, w)
	}
	return strings.Join(all, " ")
}

// recommend chooses a setting for this machine and for every described one.
func (rep *Report) recommend() {
	add := func(machine string, rate func(p *Point) (float64, float64)) {
		best := fastest(rep.Points, rate)
		rep.compare(machine, best, rate)
		if best == nil {
			return
		}
		v, _ := rate(best)
		dense := 0.0
		for i := range rep.Points {
			if p := &rep.Points[i]; p.dense() && p.Budget == best.Budget {
				dense, _ = rate(p)
			}
		}
		rep.Best = append(rep.Best, Recommendation{
			Machine: machine, Name: best.Name, Flags: quoted(best.Flags()), Rate: v, Dense: dense, KLD: best.Quality.KLDivergence.Value,
		})
	}
	add("", func(p *Point) (float64, float64) {
		if p.Speed == nil {
			return 0, 0
		}
		return p.Speed.Median, p.Speed.Most
	})
	for _, m := range rep.Described {
		add(m, func(p *Point) (float64, float64) {
			for _, x := range p.Expected {
				if x.Machine == m && x.Fits {
					return x.Rate, x.Rate
				}
			}
			return 0, 0
		})
	}
}

// Files returns the files that a sweep writes.
func Files(o *Options) (all []string) {
	for _, name := range []string{csvName, jsonName, htmlName} {
		all = append(all, filepath.Join(o.Folder, name))
	}
	if o.Store != "" {
		all = append(all, o.Store)
	}
	return all
}

// kinds returns the kinds of the report's files, by name.
func kinds() map[string]atomicfile.Kind {
	return map[string]atomicfile.Kind{
		csvName:  atomicfile.Begins("a sweep's table", "name,file,").Public(),
		jsonName: atomicfile.Matches("a sweep's report", `^\{\s*"model": \{`).Public(),
		htmlName: atomicfile.Matches("a sweep's page", `(?s)^<!doctype html>.*<title>Sweep of `).Public(),
	}
}

// write writes all forms of the report into a folder.
func (rep *Report) write(folder string) error {
	for name, write := range map[string]func(io.Writer) error{csvName: rep.CSV, jsonName: rep.JSON, htmlName: rep.HTML} {
		if err := atomicfile.Write(filepath.Join(folder, name), kinds()[name], func(f *atomicfile.File) error { return write(f) }); err != nil {
			return err
		}
	}
	return nil
}

// JSON writes all figures.
func (rep *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(rep)
}

// column is a column of the table of points. An empty value was not measured.
type column struct {
	name string
	of   func(p *Point) string
}

// CSV writes a line for every point.
func (rep *Report) CSV(out io.Writer) error {
	columns := rep.columns()
	w := csv.NewWriter(out)
	var row []string
	for _, c := range columns {
		row = append(row, c.name)
	}
	if err := w.Write(row); err != nil {
		return err
	}
	for i := range rep.Points {
		row = row[:0]
		for _, c := range columns {
			row = append(row, c.of(&rep.Points[i]))
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func (rep *Report) columns() []column {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	quality := func(name string, of func(q *Quality) float64) column {
		return column{name, func(p *Point) string {
			if p.Quality == nil {
				return ""
			}
			return number(of(p.Quality))
		}}
	}
	some := func(name string, of func(p *Point) float64) column {
		return column{name, func(p *Point) string {
			if v := of(p); v != 0 {
				return number(v)
			}
			return ""
		}}
	}
	reads := func(name string, of func(r *Reads) float64) column {
		return column{name, func(p *Point) string {
			if p.Reads == nil {
				return ""
			}
			return number(of(p.Reads))
		}}
	}
	speed := func(name string, of func(s *Speed) float64) column {
		return column{name, func(p *Point) string {
			if p.Speed == nil {
				return ""
			}
			return number(of(p.Speed))
		}}
	}
	predictor := func(name string, of func(s *Predictor) float64) column {
		return column{name, func(p *Point) string {
			if p.Predictor == nil {
				return ""
			}
			return number(of(p.Predictor))
		}}
	}
	all := []column{
		{"name", func(p *Point) string { return p.Name }},
		{"file", func(p *Point) string { return cmp.Or(p.File, rep.Model.File) }},
		{"mode", func(p *Point) string { return p.Mode }},
		{"threshold", func(p *Point) string {
			if p.Threshold == nil {
				return ""
			}
			return decimal(*p.Threshold)
		}},
		some("always_on", func(p *Point) float64 { return p.AlwaysOn }),
		{"activation", func(p *Point) string { return p.Activation }},
		some("max_kld", func(p *Point) float64 { return p.MaxKLD }),
		some("share", func(p *Point) float64 { return p.Share }),
		some("vram_gib", func(p *Point) float64 { return gib(p.Budget) }),
		quality("perplexity", func(q *Quality) float64 { return q.Perplexity.Value }),
		quality("perplexity_error", func(q *Quality) float64 { return q.Perplexity.Error }),
		quality("kl_divergence", func(q *Quality) float64 { return q.KLDivergence.Value }),
		quality("kl_divergence_error", func(q *Quality) float64 { return q.KLDivergence.Error }),
		quality("kl_divergence_of_19_in_20", func(q *Quality) float64 { return q.MostKLD }),
		quality("same_top", func(q *Quality) float64 { return q.SameTop.Value }),
		quality("same_top_error", func(q *Quality) float64 { return q.SameTop.Error }),
		quality("same_top_of_19_in_20", func(q *Quality) float64 { return q.LeastSameTop }),
		quality("active", func(q *Quality) float64 { a, _ := q.Active(); return a }),
		quality("computed", func(q *Quality) float64 { _, c := q.Active(); return c }),
		predictor("recall", func(q *Predictor) float64 { return q.Recall }),
		predictor("precision", func(q *Predictor) float64 { return q.Precision }),
		reads("ram_bytes_per_token", func(r *Reads) float64 { return r.RAM }),
		reads("vram_bytes_per_token", func(r *Reads) float64 { return r.VRAM }),
		reads("feed_forward_bytes_per_token", func(r *Reads) float64 { return r.FFN }),
		reads("all_weights_bytes", func(r *Reads) float64 { return r.Full }),
		reads("hot", func(r *Reads) float64 { return r.Hot }),
		speed("tokens_per_second", func(s *Speed) float64 { return s.Median }),
		speed("tokens_per_second_least", func(s *Speed) float64 { return s.Least }),
		speed("tokens_per_second_most", func(s *Speed) float64 { return s.Most }),
		speed("runs", func(s *Speed) float64 { return float64(len(s.Runs)) }),
	}
	for i, m := range rep.Described {
		all = append(all, some("expected_on_"+m, func(p *Point) float64 {
			if i >= len(p.Expected) {
				return 0
			}
			return p.Expected[i].Rate
		}))
	}
	for i := range rep.scores() {
		name := rep.scores()[i]
		all = append(all, column{name.Task + "_" + name.Metric, func(p *Point) string {
			if i >= len(p.Scores) {
				return ""
			}
			return number(p.Scores[i].Figure.Value)
		}})
	}
	yes := func(name string, of func(p *Point) bool) column {
		return column{name, func(p *Point) string { return strconv.FormatBool(of(p)) }}
	}
	return append(all,
		yes("front", func(p *Point) bool { return p.Front }),
		yes("thrifty", func(p *Point) bool { return p.Thrifty }),
		yes("within", func(p *Point) bool { return p.Within }),
		column{"flags", func(p *Point) string { return quoted(p.Flags()) }},
		column{"commands", func(p *Point) string { return strings.Join(p.Commands, "; ") }},
	)
}

// scores returns the tasks' results of the first point that has some, for their names.
func (rep *Report) scores() []Score {
	for i := range rep.Points {
		if s := rep.Points[i].Scores; s != nil {
			return s
		}
	}
	return nil
}
