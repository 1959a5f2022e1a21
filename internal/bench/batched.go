package bench

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// Batched is one row of llama-batched-bench: Sequences prompts of Prompt tokens each are read, and then continued by
// Gen tokens each, all at the same time.
type Batched struct {
	Prompt, Gen, Sequences int
}

// pageSlack is room for the last, partly filled page of a sequence, and for the one from which its prompt is copied.
const pageSlack = 128

// Tokens returns the context that the test needs.
func (b Batched) Tokens() int { return b.Sequences * (b.Prompt + b.Gen + pageSlack) }

// BatchedResult is what RunBatched measured.
type BatchedResult struct {
	PromptNS, GenNS int64 // of all sequences
	Neurons         Neurons
}

// forced is a sampler that takes random tokens and ignores logits, like llama-batched-bench.
type forced struct {
	rng   *rand.Rand
	vocab int
}

func (forced) Accept(int32)                {}
func (forced) Constrain(sample.Constraint) {}
func (forced) Done() bool                  { return false }
func (forced) Err() error                  { return nil }

func (f forced) Sample([]float32) int32 { return int32(f.rng.IntN(f.vocab)) }

// RunBatched times b. Tokens are random, or, where text is not empty, parts of it.
func RunBatched(ctx context.Context, e *engine.Engine, b Batched, text []int32) (BatchedResult, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	prompts := make([][]int32, b.Sequences)
	for i := range prompts {
		at := rng.IntN(max(1, len(text)))
		for j := range b.Prompt {
			id := int32(rng.IntN(e.Config().Vocab))
			if len(text) > 0 && j > 0 { // the first differs, so that no prompt is the beginning of another
				id = text[(at+j)%len(text)]
			}
			prompts[i] = append(prompts[i], id)
		}
	}
	r := BatchedResult{Neurons: Neurons{Mode: e.Config().Sparse.String()}}
	var err error
	if r.PromptNS, err = b.together(ctx, e, prompts, 0, engine.ReuseNone); err != nil {
		return r, err
	}
	before := e.Neurons()
	if r.GenNS, err = b.together(ctx, e, prompts, b.Gen, engine.ReuseSame); err != nil {
		return r, err
	}
	use := e.Neurons()
	for l := range use {
		use[l] = use[l].Since(before[l])
	}
	r.Neurons.add(use)
	return r, nil
}

// together continues all prompts by n tokens at the same time. It returns how many nanoseconds that took.
func (b Batched) together(ctx context.Context, e *engine.Engine, prompts [][]int32, n int, reuse engine.Reuse) (int64, error) {
	begin := monotime.Now()
	var streams []*engine.Stream
	for i, p := range prompts {
		st, err := e.Submit(ctx, engine.Request{
			Prompt: p, Max: n, Sampler: forced{rand.New(rand.NewPCG(uint64(i), 3)), e.Config().Vocab}, IgnoreEOG: true, Reuse: reuse,
		})
		if err != nil {
			return 0, err
		}
		defer st.Close()
		streams = append(streams, st)
	}
	var group sync.WaitGroup
	for _, st := range streams {
		group.Go(func() {
			for _, ok := st.Next(); ok; _, ok = st.Next() {
			}
		})
	}
	group.Wait()
	took := monotime.Since(begin).Nanoseconds()
	for _, st := range streams {
		if st.Err() != nil {
			return 0, st.Err()
		}
	}
	return took, ctx.Err()
}

// BatchedRow is one timed test with its conditions.
type BatchedRow struct {
	Batched
	BatchedResult
	Context, Batch, UBatch, Threads, Layers int
	Planned                                 bool    // tables have columns of what is expected
	PromptExpected, GenExpected             float64 // tokens per second that the plan expects of all sequences together; 0: unknown
}

// batchedRecord is a row in llama-batched-bench's JSON fields.
type batchedRecord struct {
	Context     int     `json:"n_kv_max"`
	Batch       int     `json:"n_batch"`
	UBatch      int     `json:"n_ubatch"`
	Flash       int     `json:"flash_attn"`
	Shared      int     `json:"is_pp_shared"`
	Layers      int     `json:"n_gpu_layers"`
	Threads     int     `json:"n_threads"`
	Prompt      int     `json:"pp"`
	Gen         int     `json:"tg"`
	Sequences   int     `json:"pl"`
	Positions   int     `json:"n_kv"`
	PromptTime  float64 `json:"t_pp"`
	PromptSpeed float64 `json:"speed_pp"`
	GenTime     float64 `json:"t_tg"`
	GenSpeed    float64 `json:"speed_tg"`
	Time        float64 `json:"t"`
	Speed       float64 `json:"speed"`
	FFNBytes    float64 `json:"ffn_bytes"`       // ours: of feed-forward weights that a step of generation read, 0 in mode off
	FFNDense    float64 `json:"ffn_bytes_dense"` // and what it would have read without
	PromptPlan  float64 `json:"plan_pp"`         // ours, too: the speeds that the plan expects, 0 where nothing is known
	GenPlan     float64 `json:"plan_tg"`
}

