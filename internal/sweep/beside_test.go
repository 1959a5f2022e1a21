package sweep

import (
	"encoding/csv"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// renamed is the embedded model under another name, which makes it another file.
func renamed(path string) Beside {
	return Beside{path, func() (*gguf.File, error) {
		f, err := gguf.Parse(path, demo.Model())
		if err == nil {
			f.Set("general.name", path)
		}
		return f, err
	}}
}

// quantized writes the embedded model in a type.
func quantized(t *testing.T, folder, typ string) Beside {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	output, err := convert.ParseOutput(typ)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, typ+".gguf")
	if err := convert.Quantize(t.Context(), f, path, convert.Quantization{Output: output, Threads: 1}); err != nil {
		t.Fatal(err)
	}
	return at(path)
}

func at(path string) Beside {
	return Beside{path, func() (*gguf.File, error) { return gguf.Open(path) }}
}

// weights returns the bytes of a file that a token needs: the layers and norms, and the embedding, which is the head,
// too.
func weights(t *testing.T, b Beside) (sum float64) {
	t.Helper()
	f, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, v := range f.Tensors {
		part := strings.Split(v.Name, ".")
		if slices.Contains([]string{"token_embd", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "ffn_down_t", "attn_norm", "ffn_norm", "output_norm"}, part[max(0, len(part)-2)]) {
			sum += float64(len(v.Data))
		}
	}
	return sum
}

// TestBeside: other files are points of the report, with package eval's divergence from the swept one, and the
// recommendation is a setting.
func TestBeside(t *testing.T) {
	o := options(t.TempDir())
	same, small := renamed("same.gguf"), quantized(t, t.TempDir(), "q4_0")
	o.Beside = []Beside{same, small}
	o.Grid = Grid{Modes: []string{"off", "predict"}, Thresholds: []float32{}, AlwaysOn: []float64{}}
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	off, copied, q4 := point(t, rep, "off"), point(t, rep, "same.gguf"), point(t, rep, "q4_0.gguf")
	const coarse = 1e-4 // steps of the base's probabilities
	if d := copied.Quality.KLDivergence.Value; d > coarse {
		t.Errorf("the same weights are %g from dense", d)
	}
	if a, b := copied.Quality.Perplexity.Value, off.Quality.Perplexity.Value; math.Abs(a-b) > coarse*b {
		t.Errorf("the same weights have a perplexity of %g, not %g", a, b)
	}
	matchDivergence(t, o, q4, small.Open, model.Off)
	if q4.Quality.KLDivergence.Value <= copied.Quality.KLDivergence.Value || q4.Expected[0].Rate <= off.Expected[0].Rate {
		t.Errorf("in Q4_0: %g from dense, %g tokens/s expected, in F16 %g", q4.Quality.KLDivergence.Value, q4.Expected[0].Rate, off.Expected[0].Rate)
	}
	for _, p := range []struct {
		*Point
		of Beside
	}{{copied, same}, {q4, small}} {
		if want := weights(t, p.of); p.Reads.Full != want {
			t.Errorf("%s has %g bytes of weights, by its tensors %g", p.Name, p.Reads.Full, want)
		}
		if len(p.Speed.Runs) != o.Rounds || p.File != p.of.Path {
			t.Errorf("%s is of %q, with runs %v", p.Name, p.File, p.Speed.Runs)
		}
		for _, line := range p.Commands[1:] {
			if !strings.Contains(line, " -m "+p.of.Path+" --sparse off ") {
				t.Errorf("%s: %s", p.Name, line)
			}
		}
		if strings.Contains(p.Commands[0], p.of.Path) {
			t.Errorf("the dense predictions are not the swept file's: %s", p.Commands[0])
		}
	}
	for _, b := range rep.Best {
		if b.Name != "off" && b.Name != "predict 0" {
			t.Errorf("%s is recommended", b.Name)
		}
	}
	if len(rep.Beside) != 2*2 || rep.Beside[3].Machine != "pc-high" || rep.Beside[3].Name != "q4_0.gguf" || rep.Beside[3].Settings != 1 {
		t.Errorf("compared: %+v", rep.Beside)
	}
	if len(rep.Others) != 2 || rep.Others[1].Type != "Q4_0" || rep.Others[1].File != small.Path || rep.Model.Type != "F16" {
		t.Errorf("files: %+v of %+v", rep.Others, rep.Model)
	}
	text, err := os.ReadFile(filepath.Join(o.Folder, csvName))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, row := range rows {
		named = append(named, row[slices.Index(rows[0], "file")])
	}
	if want := []string{"file", demo.Name, demo.Name, "same.gguf", small.Path}; !slices.Equal(named, want) {
		t.Errorf("%s names %q, not %q", csvName, named, want)
	}
	readBack(t, o.Folder, rep)

	// A changed file under the same path is measured again; the same file under another path is not.
	before := len(lineList(o.Folder))
	moved := filepath.Join(t.TempDir(), "moved.gguf")
	if err := os.Rename(small.Path, moved); err != nil {
		t.Fatal(err)
	}
	o.Rounds = 1
	o.Beside = []Beside{same, at(moved)}
	if rep, err = Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := len(lineList(o.Folder)); n != before || point(t, rep, "moved.gguf").Quality.KLDivergence != q4.Quality.KLDivergence {
		t.Errorf("a moved file: %d lines, before %d", n, before)
	}
	o.Beside[0] = Beside{"same.gguf", quantized(t, t.TempDir(), "q8_0").Open}
	if rep, err = Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if p := point(t, rep, "same.gguf"); p.Quality.KLDivergence == copied.Quality.KLDivergence {
		t.Error("a file that was replaced was not measured anew")
	}
}

