package main

import (
	"context"
	"errors"
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

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/measure/measuretest"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// mainVariable makes the test binary run the program, because drivers are looked for in a process's initial
// environment.
const mainVariable = "GPUCHECK_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// software returns what checks lavapipe, or skips the test. Its machine is described, not measured.
func software(t *testing.T) *check {
	t.Helper()
	info, err := vulkan.Chosen(vulkan.Software)
	if err != nil {
		testenv.Missing(t, "vulkan", err.Error())
	}
	if cache, err := os.UserCacheDir(); err == nil { // where Mesa keeps what lavapipe compiled, for other tests among others
		t.Setenv("MESA_SHADER_CACHE_DIR", cache)
	}
	c := &check{device: vulkan.Software, info: info, out: t.TempDir(), only: regexp.MustCompile(""), tiny: true}
	c.models = filepath.Join(c.out, "models")
	m := measuretest.Machine(c.found())
	if err := m.Write(c.machineFile()); err != nil {
		t.Fatal(err)
	}
	return c
}

// section runs the part of that name and returns what it wrote.
func (c *check) sectionOf(t *testing.T, name string) string {
	t.Helper()
	all := c.parts(nil)
	i := slices.IndexFunc(all, func(p checkup.Part) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no part %q", name)
	}
	w := checkup.NewReport(&strings.Builder{})
	if err := all[i].Run(context.Background(), w); err != nil {
		t.Fatal(err)
	}
	return w.Text()
}

// rows returns the cells of all tables' rows in text that have first as their first cell.
func rows(text, first string) (found [][]string) {
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if strings.HasPrefix(line, "|") && regexp.MustCompile("^("+first+")$").MatchString(cells[0]) {
			found = append(found, cells)
		}
	}
	return found
}

// mostApart is by how much logits from a GPU may differ from the processor's, by the largest one: activations are
// rounded to eight bits on both sides, at scales of their own.
const mostApart = 0.05

// TestDecode: a tiny model is decoded on lavapipe and the CPU at every budget, with the same bytes twice and the same
// choices.
func TestDecode(t *testing.T) {
	testenv.Thorough(t)
	c := software(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // of our own pipelines
	text := c.sectionOf(t, "7b-q4_0")
	trials := rows(text, "0 %|all but half the FFN|100 %, all of it there")
	if len(trials) != 9 {
		t.Fatalf("3 budgets of 3 modes should be there:\n%s", text)
	}
	for i, row := range trials {
		where, verdict := row[2], row[11]
		switch i % 3 {
		case 0:
			if where != "nothing" || verdict != "the same bytes twice" {
				t.Errorf("without a budget: %q, %q", where, verdict)
			}
			continue
		case 1: // at least about half of 1024 neurons, but not all: the plan may leave the head or a predictor in RAM for more of them
			if hot := regexp.MustCompile(` (\d+) neurons`).FindStringSubmatch(where); hot == nil || number(t, hot[1]) < 400 || number(t, hot[1]) >= 1024 {
				t.Errorf("with half the feed-forward layers: %q", where)
			}
		case 2:
			if where != "attention of 2 of 2 layers, 1024 neurons a layer" {
				t.Errorf("with all of the model on the GPU: %q", where)
			}
		}
		apart := regexp.MustCompile(`^the same bytes twice, within (\S+) of the processor's, (\d+) of 4 choices differ$`).FindStringSubmatch(verdict)
		if apart == nil {
			t.Errorf("row %d: %q", i, verdict)
			continue
		}
		if v := number(t, apart[1]); !(v > 0 && v <= mostApart) {
			t.Errorf("row %d: the logits are %g of the largest apart", i, v)
		}
	}
	if traces, err := filepath.Glob(filepath.Join(c.out, "trace-*.json")); err != nil || len(traces) != 3 {
		t.Errorf("traces %v, want one for each mode: %v", traces, err)
	}
	entries, err := os.ReadDir(c.models)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d models were kept, want the sparse and the dense one: %v", len(entries), err)
	}
}

// TestKernels: every kernel can be timed in every way.
func TestKernels(t *testing.T) {
	testenv.Thorough(t)
	text := software(t).sectionOf(t, "kernels")
	if n := len(rows(text, "F16")); n != 13 {
		t.Fatalf("%d kernels, want 13:\n%s", n, text)
	}
	for _, row := range rows(text, "F16") {
		if us := number(t, row[3]); !(us > 0) {
			t.Errorf("%s, %s: %g µs", row[0], row[1], us)
		}
	}
	// Of a sparse layer about a tenth is read: 3 rows of each of 512 neurons, 256 columns of 2 bytes.
	sparse := rows(text, "F16")[6]
	if mb := number(t, sparse[2]); !strings.HasPrefix(sparse[1], "a sparse layer") || math.Abs(mb-0.1*3*512*256*2/1e6) > 0.05 {
		t.Errorf("%s reads %g MB", sparse[1], mb)
	}
}

