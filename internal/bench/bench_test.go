package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }

func TestMeanSD(t *testing.T) {
	for _, c := range []struct {
		x        []float64
		mean, sd float64
	}{
		{nil, 0, 0},
		{[]float64{7}, 7, 0},
		{[]float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, math.Sqrt(32.0 / 7)}, // squares of the deviations sum to 32
	} {
		if mean, sd := MeanSD(c.x); !near(mean, c.mean) || !near(sd, c.sd) {
			t.Errorf("MeanSD(%v) = %g, %g, want %g, %g", c.x, mean, sd, c.mean, c.sd)
		}
	}
}

// The mean of the rates is not the rate of the mean: llama-bench gives the former.
func TestRate(t *testing.T) {
	mean, sd, each := Test{Prompt: 30, Gen: 10, Depth: 99}.Rate([]int64{1e9, 4e9})
	if !slices.Equal(each, []float64{40, 10}) || mean != 25 || !near(sd, math.Sqrt(450)) {
		t.Errorf("%g ± %g, %v", mean, sd, each)
	}
}

func TestNames(t *testing.T) {
	for want, test := range map[string]Test{
		"pp512": {Prompt: 512}, "tg128": {Gen: 128}, "pp512+tg128": {Prompt: 512, Gen: 128},
		"pp512 @ d64": {Prompt: 512, Depth: 64}, "tg128 @ d64": {Gen: 128, Depth: 64},
	} {
		if got := test.Name(); got != want {
			t.Errorf("%+v is named %q, want %q", test, got, want)
		}
	}
	if got := (Test{1, 2, 4}).Tokens(); got != 7 {
		t.Errorf("a context of %d tokens", got)
	}
}

// llamaBenchFields are llama-bench's, in its order, from its documentation (tools/llama-bench/README.md).
var llamaBenchFields = []string{
	"build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_filename", "model_type", "model_size", "model_n_params",
	"n_batch", "n_ubatch", "n_threads", "cpu_mask", "cpu_strict", "poll", "type_k", "type_v", "n_gpu_layers", "n_cpu_moe", "split_mode",
	"main_gpu", "no_kv_offload", "flash_attn", "devices", "tensor_split", "tensor_buft_overrides", "use_mmap", "use_direct_io",
	"embeddings", "no_op_offload", "no_host", "fit_target", "fit_min_ctx", "n_prompt", "n_gen", "n_depth", "test_time",
	"avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
}

// ourFields follow llama-bench's.
var ourFields = []string{"repack", "sparse", "predicted_share", "active_share", "ffn_bytes", "ffn_bytes_dense", "plan_ts", "disk_bytes_per_token", "disk_kept_share", "disk_wait_share", "experts_left_out_share"}