// TestBesideRefused: files that cannot be compared are refused before anything is measured.
func TestBesideRefused(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, s synth.Spec) Beside {
		path := filepath.Join(folder, name)
		s.Arch, s.Type, s.Layers, s.Embd, s.FF, s.Heads, s.Seed = "llama", quant.F16, 1, 32, 32, 1, 1
		if err := synth.Write(t.Context(), path, s, nil); err != nil {
			t.Fatal(err)
		}
		return at(path)
	}
	other := renamed("other.gguf")
	short := Beside{"short.gguf", func() (*gguf.File, error) {
		f, err := other.Open()
		if err == nil {
			f.Set("llama.context_length", uint32(64))
		}
		return f, err
	}}
	words := Beside{"words.gguf", func() (*gguf.File, error) {
		f, err := other.Open()
		if err == nil {
			list, _, _ := f.Strings("tokenizer.ggml.tokens")
			list = slices.Clone(list)
			list[1000] += "x"
			f.Set("tokenizer.ggml.tokens", list)
		}
		return f, err
	}}
	for _, c := range []struct {
		beside []Beside
		want   string
	}{
		{[]Beside{{"itself.gguf", options("").Open}}, "--beside itself.gguf: this is the model that is swept; name another file"},
		{[]Beside{other, {"again.gguf", other.Open}}, "--beside again.gguf: this is the same model as --beside other.gguf; name it once"},
		{[]Beside{write("vocabulary.gguf", synth.Spec{Vocab: 600})}, "its vocabulary has 600 tokens, that of the model 4096; predictions are compared token by token: name a file"},
		{[]Beside{words}, "--beside words.gguf: token 1000 is "},
		{[]Beside{at(filepath.Join(folder, "none.gguf"))}, "; --beside takes GGUF files of the same vocabulary"},
		{[]Beside{short}, "--beside short.gguf: it was trained on 64 tokens at a time, and windows have 96; give -c 64"},
		{[]Beside{{"predict 3", other.Open}}, "a setting is called so; write ./predict 3"},
	} {
		o := options(filepath.Join(folder, "out"))
		o.Beside = c.beside
		_, err := Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--beside") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, not %q", err, c.want)
		}
		if _, err := os.Stat(o.Folder); err == nil {
			t.Errorf("%s: something was written", c.want)
		}
	}
}

