package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// way is a way of computing the model's own text.
type way struct {
	Name string
	e    *engine.Engine
	off  bool // nothing is drafted
	text []int32
	runs []ownResult
}

// ownResult has what a round measured.
type ownResult struct {
	Way      string  `json:"way"`
	Speed    float64 `json:"speed"` // tokens a second
	Drafted  int     `json:"drafted"`
	Accepted int     `json:"accepted"`
	Bytes    int64   `json:"bytes"` // bytes of feed-forward layers per token that steps without drafts read; 0: not counted
	Same     bool    `json:"same"`  // the text is the first way's
}

// own measures the ways of computing the model's own text in turn.
func own(ctx context.Context, c *cli.Command, f *gguf.File, out io.Writer) error {
	prompt, _, err := tokens(c, f)
	if err != nil {
		return err
	}
	mode, err := model.ParseSparseMode(c.String("sparse"))
	if err != nil {
		return err
	}
	n := c.Int("n-predict")
	o := engine.Options{
		Devices: planner.CPU(planner.Processor{Threads: c.Int("threads"), Kernels: planner.KernelsAuto}), Limits: engine.Limits{Context: len(prompt) + n + 1}, Neurons: engine.Neurons{Sparse: mode}, Drafts: engine.Drafts{Most: c.Int("spec-draft-n-max"), Hot: engine.HotAlways, NoLookup: true, Least: c.Float32("spec-draft-p-min")},
	}
	e, err := engine.Open(ctx, f, o)
	if err != nil {
		return err
	}
	defer e.Close()
	ways := []*way{{Name: mode.String(), e: e, off: true}, {Name: mode.String() + " with guesses", e: e}}
	o.Drafts.Most = 0
	more := func(name string, f *gguf.File, mode model.SparseMode) error {
		o.Sparse = mode
		e, err := engine.Open(ctx, f, o)
		if err == nil {
			ways = append(ways, &way{Name: name, e: e, off: true})
		}
		return err
	}
	if err := more("predict", f, model.Predict); err != nil {
		return err
	}
	defer ways[2].e.Close()
	if name := c.String("dense"); name != "" {
		dense, err := gguf.Open(name)
		if err != nil {
			return err
		}
		defer dense.Close()
		if err := more("the dense file", dense, model.Off); err != nil {
			return err
		}
		defer ways[3].e.Close()
	}
	for r := range c.Int("rounds") {
		for i := range ways {
			if r%2 == 1 { // forwards and backwards
				i = len(ways) - 1 - i
			}
			if err := ways[i].run(ctx, prompt, n); err != nil {
				return err
			}
		}
		for _, w := range ways {
			last := &w.runs[r]
			last.Same = slices.Equal(w.text, ways[0].text)
			if err := json.NewEncoder(out).Encode(last); err != nil {
				return err
			}
		}
	}
	return ownTable(out, ways)
}

// run computes the text once.
func (w *way) run(ctx context.Context, prompt []int32, n int) error {
	o := sample.DefaultOptions()
	o.Temperature = 0
	s, err := sample.New(o, w.e.Config().Vocab)
	if err != nil {
		return err
	}
	r := engine.Request{Prompt: prompt, Max: n, Sampler: s, IgnoreEOG: true}
	if w.off {
		r.Drafts = -1
	}
	// The prompt's keys and values are there from the second time on.
	var before int64
	w.text = w.text[:0]
	res, err := w.e.Generate(ctx, r, func(t engine.Token) bool {
		if len(w.text) == 0 {
			before = read(w.e)
		}
		w.text = append(w.text, t.ID)
		return true
	})
	if err != nil {
		return err
	}
	w.runs = append(w.runs, ownResult{
		Way: w.Name, Speed: float64(res.Tokens-1) / res.Time.Seconds(), Drafted: res.HotDrafted, Accepted: res.HotAccepted, Bytes: (read(w.e) - before) / int64(res.Tokens-1),
	})
	return nil
}

// read returns the bytes of feed-forward layers that e's steps have read.
func read(e *engine.Engine) (n int64) {
	for _, u := range e.Neurons() {
		n += u.Bytes
	}
	return n
}

// ownTable writes medians and ratios within rounds, over the first way and over the last.
func ownTable(out io.Writer, ways []*way) error {
	fmt.Fprintf(out, "| way | tokens/s | best | over %s | over %s | guesses that came | text |\n|---|---|---|---|---|---|---|\n", ways[0].Name, ways[len(ways)-1].Name)
	for _, w := range ways {
		var speed []float64
		over := [2][]float64{}
		drafted, accepted, text := 0, 0, "the same"
		for r, run := range w.runs {
			speed = append(speed, run.Speed)
			over[0] = append(over[0], run.Speed/ways[0].runs[r].Speed)
			over[1] = append(over[1], run.Speed/ways[len(ways)-1].runs[r].Speed)
			drafted, accepted = drafted+run.Drafted, accepted+run.Accepted
			if !run.Same {
				text = "another"
			}
		}
		best := slices.Max(speed)
		if _, err := fmt.Fprintf(out, "| %s | %s | %.1f | %s | %s | %d of %d | %s |\n", w.Name, spread(speed, "%.1f"), best, spread(over[0], "%.2f"), spread(over[1], "%.2f"), accepted, drafted, text); err != nil {
			return err
		}
	}
	return nil
}

// spread writes the median, the least and the greatest of v.
func spread(v []float64, verb string) string {
	slices.Sort(v)
	return fmt.Sprintf(verb+" ("+verb+"–"+verb+")", v[len(v)/2], v[0], v[len(v)-1])
}
