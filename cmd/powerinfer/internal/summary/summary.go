// Package summary prints on standard error what a model takes, and what a generation took.
package summary

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// Model prints what was loaded, where it is computed and how tokens are sampled, for --verbose.
func Model(m *powerinfer.Model, o *powerinfer.Sampling) error {
	i := m.Info()
	var parts []string
	if i.Neurons > 0 {
		parts = append(parts, fmt.Sprintf("n_ff %d", i.Neurons))
	}
	if i.Experts > 0 {
		parts = append(parts, fmt.Sprintf("%d experts, %d used", i.Experts, i.ExpertsUsed))
	}
	if i.Heads > 0 {
		parts = append(parts, fmt.Sprintf("%d heads over %d KV heads of %d", i.Heads, i.KVHeads, i.HeadSize))
	}
	parts = append(parts, fmt.Sprintf("vocabulary %d", i.Vocabulary))
	fmt.Fprintf(screen.Err, "model %q: %s, %.1f MiB of weights; %d layers, n_embd %d, %s\n", i.Name, i.Type, quantity.MiB(i.Bytes), i.Layers, i.Embedding, strings.Join(parts, ", "))
	fmt.Fprintf(screen.Err, "context %d of %d tokens, KV cache %.1f MiB; %s\n", i.Context, i.Trained, quantity.MiB(i.Cache), m.Device())
	plan, err := m.Plan()
	if err != nil {
		return err
	}
	for _, g := range plan.GPUs {
		fmt.Fprintf(screen.Err, "%s: video memory %.1f MiB in use, %.1f planned, of a budget of %.1f\n", g.Name, quantity.MiB(g.Used), quantity.MiB(g.Planned), quantity.MiB(g.Budget))
	}
	if i.Sparse == powerinfer.SparsePredict {
		fmt.Fprintf(screen.Err, "sparse: predict, from a logit of %g\n", i.Threshold)
	} else {
		fmt.Fprintf(screen.Err, "sparse: %s, activation %s\n", i.Sparse, i.Activation)
	}
	if i.Draft != "" {
		fmt.Fprintf(screen.Err, "draft model: %s\n", screen.Plain(i.Draft))
	}
	if i.Tower != "" {
		fmt.Fprintf(screen.Err, "pictures: shown by %s\n", screen.Plain(i.Tower))
	}
	describeSampling(o)
	return nil
}

// GPUs prints remarks about the GPUs after a generation.
func GPUs(m *powerinfer.Model) error {
	plan, err := m.Plan()
	for _, g := range plan.GPUs {
		if g.Note != "" {
			fmt.Fprintf(screen.Err, "%s: %s\n", g.Name, g.Note)
		}
	}
	return err
}

func describeSampling(o *powerinfer.Sampling) {
	if o.Temperature <= 0 {
		fmt.Fprintln(screen.Err, "sampler: the likeliest token")
		return
	}
	if o.Mirostat.Version > 0 {
		fmt.Fprintf(screen.Err, "sampler: seed %d, temperature %g, Mirostat %d for %g bits at rate %g\n", o.Seed, o.Temperature, o.Mirostat.Version, o.Mirostat.Tau, o.Mirostat.Eta)
		return
	}
	if !slices.Equal(o.Samplers, powerinfer.DefaultSampling().Samplers) {
		fmt.Fprintf(screen.Err, "samplers: %s\n", strings.Join(o.Samplers, ";"))
	}
	fmt.Fprintf(screen.Err, "sampler: seed %d, temperature %g, top-k %d, top-p %g, min-p %g, repeat penalty %g over %d tokens\n",
		o.Seed, o.Temperature, o.TopK, o.TopP, o.MinP, o.RepeatPenalty, o.RepeatLastN)
}