// TestBesideMemory: the open models are closed only for a file that does not fit in addition to them.
func TestBesideMemory(t *testing.T) {
	o := options(t.TempDir())
	o.Beside, o.Grid, o.Rounds, o.Layers = []Beside{renamed("large.gguf")}, Grid{Modes: []string{"off", "exact"}}, 1, false
	r := newRun(&o)
	defer r.close()
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	const small, large = 100, 1000
	free := uint64(0) // in addition to spareMemory
	r.lab.memory = func() (hw.Memory, error) { return hw.Memory{Available: spareMemory + free}, nil }
	r.lab.files[""].size, r.lab.files["large.gguf"].size = small, large
	for _, c := range []struct {
		free uint64
		open Setting
		want []string
	}{
		{small + 1, r.settings[0], []string{"off"}},
		{small + 1, r.settings[1], []string{"off", "exact"}},
		{large, r.settings[2], []string{"large.gguf"}},
		{small, r.settings[0], []string{"off"}},
		{large + 1, r.settings[2], []string{"off", "large.gguf"}},
	} {
		free = c.free
		if _, err := r.lab.in(t.Context(), c.open); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range r.lab.open {
			got = append(got, m.of.Name())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s with room for %d: %q are open, not %q", c.open.Name(), c.free, got, c.want)
		}
	}
}

// TestBesidePace: the estimate includes other files, by their bytes.
func TestBesidePace(t *testing.T) {
	o := Options{Rounds: 1, Generate: 100 - warmUp}
	file := Setting{File: "half.gguf", Digest: "d", Mode: "off"}
	r := newRun(&o)
	r.subject = &subject{size: 1000}
	r.lab.files[""], r.lab.files[file.File] = r.subject, &subject{size: 500}
	r.lab.count = 10
	r.settings = []Setting{{Mode: "off"}, file}
	r.journal = &journal{done: map[string]json.RawMessage{}}
	left, err := r.left(pace{window: 2, token: 0.5, load: 8})
	if err != nil {
		t.Fatal(err)
	}
	cost := map[string]float64{}
	for _, w := range left {
		cost[w.key] = w.cost
	}
	want := map[string]float64{
		keyDense: 10 * 2, keyQuality(file): 10*2 + 4,
		keySpeed(Setting{Mode: "off"}, 0): 100*0.5 + 8, keySpeed(file, 0): 100*0.25 + 4,
	}
	if !maps.Equal(cost, want) {
		t.Errorf("costs %v, not %v", cost, want)
	}
}

