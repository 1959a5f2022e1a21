package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/cpu"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/demo/demotest"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub/hubtest"
	"github.com/powerinfer-go/powerinfer/internal/measure/measuretest"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// scriptPrograms are the programs that scripts can exec besides the system's.
var scriptPrograms = map[string]func(){"powerinfer": func() {
	if os.Getenv("TILES") == "off" { // like a CPU without AMX
		cpu.X86.HasAMXTile = false
	}
	main()
}}

func TestMain(m *testing.M) {
	evaluate.SandboxChild()
	testscript.Main(m, scriptPrograms)
}

// TestScripts runs every command on the embedded model, as users do.
func TestScripts(t *testing.T) {
	runScripts(t, "testdata/script", func(*testscript.Env) {})
}

// TestSharedScripts uses the shared test data: a Hugging Face folder, tales, vocabularies.
func TestSharedScripts(t *testing.T) {
	testenv.Thorough(t)
	hf, tales, vocab := demotest.HuggingFace(t), testenv.Shared(t, "tales"), testenv.Shared(t, "vocab")
	runScripts(t, "testdata/script/shared", func(e *testscript.Env) {
		e.Setenv("HF", hf)
		e.Setenv("TALES", tales)
		e.Setenv("VOCAB", vocab)
	})
}

// TestGPUScripts needs lavapipe.
func TestGPUScripts(t *testing.T) {
	testenv.Thorough(t)
	if _, err := vulkan.Chosen(vulkan.Software); err != nil {
		testenv.Missing(t, "vulkan", err.Error())
	}
	home := t.TempDir() // shared, so that each pipeline is compiled once
	if err := describeMachine(home); err != nil {
		t.Fatal(err)
	}
	runScripts(t, "testdata/script/gpu", func(e *testscript.Env) { e.Setenv("XDG_CACHE_HOME", home) })
}

// describeMachine writes a description of this machine into the cache folder dir. Measuring takes twenty seconds of a
// CPU, and a plan in a test should not depend on the load. Only the doctor's script measures.
func describeMachine(dir string) error {
	devices, _ := vulkan.Devices()
	m := measuretest.Machine(planner.Found(devices))
	return m.Write(filepath.Join(dir, "powerinfer", "machine.json"))
}

// shaderCache returns the folder in which Mesa caches what lavapipe compiled for this user's processes.
func shaderCache(t *testing.T) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	return dir
}

// quickScripts are the scripts of a quick run.
var quickScripts = []string{"chat", "damaged", "files", "grammar", "help", "inspect", "quantize", "refusals", "run", "serve", "tokenize"}

func runScripts(t *testing.T, dir string, setup func(*testscript.Env)) {
	cmds := map[string]func(*testscript.TestScript, bool, []string){
		"refuse": refuse, "figure": figure, "json": validJSON, "width": width, "greedy": greedy,
		"model": writeModel, "dense": writeDense, "experts": writeExperts, "encoder": writeEncoder, "seeing": writeSeeing, "prepared": writePrepared, "profiled": writeProfile, "truncate": truncate, "huge": hugeTensor, "hub": startHub, "patched": writePatched, "samples": sameSamples,
	}
	for name, f := range systemCommands {
		cmds[name] = f
	}
	shaders := shaderCache(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if testenv.Quick(t) {
		files = slices.DeleteFunc(files, func(file string) bool {
			return !slices.Contains(quickScripts, strings.TrimSuffix(filepath.Base(file), ".txtar"))
		})
	}
	testscript.Run(t, testscript.Params{
		Files: files, RequireExplicitExec: true, Cmds: cmds,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LLAMA_ARG_DEVICE", "none")  // even if this machine has a GPU
			e.Setenv("LLAMA_ARG_THREADS", "2")    // a fixed number, because a note names a number that the load decides
			e.Setenv("POWERINFER_PATIENCE", hung) // no notes about slow tasks
			cache := filepath.Join(e.WorkDir, "cache")
			e.Setenv("XDG_CACHE_HOME", cache)
			e.Setenv("MESA_SHADER_CACHE_DIR", shaders) // else every process compiles all shaders, in ten seconds of a CPU
			e.Values[standIn{}] = new(*hubtest.Hub)
			setup(e)
			return describeMachine(cache)
		},
	})
}

