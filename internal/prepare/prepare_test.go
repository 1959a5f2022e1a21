package prepare

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// smallSpec returns a model with worthwhile predictors: a rank of 32 is a quarter of its width.
func smallSpec() synth.Spec {
	return synth.Spec{
		Arch: "llama", Layers: 2, Embd: 128, FF: 384, Heads: 4, Vocab: 512, Context: 256, Type: quant.F16,
		Activation: "relu", Sparsity: 0.85, PowerLaw: 0.5, Seed: 3,
	}
}

func openSmall(t testing.TB, s synth.Spec) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// text returns some documents of words, always the same.
func text(documents, words int) string {
	rng := rand.New(rand.NewPCG(1, 2))
	syllables := strings.Fields("ba ker thon is e la mur tin o sel ra win")
	var b strings.Builder
	for range documents {
		for range words {
			for range 1 + rng.IntN(3) {
				b.WriteString(syllables[rng.IntN(len(syllables))])
			}
			b.WriteByte(' ')
		}
		b.WriteString("\n<|endoftext|>\n")
	}
	return b.String()
}

// smallOptions prepare a small model in less than a second.
func smallOptions(t testing.TB) Options {
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	if err := os.WriteFile(file, []byte(text(40, 150)), 0o644); err != nil {
		t.Fatal(err)
	}
	return Options{Out: filepath.Join(dir, "out.gguf"), Files: []string{file}, Tokens: LeastTokens, Threads: 2, Seed: 5, TraceBudget: 3 << 20, steps: 1}
}