// TestCompare: statements about files follow only from significantly different speeds, and from settings of the same
// budget.
func TestCompare(t *testing.T) {
	add := func(rep *Report, name string, s Setting, kld, least, median, most float64) {
		p := made(kld, median)
		p.Name, p.Setting, p.Within = name, s, kld <= 0.01
		p.Speed.Least, p.Speed.Most = least, most
		rep.Points = append(rep.Points, p)
	}
	predict, file := Setting{Mode: "predict"}, Setting{Mode: "off", File: "f"}
	var rep Report
	rep.Bounds.MaxKLD = 0.01
	add(&rep, "off", Setting{Mode: "off"}, 0, 9, 10, 11)
	add(&rep, "near", predict, 0.001, 19, 20, 21)
	add(&rep, "slow", predict, 0.005, 14, 15, 16)
	add(&rep, "wide", predict, 0.006, 14, 15, 18.5)
	add(&rep, "far", predict, 0.03, 28, 30, 33)
	add(&rep, "on a GPU", Setting{Mode: "predict", Budget: 1}, 0.02, 1, 1, 1)
	add(&rep, "middle.gguf", file, 0.002, 17, 18, 19)
	add(&rep, "fast.gguf", file, 0.004, 30, 31, 32)
	add(&rep, "fastest.gguf", file, 0.0005, 40, 41, 42)
	add(&rep, "alone.gguf", Setting{Mode: "off", File: "f", Budget: 2}, 0.02, 1, 1, 1)
	rep.recommend()
	if rep.Best[0].Name != "near" || rep.Best[0].Dense != 10 {
		t.Errorf("recommended %+v", rep.Best)
	}
	want := []Comparison{
		{Name: "middle.gguf", Settings: 4, Beats: []string{"slow"}, Loses: []string{"near"}},
		{Name: "fast.gguf", Settings: 4, Beats: []string{"slow", "wide"}, Better: true},
		{Name: "fastest.gguf", Settings: 4, Beats: []string{"near", "slow", "wide", "far"}, Better: true},
		{Name: "alone.gguf"},
	}
	verdicts := []string{
		"nearer to dense and faster than 1 of 4 settings (slow); nearer and faster than it: near",
		"nearer to dense and faster than 2 of 4 settings (slow, wide); it keeps the bound, and no setting that does is as fast",
		"nearer to dense and faster than every setting that leaves neurons out; it keeps the bound, and no setting that does is as fast",
		"there is no setting but dense to compare it with",
	}
	for i, w := range want {
		c := &rep.Beside[i]
		if c.Name != w.Name || c.Settings != w.Settings || !slices.Equal(c.Beats, w.Beats) || !slices.Equal(c.Loses, w.Loses) || c.Better != w.Better || c.Verdict() != verdicts[i] {
			t.Errorf("%+v: %s; not %+v", c, c.Verdict(), w)
		}
	}
}

// TestLabels: a point's label is the last part of its path if that is unique.
func TestLabels(t *testing.T) {
	o := Options{Beside: []Beside{{Path: "a/q4.gguf"}, {Path: "b/q4.gguf"}, {Path: "c/q8.gguf"}, {Path: "c/off"}}}
	r := newRun(&o)
	r.settings = []Setting{{Mode: "off"}}
	for _, b := range o.Beside {
		r.settings = append(r.settings, Setting{File: b.Path})
	}
	want := map[string]string{"a/q4.gguf": "a/q4.gguf", "b/q4.gguf": "b/q4.gguf", "c/q8.gguf": "q8.gguf", "c/off": "c/off"}
	if got := r.labels(); !maps.Equal(got, want) {
		t.Errorf("labels %q", got)
	}
}

// TestCurveOfSwept: the swept file's curve does not describe other files.
func TestCurveOfSwept(t *testing.T) {
	o := Options{}
	r := newRun(&o)
	r.subject = &subject{config: model.Config{Prepared: &prepared.Info{}}}
	docs := make([][]int32, eval.LeastDocuments)
	for i := range docs {
		docs[i] = make([]int32, 2)
	}
	r.lab.text = eval.Lay(docs, 2, 0)
	zero := float32(0)
	var rep Report
	for _, p := range []struct {
		Setting
		full, ffn float64
	}{{Setting{Mode: "off"}, 900, 500}, {Setting{Mode: "exact"}, 900, 300}, {Setting{Mode: "predict", Threshold: &zero}, 900, 100}, {Setting{Mode: "off", File: "small.gguf"}, 90, 50}} {
		rep.Points = append(rep.Points, Point{Setting: p.Setting, Quality: &Quality{Tokens: 8}, Reads: &Reads{RAM: 400 + p.ffn, FFN: p.ffn, Full: p.full}})
	}
	c, err := r.curve(&rep)
	if err != nil {
		t.Fatal(err)
	}
	if c.DenseBytes != 900-400 || c.ExactBytes != 300 || len(c.Points) != 1 {
		t.Errorf("dense %g bytes, exact %g, %d points", c.DenseBytes, c.ExactBytes, len(c.Points))
	}
}
