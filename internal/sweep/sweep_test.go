package sweep

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/eval/sandbox"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/folderlock"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// Environment variables by which the test runs itself as a sweep: its folder, and how many lines its journal has when
// it kills itself.
const (
	childFolder = "POWERINFER_SWEEP_CHILD"
	childLines  = "POWERINFER_SWEEP_LINES"
)

func TestMain(m *testing.M) {
	sandbox.Child()
	if folder := os.Getenv(childFolder); folder != "" {
		o := options(folder)
		o.Beside = []Beside{renamed("copy.gguf")}
		if most, err := strconv.Atoi(os.Getenv(childLines)); err == nil {
			o.Progress = func(string, time.Duration, time.Duration) {
				if self, err := os.FindProcess(os.Getpid()); err == nil && len(lineList(folder)) >= most {
					_ = self.Kill()
				}
			}
		}
		if _, err := Run(context.Background(), o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// options are those of a short sweep of the embedded model.
func options(folder string) Options {
	text, err := os.ReadFile(filepath.Join("..", "prepare", "seeds.txt"))
	if err != nil {
		panic(err)
	}
	machine, err := planner.PC("pc-high")
	if err != nil {
		panic(err)
	}
	return Options{
		Open:   func() (*gguf.File, error) { return gguf.Parse(demo.Name, demo.Model()) },
		Folder: folder, Text: string(text), Window: 96, Windows: 4, Generate: 8, Rounds: 2, MaxKLD: 0.05,
		Grid:     Grid{Thresholds: []float32{-3, 3}, AlwaysOn: []float64{0.5}},
		Machines: []Machine{{"pc-high", machine}},
		Session: session.Options{
			Engine:  engine.Options{Limits: engine.Limits{Context: 96, Sequences: 16}},
			Planner: planner.Options{Processor: planner.Processor{Threads: 1, Kernels: "usual"}, GPUs: planner.GPUs{Devices: "none"}},
		},
		Command: Command{Program: "powerinfer", Text: "seeds.txt"},
	}
}

func point(t *testing.T, rep *Report, name string) *Point {
	t.Helper()
	for i := range rep.Points {
		if rep.Points[i].Name == name {
			return &rep.Points[i]
		}
	}
	t.Fatalf("there is no point %q", name)
	return nil
}

// TestRun sweeps the embedded model, and compares the report with separate measurements.
func TestRun(t *testing.T) {
	o := options(t.TempDir())
	var told time.Duration
	estimated := false
	o.Estimate = func(e Estimate) { estimated = e.Whole() > 0 && e.Disk > 0 }
	o.Progress = func(_ string, done, total time.Duration) {
		if done < told || done > total {
			t.Errorf("%v of %v is done, after %v", done, total, told)
		}
		told = done
	}
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !estimated || told == 0 {
		t.Error("no estimate or no progress was told")
	}
	off, exact := point(t, rep, "off"), point(t, rep, "exact")
	low, own, high := point(t, rep, "predict -3"), point(t, rep, "predict 0"), point(t, rep, "predict 3")
	always := point(t, rep, "predict 0 on 0.5")
	if len(rep.Points) != 6 {
		t.Errorf("%d points, not 6", len(rep.Points))
	}
	if off.Quality.KLDivergence.Value != 0 || exact.Quality.KLDivergence.Value > 1e-4 { // as the base's steps of probabilities are coarse
		t.Errorf("exact is %g from dense", exact.Quality.KLDivergence.Value)
	}
	for _, pair := range [][2]*Point{{low, own}, {own, high}, {always, own}} {
		a, b := pair[0], pair[1]
		if a.Quality.KLDivergence.Value >= b.Quality.KLDivergence.Value {
			t.Errorf("%s is %g from dense, %s %g", a.Name, a.Quality.KLDivergence.Value, b.Name, b.Quality.KLDivergence.Value)
		}
		if a.Predictor.Recall <= b.Predictor.Recall {
			t.Errorf("%s finds %g of the active neurons, %s %g", a.Name, a.Predictor.Recall, b.Name, b.Predictor.Recall)
		}
		if a.Reads.All() <= b.Reads.All() {
			t.Errorf("%s reads %g bytes, %s %g", a.Name, a.Reads.All(), b.Name, b.Reads.All())
		}
		if _, computed := a.Quality.Active(); computed <= b.Quality.Layers[0].Computed && a != always {
			t.Errorf("%s computes %g of the neurons", a.Name, computed)
		}
	}
	if high.Thrifty != true || always.Thrifty && own.Reads.All() <= always.Reads.All() && own.Quality.KLDivergence.Value <= always.Quality.KLDivergence.Value {
		t.Error("the front of bytes is wrong")
	}
	if n := len(own.Speed.Runs); n != 2 || own.Speed.Least > own.Speed.Median || own.Speed.Median > own.Speed.Most {
		t.Errorf("speed: %+v", own.Speed)
	}
	for _, y := range always.Quality.Layers {
		if y.Computed < 0.5 {
			t.Errorf("with half of the neurons always on, %g are computed", y.Computed)
		}
	}
	matchDivergence(t, o, own, o.Open, model.Predict)
	matchPredictor(t, o, own)
	if x := own.Expected[0]; x.Rate <= off.Expected[0].Rate || !x.Fits {
		t.Errorf("expected on pc-high: %+v, dense %+v", x, off.Expected[0])
	}
	readBack(t, o.Folder, rep)
	more := o
	more.Grid.Thresholds = []float32{-3, 1, 3}
	more.Progress, more.Estimate = nil, nil
	again, err := Run(t.Context(), more)
	if err != nil {
		t.Fatal(err)
	}
	if a := point(t, again, "predict 0"); !slices.Equal(a.Speed.Runs, own.Speed.Runs) {
		t.Error("what was measured was measured again")
	}
	if a := point(t, again, "predict 1").Quality.KLDivergence.Value; a <= own.Quality.KLDivergence.Value || a >= high.Quality.KLDivergence.Value {
		t.Errorf("predict 1, measured later: %g from dense", a)
	}
	more.Text += " "
	if _, err := Run(t.Context(), more); err == nil || !strings.Contains(err.Error(), "another sweep") {
		t.Errorf("the folder of another sweep: %v", err)
	}
}

// matchDivergence compares a point of the model that file opens with what package eval finds of models that were opened
// by themselves.
func matchDivergence(t *testing.T, o Options, p *Point, file func() (*gguf.File, error), mode model.SparseMode) {
	t.Helper()
	open := func(file func() (*gguf.File, error), e engine.Options) *engine.Engine {
		f, err := file()
		if err != nil {
			t.Fatal(err)
		}
		e.Context, e.Sequences, e.Devices = o.Window, 16, planner.CPU(planner.Processor{Threads: 1, Kernels: "usual"})
		m, err := engine.Open(t.Context(), f, e)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	dense := open(o.Open, engine.Options{Neurons: engine.Neurons{Sparse: model.Off}})
	tok := dense.Tokenizer()
	base := filepath.Join(t.TempDir(), "base")
	ask := eval.Perplexity{Tokens: eval.LayText(tok, o.Text, o.Window, o.Windows).Tokens, Context: o.Window, Chunks: -1, BOS: tok.BOS(), Base: base}
	if _, err := ask.Run(t.Context(), dense); err != nil {
		t.Fatal(err)
	}
	b, err := eval.OpenBase(base)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d, err := (&eval.KLDivergence{Base: b, Chunks: -1, BOS: tok.BOS()}).Run(t.Context(), open(file, engine.Options{Neurons: engine.Neurons{Sparse: mode}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Quality.KLDivergence; got != Figure(d.KLD) {
		t.Errorf("KL divergence %v, by eval %v", got, d.KLD)
	}
	mean := 0.0
	for _, v := range p.Quality.KLDs {
		mean += v / float64(len(p.Quality.KLDs))
	}
	if math.Abs(mean-d.KLD.Value) > 1e-9 {
		t.Errorf("the windows' mean is %g, not %g", mean, d.KLD.Value)
	}
}

// matchPredictor checks the first layer, which has the same inputs in all settings: the computed and the active share
// equal those of a direct comparison on the same windows.
func matchPredictor(t *testing.T, o Options, p *Point) {
	f, err := o.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := model.ReadConfig(f, "")
	if err != nil {
		t.Fatal(err)
	}
	y := p.Quality.Layers[0]
	if got, want := p.Choices[0].Precision, y.Active/y.Computed; math.Abs(got-want) > 1e-9 {
		t.Errorf("precision in the first layer %g, of what was computed %g are active", got, want)
	}
	const near = 0.1 // texts differ
	for l, got := range p.Choices {
		if want := float64(c.Prepared.Layers[l].Found); math.Abs(got.Recall-want) > near {
			t.Errorf("layer %d: recall %.3f, by the file %.3f", l, got.Recall, want)
		}
	}
}

// readBack checks the files against the report.
func readBack(t *testing.T, folder string, rep *Report) {
	if _, err := os.Stat(filepath.Join(folder, baseName)); err == nil {
		t.Error("the dense model's predictions are left")
	}
	b, err := os.ReadFile(filepath.Join(folder, jsonName))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Points) != len(rep.Points) || back.Points[3].Quality.KLDivergence != rep.Points[3].Quality.KLDivergence {
		t.Errorf("%s does not hold the report", jsonName)
	}
	file, err := os.Open(filepath.Join(folder, csvName))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(rows[0], "kl_divergence")
	for i, p := range rep.Points {
		if v, err := strconv.ParseFloat(rows[i+1][at], 64); err != nil || math.Abs(v-p.Quality.KLDivergence.Value) > 1e-5*v {
			t.Errorf("%s: %s has %q", p.Name, csvName, rows[i+1][at])
		}
	}
}

// TestKilled: sweeps are killed at some moments and continued. The final results are those of an undisturbed sweep.
func TestKilled(t *testing.T) {
	whole := t.TempDir()
	if out, err := child(whole, 0).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	folder := t.TempDir()
	kept := map[string]json.RawMessage{}
	for _, lines := range []int{2, 5, 9} {
		var exit *exec.ExitError
		if out, err := child(folder, lines).CombinedOutput(); !errors.As(err, &exit) || len(out) > 0 {
			t.Fatalf("it was not killed: %v: %s", err, out)
		}
		// a line that was being written
		f, err := os.OpenFile(filepath.Join(folder, journalName), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, `{"key":"quality ex`)
		f.Close()
		for k, v := range kept {
			if now := entries(t, folder)[k]; string(now) != string(v) {
				t.Errorf("%s was measured again: %s, then %s", k, v, now)
			}
		}
		kept = entries(t, folder)
	}
	if out, err := child(folder, 0).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, got := entries(t, whole), entries(t, folder)
	if a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(a, b) {
		t.Errorf("measured %q, not %q", b, a)
	}
	for k, v := range want {
		if !strings.HasPrefix(k, "speed") && string(got[k]) != string(v) {
			t.Errorf("%s: %s, left alone %s", k, got[k], v)
		}
	}
	if n := len(lineList(folder)); n != len(got)+1 {
		t.Errorf("%d lines for %d measurements", n, len(got))
	}
}

// child returns a sweep that is killed after this many lines; 0: never.
func child(folder string, lines int) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFolder+"="+folder)
	if lines > 0 {
		cmd.Env = append(cmd.Env, childLines+"="+strconv.Itoa(lines))
	}
	return cmd
}

// lineList returns the whole lines of a folder's journal.
func lineList(folder string) []string {
	b, _ := os.ReadFile(filepath.Join(folder, journalName))
	all := strings.SplitAfter(string(b), "\n")
	return all[:len(all)-1]
}

func entries(t *testing.T, folder string) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for i, line := range lineList(folder) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); i > 0 && err != nil {
			t.Fatal(err)
		} else if i > 0 {
			all[e.Key] = e.Value
		}
	}
	return all
}

// TestLocked: a folder with a running sweep cannot be used by another one.
func TestLocked(t *testing.T) {
	o := options(t.TempDir())
	lock, err := folderlock.Take(o.Folder, "-o")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s is in use by process %d; wait for it, or name another folder with -o", o.Folder, os.Getpid())
	if _, err := Run(t.Context(), o); err == nil || err.Error() != want {
		t.Errorf("a folder in use: %v, not %q", err, want)
	}
	lock.Release()
	o.Windows, o.Rounds, o.Grid.Modes = 2, 0, []string{"off"}
	if _, err := Run(t.Context(), o); err != nil {
		t.Errorf("when it is free: %v", err)
	}
}

// TestLimit: scores of some questions do not count for more, and the command that reproduces them asks the same
// questions.
func TestLimit(t *testing.T) {
	var text strings.Builder
	for i := range 3 {
		fmt.Fprintf(&text, `{"ind": %d, "activity_label": "Tale", "ctx": "Once upon a time", "endings": ["there was", "of of", "nine", "soup"], "label": %d, "split": "val"}`+"\n", i, i%2)
	}
	o := options(t.TempDir())
	o.Windows, o.Rounds, o.Grid.Modes = 2, 0, []string{"off"}
	for _, n := range []int{2, 3, 1} {
		data, err := task.Parse(task.HellaSwag, "made.jsonl", []byte(text.String()), task.ByForm)
		if err != nil {
			t.Fatal(err)
		}
		data.Draw(n, task.LlamaSeed)
		o.Tasks = []Task{{Name: "hellaswag", File: "made.jsonl", Data: data}}
		rep, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		p := point(t, rep, "off")
		last, limit := p.Commands[len(p.Commands)-1], fmt.Sprintf(" --limit %d", n)
		if p.Scores[0].Figure.N != n || strings.HasSuffix(last, limit) != (n < 3) {
			t.Errorf("of %d questions: %+v by %s", n, p.Scores[0], last)
		}
	}
}

// TestActivations: fatrelu makes a ReLU model without predictors sparser, with thresholds that give the intended
// shares.
func TestActivations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relu.gguf")
	if err := synth.Write(t.Context(), path, synth.Spec{Arch: "llama", Type: quant.F16, Activation: "relu", Layers: 2, Embd: 128, FF: 512, Heads: 4, Seed: 1}, nil); err != nil {
		t.Fatal(err)
	}
	o := options(t.TempDir())
	o.Open = func() (*gguf.File, error) { return gguf.Open(path) }
	o.Grid, o.Rounds, o.Window, o.Session.Engine.Context, o.Windows = Grid{}, 0, 64, 64, 2
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Points) != 2+len(usualShares) {
		t.Fatalf("%d points", len(rep.Points))
	}
	all := rep.Points[1].Quality.Layers[0].Active
	const near = 0.1 // of the shares: those are of all layers, this is the first
	for i, share := range usualShares {
		if p := &rep.Points[2+i]; math.Abs(1-p.Quality.Layers[0].Active/all-share) > near {
			t.Errorf("%s leaves %.3f of the active neurons out, not %g", p.Name, 1-p.Quality.Layers[0].Active/all, share)
		}
	}
}