// refuse runs powerinfer, which must print one line that matches PATTERN on standard error, nothing on standard output,
// and exit with status 1: refuse PATTERN ARGS...
func refuse(ts *testscript.TestScript, _ bool, args []string) {
	pattern := args[0]
	if runtime.GOOS == "windows" {
		pattern = strings.ReplaceAll(pattern, "/", `[/\\]`)
		pattern = regexp.MustCompile("no such file|(not|is) a directory").ReplaceAllString(pattern, ".+") // Windows has its own messages in the user's language
	}
	err := ts.Exec("powerinfer", args[1:]...)
	line, rest, _ := strings.Cut(ts.ReadFile("stderr"), "\n")
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit) || exit.ExitCode() != statusError:
		ts.Fatalf("ended with %v, not with exit status %d", err, statusError)
	case !regexp.MustCompile(pattern).MatchString(line):
		ts.Fatalf("%q does not match %q", line, pattern)
	case !strings.HasPrefix(line, "powerinfer: ") || rest != "":
		ts.Fatalf("not one line that begins with the program's name: %q", line+"\n"+rest)
	case ts.ReadFile("stdout") != "":
		ts.Fatalf("standard output holds %q", ts.ReadFile("stdout"))
	}
}

// figure compares the number in pattern's group in the last output: figure PATTERN WANT RELATIVE-TOLERANCE
func figure(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(args[0]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("no match of %q in %q", args[0], ts.ReadFile("stdout"))
	}
	var v [3]float64
	for i, s := range []string{m[1], args[1], args[2]} {
		var err error
		v[i], err = strconv.ParseFloat(s, 64)
		ts.Check(err)
	}
	if !(math.Abs(v[0]-v[1]) <= v[2]*math.Abs(v[1])) {
		ts.Fatalf("%g is not within %g of %g", v[0], v[2]*v[1], v[1])
	}
}

// validJSON checks that a file is JSON: json FILE, or json -lines FILE for a value per line.
func validJSON(ts *testscript.TestScript, _ bool, args []string) {
	texts := []string{ts.ReadFile(args[len(args)-1])}
	if args[0] == "-lines" {
		texts = strings.Split(strings.TrimSpace(texts[0]), "\n")
	}
	for _, s := range texts {
		if !json.Valid([]byte(s)) {
			ts.Fatalf("not JSON: %q", s)
		}
	}
}

// width checks that a file's lines have at most N characters: width FILE N
func width(ts *testscript.TestScript, _ bool, args []string) {
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > most {
			ts.Fatalf("%d characters: %q", n, line)
		}
	}
}

// greedy compares the last output with the continuation that a reference computed: greedy REFERENCE
func greedy(ts *testscript.TestScript, _ bool, args []string) {
	var ref struct {
		Greedy struct{ Text string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &ref))
	if got := ts.ReadFile("stdout"); got != ref.Greedy.Text+"\n" {
		ts.Fatalf("got  %q\nwant %q", got, ref.Greedy.Text+"\n")
	}
}

// writeModel writes the embedded model: model FILE
func writeModel(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), demo.Model(), 0o644))
}

// writeDense writes a small ReLU model that is not prepared: dense FILE
func writeDense(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(synth.Write(context.Background(), ts.MkAbs(args[0]), synth.Spec{
		Arch: "llama", Type: quant.F16, Layers: 2, Embd: 128, FF: 256, Heads: 4, Sparsity: 0.9, PowerLaw: 1, Seed: 1,
	}, nil))
}