func readAll(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The file that is written says what was done: order, modes, texts, quality.
func TestRun(t *testing.T) {
	f, o := openSmall(t, smallSpec()), smallOptions(t)
	var estimated bool
	o.Estimate = func(stages []Estimate) {
		estimated = len(stages) == 4
		for _, s := range stages {
			if s.Least <= 0 {
				t.Errorf("%s is expected to take %s", s.Stage, s.Least)
			}
		}
	}
	rep, err := Run(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	if !estimated {
		t.Error("no estimate of four stages")
	}
	if _, err := os.Stat(o.Out + ".work"); !os.IsNotExist(err) {
		t.Errorf("the work folder is left: %v", err)
	}
	out, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	info, ok, err := prepared.Read(out)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	q, m := info.Quality, rep.Measured
	switch {
	case info.Calibration.Tokens != rep.Stats.Tokens || rep.Stats.Tokens < LeastTokens || info.HeldOut.Tokens < 512 || info.Calibration.SHA256 == info.HeldOut.SHA256:
		t.Errorf("texts %+v and %+v", info.Calibration, info.HeldOut)
	case q == nil || m == nil || q.KLDivergence != float32(m.KLDivergence) || q.KLDivergence > model.AutoDivergence:
		t.Errorf("quality %+v, measured %+v", q, m)
	case info.Input != prepared.Normed || info.Activation != "relu":
		t.Errorf("input %s, activation %s", info.Input, info.Activation)
	}
	for l, y := range info.Layers {
		r := rep.Layers[l]
		if y.Mode != prepared.Predict || r.Learned.MassRecall < 0.99 || r.Learned.Accuracy < 0.95 || r.Predict >= r.Exact || r.Exact >= r.Dense {
			t.Errorf("layer %d: %+v", l, r)
		}
		if y.Recall < 0.97 || y.Recall != float32(r.HeldOut.MassRecall) {
			t.Errorf("layer %d: recall of %g on the text held out, reported %g", l, y.Recall, r.HeldOut.MassRecall)
		}
		freq := rep.Stats.Frequencies(l)
		slices.Sort(freq)
		slices.Reverse(freq)
		if !slices.Equal(freq, y.Frequency) {
			t.Errorf("layer %d: frequencies in the file are not those that were counted", l)
		}
		counts := slices.Clone(rep.Stats.Layers[l])
		slices.Sort(counts)
		slices.Reverse(counts)
		if !slices.Equal(info.Stats().Layers[l], counts) {
			t.Errorf("layer %d: the file does not give the counts back", l)
		}
	}
}

// Threads change no byte.
func TestThreads(t *testing.T) {
	testenv.Thorough(t)
	f := openSmall(t, smallSpec())
	var want []byte
	for _, threads := range []int{1, 3} {
		o := smallOptions(t)
		o.Threads = threads
		if _, err := Run(context.Background(), f, o); err != nil {
			t.Fatal(err)
		}
		b := readAll(t, o.Out)
		if want != nil && !bytes.Equal(b, want) {
			t.Errorf("%d threads write another file", threads)
		}
		want = b
	}
}

// TestResume: a run stopped at any step, with unfinished files as after a kill, resumes with the same bytes, with given
// and with generated text.
func TestResume(t *testing.T) {
	testenv.Thorough(t)
	f := openSmall(t, smallSpec())
	for _, generated := range []bool{false, true} {
		adjust := func(o Options) Options {
			if generated {
				o.Files = nil
			} else {
				o.divergence = 1e-9 // so that training repeats
			}
			return o
		}
		o := adjust(smallOptions(t))
		steps, counted := 0, coarse()
		o.Progress = func(s Stage, _, _ int64) {
			if counted(s) {
				steps++
			}
		}
		if _, err := Run(context.Background(), f, o); err != nil {
			t.Fatal(err)
		}
		want := readAll(t, o.Out)
		o = adjust(smallOptions(t))
		rng := testenv.Rand(t)
		stops := 0
		for done := false; !done; stops++ {
			left := 1 + rng.IntN(steps/2)
			done = stopAfter(t, f, o, left)
			o.Resume = true
			o.Threads = 1 + rng.IntN(3)
			if !done {
				litter(t, o.Out+".work", rng)
			}
			if stops > 200 {
				t.Fatalf("no progress")
			}
		}
		if stops < 3 {
			t.Errorf("stopped only %d times", stops)
		}
		if !bytes.Equal(readAll(t, o.Out), want) {
			t.Errorf("generated %v: stopped %d times, the file is another", generated, stops)
		}
	}
}

// stopAfter cancels the run at the n-th progress. It reports whether the run came to its end.
func stopAfter(t *testing.T, f *gguf.File, o Options, n int) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	counted := coarse()
	o.Progress = func(s Stage, _, _ int64) {
		if !counted(s) {
			return
		}
		if n--; n == 0 {
			cancel()
		}
	}
	_, err := Run(ctx, f, o)
	if err == nil {
		return true
	}
	if n > 0 {
		t.Fatal(err)
	}
	return false
}

// coarse passes on every 200th report of progress in writing, which are many more than those of other stages.
func coarse() func(Stage) bool {
	writes := 0
	return func(s Stage) bool {
		if s != StageWrite {
			return true
		}
		writes++
		return writes%200 == 0
	}
}

// litter leaves what a kill leaves: traces longer than the state says, files half written under other names.
func litter(t *testing.T, dir string, rng *rand.Rand) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	profiled := slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "predictor") || strings.HasPrefix(e.Name(), "checkpoint")
	})
	for _, e := range entries {
		if !profiled && strings.HasSuffix(e.Name(), ".trace") {
			b := append(readAll(t, filepath.Join(dir, e.Name())), make([]byte, rng.IntN(500))...)
			if err := os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{fileProfile, fileTexts, fileModel} {
		if err := os.WriteFile(filepath.Join(dir, name+".tmp"), []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWorkFolder: a run must be resumed with its original options, and foreign folders are not touched.
func TestWorkFolder(t *testing.T) {
	f, o := openSmall(t, smallSpec()), smallOptions(t)
	if stopAfter(t, f, o, 5) {
		t.Fatal("the run was not stopped")
	}
	refused := func(want string, o Options, f *gguf.File) {
		t.Helper()
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused("holds an earlier run; go on with it by --resume, or remove it", o, f)
	o.Resume = true
	other := o
	other.Recall, other.Seed = 0.9, 6
	refused("holds a run with another recall, seed; give the same again", other, f)
	refused("holds a run with another calibration, heldout, tokens", func() Options {
		o := o
		o.Tokens += 100
		o.Files = append(o.Files, writeFile(t, "more", text(50, 100)[5:]))
		return o
	}(), f)
	s := smallSpec()
	s.Seed++
	refused("holds a run with another model", o, openSmall(t, s))
	if err := os.WriteFile(filepath.Join(o.Out+".work", fileProfile), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused("is damaged; remove", o, f)
	o.Work = filepath.Dir(o.Files[0])
	refused("is not empty and holds no earlier run", o, f)
}

// What cannot be prepared is said in one line, and nothing is written.
func TestRefused(t *testing.T) {
	change := func(f func(*synth.Spec)) synth.Spec {
		s := smallSpec()
		f(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec    synth.Spec
		options func(*Options)
		want    string
	}{
		"silu":         {change(func(s *synth.Spec) { s.Activation, s.Sparsity, s.PowerLaw = "silu", 0, 0 }), nil, "its activation is silu: [0-9.]+ % of activations are within 1 % of their token's largest"},
		"quantised":    {change(func(s *synth.Spec) { s.Type = quant.Q8_0 }), nil, `tensor "blk.0.ffn_down.weight" is Q8_0, and its transposition must be quantised again; give`},
		"original":     {change(func(s *synth.Spec) { s.Magic = "PWRI" }), nil, "is an original PowerInfer file with predictors"},
		"not for it":   {change(func(s *synth.Spec) { s.Arch, s.Activation = "arcee", "relu2" }), func(o *Options) { o.Original, o.Files = true, []string{"missing"} }, `architecture "arcee": the original PowerInfer runs .* only`}, // before texts are read
		"short text":   {smallSpec(), func(o *Options) { o.Files = []string{writeFile(t, "short", text(9, 100))} }, "tokens of calibration text are left after holding .* out, and at least 8192 are needed"},
		"short eval":   {smallSpec(), func(o *Options) { o.EvalFiles = []string{writeFile(t, "eval", "some other words")} }, "the evaluation text has .* tokens that calibration has not, and at least 512"},
		"same eval":    {smallSpec(), func(o *Options) { o.EvalFiles, o.Tokens = o.Files, 1<<20 }, "the evaluation text has"},
		"few tokens":   {smallSpec(), func(o *Options) { o.Tokens = 100 }, "100 tokens of calibration: at least 8192 are needed"},
		"no text":      {smallSpec(), func(o *Options) { o.Files = []string{"missing"} }, "missing: " + syscall.ENOENT.Error()},
		"recall":       {smallSpec(), func(o *Options) { o.Recall = 2 }, "recall 2 and accuracy 0.95: give numbers between 0 and 1"},
		"trace budget": {smallSpec(), func(o *Options) { o.TraceBudget = 1 << 20 }, "a trace budget of 1 MiB holds [0-9]+ samples of this model, and at least 1024 are needed; raise"},
	} {
		t.Run(name, func(t *testing.T) {
			f, o := openSmall(t, c.spec), smallOptions(t)
			if c.options != nil {
				c.options(&o)
			}
			_, err := Run(context.Background(), f, o)
			if err == nil || !matches(c.want, err.Error()) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := os.Stat(o.Out); !os.IsNotExist(err) {
				t.Error("a file was written")
			}
		})
	}
}

// A file that is prepared is not prepared again.
func TestPreparedTwice(t *testing.T) {
	f, o := openSmall(t, smallSpec()), smallOptions(t)
	o.NoPredictors = true
	rep, err := Run(context.Background(), f, o)
	if err != nil || rep.Layers[0].Mode != prepared.Exact || rep.Measured != nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	out, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	o.Out += "2"
	if _, err := Run(context.Background(), out, o); err == nil || !strings.Contains(err.Error(), "is prepared already") {
		t.Error(err)
	}
}

// Families and types that the kernels know, with their own activation, biases and norms: the first differ in kind.
func TestFamilies(t *testing.T) {
	type kind struct {
		arch, activation string
		typ              quant.Type
	}
	for _, c := range testenv.Few(t, 2, testenv.Some(t, 9, []kind{
		{"opt", "relu", quant.F32},
		{"falcon", "relu", quant.BF16},
		{"bamboo", "drelu", quant.F16},
		{"arcee", "relu2", quant.F16},
		{"phi3", "relu", quant.F16},
		{"gemma2", "relu", quant.F16},
		{"command-r", "relu", quant.F16},
		{"llama", "fatrelu", quant.Q8_0},
		{"llama", "relu", quant.Q4_0},
		{"qwen2", "relu2", quant.F16},
		{"nemotron", "relu2", quant.F16},
		{"jais2", "relu2", quant.F16},
		{"gptneox", "relu", quant.F16},
		{"granite", "relu", quant.F16},
		{"olmo2", "relu", quant.F16},
		{"glm4", "relu", quant.F16},
		{"starcoder2", "relu", quant.F16},
	})) {
		t.Run(fmt.Sprint(c.arch, " ", c.activation, " ", c.typ), func(t *testing.T) {
			s := smallSpec()
			s.Arch, s.Activation, s.Type, s.Layers = c.arch, c.activation, c.typ, 1
			f, o := openSmall(t, s), smallOptions(t)
			o.AllowRequantize, o.TraceBudget = true, 5<<20
			o.Accuracy = 0.85 // few samples, and Q4_0 is coarse for a predictor this small
			rep, err := Run(context.Background(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			y := rep.Layers[0]
			if y.Mode != prepared.Predict || y.HeldOut.MassRecall < 0.97 {
				t.Errorf("%+v", y)
			}
			if q := rep.Measured; q == nil || q.KLDivergence > 0.05 || (q.ExactKLDivergence > 0) != (c.typ.BlockElems() > 1) {
				t.Errorf("measured %+v", q)
			}
		})
	}
}

// As long as the divergence is too large, the share of mass that may be missed is halved.
func TestRounds(t *testing.T) {
	f, o := openSmall(t, smallSpec()), smallOptions(t)
	o.divergence, o.Recall = 1e-9, 0.96
	var notes []string
	o.Note = func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); strings.Contains(line, "training again") {
			notes = append(notes, line)
		}
	}
	recalls := map[int]float64{}
	o.Layer = func(l, round int, y *Layer) {
		if l == 0 {
			recalls[round] = y.Learned.MassRecall
		}
	}
	rep, err := Run(context.Background(), f, o)
	if err != nil || rep.Rounds != 3 || rep.Recall != 0.99 || len(notes) != 2 {
		t.Fatalf("%+v, %v, %q", rep, err, notes)
	}
	for round, want := range []float64{0.96, 0.98, 0.99} {
		if got := recalls[round]; got < want || got > want+0.01 {
			t.Errorf("round %d: a recall of %g where %g was asked for", round, got, want)
		}
	}
}

// The original's form carries the same predictors.
func TestOriginal(t *testing.T) {
	f, o := openSmall(t, smallSpec()), smallOptions(t)
	o.Original = true
	if _, err := Run(context.Background(), f, o); err != nil {
		t.Fatal(err)
	}
	out, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c, err := model.ReadConfig(out, "")
	if err != nil || out.Magic != "PWRI" || !c.Predictors || out.Tensor("blk.1.fc1.weight") == nil {
		t.Errorf("magic %s, %+v, %v", out.Magic, c, err)
	}
}

// Profile counts what prepare counts.
func TestProfile(t *testing.T) {
	f, o := openSmall(t, smallSpec()), smallOptions(t)
	rep, err := Profile(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	counted, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer counted.Close()
	s, _, err := prepared.ReadStats(counted)
	if err != nil || s.Tokens < LeastTokens {
		t.Fatalf("%+v, %v", s, err)
	}
	for l := range s.Layers {
		if !slices.Equal(s.Layers[l], rep.Stats.Layers[l]) {
			t.Error("the file holds other counts")
		}
		if sparsity := s.Sparsity(l); sparsity < 0.8 || sparsity > 0.9 {
			t.Errorf("layer %d: a sparsity of %g where 0.85 was made", l, sparsity)
		}
	}
}
