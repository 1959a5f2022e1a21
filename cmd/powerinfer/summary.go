package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// describe says what was loaded, where it is computed and how tokens are chosen, for --verbose.
func describe(e *session.Session, file bench.Model, o sample.Options) {
	c := e.Config()
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	fmt.Fprintf(os.Stderr, "model %q: %s, %.1f MiB of weights; %d layers, n_embd %d, n_ff %d, %d heads over %d KV heads of %d, vocabulary %d\n",
		c.Name, file.Type, mib(file.Bytes), c.Layers, c.Embd, c.FF, c.Heads, c.KVHeads, c.HeadDim, c.Vocab)
	pages := (e.Context() + compute.PagePositions - 1) / compute.PagePositions
	fmt.Fprintf(os.Stderr, "context %d of %d tokens, KV cache %.1f MiB; %s\n", e.Context(), c.Context, mib(c.CacheSpec(pages).Bytes()), e.Device())
	for _, u := range e.Planner.Usage() {
		fmt.Fprintf(os.Stderr, "%s: video memory %.1f MiB in use, %.1f planned, of a budget of %.1f\n", u.Name, mib(u.Used), mib(u.Planned), mib(u.Budget))
	}
	switch c.Sparse {
	case model.Predict:
		fmt.Fprintf(os.Stderr, "sparse: predict, from a logit of %g\n", c.Threshold)
	default:
		fmt.Fprintf(os.Stderr, "sparse: %s, activation %s\n", c.Sparse, c.Act.Kind)
	}
	if o.Temperature <= 0 {
		fmt.Fprintln(os.Stderr, "sampler: the likeliest token")
		return
	}
	if o.Mirostat > 0 {
		fmt.Fprintf(os.Stderr, "sampler: seed %d, temperature %g, Mirostat %d for %g bits at rate %g\n", o.Seed, o.Temperature, o.Mirostat, o.MirostatTau, o.MirostatEta)
		return
	}
	if order := sample.ChainNames(o.Chain); order != sample.ChainNames(sample.DefaultChain()) {
		fmt.Fprintf(os.Stderr, "samplers: %s\n", order)
	}
	fmt.Fprintf(os.Stderr, "sampler: seed %d, temperature %g, top-k %d, top-p %g, min-p %g, repeat penalty %g over %d tokens\n",
		o.Seed, o.Temperature, o.TopK, o.TopP, o.MinP, o.RepeatPenalty, o.RepeatLastN)
}

// neurons says, layer by layer, which share of the neurons the generated tokens needed and what was read for them.
func neurons(use []model.NeuronUse) {
	share := func(n, of int64) float64 { return 100 * float64(n) / float64(max(1, of)) }
	var sum model.NeuronUse
	w := tabwriter.NewWriter(os.Stderr, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tmode\tpredicted\tactive\tMiB/token\tof dense\t")
	for l, u := range use {
		if u.Steps == 0 {
			continue
		}
		of := u.Tokens * int64(u.Neurons)
		fmt.Fprintf(w, "%d\t%s\t%.1f %%\t%.1f %%\t%.2f\t%.0f %%\t\n", l, u.Mode, share(u.Predicted, of), share(u.Active, of),
			float64(u.Bytes)/float64(u.Steps)/(1<<20), share(u.Bytes, u.Steps*u.Dense))
		sum.Predicted += u.Predicted
		sum.Active += u.Active
		sum.Tokens += of
		sum.Bytes += u.Bytes
		sum.Dense += u.Steps * u.Dense
		sum.Steps = u.Steps
	}
	if sum.Steps == 0 {
		return
	}
	fmt.Fprintf(w, "all\t\t%.1f %%\t%.1f %%\t%.2f\t%.0f %%\t\n", share(sum.Predicted, sum.Tokens), share(sum.Active, sum.Tokens),
		float64(sum.Bytes)/float64(sum.Steps)/(1<<20), share(sum.Bytes, sum.Dense))
	w.Flush()
}

// count returns "1 token" or "2 tokens".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// closing prints what the generation took. The first token comes of the prompt's last step, so that one token alone has no speed.
func closing(r engine.Result, load time.Duration) {
	rate := func(n int, d time.Duration) string {
		if n < 1 || d <= 0 {
			return ""
		}
		return fmt.Sprintf(", %.1f tokens/s", float64(n)/d.Seconds())
	}
	steps := r.Tokens - 1
	if r.Stop == engine.StopEOG { // whose token took a step, too
		steps++
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Fprintf(os.Stderr, "load %.0f ms | prompt %s, %.0f ms%s | generated %s, %.0f ms%s | stopped: %s\n",
		ms(load), count(r.PromptTokens, "token"), ms(r.PromptTime), rate(r.PromptTokens, r.PromptTime),
		count(r.Tokens, "token"), ms(r.Time), rate(steps, r.Time), r.Stop)
}