// writeExperts writes a small model with three layers of experts: experts FILE
func writeExperts(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(synth.Write(context.Background(), ts.MkAbs(args[0]), synth.Spec{
		Arch: "qwen3moe", Type: quant.Q4_0, Layers: 3, Embd: 256, FF: 64, Heads: 4, KVHeads: 2, Experts: 16, Used: 4, Seed: 1,
	}, nil))
}

// writeEncoder writes a small embedding model, or with a number of labels a reranker: encoder FILE [LABELS]
func writeEncoder(ts *testscript.TestScript, _ bool, args []string) {
	spec := synth.Spec{Arch: "bert", Type: quant.F16, Layers: 2, Embd: 128, FF: 256, Heads: 4, Seed: 1}
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		spec.Labels = n
	}
	ts.Check(synth.Write(context.Background(), ts.MkAbs(args[0]), spec, nil))
}

// writeSeeing writes a tiny model with its vision tower and pictures to a folder: seeing FOLDER
func writeSeeing(ts *testscript.TestScript, _ bool, args []string) {
	cases := visiontest.Cases()
	of := slices.IndexFunc(cases, func(c visiontest.Case) bool { return c.Name == "gemma3" })
	ts.Check(cases[of].Write(ts.MkAbs(args[0])))
}

// writePatched writes the embedded model with replaced bytes; OLD and NEW are Go strings of the same length: patched
// FILE OLD NEW...
func writePatched(ts *testscript.TestScript, _ bool, args []string) {
	data := bytes.Clone(demo.Model())
	for i := 1; i+1 < len(args); i += 2 {
		text, err := strconv.Unquote(`"` + args[i+1] + `"`)
		ts.Check(err)
		at := bytes.Index(data, []byte(args[i]))
		if at < 0 || len(text) != len(args[i]) {
			ts.Fatalf("%q cannot become %q", args[i], text)
		}
		copy(data[at:], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o644))
}

// writePrepared writes the embedded model as a prepared file: neurons follow a power law, layer 0 has a predictor of
// zeros, the other layers are exact, and figures look measured: prepared FILE
func writePrepared(ts *testscript.TestScript, _ bool, args []string) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	ts.Check(err)
	layers, _, err := f.Uint("llama.block_count")
	ts.Check(err)
	width, _, err := f.Uint("llama.feed_forward_length")
	ts.Check(err)
	embd, _, err := f.Uint("llama.embedding_length")
	ts.Check(err)
	text := prepared.Text{SHA256: strings.Repeat("0123456789abcdef", 4), Tokens: 1000}
	p := prepared.Plan{
		Info: prepared.Info{
			Activation: "relu", Input: prepared.Residual, Calibration: text, HeldOut: text,
			Quality: &prepared.Quality{KLDivergence: 0.004, PerplexityDense: 12, PerplexityPredict: 12.5},
		},
		Predictors: make([]prepared.Predictor, layers), PredictorType: quant.F16,
	}
	for range layers {
		y := prepared.Layer{Mode: prepared.Exact, Recall: 1, Found: 1, Precision: 1, Accuracy: 1}
		for n := range width {
			y.Frequency = append(y.Frequency, float32(math.Pow(float64(n+1), -0.8)))
		}
		p.Info.Layers = append(p.Info.Layers, y)
	}
	const rank, always = prepared.RankStep, 2
	y := &p.Info.Layers[0]
	y.Mode, y.Rank, y.AlwaysOn, y.Recall, y.Found, y.Precision = prepared.Predict, rank, always, 0.99, 0.75, 0.5
	p.Predictors[0] = prepared.Predictor{Rank: rank, FC1: make([]float32, rank*embd), FC2: make([]float32, (width-always)*rank)}
	ts.Check(prepared.Write(context.Background(), ts.MkAbs(args[0]), f, p, nil))
}

// writeProfile writes the counts of a profile: two layers of three neurons, ten tokens: profiled FILE
func writeProfile(ts *testscript.TestScript, _ bool, args []string) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	ts.Check(err)
	s := &neuron.Stats{Tokens: 10, Layers: [][]uint32{{1, 10, 4}, {0, 0, 0}}}
	ts.Check(prepared.WriteStats(ts.MkAbs(args[0]), f, strings.Repeat("0", 64), s))
}

