// Command drafts measures how much drafting speeds up the generation of a given text. It makes a model continue a
// prompt with that text, whatever the weights would choose, alternately with and without drafts. So a model with random
// weights shows the gain of a real model that writes the text.
//
//	go run ./bench/drafts -m 1b.gguf --vocab vocab.gguf --prompt old.go --text new.go
//
// Without --text the model writes its own likeliest text, and its own hot neurons draft it (--spec-type draft-hot). The
// other modes are measured for comparison, and with --dense also the model before it was prepared:
//
//	go run ./bench/drafts -m prepared.gguf --dense dense.gguf --prompt prompt.txt
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

func main() {
	c := &cli.Command{
		Name: "drafts", Usage: "measure what guessing tokens gains while a given text is generated",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Required: true, Usage: "GGUF `FILE`"},
			&cli.StringFlag{Name: "vocab", Usage: "GGUF `FILE` whose tokenizer is used instead of the model's"},
			&cli.StringFlag{Name: "prompt", Required: true, Usage: "`FILE` that is read first"},
			&cli.StringFlag{Name: "text", Usage: "`FILE` that is generated; without it the model's own text is"},
			&cli.StringFlag{Name: "dense", Usage: "`FILE` of the model before it was prepared, for the model's own text"},
			&cli.StringFlag{Name: "sparse", Value: "exact", Usage: "`MODE` whose text is guessed, for the model's own text"},
			&cli.IntFlag{Name: "n-predict", Aliases: []string{"n"}, Value: 400, Usage: "tokens of it at most"},
			&cli.IntFlag{Name: "spec-draft-n-max", Value: 16, Usage: "guess at most `N` tokens at a time"},
			&cli.Float32Flag{Name: "spec-draft-p-min", Usage: "guesses of hot neurons end before a token of a smaller probability `P`"},
			&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Value: 1},
			&cli.IntFlag{Name: "rounds", Aliases: []string{"r"}, Value: 3},
		},
		Action: func(ctx context.Context, c *cli.Command) error { return run(ctx, c, os.Stdout) },
	}
	if err := c.Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "drafts:", err)
		os.Exit(1)
	}
}

// result has what a round measured, in tokens per second.
type result struct {
	Plain    float64 `json:"plain"`
	Drafts   float64 `json:"drafts"`
	Drafted  int     `json:"drafted"`
	Accepted int     `json:"accepted"`
	Tokens   int     `json:"tokens"`
}

func run(ctx context.Context, c *cli.Command, out io.Writer) error {
	f, err := gguf.Open(c.String("model"))
	if err != nil {
		return err
	}
	defer f.Close()
	if c.String("text") == "" {
		return own(ctx, c, f, out)
	}
	prompt, text, err := tokens(c, f)
	if err != nil {
		return err
	}
	text = text[:min(len(text), c.Int("n-predict"))]
	o := engine.Options{Devices: planner.CPU(planner.Processor{Threads: c.Int("threads"), Kernels: planner.KernelsAuto}), Limits: engine.Limits{Context: len(prompt) + len(text) + 1}, Neurons: engine.Neurons{Sparse: model.Off}, Drafts: engine.Drafts{Most: c.Int("spec-draft-n-max")}}
	e, err := engine.Open(ctx, f, o)
	if err != nil {
		return err
	}
	defer e.Close()
	var all []result
	for round := range c.Int("rounds") {
		r := result{Tokens: len(text)}
		for turn := range 2 { // forwards and backwards in turn: the machine's speed changes
			drafts := (turn+round)%2 - 1 // none, or the engine's default
			res, err := e.Generate(ctx, engine.Request{Prompt: prompt, Max: len(text), Sampler: &dictation{text: text, prompt: len(prompt)}, IgnoreEOG: true, Drafts: drafts}, nil)
			if err != nil {
				return err
			}
			speed := float64(res.Tokens-1) / res.Time.Seconds()
			if drafts < 0 {
				r.Plain = speed
			} else {
				r.Drafts, r.Drafted, r.Accepted = speed, res.Drafted, res.Accepted
			}
		}
		all = append(all, r)
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	slices.SortFunc(all, func(a, b result) int { return int(1e6 * (a.Drafts/a.Plain - b.Drafts/b.Plain)) })
	ratio := func(r result) float64 { return r.Drafts / r.Plain }
	_, err = fmt.Fprintf(out, "with drafts over without: %.2f (%.2f to %.2f)\n", ratio(all[len(all)/2]), ratio(all[0]), ratio(all[len(all)-1]))
	return err
}

// tokens returns the prompt and the text.
func tokens(c *cli.Command, f *gguf.File) (prompt, text []int32, err error) {
	if name := c.String("vocab"); name != "" {
		if f, err = gguf.Open(name); err != nil {
			return nil, nil, err
		}
		defer f.Close()
	}
	tok, err := model.Tokenizer(f)
	if err != nil {
		return nil, nil, err
	}
	for _, part := range []struct {
		name  string
		to    *[]int32
		first bool
	}{{"prompt", &prompt, true}, {"text", &text, false}} {
		if c.String(part.name) == "" {
			continue
		}
		b, err := os.ReadFile(c.String(part.name))
		if err != nil {
			return nil, nil, err
		}
		if *part.to = tok.Encode(string(b), part.first, false); len(*part.to) == 0 {
			return nil, nil, errors.New(c.String(part.name) + " is empty")
		}
	}
	return prompt, text, nil
}

// dictation is a sampler that chooses a given text's tokens.
type dictation struct {
	text   []int32
	prompt int // tokens of the prompt, for which Accept is called before the text's
	at     int
}

// Accept implements engine.Sampler, as do the others.
func (d *dictation) Accept(int32) {
	if d.prompt--; d.prompt < 0 {
		d.at++
	}
}
func (d *dictation) Sample([]float32) int32      { return d.text[d.at] }
func (d *dictation) Constrain(sample.Constraint) {}
func (d *dictation) Done() bool                  { return false }
func (d *dictation) Err() error                  { return nil }