func (r BatchedRow) record() batchedRecord {
	prompt, gen := float64(r.PromptNS)/1e9, float64(r.GenNS)/1e9
	rate := func(tokens int, s float64) float64 {
		if s <= 0 {
			return 0
		}
		return float64(tokens) / s
	}
	b := batchedRecord{
		Context: r.Context, Batch: r.Batch, UBatch: r.UBatch, Flash: 1, Layers: r.Layers, Threads: r.Threads,
		Prompt: r.Prompt, Gen: r.Gen, Sequences: r.Sequences, Positions: r.Sequences * (r.Prompt + r.Gen),
		PromptTime: prompt, PromptSpeed: rate(r.Sequences*r.Prompt, prompt),
		GenTime: gen, GenSpeed: rate(r.Sequences*r.Gen, gen), Time: prompt + gen, PromptPlan: r.PromptExpected, GenPlan: r.GenExpected,
	}
	b.Speed = rate(b.Positions, b.Time)
	if n := &r.Neurons; n.Steps > 0 {
		b.FFNBytes, b.FFNDense = float64(n.Bytes)/float64(n.Steps), float64(n.Dense)/float64(n.Steps)
	}
	return b
}

// BatchedWriter prints rows as llama-batched-bench does, or as CSV or JSON.
type BatchedWriter struct {
	w       *bufio.Writer
	format  string
	rows    []batchedRecord
	planned bool // there are columns of what the plan expects
}

// NewBatchedWriter returns a writer of format md, csv, json or jsonl.
func NewBatchedWriter(w io.Writer, format string) (*BatchedWriter, error) {
	if !slices.Contains([]string{"md", "csv", "json", "jsonl"}, format) {
		return nil, fmt.Errorf("output format %q is not md, csv, json or jsonl", format)
	}
	return &BatchedWriter{w: bufio.NewWriter(w), format: format}, nil
}

// Write prints r.
func (w *BatchedWriter) Write(r BatchedRow) error {
	b := r.record()
	w.rows = append(w.rows, b)
	first := len(w.rows) == 1
	switch w.format {
	case "md":
		if first {
			w.planned = r.Planned
			head, plan := "|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |", ""
			if w.planned {
				head, plan = head+" plan PP t/s | plan TG t/s |", strings.Repeat("|"+strings.Repeat("-", 13), 2)
			}
			fmt.Fprintln(w.w, head)
			fmt.Fprintln(w.w, "|"+strings.Repeat("-", 7)+"|"+strings.Repeat("-", 8)+"|"+strings.Repeat("-", 6)+"|"+strings.Repeat("-", 8)+strings.Repeat("|"+strings.Repeat("-", 10), 6)+plan+"|")
		}
		fmt.Fprintf(w.w, "| %5d | %6d | %4d | %6d | %8.3f | %8.2f | %8.3f | %8.2f | %8.3f | %8.2f |",
			b.Prompt, b.Gen, b.Sequences, b.Positions, b.PromptTime, b.PromptSpeed, b.GenTime, b.GenSpeed, b.Time, b.Speed)
		if w.planned {
			fmt.Fprintf(w.w, " %11.2f | %11.2f |", b.PromptPlan, b.GenPlan)
		}
		fmt.Fprintln(w.w)
	case "csv":
		if err := w.csv(b, first); err != nil {
			return err
		}
	case "jsonl":
		line, err := json.Marshal(b)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.w, "%s\n", line)
	}
	return w.w.Flush()
}

func (w *BatchedWriter) csv(b batchedRecord, first bool) error {
	c := csv.NewWriter(w.w)
	v := reflect.ValueOf(b)
	var names, values []string
	for i := range v.NumField() {
		names = append(names, v.Type().Field(i).Tag.Get("json"))
		values = append(values, fmt.Sprint(v.Field(i).Interface()))
	}
	if first {
		if err := c.Write(names); err != nil {
			return err
		}
	}
	if err := c.Write(values); err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

// Close prints the end of the output.
func (w *BatchedWriter) Close() error {
	if w.format == "json" {
		all, err := json.MarshalIndent(w.rows, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w.w, "%s\n", all)
	}
	return w.w.Flush()
}
