// Package sweep measures, setting by setting, what leaving neurons out of a model costs in quality and gives in speed,
// finds the settings that are worth having, and reports them. Everything measured is kept in a folder, so that a run
// that was killed at any moment is continued.
package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/eval/sandbox"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/folderlock"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// The files of a sweep's folder.
const (
	journalName = "measured.jsonl"
	baseName    = "dense.kld"
	csvName     = "sweep.csv"
	jsonName    = "sweep.json"
	htmlName    = "report.html"
)

// Options say what to measure, and how.
type Options struct {
	Open    func() (*gguf.File, error) // opens the model; whoever gets the file closes it
	Beside  []Beside                   // further files, each a point
	Session session.Options            // how models are opened, whatever the setting
	Grid    Grid
	Folder  string // for the results and the journal
	Store   string // a file to write the model to, with what thresholds of its predictors cost; empty: none

	Text     string // text to measure on, unseen by training and calibration
	Window   int    // tokens; the second half of each is predicted
	Windows  int    // at most, of as many documents as have one; 0: all of the text
	Generate int    // tokens of a timed run
	Rounds   int    // timed runs of each setting; 0: nothing is timed
	Tasks    []Task
	Sandbox  *sandbox.Runner // runs the programs that models write in tasks; nil: no such task
	Layers   bool            // whether each layer is measured by itself
	Machines []Machine       // that speeds are expected for

	MaxKLD, LeastSameTop float64 // bounds of the recommended setting; LeastSameTop 0: none

	Command Command

	Estimate func(Estimate)
	Progress func(what string, done, total time.Duration) // of the estimated work
	Note     func(string)
}

// Task is a task that every setting is scored on.
type Task struct {
	Name string
	File string
	Data *task.Data
}

// Machine is a machine that is described.
type Machine struct {
	Name    string // as it was described
	Machine *planner.Machine
}

// Command says how commands that reproduce a point are written.
type Command struct {
	Program string   // powerinfer
	Model   []string // the flags that choose the model: -m FILE
	Flags   []string // further flags that the model was opened with
	Text    string   // name of the text's file
	Line    []string // the sweep's own command
	Commit  string
}

// Estimate says how long the parts of the work will take.
type Estimate struct {
	Parts []Part
	Disk  int64 // bytes of the dense model's predictions, which the folder holds as long as the sweep runs
}

// Part is a part of the work.
type Part struct {
	What string
	Time time.Duration
}

// Whole returns the time of all parts.
func (e *Estimate) Whole() (all time.Duration) {
	for _, p := range e.Parts {
		all += p.Time
	}
	return all
}

// work is one measurement.
type work struct {
	key  string
	part string
	what string  // for progress
	cost float64 // seconds that are expected
	do   func(ctx context.Context, told func(share float64)) (any, error)
}

// run is a sweep at work.
type run struct {
	*subject // the swept file
	o        *Options
	lab      lab
	settings []Setting
	lock     *folderlock.Lock
	journal  *journal
	gpu      bool // the machine has a GPU; true until the model is open and shows it
	textSum  string
}

func newRun(o *Options) *run {
	return &run{o: o, lab: lab{o: o, files: map[string]*subject{}, bos: -1, memory: hw.ReadMemory}, gpu: true}
}

