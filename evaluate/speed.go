package evaluate

import (
	"context"
	"time"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Benchmark describes a test: reading a prompt and generating tokens after it.
type Benchmark struct {
	Prompt   int // tokens of the prompt
	Generate int // tokens to generate
	Depth    int // tokens that are already in the context; their time does not count

	Runs      int     // that are timed, after one that is not; 0: 1
	Sequences int     // that are read at a time, then continued at a time, by RunTogether; 0: 1
	Tokens    []int32 // the text, repeated if necessary; nil: random tokens, which leave fewer neurons at zero than a text does

	Progress func(done, total int) // called with the number of runs done; may be nil
}

// Timing is the result of a benchmark.
type Timing struct {
	Runs    []time.Duration
	Neurons NeuronTotals // summed over all runs
	Disk    powerinfer.DiskUse
}

// NeuronTotals are sums of powerinfer.LayerNeurons over layers.
type NeuronTotals struct {
	Pairs, Predicted, Active int64 // pairs of a token and a neuron
	Bytes, Dense             int64 // bytes of weights read, and those that the same steps would read without skipping
	Steps                    int64 // steps of the whole model
}

// Run times b as llama-bench does. Generated tokens are b's, so that sampling takes no part.
func (b *Benchmark) Run(ctx context.Context, m *powerinfer.Model) (Timing, error) {
	r, err := bench.Run(ctx, engineOf(m), bench.Test{Prompt: b.Prompt, Gen: b.Generate, Depth: b.Depth}, b.Tokens, max(1, b.Runs), b.Progress)
	t := Timing{Neurons: totalsOf(r.Neurons), Disk: r.Disk}
	for _, ns := range r.Samples {
		t.Runs = append(t.Runs, time.Duration(ns))
	}
	return t, setting.For(setting.Fields, err)
}

// RunTogether times b once for b.Sequences prompts at a time, as llama-batched-bench does: reading all prompts,
// and then continuing all of them. Neurons are counted while they are continued.
func (b *Benchmark) RunTogether(ctx context.Context, m *powerinfer.Model) (prompts, generation time.Duration, n NeuronTotals, err error) {
	r, err := bench.RunBatched(ctx, engineOf(m), bench.Batched{Prompt: b.Prompt, Gen: b.Generate, Sequences: max(1, b.Sequences)}, b.Tokens)
	return time.Duration(r.PromptNS), time.Duration(r.GenNS), totalsOf(r.Neurons), setting.For(setting.Fields, err)
}

func totalsOf(n bench.Neurons) NeuronTotals {
	return NeuronTotals{Pairs: n.Pairs, Predicted: n.Predicted, Active: n.Active, Bytes: n.Bytes, Dense: n.Dense, Steps: n.Steps}
}
