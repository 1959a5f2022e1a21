package main

import (
	"fmt"
	"os"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// describe says what was loaded, where it is computed and how tokens are chosen, for --verbose.
func describe(e *engine.Engine, file bench.Model, o sample.Options) {
	c := e.Config()
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	fmt.Fprintf(os.Stderr, "model %q: %s, %.1f MiB of weights; %d layers, n_embd %d, n_ff %d, %d heads over %d KV heads of %d, vocabulary %d\n",
		c.Name, file.Type, mib(file.Bytes), c.Layers, c.Embd, c.FF, c.Heads, c.KVHeads, c.HeadDim, c.Vocab)
	pages := (e.Context() + compute.PagePositions - 1) / compute.PagePositions
	fmt.Fprintf(os.Stderr, "context %d of %d tokens, KV cache %.1f MiB; %s\n", e.Context(), c.Context, mib(c.CacheSpec(pages).Bytes()), e.Device())
	if c.Predicted {
		fmt.Fprintf(os.Stderr, "neurons predicted at threshold %g\n", c.Threshold)
	}
	if o.Temperature <= 0 {
		fmt.Fprintln(os.Stderr, "sampler: the likeliest token")
		return
	}
	fmt.Fprintf(os.Stderr, "sampler: seed %d, temperature %g, top-k %d, top-p %g, min-p %g, repeat penalty %g over %d tokens\n",
		o.Seed, o.Temperature, o.TopK, o.TopP, o.MinP, o.RepeatPenalty, o.RepeatLastN)
}

// closing prints what the generation took.
func closing(r engine.Result, load time.Duration) {
	rate := func(n int, d time.Duration) float64 {
		if d <= 0 {
			return 0
		}
		return float64(n) / d.Seconds()
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Fprintf(os.Stderr, "load %.0f ms | prompt %d tokens, %.0f ms, %.1f tokens/s | generated %d tokens, %.0f ms, %.1f tokens/s | stopped: %s\n",
		ms(load), r.PromptTokens, ms(r.PromptTime), rate(r.PromptTokens, r.PromptTime),
		r.Tokens, ms(r.Time), rate(r.Tokens, r.Time), r.Stop)
}