func row(name string) Row {
	return Row{
		Test: Test{Gen: 10}, Result: Result{Samples: []int64{1e9, 2e9}, Neurons: Neurons{Mode: "off"}}, Threads: 3, Batch: 2048, UBatch: 512, TypeK: "f16", TypeV: "f16", Commit: "abc", CPU: `CPU "X", 3 GHz`, File: name,
		Model: Model{Type: "llama 6.7B Q4_0", Bytes: 3825065984, Params: 6738415616}, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func write(t *testing.T, format string, rows ...Row) string {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, format)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestJSON(t *testing.T) {
	var rows []map[string]any
	text := write(t, "json", row("a"), row("b"))
	if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v in %s", err, text)
	}
	want := map[string]any{
		"build_commit": "abc", "model_filename": "a", "model_type": "llama 6.7B Q4_0", "model_size": 3825065984.0, "model_n_params": 6738415616.0,
		"n_threads": 3.0, "n_prompt": 0.0, "n_gen": 10.0, "n_depth": 0.0, "test_time": "2026-01-02T03:04:05Z", "use_mmap": false, "repack": true,
		"avg_ns": 1.5e9, "stddev_ns": math.Floor(math.Sqrt(0.5) * 1e9), "avg_ts": 7.5, "samples_ns": []any{1e9, 2e9}, "samples_ts": []any{10.0, 5.0},
	}
	for k, v := range want {
		if !reflect.DeepEqual(rows[0][k], v) {
			t.Errorf("%s is %v, want %v", k, rows[0][k], v)
		}
	}
	fields := slices.Concat(llamaBenchFields, ourFields)
	if len(rows[0]) != len(fields)+2 {
		t.Errorf("%d fields, want %d and two lists of samples", len(rows[0]), len(fields))
	}
	for _, f := range fields {
		if _, ok := rows[0][f]; !ok {
			t.Errorf("no field %s", f)
		}
	}
	if got := write(t, "json"); strings.Join(strings.Fields(got), "") != "[]" {
		t.Errorf("no rows are %q", got)
	}
	lines := strings.Split(strings.TrimSpace(write(t, "jsonl", row("a"), row("b"))), "\n")
	for i, line := range lines {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil || one["model_filename"] != rows[i]["model_filename"] {
			t.Errorf("line %d: %v in %s", i, err, line)
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d lines for two rows", len(lines))
	}
}

func TestCSV(t *testing.T) {
	r := csv.NewReader(strings.NewReader(write(t, "csv", row("a,b"), row("c"))))
	table, err := r.ReadAll()
	if err != nil || len(table) != 3 {
		t.Fatalf("%v: %v", table, err)
	}
	if want := slices.Concat(llamaBenchFields, ourFields); !slices.Equal(table[0], want) {
		t.Errorf("columns %v, want %v", table[0], want)
	}
	if at := slices.Index(table[0], "model_filename"); table[1][at] != "a,b" || table[2][at] != "c" {
		t.Errorf("file names of %v", table)
	}
	if at := slices.Index(table[0], "cpu_info"); table[1][at] != `CPU "X", 3 GHz` {
		t.Errorf("%q", table[1][at])
	}
}

func TestMarkdown(t *testing.T) {
	want := `| model                          |       size |     params | backend    | threads |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: |
| llama 6.7B Q4_0                |   3.56 GiB |      6.7 B | CPU        |       3 |            tg10 |          7.50 ± 3.54 |
| llama 6.7B Q4_0                |   3.56 GiB |      6.7 B | CPU        |       3 |            tg10 |          7.50 ± 3.54 |
`
	if got := write(t, "md", row("a"), row("b")); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Two layers, the second of twice the width and dense, in three steps of two tokens.
func TestNeurons(t *testing.T) {
	n := Neurons{Mode: "exact"}
	for range 3 {
		n.add([]model.NeuronUse{
			{NeuronCount: compute.NeuronCount{Steps: 1, Tokens: 2, Predicted: 100, Active: 10, Bytes: 700}, Neurons: 50, Dense: 1000},
			{NeuronCount: compute.NeuronCount{Steps: 1, Tokens: 2, Predicted: 20, Active: 20, Bytes: 300}, Neurons: 100, Dense: 3000},
		})
	}
	if want := (Neurons{Mode: "exact", Pairs: 900, Predicted: 360, Active: 90, Bytes: 3000, Dense: 12000, Steps: 3}); n != want {
		t.Errorf("%+v, want %+v", n, want)
	}
	r := row("a")
	r.Neurons = n
	var got map[string]any
	if err := json.Unmarshal([]byte(write(t, "jsonl", r)), &got); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]any{"sparse": "exact", "predicted_share": 0.4, "active_share": 0.1, "ffn_bytes": 1000.0, "ffn_bytes_dense": 4000.0} {
		if got[k] != v {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
	r.Neurons.Bytes = 30_000_000 // ten million a step
	if got := write(t, "csv", r); !strings.Contains(got, ",exact,0.4,0.1,10000000,4000,") {
		t.Errorf("a row of CSV has no plain numbers of bytes:\n%s", got)
	}
	r.Neurons = n
	want := `| model                          |       size |     params | backend    | threads |  sparse |  active | FFN read |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | ------: | ------: | ------: | -------: | --------------: | -------------------: |
| llama 6.7B Q4_0                |   3.56 GiB |      6.7 B | CPU        |       3 |   exact |  10.0 % |   25.0 % |            tg10 |          7.50 ± 3.54 |
`
	if got := write(t, "md", r); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestDisk: two runs of ten tokens; each token read 3 MB.
func TestDisk(t *testing.T) {
	r := row("a")
	for range 2 {
		u := compute.UnitUse{CacheUse: residency.CacheUse{Hits: 60, Misses: 30, GuessesUsed: 10, Left: 25}, Bytes: 30e6, Busy: time.Second, Wait: 300 * time.Millisecond}
		r.Disk.Add(u.Disk())
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(write(t, "jsonl", r)), &got); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]any{"disk_bytes_per_token": 3e6, "disk_kept_share": 0.6, "disk_wait_share": 0.2, "experts_left_out_share": 0.2} {
		if got[k] != v {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
	want := `| model                          |       size |     params | backend    | threads |  in RAM | left out | disk MB/t | waiting |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | ------: | ------: | -------: | --------: | ------: | --------------: | -------------------: |
| llama 6.7B Q4_0                |   3.56 GiB |      6.7 B | CPU        |       3 |  60.0 % |   20.0 % |      3.00 |  20.0 % |            tg10 |          7.50 ± 3.54 |
`
	if got := write(t, "md", r); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// failing is a disk that is full.
type failing struct{}

var errFull = errors.New("no space left")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestWriterRefusals(t *testing.T) {
	if _, err := NewWriter(failing{}, "xml"); err == nil || !strings.Contains(err.Error(), "md, csv, json, jsonl") {
		t.Errorf("format xml: %v", err)
	}
	for _, format := range []string{"md", "csv", "json", "jsonl"} {
		w, err := NewWriter(failing{}, format)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(row("a")); !errors.Is(err, errFull) {
			t.Errorf("%s on a full disk: %v", format, err)
		}
	}
}

func openDemo(t *testing.T) (*gguf.File, *engine.Engine) {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), f, engine.Options{Limits: engine.Limits{Context: 64}, Devices: planner.CPU(planner.Processor{Threads: 1}), Neurons: engine.Neurons{Sparse: model.Exact}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return f, e
}

func TestDescribe(t *testing.T) {
	f, _ := openDemo(t)
	m := Describe(f)
	var bytes, params int64
	for _, x := range f.Tensors {
		bytes += int64(len(x.Data))
		n := int64(1)
		for _, d := range x.Shape {
			n *= int64(d)
		}
		params += n
	}
	if m.Bytes != bytes || m.Params != params || m.Type != "llama 4.6M F16" {
		t.Errorf("%+v, want %d bytes and %d parameters", m, bytes, params)
	}
	for n, want := range map[int64]string{6738415616: "6.7B", 1e9: "1.0B", 4106688: "4.1M"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

// Every counted run is timed, none of the context stays taken, and a cancelled one ends.
func TestRun(t *testing.T) {
	_, e := openDemo(t)
	for _, test := range []Test{{Prompt: 64}, {Gen: 20}, {Gen: 8, Depth: 50}, {Prompt: 30, Gen: 30}} {
		calls := 0
		r, err := Run(context.Background(), e, test, nil, 3, func(done, total int) {
			calls++
			if done != calls || total != 4 { // and one for the warm-up
				t.Errorf("%s: progress %d/%d after %d calls", test.Name(), done, total, calls)
			}
		})
		if err != nil || len(r.Samples) != 3 || calls != 4 || slices.Min(r.Samples) <= 0 {
			t.Errorf("%s: %v after %d runs, %v", test.Name(), r.Samples, calls, err)
		}
		// Neither the warm-up nor the depth counts as steps: a prompt is one, generated tokens are one each.
		steps := int64(3 * test.Gen)
		if test.Prompt > 0 {
			steps += 3
		}
		n, c := r.Neurons, e.Config()
		tokens := 3 * (test.Prompt + test.Gen) * c.Layers
		if test.Prompt > 0 { // the last layer computes a prompt's last token
			tokens -= 3 * (test.Prompt - 1)
		}
		if n.Mode != "exact" || n.Steps != steps || n.Pairs != int64(tokens*c.FF) || n.Active <= 0 || n.Active >= n.Pairs/2 {
			t.Errorf("%s: %+v, want %d steps", test.Name(), n, steps)
		}
	}
	var full *engine.ContextError
	if _, err := Run(context.Background(), e, Test{Prompt: 65}, nil, 1, nil); !errors.As(err, &full) {
		t.Errorf("more than the context: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Run(ctx, e, Test{Gen: 4}, nil, 100, func(done, _ int) {
		if done == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(r.Samples) != 2 {
		t.Errorf("cancelled after two counted runs: %d samples, %v", len(r.Samples), err)
	}
}

// TestReadShare: the read bytes are a share of what dense steps read. A token skips most. A prompt, with tokens that
// need different neurons, reads more, but no weight twice.
func TestReadShare(t *testing.T) {
	_, e := openDemo(t)
	last := 0.0
	for _, tokens := range []int{1, 2, 8, 64} {
		r, err := Run(t.Context(), e, Test{Prompt: tokens}, nil, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		share := ratio(r.Neurons.Bytes, r.Neurons.Dense)
		if share < last || share > 1 {
			t.Errorf("a prompt of %d tokens reads %.3f of a dense one, a shorter one %.3f", tokens, share, last)
		}
		last = share
	}
	layers := float64(e.Config().Layers)
	if last < 0.9*(layers-1)/layers { // the last layer reads what one token needs
		t.Errorf("64 random tokens read %.3f of a dense prompt", last)
	}
}

// sameText is the tolerance of the active neurons' share for the same text, if a part of it was read as a prompt, which
// rounds sums in another order than single tokens. Another text differs by several hundredths.
const sameText = 0.002

// TestRunOnText: a text's tokens are computed in order, depth first and repeated if necessary, as the layers' counts
// show.
func TestRunOnText(t *testing.T) {
	_, e := openDemo(t)
	text := e.Tokenizer().Encode("Once upon a time there was a king who had three sons.", true, false)
	long := slices.Concat(text, text, text, text)[:32]
	before := e.Neurons()
	s := e.NewSequence()
	for _, id := range long {
		if err := e.Evaluate(s, []int32{id}, func(int) bool { return true }, func(int, []float32) {}); err != nil {
			t.Fatal(err)
		}
	}
	e.Release(s)
	var want Neurons
	use := e.Neurons()
	for l := range use {
		use[l] = use[l].Since(before[l])
	}
	want.add(use)
	want.Mode = "exact"
	r, err := Run(context.Background(), e, Test{Gen: len(long)}, text, 1, nil)
	if err != nil || r.Neurons != want {
		t.Errorf("%+v, want %+v (%v)", r.Neurons, want, err)
	}
	// With a depth, the timed tokens are the rest of the same text.
	first, err := Run(context.Background(), e, Test{Gen: 8}, text, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := Run(context.Background(), e, Test{Gen: len(long) - 8, Depth: 8}, text, 1, nil)
	if got := first.Neurons.Active + rest.Neurons.Active; err != nil || math.Abs(float64(got-want.Active)) > sameText*float64(want.Active) {
		t.Errorf("8 tokens and the rest: %d active, want %d (%v)", got, want.Active, err)
	}
}

// TestGPUs: a row has the GPUs in use, and the rate that the plan expected.
func TestGPUs(t *testing.T) {
	r := row("a")
	r.GPUs, r.Layers, r.Planned, r.Expected = []GPU{{"GPU A", "0"}, {"GPU B", "2"}}, 17, true, 12.345
	var got []map[string]any
	if err := json.Unmarshal([]byte(write(t, "json", r)), &got); err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]any{
		"gpu_info": "GPU A, GPU B", "backends": "Vulkan", "devices": "0/2", "n_gpu_layers": 17.0, "plan_ts": 12.345,
	} {
		if got[0][k] != want {
			t.Errorf("%s is %v, want %v", k, got[0][k], want)
		}
	}
	prompt := r
	prompt.Test, prompt.Expected = Test{Prompt: 9}, 0
	lines := strings.Split(strings.TrimSpace(write(t, "md", r, prompt)), "\n")
	if !strings.HasSuffix(lines[0], "| plan t/s |") || !strings.HasSuffix(lines[2], "|    12.35 |") && !strings.HasSuffix(lines[2], "|    12.34 |") || !strings.HasSuffix(lines[3], "|          |") {
		t.Errorf("no expectation of generation, or one of a prompt that nothing is known of, in %q", lines)
	}
}