// Neurons prints for each layer the share of neurons that the generated tokens needed, and the bytes read for them.
func Neurons(use []powerinfer.LayerNeurons) {
	share := func(n, of int64) float64 { return 100 * float64(n) / float64(max(1, of)) }
	var sum powerinfer.LayerNeurons
	w := tabwriter.NewWriter(screen.Err, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "layer\tmode\tpredicted\tactive\tMiB/token\tof dense\t")
	for l, u := range use {
		if u.Steps == 0 {
			continue
		}
		of := u.Tokens * int64(u.Neurons)
		fmt.Fprintf(w, "%d\t%s\t%.1f %%\t%.1f %%\t%.2f\t%.0f %%\t\n", l, u.Sparse, share(u.Predicted, of), share(u.Active, of),
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

// Experts prints how experts followed the text, if they did.
func Experts(u powerinfer.ExpertUse) {
	if uses := u.OnGPU + u.Elsewhere; uses > 0 {
		fmt.Fprintf(screen.Err, "experts: %.1f %% of %d uses were of experts on a GPU; %s copied there, %.1f MiB\n",
			100*float64(u.OnGPU)/float64(uses), uses, quantity.Of(int(u.Copied), "expert"), quantity.MiB(u.Bytes))
	}
}

// disk returns a sentence about reading from disk for a model larger than memory. steps is the number of sampled
// tokens. It returns "" if everything is in memory.
func disk(u powerinfer.DiskUse, steps int, took time.Duration) string {
	if u.Uses() == 0 || steps < 1 || took <= 0 {
		return ""
	}
	share := func(n int64) float64 { return 100 * float64(n) / float64(u.Uses()) }
	text := fmt.Sprintf("from disk: %.1f MB a token, waiting %.0f %% of the time", float64(u.Bytes)/1e6/float64(steps), 100*min(1, u.Waited.Seconds()/took.Seconds()))
	if u.Reading > 0 {
		text += fmt.Sprintf(", read at %.0f MB/s", float64(u.Bytes)/1e6/u.Reading.Seconds())
	}
	text += fmt.Sprintf(" | %.0f %% of what was needed was in RAM", share(u.Kept))
	if u.Ahead > 0 {
		text += fmt.Sprintf(", %.0f %% was read ahead", share(u.Ahead))
	}
	if u.Left > 0 {
		text += fmt.Sprintf(" | %.1f %% of the uses of experts were left out", 100*float64(u.Left)/float64(u.Left+u.Uses()))
	}
	return text + "\n"
}

// Closing returns lines about what the generation took. The first token comes from the prompt's last step, so a single
// token has no speed.
func Closing(r powerinfer.Result, load time.Duration) string {
	rate := func(n int, d time.Duration) string {
		if n < 1 || d <= 0 {
			return ""
		}
		return fmt.Sprintf(", %.1f tokens/s", float64(n)/d.Seconds())
	}
	steps := r.Tokens - 1
	if r.Stopped == powerinfer.StoppedEnd { // the end token took a step, too
		steps++
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	text := fmt.Sprintf("load %.0f ms | prompt %s, %.0f ms%s | generated %s, %.0f ms%s%s | stopped: %s\n",
		ms(load), quantity.Of(r.Prompt, "token"), ms(r.PromptTime), rate(r.Prompt, r.PromptTime),
		quantity.Of(r.Tokens, "token"), ms(r.Time), rate(steps, r.Time), Drafts(&r), r.Stopped)
	text += disk(r.Disk, steps, r.Time)
	if r.Yielded > engine.NoteYielded {
		text += fmt.Sprintf("note: other programs kept cores busy: this one had %.0f %% of them while it generated\n", 100*(1-r.Yielded))
	}
	return text
}

// Drafts returns the share of accepted draft tokens for the end of a line; "" if there were none.
func Drafts(r *powerinfer.Result) string {
	if r.Drafted == 0 {
		return ""
	}
	s := fmt.Sprintf(", %d of %s accepted", r.Accepted, quantity.Of(r.Drafted, "draft"))
	if r.HotDrafted > 0 {
		s += fmt.Sprintf(" (%d of %d of hot neurons)", r.HotAccepted, r.HotDrafted)
	}
	if r.FurtherDrafted > 0 {
		s += fmt.Sprintf(" (%d of %d by MTP or a draft head)", r.FurtherAccepted, r.FurtherDrafted)
	}
	return s
}

// ActiveShare returns the share of neurons that were active, and whether any were counted.
func ActiveShare(use []powerinfer.LayerNeurons) (float64, bool) {
	var active, all int64
	for _, u := range use {
		active += u.Active
		all += u.Tokens * int64(u.Neurons)
	}
	return float64(active) / float64(max(all, 1)), all > 0
}