// truncate cuts or lengthens a file: truncate FILE SIZE
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// hugeTensor writes the embedded model with another tensor of GIB gibibytes, a hole in the file: huge FILE GIB
func hugeTensor(ts *testscript.TestScript, _ bool, args []string) {
	gib, err := strconv.ParseUint(args[1], 10, 32)
	ts.Check(err)
	f, err := gguf.Parse(demo.Name, demo.Model())
	ts.Check(err)
	source := func(name string, typ quant.Type, shape []int, data []byte) gguf.Source {
		return gguf.Source{Name: name, Type: typ, Shape: shape, Write: func(w io.Writer) error { _, err := w.Write(data); return err }}
	}
	var tensors []gguf.Source
	for _, t := range f.Tensors {
		tensors = append(tensors, source(t.Name, t.Type, t.Shape, t.Data))
	}
	const name = "extra.weight"
	tensors = append(tensors, source(name, quant.F32, []int{1}, make([]byte, 4)))
	path := ts.MkAbs(args[0])
	ts.Check(gguf.Create(context.Background(), path, f.Magic, f.Keys, tensors, nil))
	data, err := os.ReadFile(path)
	ts.Check(err)
	at := bytes.Index(data, []byte(name)) + len(name) + 4 // after the number of dimensions
	binary.LittleEndian.PutUint64(data[at:], gib<<28)
	ts.Check(os.WriteFile(path, data, 0o644))
	ts.Check(os.Truncate(path, int64(len(data))+int64(gib<<30)))
}

// processLimit is the time after which a process counts as hung: many times what the slowest takes on a busy machine.
const processLimit = 20 * time.Minute

// hung is the patience of tested processes: they end before they show how long a task takes.
const hung = "1h"

// process is a running powerinfer that a script's command watches.
type process struct {
	*exec.Cmd
	out, err io.ReadCloser
}

// start runs a program in the script's folder with pipes for its output.
func start(ts *testscript.TestScript, program string, args []string) process {
	path, err := exec.LookPath(program)
	ts.Check(err)
	p := process{Cmd: exec.Command(path, args...)}
	p.Dir = ts.Getenv("WORK")
	p.Env = []string{"PATH=" + ts.Getenv("PATH"), "LLAMA_ARG_THREADS=2", "POWERINFER_PATIENCE=" + hung, "XDG_CACHE_HOME=" + ts.Getenv("XDG_CACHE_HOME"), "HF_ENDPOINT=" + ts.Getenv("HF_ENDPOINT")}
	p.out, err = p.StdoutPipe()
	ts.Check(err)
	p.err, err = p.StderrPipe()
	ts.Check(err)
	ts.Check(p.Start())
	timer := time.AfterFunc(processLimit, func() { _ = p.Process.Kill() })
	ts.Defer(func() { timer.Stop() })
	return p
}

// sameSamples checks that two files hold the same samples, in any order: samples A B
func sameSamples(ts *testscript.TestScript, _ bool, args []string) {
	var texts [2]string
	for i, name := range args {
		var lines []string
		for line := range strings.Lines(ts.ReadFile(name)) {
			var s evaluate.TaskSample
			ts.Check(json.Unmarshal([]byte(line), &s))
			s.Run = nil // of the first line
			text, err := json.Marshal(s)
			ts.Check(err)
			lines = append(lines, string(text))
		}
		slices.Sort(lines)
		texts[i] = strings.Join(lines, "\n")
	}
	if texts[0] != texts[1] {
		ts.Fatalf("%s has other samples than %s:\n%s\n%s", args[0], args[1], texts[0], texts[1])
	}
}

// save writes a text to a file for a script's grep.
func save(ts *testscript.TestScript, name string, text []byte) {
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), name), text, 0o644))
}
