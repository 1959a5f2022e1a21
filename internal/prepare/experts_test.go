package prepare

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// expertSpec returns a small model with uses of experts that follow a power law.
func expertSpec(arch string) synth.Spec {
	return synth.Spec{
		Arch: arch, Layers: 2, Embd: 64, FF: 64, Heads: 4, Vocab: 400, Context: 256, Type: quant.F16, Experts: 16, Used: 3, Mixing: synth.Mixing{ExpertLaw: 1}, Seed: 3,
	}
}

// countOptions are those of a run that trains nothing: the least text, in two files.
func countOptions(t testing.TB) Options {
	dir := t.TempDir()
	o := Options{Out: filepath.Join(dir, "out.gguf"), Tokens: LeastCounted, Threads: 2, Seed: 5}
	all := strings.SplitAfter(text(40, 30), "<|endoftext|>\n")
	for name, docs := range map[string][]string{"a.txt": all[:20], "b.txt": all[20:]} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(docs, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		o.Files = append(o.Files, path)
	}
	slices.Sort(o.Files)
	return o
}

// logits returns those of the last 16 of some tokens.
func logits(t *testing.T, f *gguf.File) (all [][]float32) {
	t.Helper()
	r, err := newRunner(context.Background(), f, &Options{Threads: 1}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := r.begin()
	var tokens []int32
	for i := range 64 {
		tokens = append(tokens, int32(20+i*37%370))
	}
	r.add(0, 0, tokens)
	for i := len(tokens) - maxSequences; i < len(tokens); i++ {
		p.Out = append(p.Out, int32(i))
	}
	if err := r.Forward(p); err != nil {
		t.Fatal(err)
	}
	for i := range p.Out {
		row, err := r.Logits(i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.Clone(row))
	}
	return all
}

func worst(a, b [][]float32) float64 {
	diff, most := 0.0, 0.0
	for i := range a {
		for j := range a[i] {
			diff = max(diff, math.Abs(float64(a[i][j])-float64(b[i][j])))
			most = max(most, math.Abs(float64(a[i][j])))
		}
	}
	return diff / most
}

// roundingAlone is the largest difference between logits, as a share of the largest, if only the order of additions
// differs: of a token's experts, of a softmax over all experts, or of a float down projection's products. Narrow latent
// vectors of attention and activations in 8 bits amplify a difference of the last bit: 1.5e-4 was seen. A wrong expert
// gives 0.65 or more.
const roundingAlone = 5e-4

// quantisedAgain bounds what it adds that down projections in Q8_0 are rounded again in other blocks, and activations
// with them.
const quantisedAgain = 0.02

// TestPrepareExperts: sorting a model's experts changes only rounding, for every kind of router: a token's experts are
// summed in the order of their numbers.
func TestPrepareExperts(t *testing.T) {
	spec := func(arch, activation string, change func(s *synth.Spec)) synth.Spec {
		s := expertSpec(arch)
		s.Activation = activation
		if activation == "relu" {
			s.Sparsity, s.PowerLaw = 0.8, 1
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	groups := func(s *synth.Spec) { // as DeepSeek V3 has them, with its sigmoids
		s.Keys = []gguf.KV{
			{Key: "deepseek2.expert_group_count", Value: uint32(4)},
			{Key: "deepseek2.expert_group_used_count", Value: uint32(2)},
			{Key: "deepseek2.expert_gating_func", Value: uint32(2)},
		}
	}
	typed := func(typ quant.Type) func(s *synth.Spec) { return func(s *synth.Spec) { s.Type = typ } }
	for name, c := range map[string]struct {
		spec      synth.Spec
		requant   bool
		tolerance float64
		neurons   bool // inside experts are sorted, too
	}{
		"softmax":             {spec("qwen3moe", "silu", nil), false, roundingAlone, false},
		"softmax, quantised":  {spec("qwen3moe", "silu", typed(quant.Q4_0)), false, roundingAlone, false},
		"biases":              {spec("gpt-oss", "clamped_swiglu", nil), false, roundingAlone, false},
		"groups":              {spec("deepseek2", "silu", groups), false, roundingAlone, false},
		"factors, beside":     {spec("gemma4", "gelu", nil), false, roundingAlone, false},
		"early router, zeros": {spec("smallthinker", "relu", nil), false, roundingAlone, true},
		"zeros, quantised":    {spec("smallthinker", "relu", typed(quant.Q8_0)), false, roundingAlone, false},
		"zeros, requantised":  {spec("smallthinker", "relu", typed(quant.Q8_0)), true, quantisedAgain, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, o := openSmall(t, c.spec), countOptions(t)
			o.AllowRequantize = c.requant
			rep, err := Run(context.Background(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			out, err := gguf.Open(o.Out)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			checkExperts(t, c.spec, rep, out, c.neurons)
			if d := worst(logits(t, f), logits(t, out)); d > c.tolerance {
				t.Errorf("logits are %g apart, which may be %g", d, c.tolerance)
			}
		})
	}
}

// checkExperts holds the file that was written, and what was counted, against how the model was made.
func checkExperts(t *testing.T, s synth.Spec, rep *Report, out *gguf.File, neurons bool) {
	t.Helper()
	c, err := model.ReadConfig(out, "")
	if err != nil {
		t.Fatal(err)
	}
	if n := rep.Experts.Tokens(); len(rep.Experts.Texts) != 2 || rep.Experts.Texts[0].Name != "a.txt" || n != c.ExpertUse.Tokens() || n < LeastCounted {
		t.Errorf("counted in %+v, the file says %d tokens", rep.Experts.Texts, c.ExpertUse.Tokens())
	}
	for l := range c.Layers {
		y, now := &rep.Experts.Layers[l], &c.ExpertUse.Layers[l]
		groups := c.Experts.Routing.Groups
		if !now.Ordered(groups) || rep.Experts.Used(l) != s.Used {
			t.Errorf("layer %d: experts do not lie hottest first: %v", l, now.Total())
		}
		before, after := y.Total(), now.Total()
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) || len(c.Prior(l)) != s.Experts {
			t.Errorf("layer %d: the file says %v, %v were counted", l, after, before)
		}
		ranks, _, err := synth.ExpertRanks(s, l)
		if err != nil {
			t.Fatal(err)
		}
		if first := y.Order(1)[0]; groups == 0 && ranks[first] > 1 {
			t.Errorf("layer %d: the expert that is used most was made to be number %d", l, ranks[first]+1)
		}
		again, chance := c.ExpertUse.Again(l), c.ExpertUse.Chance(l)
		if again[0] < 0.5*chance || again[0] > 1 || c.ExpertUse.Run(l) < 1 {
			t.Errorf("layer %d: %v of uses are repeated, by chance %g", l, again, chance)
		}
		if a := c.ExpertUse.Agreement(l); a.Texts != 2 || a.Rank < 0.5 || a.Hottest < 0.5 { // both texts are of the same words
			t.Errorf("layer %d: %+v", l, a)
		}
		if (now.Active != nil) != (s.Activation == "relu") {
			t.Errorf("layer %d: neurons of %d experts were counted", l, len(now.Active))
		}
		sorted := len(now.Active) > 0
		for _, counts := range now.Active {
			sorted = sorted && slices.IsSortedFunc(counts, func(a, b uint32) int { return int(b) - int(a) })
		}
		if sorted != neurons {
			t.Errorf("layer %d: neurons lie hottest first: %t", l, sorted)
		}
	}
}

// Files of statistics, and of models that were prepared, quantised and prepared again.
func TestProfileExperts(t *testing.T) {
	s := expertSpec("qwen3moe")
	s.Activation = "silu"
	f, o := openSmall(t, s), countOptions(t)
	model := o.Out
	first, err := Run(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Out = model + ".stats"
	sorted, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer sorted.Close()
	stages := 0
	o.Estimate = func(all []Estimate) { stages = len(all) }
	rep, err := Profile(context.Background(), sorted, o)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := gguf.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Close()
	x, hash, err := prepared.ReadExperts(stats)
	if err != nil || hash != rep.Calibration.SHA256 || hash != first.Calibration.SHA256 || !reflect.DeepEqual(x, rep.Experts) || stages != 1 {
		t.Errorf("read %v, %q of %q, %d stages estimated", err, hash, rep.Calibration.SHA256, stages)
	}
	for l := range x.Layers { // the order of a softmax's additions may change a choice, which it does not here
		y := first.Experts.Layers[l]
		if y = y.Permute(neuron.ExpertOrder{Experts: y.Order(1)}); !slices.Equal(x.Layers[l].Total(), y.Total()) {
			t.Errorf("layer %d: %v of the sorted model", l, x.Layers[l].Total())
		}
	}
}

// TestResumeExperts: an interrupted run resumes with the same bytes.
func TestResumeExperts(t *testing.T) {
	s := expertSpec("smallthinker")
	s.Sparsity, s.PowerLaw = 0.8, 1
	f, o := openSmall(t, s), countOptions(t)
	o.Tokens = 10 * stepTokens
	files := o.Files
	var long strings.Builder
	long.WriteString(text(60, 150))
	if err := os.WriteFile(files[0], []byte(long.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), f, o); err != nil {
		t.Fatal(err)
	}
	want := readAll(t, o.Out)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(s Stage, done, total int64) {
		if s == StageProfile && done > total*9/10 {
			cancel()
		}
	}
	if _, err := Run(ctx, f, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress, o.Resume = nil, true
	o.Files = []string{files[1], files[0]}
	if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), "texts; give the same again") {
		t.Errorf("files in another order: %v", err)
	}
	o.Files = files
	if _, err := Run(context.Background(), f, o); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(readAll(t, o.Out), want) {
		t.Error("a resumed run wrote other bytes")
	}
}

func TestExpertsRefused(t *testing.T) {
	s := expertSpec("qwen3moe")
	f := openSmall(t, s)
	for want, change := range map[string]func(o *Options){
		"runs no models with experts":        func(o *Options) { o.Original = true },
		"no predictors are made for neurons": func(o *Options) { o.SetType, o.PredictorType = true, quant.Q8_0 },
		"nothing is measured":                func(o *Options) { o.EvalFiles = o.Files },
	} {
		o := countOptions(t)
		change(&o)
		if _, err := Run(context.Background(), f, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDivideTexts(t *testing.T) {
	docs := func(files ...int) (all []document) {
		for _, f := range files {
			all = append(all, document{file: f, tokens: make([]int32, 10)})
		}
		return all
	}
	turns := docs(0, 0, 0, 1, 1)
	turns[0].tokens = make([]int32, 25)
	var files []int
	for _, d := range takingTurns(turns) {
		files = append(files, d.file)
	}
	if !slices.Equal(files, []int{0, 1, 1, 0, 0}) { // 25 tokens, then 10 and 20 of the other, then the rest
		t.Error("turns of", files)
	}
	names, texts := divideTexts(docs(0, 0, 0), []string{"one"})
	if !slices.Equal(names, []string{"part 1 of 3", "part 2 of 3", "part 3 of 3"}) || !slices.Equal(texts, []int{0, 1, 2}) {
		t.Error(names, texts)
	}
	names, texts = divideTexts(docs(1, 0), []string{"x/one", "y/two"})
	if !slices.Equal(names, []string{"one", "two"}) || !slices.Equal(texts, []int{1, 0}) {
		t.Error(names, texts)
	}
	many := strings.Split(strings.Repeat("f ", 33), " ")[:33]
	names, texts = divideTexts(docs(0, 2, 32), many)
	if len(names) != 16 || names[0] != "f, f, f" || !slices.Equal(texts, []int{0, 0, 15}) {
		t.Error(names, texts)
	}
}
