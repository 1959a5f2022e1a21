package rounds

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// llamaBench is output of llama-bench, with fields that are not read here.
const llamaBench = `[
  {"build_commit": "8cf427ff", "build_number": 5163, "model_size": 4677120000, "n_threads": 2, "n_prompt": 512, "n_gen": 0, "n_depth": 0,
   "avg_ns": 72135640, "avg_ts": 7100.002165, "stddev_ts": 140.34, "samples_ns": [74601900, 71632900], "samples_ts": [6863.1, 7147.55]},
  {"build_commit": "8cf427ff", "build_number": 5163, "model_size": 4677120000, "n_threads": 2, "n_prompt": 0, "n_gen": 128, "n_depth": 64,
   "avg_ns": 1076767880, "avg_ts": 118.881588, "samples_ts": [119.03, 120.178]}
]`

func TestAdd(t *testing.T) {
	r := Results{}
	for range 2 {
		if err := r.add("peer", []byte(llamaBench)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[test]float64{{threads: 2, prompt: 512}: 7100.002165, {threads: 2, gen: 128, depth: 64}: 118.881588}
	for k, v := range want {
		if got := r[k]["peer"]; len(got) != 2 || got[0] != v || got[1] != v {
			t.Errorf("%v: %v, want %g twice", k, got, v)
		}
	}
	if len(r) != len(want) {
		t.Errorf("%d tests, want %d: %v", len(r), len(want), r)
	}
	// Rows that older versions print have no depth.
	if err := r.add("ik", []byte(`[{"n_threads": 1, "n_prompt": 0, "n_gen": 32, "avg_ts": 9.5}]`)); err != nil || r[test{threads: 1, gen: 32}]["ik"][0] != 9.5 {
		t.Errorf("a row without depth: %v, %v", r, err)
	}
	for _, bad := range []string{"", "[]", "{}", "| model |", "[{]"} {
		if err := r.add("peer", []byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 100}, 3.5}, {nil, 0}} {
		if got := median(c.x); got != c.want {
			t.Errorf("median(%v) = %g, want %g", c.x, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	list := []Engine{{Name: "ours"}, {Name: "peer -x"}, {Name: "absent"}}
	r := Results{
		{threads: 2, gen: 8}:              {"ours": {10, 30, 30}, "peer -x": {20, 5, 30}},
		{threads: 1, gen: 8}:              {"ours": {5}, "peer -x": {4}},
		{threads: 1, prompt: 16}:          {"ours": {50}, "peer -x": {40}, "absent": {100}},
		{threads: 1, gen: 8, depth: 4096}: {"ours": {3}, "peer -x": {3}},
	}
	want := `### m.gguf

| test | ours | peer -x | absent | ours / peer -x | ours / absent |
|---|---|---|---|---|---|
| pp16, 1 thread | 50.0 (50.0–50.0) | 40.0 (40.0–40.0) | 100.0 (100.0–100.0) | 1.25 (1.25–1.25) | 0.50 (0.50–0.50) |
| tg8, 1 thread | 5.0 (5.0–5.0) | 4.0 (4.0–4.0) | - | 1.25 (1.25–1.25) | - |
| tg8, 2 threads | 30.0 (10.0–30.0) | 20.0 (5.0–30.0) | - | 1.00 (0.50–6.00) | - |
| tg8 @ d4096, 1 thread | 3.0 (3.0–3.0) | 3.0 (3.0–3.0) | - | 1.00 (1.00–1.00) | - |
`
	if got := Table("m.gguf", list, r); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestTogether: several models are in one table, in the order of their measurements.
func TestTogether(t *testing.T) {
	list := []Engine{{Name: "ours"}, {Name: "peer"}}
	r := func(ours, peer float64) Results {
		return Results{{threads: 1, gen: 8}: {"ours": {ours}, "peer": {peer}}}
	}
	want := `| model, test | ours | peer | ours / peer |
|---|---|---|---|
| b.gguf, tg8, 1 thread | 6.0 (6.0–6.0) | 4.0 (4.0–4.0) | 1.50 (1.50–1.50) |
| a.gguf, tg8, 1 thread | 2.0 (2.0–2.0) | 4.0 (4.0–4.0) | 0.50 (0.50–0.50) |
`
	if got := Together(list, []Measured{{"b.gguf", r(6, 4)}, {"a.gguf", r(2, 4)}}); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestRatiosWithinRounds: a ratio is taken within rounds, not between medians. Here the machine is twice as fast in the
// second of three rounds.
func TestRatiosWithinRounds(t *testing.T) {
	got := ratios([]float64{10, 22, 9, 7}, []float64{5, 11, 3})
	if len(got) != 3 || got[0] != 2 || got[1] != 2 || got[2] != 3 {
		t.Errorf("ratios = %v", got)
	}
	if s := spread(got, 2, ""); s != "2.00 (2.00–3.00)" {
		t.Errorf("spread = %q", s)
	}
	if s := spread(ratios(nil, got), 2, ""); s != "-" {
		t.Errorf("no rounds: %q", s)
	}
}

func TestShares(t *testing.T) {
	list := []Engine{{Name: "ours"}, {Name: "peer"}}
	r := Results{
		{threads: 2, gen: 8}:     {"ours": {9, 10, 10}, "peer": {5}},
		{threads: 2, prompt: 16}: {"ours": {100}, "peer": {100}},
		{threads: 4, gen: 8}:     {"ours": {10}},
	}
	// 4 GB nine times a second over 60 GB/s is 60 %, then 40 of 50 and 40 of 40; 20 of 60 for the peer's one round.
	got := Shares(4e9, list, r, Bandwidths{2: {60e9, 50e9, 40e9}, 4: {80e9}})
	want := `Share of the read bandwidth, with 4.00 GB of weights read a token:

| test | GB/s | ours | peer |
|---|---|---|---|
| tg8, 2 threads | 50.0 (40.0–60.0) | 80 % (60–100) | 33 % (33–33) |
| tg8, 4 threads | 80.0 (80.0–80.0) | 50 % (50–50) | - |
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A test counts where both the median pair and the fastest round are slower than allowed, and only against the old
// binary.
func TestSlower(t *testing.T) {
	r := Results{
		{threads: 1, gen: 8}:     {"ours": {96, 48, 90}, "old": {100, 50, 81}, "peer": {900}},
		{threads: 2, gen: 8}:     {"ours": {98, 80, 100}, "old": {100, 100, 100}},
		{threads: 4, gen: 8}:     {"ours": {50, 50, 100}, "old": {100, 100, 100}}, // disturbed twice
		{threads: 1, prompt: 16}: {"ours": {10}, "peer": {100}},
	}
	if got := r.Slower(0.03); len(got) != 1 || got[0] != "tg8, 1 thread: 0.960 (0.960–1.111), fastest 0.960" {
		t.Errorf("slower by 3 %%: %q", got)
	}
	if got := r.Slower(0.05); got != nil {
		t.Errorf("slower by 5 %%: %q", got)
	}
}

// What a peer says when it fails is in the error.
func TestRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a shell script stands for the peer")
	}
	script := filepath.Join(t.TempDir(), "peer")
	text := "#!/bin/sh\n[ \"$2\" = good ] && { echo \"$@\"; exit; }\necho 'no such model' >&2\nexit 1\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	e := Engine{"peer", []string{script, "bench"}}
	if out, err := e.run(context.Background(), "good", "-t", "1"); err != nil || string(out) != "bench good -t 1\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := e.run(context.Background(), "bad"); err == nil || !strings.Contains(err.Error(), "peer: ") || !strings.Contains(err.Error(), "no such model") {
		t.Errorf("a failing peer: %v", err)
	}
}

// TestWeightsOf: a token reads only the experts that it uses.
func TestWeightsOf(t *testing.T) {
	read := func(used int) int64 {
		f := synthtest.File(t, synth.Spec{Arch: "qwen3moe", Type: quant.F16, Layers: 3, Embd: 64, FF: 32, Heads: 2, Experts: 8, Used: used, Vocab: 320})
		n, err := WeightsOf(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const expert = 3 * 64 * 32 * 2 // bytes of three matrices in F16
	if two, five := read(2), read(5); five-two != 3*3*expert {
		t.Errorf("three more experts in three layers are %d bytes more, want %d", five-two, 3*3*expert)
	}
	if _, err := WeightsOf(filepath.Join(t.TempDir(), "none.gguf")); err == nil {
		t.Error("a file that is not there has weights")
	}
}