// Run measures the missing results, writes all results, and returns them.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	r := newRun(&o)
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.begin(); err != nil {
		return nil, err
	}
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	rep, err := r.report()
	if err != nil {
		return nil, err
	}
	if err := rep.write(o.Folder); err != nil {
		return nil, err
	}
	if o.Store != "" {
		if err := r.store(ctx, rep, o.Store); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(r.lab.base()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return rep, nil
}

func (r *run) close() error {
	failed := []error{r.lab.close()}
	if r.journal != nil {
		failed = append(failed, r.journal.close())
	}
	for _, f := range r.lab.files {
		failed = append(failed, f.file.Close())
	}
	r.lock.Release()
	return errors.Join(failed...)
}

// begin reads the model's header and the text, chooses the settings and opens the journal.
func (r *run) begin() (err error) {
	o := r.o
	if r.subject, err = openSubject(o.Open, &o.Session); err != nil {
		return err
	}
	l := &r.lab
	l.files[""] = r.subject
	l.window = min(o.Window, r.config.Context)
	if r.settings, err = o.Grid.Settings(&r.config); err != nil {
		return err
	}
	for _, s := range r.settings {
		if err := r.possible(s, r.subject); err != nil {
			return err
		}
	}
	tok, err := model.Tokenizer(r.file)
	if err != nil {
		return err
	}
	if tok.AddsBOS() {
		l.bos = tok.BOS()
	}
	l.text = eval.LayText(tok, o.Text, l.window, o.Windows)
	if l.count = len(l.text.Of); l.count < 2 {
		return fmt.Errorf("the text has %d windows of %d tokens, and two are the least: give a longer one with -f", l.count, l.window)
	}
	if err := r.setBeside(tok); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return err
	}
	for name, kind := range kinds() {
		if err := atomicfile.Check(filepath.Join(o.Folder, name), kind); err != nil {
			return err
		}
	}
	if o.Store != "" {
		if err := atomicfile.Check(o.Store, gguf.ModelKind()); err != nil {
			return err
		}
	}
	if r.lock, err = folderlock.Take(o.Folder, "-o"); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(o.Text))
	r.textSum = hex.EncodeToString(sum[:])
	r.journal, err = openJournal(filepath.Join(o.Folder, journalName), r.identity())
	return err
}

// possible checks that a file can be opened in a setting.
func (r *run) possible(s Setting, f *subject) error {
	so := r.o.Session
	if err := s.take(&so); err != nil {
		return err
	}
	c, err := model.ReadConfig(f.file, so.Engine.Activation)
	if err != nil {
		return err
	}
	if _, err = c.Choose(so.Engine.Sparse, so.Engine.Bound); err != nil {
		return fmt.Errorf("%s: %w", f.file.Path, err)
	}
	if s.AlwaysOn > 0 && c.Prepared == nil {
		return fmt.Errorf("%s: only a prepared file says which neurons are the hottest, that could be always on", f.file.Path)
	}
	return nil
}

// identity describes the sweep. More settings, rounds and tasks may be measured in the same folder.
func (r *run) identity() map[string]string {
	o := r.o
	return map[string]string{
		"sweep": "2", "model": r.digest, "text": r.textSum, "window": strconv.Itoa(r.lab.window), "windows": strconv.Itoa(r.lab.count),
		"generate": strconv.Itoa(o.Generate), "processor": hw.Detect().Name, "flags": strings.Join(o.Command.Flags, " "),
	}
}