// TestPrompts: every way of the device is timed, and the choice is one of them. The three kernels of
// products differ only in their shapes, and TestKernels times all.
func TestPrompts(t *testing.T) {
	testenv.Thorough(t)
	c, want := software(t), 4
	if !testenv.Exhaustive(t) {
		c.only, want = regexp.MustCompile("^F16 (down|attention) of"), 2
	}
	text := c.sectionOf(t, "prompts")
	table := rows(text, "F16")
	if len(table) != want {
		t.Fatalf("%d kernels, want %d:\n%s", len(table), want, text)
	}
	for _, row := range table {
		if strings.HasPrefix(row[1], "attention") { // may have no matrices
			if tflops := number(t, row[7]); !(tflops > 0) || row[9] != "in order" && row[9] != "cooperative matrices" {
				t.Errorf("%s goes by %q: %v", row[1], row[9], row)
			}
			continue
		}
		for i, way := range row[5:8] { // cooperative matrices may be missing, and integers are of quantised types
			if tflops := number(t, way); !(tflops >= 0) {
				t.Errorf("%s: %s by %s", row[1], way, arithmetics()[i+3])
			}
		}
		if choice := row[9]; choice != "halves as floats" && choice != "cooperative matrices" {
			t.Errorf("%s goes by %q", row[1], choice)
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatalf("%q is no number", s)
	}
	return v
}

// TestNoGPU: without a driver one line says so, the machine is described anyway, and that is not a failure.
func TestNoGPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("drivers are looked for by the environment on Linux")
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(os.Args[0], append(args, "--out", filepath.Join(t.TempDir(), "out"))...)
		cmd.Env = append(os.Environ(), mainVariable+"=1", "VK_DRIVER_FILES=/none", "VK_ICD_FILENAMES=/none")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	if err != nil || !regexp.MustCompile(`(?m)^no GPU: .+: nothing but the machine could be looked at\.$`).MatchString(out) || !strings.Contains(out, "| processor |") {
		t.Errorf("%v: %s", err, out)
	}
	if strings.Contains(out, "## verbs") {
		t.Error("parts that need a GPU ran without one")
	}
	if out, err = run("--device", "lavapipe"); err == nil {
		t.Errorf("a device that was asked for is not there, and that is no failure: %s", out)
	}
	if out, err := run("--part", "nothing"); err == nil || !strings.Contains(out, `--part "nothing" is no part's name or number`) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNames: the tests for GPUs exist.
func TestNames(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testenv.Root(t), "internal", "compute", "vulkan", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	there := ""
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		there += string(text)
	}
	for _, pattern := range []string{gpuTests, tinyTests} {
		names := regexp.MustCompile("Test[A-Za-z]+").FindAllString(pattern, -1)
		if len(names) < 3 {
			t.Errorf("%q names %d tests", pattern, len(names))
		}
		for _, name := range names {
			if !strings.Contains(there, "func "+name+"(t *testing.T)") {
				t.Errorf("there is no %s", name)
			}
		}
	}
}

// TestPeer: llama-bench's JSON is read.
func TestPeer(t *testing.T) {
	rows, err := readBench([]byte(`[{"n_gpu_layers": 0, "n_gen": 32, "avg_ts": 12.5}, {"n_gpu_layers": 33, "n_prompt": 512, "avg_ts": 80}]`))
	if err != nil || len(rows) != 2 || rows[0] != (benchRow{Generated: 32, Rate: 12.5}) || rows[1].Layers != 33 || rows[1].test() != "pp512" {
		t.Errorf("%+v, %v", rows, err)
	}
	for _, bad := range []string{"", "[]", "{}"} {
		if _, err := readBench([]byte(bad)); err == nil {
			t.Errorf("%q has rates", bad)
		}
	}
	p := peer{llama: "llama-bench", model: "m.gguf", tokens: 32, repetitions: 3}
	if got := strings.Join(p.args([]int{9, 0, 9, 3}), " "); got != "-m m.gguf -p 0 -n 32 -r 3 -ngl 0,3,9 -o json" {
		t.Error(got)
	}
}