// TestBudgetsLeft: work that needs a GPU is left to a later run of the sweep if this one has none, even if everything
// else is done.
func TestBudgetsLeft(t *testing.T) {
	o := Options{Rounds: 1}
	budget := Setting{Mode: "off", Budget: 1 << 30}
	r := newRun(&o)
	r.settings = []Setting{{Mode: "off"}, budget}
	r.journal = &journal{done: map[string]json.RawMessage{keyDense: []byte("0"), keySpeed(Setting{Mode: "off"}, 0): []byte("0")}}
	keys := func() (all []string) {
		left, err := r.left(pace{})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range left {
			all = append(all, w.key)
		}
		return all
	}
	if got := keys(); !slices.Contains(got, keyQuality(budget)) || !slices.Contains(got, keySpeed(budget, 0)) {
		t.Errorf("with a GPU %q is left", got)
	}
	r.gpu = false
	if got := keys(); len(got) != 0 {
		t.Errorf("without a GPU %q is left", got)
	}
}

// TestBudgetsWithoutGPU: a complete sweep with a budget for a missing GPU can be run again, and measures nothing.
func TestBudgetsWithoutGPU(t *testing.T) {
	o := options(t.TempDir())
	o.Grid, o.Windows, o.Rounds = Grid{Modes: []string{"off"}, Budgets: []int64{1 << 30}}, 2, 1
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	before := len(lineList(o.Folder))
	o.Estimate = func(Estimate) { t.Error("work was estimated") }
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if after := len(lineList(o.Folder)); after != before {
		t.Errorf("the journal has %d lines, and had %d", after, before)
	}
}