// measure does the work that is left.
func (r *run) measure(ctx context.Context) error {
	if err := r.findActivations(ctx); err != nil {
		return err
	}
	left, err := r.left(pace{})
	if err != nil || len(left) == 0 {
		return err
	}
	p, err := r.lab.try(ctx)
	if err != nil {
		return err
	}
	plan, err := r.lab.open[0].Planner.Plan()
	if err != nil {
		return err
	}
	r.gpu = plan != nil
	if left, err = r.left(p); err != nil {
		return err
	}
	if len(left) == 0 { // there were only budgets of a GPU left, and there is none
		return r.lab.close()
	}
	if r.o.Estimate != nil {
		r.o.Estimate(r.estimate(left))
	}
	var total, done float64
	for i := range left {
		total += left[i].cost
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for i := range left {
		w := &left[i]
		told := func(share float64) {
			if r.o.Progress != nil {
				r.o.Progress(w.what, seconds(done+share*w.cost), seconds(total))
			}
		}
		value, err := w.do(ctx, told)
		if err != nil {
			return err
		}
		if err := r.journal.add(w.key, value); err != nil {
			return err
		}
		done += w.cost
		told(0)
	}
	return r.lab.close()
}

func (r *run) estimate(left []work) (e Estimate) {
	for i := range left {
		w := &left[i]
		if n := len(e.Parts); n == 0 || e.Parts[n-1].What != w.part {
			e.Parts = append(e.Parts, Part{What: w.part})
		}
		e.Parts[len(e.Parts)-1].Time += time.Duration(w.cost * float64(time.Second))
	}
	const step = 2 // bytes of a probability
	e.Disk = int64(r.lab.count) * int64(r.lab.window/2) * int64(r.config.Vocab) * step
	return e
}

// The keys of measurements.
func keyQuality(s Setting) string { return "quality " + s.key() }
func keyRecall(s Setting) string  { return "predictors " + s.unplaced().Name() }
func keySpeed(s Setting, round int) string {
	return fmt.Sprintf("speed %s, round %d", s.key(), round)
}

func keyScore(s Setting, t *Task) string {
	key := fmt.Sprintf("score %s, %s %s", s.key(), t.Name, t.Data.Hash)
	if n := t.Data.Len(); n < t.Data.All {
		key += fmt.Sprintf(", %d questions", n)
	}
	return key
}

const keyDense = "quality off"

// The parts of the work.
const (
	partQuality = "quality"
	partRecall  = "predictors"
	partSpeed   = "speed"
	partTasks   = "tasks"
	partLayers  = "layers"
)

// How the time of other work follows from a dense window's.
const (
	recallCost   = 2 // windows: every layer is computed twice
	warmUp       = 4 // tokens before a run is timed
	bytesOfToken = 4 // bytes of a question's text for each token
)

// here reports whether a setting can be measured on this machine. Settings with a budget need a GPU.
func (r *run) here(s Setting) bool { return s.Budget == 0 || r.gpu }

// left returns the work that is not done.
func (r *run) left(p pace) (all []work, err error) {
	l := &r.lab
	windows := float64(l.count) * p.window
	add := func(w work) {
		if !r.journal.has(w.key) {
			all = append(all, w)
		}
	}
	for _, s := range r.settings {
		if r.here(s) && s.Name() != model.Off.String() {
			add(work{keyQuality(s), partQuality, s.Name(), windows + p.of(l.of(s), r.subject).load, func(ctx context.Context, told func(float64)) (any, error) { return l.quality(ctx, s, told) }})
		}
	}
	layers, err := r.layers(p)
	if err != nil {
		return nil, err
	}
	layers = slices.DeleteFunc(layers, func(w work) bool { return r.journal.has(w.key) })
	if len(all)+len(layers) > 0 && !l.hasBase() || !r.journal.has(keyDense) {
		all = append([]work{{keyDense, partQuality, model.Off.String(), windows, l.dense}}, all...)
	}
	recalled := map[string]bool{}
	for _, s := range r.settings {
		if key := keyRecall(s); s.Mode == model.Predict.String() && !recalled[key] {
			recalled[key] = true
			add(work{key, partRecall, s.Name(), recallCost*float64(min(recallWindows, l.count))*p.window + p.load, func(ctx context.Context, told func(float64)) (any, error) {
				return l.recall(ctx, s.unplaced(), told)
			}})
		}
	}
	for round := range r.o.Rounds {
		for i := range r.settings {
			s := r.settings[i]
			if round%2 == 1 { // there and back, so that a machine that slows down does so to all
				s = r.settings[len(r.settings)-1-i]
			}
			if r.here(s) {
				own := p.of(l.of(s), r.subject)
				add(work{keySpeed(s, round), partSpeed, s.Name(), float64(r.o.Generate+warmUp)*own.token + own.load, func(ctx context.Context, _ func(float64)) (any, error) { return l.speed(ctx, s) }})
			}
		}
	}
	for i := range r.o.Tasks {
		t := &r.o.Tasks[i]
		for _, s := range r.settings {
			if r.here(s) {
				cost, score := float64(textOf(t.Data))/bytesOfToken/float64(l.window)*p.window, l.score
				if t.Data.Kind.Generates() {
					cost, score = float64(len(t.Data.Programs)*ProgramTokens)*p.of(l.of(s), r.subject).token, l.programs
				}
				add(work{keyScore(s, t), partTasks, t.Name + ", " + s.Name(), cost, func(ctx context.Context, told func(float64)) (any, error) { return score(ctx, s, t, told) }})
			}
		}
	}
	return append(all, layers...), nil
}

// textOf returns the bytes that the model reads of a task: for each question, the context once and every choice's
// continuation.
func textOf(d *task.Data) (n int) {
	for i := range d.Items {
		for c, choice := range d.Items[i].Choices {
			if n += len(choice.Continuation); c == 0 {
				n += len(choice.Context)
			}
		}
	}
	return n
}