// TestDuel: a row has the peer's result of the same test, and says whether the test's goal is reached.
func TestDuel(t *testing.T) {
	d := duel{what: "Q4_0", goals: goals{prompts: 0.8, generation: 1.15}}
	theirs := []benchRow{{Prompt: 512, Rate: 1000}, {Generated: 128, Rate: 100}}
	for want, row := range map[string]benchRow{
		"Q4_0|pp512|1000.0 ± 0.0|790.0 ± 5.0|0.79|0.80, **missed**|1000.0|0.79": {Prompt: 512, Rate: 790, Deviation: 5, Planned: 1000},
		"Q4_0|tg128|100.0 ± 0.0|120.0 ± 0.0|1.20|1.15, reached|100.0|1.20":      {Generated: 128, Rate: 120, Planned: 100},
		"Q4_0|pp2048||5.0 ± 0.0||||":                                            {Prompt: 2048, Rate: 5},
	} {
		if got := strings.Join(d.row(row, theirs), "|"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestShownSequences: more sequences that are slower than fewer miss the goal, and so do 32 that are less than twelve
// times as fast as one.
func TestShownSequences(t *testing.T) {
	for _, test := range []struct{ rates, want string }{
		{"1:100 2:190 32:1300 64:1290", "reached reached reached reached"},
		{"1:100 8:800 12:700 32:1100", "reached reached **missed** **missed**"},
	} {
		var rows []batchedRow
		for _, f := range strings.Fields(test.rates) {
			n, rate, _ := strings.Cut(f, ":")
			rows = append(rows, batchedRow{Sequences: int(number(t, n)), Rate: number(t, rate)})
		}
		var got []string
		for _, row := range shownSequences(rows) {
			got = append(got, row[3])
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.rates, got, test.want)
		}
	}
}

// TestQuarter: the estimated times of --quarter's parts add up to less than the total limit.
func TestQuarter(t *testing.T) {
	sum := time.Duration(0)
	for _, p := range (&check{quarter: true}).parts(nil) {
		if sum += p.Usual; p.Usual == 0 || p.Limit < p.Usual {
			t.Errorf("%s takes %v, and %v are given to it", p.Name, p.Usual, p.Limit)
		}
	}
	if sum > quarterTotal {
		t.Errorf("they take %v, and there are %v", sum, quarterTotal)
	}
}

// TestFailures: a failed trial is a failure, a skipped one is not; the fastest of each budget is kept.
func TestFailures(t *testing.T) {
	again := logits{again: true}
	all := []trial{{budget: "a", rate: 5, logits: again}, {budget: "b", err: errCut}, {budget: "c", err: errors.New("lost")}, {budget: "d", rate: 7}, {budget: "e", logits: logits{again: true, share: math.NaN()}}}
	err := failures(model.Exact, all)
	if err == nil || err.Error() != "exact, c: lost\nexact, d: other bytes the second time\nexact, e: logits NaN of the largest from the processor's" {
		t.Errorf("%v", err)
	}
	if err := failures(model.Exact, all[:2]); err != nil {
		t.Error(err)
	}
	best := faster(faster(nil, all), []trial{{budget: "a", rate: 4}, {budget: "b", rate: 1}})
	if best[0].rate != 5 || best[1].rate != 1 || len(best) != 5 {
		t.Errorf("%+v", best)
	}
}

// TestCompare: logits are compared by the largest difference and by the likeliest tokens.
func TestCompare(t *testing.T) {
	l, to := logits{rows: [][]float32{{1, 2}, {4, 3}}}, logits{rows: [][]float32{{1, 2}, {3, 5}}}
	if l.compare(&to); l.share != 2.0/5 || l.other != 1 || !l.of {
		t.Errorf("%+v", l)
	}
	l = logits{rows: [][]float32{{float32(math.NaN()), 2}, {3, 5}}}
	if l.compare(&to); !math.IsNaN(l.share) {
		t.Errorf("no number counts as near: %+v", l)
	}
}

// TestCutOff: after its time limit a part begins nothing new, and reports that.
func TestCutOff(t *testing.T) {
	testenv.Thorough(t)
	c := software(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := checkup.NewReport(&strings.Builder{})
	if err := kernels(ctx, c, w); err != nil || !strings.Contains(w.Text(), "Cut off") {
		t.Errorf("%v: %s", err, w.Text())
	}
	var tr trial
	if err := tr.try(ctx, c, nil, 0, nil, nil, budget{}); !errors.Is(err, errCut) {
		t.Error(err)
	}
}
