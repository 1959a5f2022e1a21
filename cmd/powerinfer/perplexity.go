package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// perplexityContext is llama.cpp's window where -c is not given.
const perplexityContext = 512

// perplexityOutputs bounds the rows of logits held at a time: 128 rows of a 150k vocabulary are 75 MiB.
const perplexityOutputs = 128

func perplexityCommand() *cli.Command {
	return &cli.Command{
		Name: "perplexity", Usage: "measure how well a model predicts a text, by llama.cpp's method",
		Flags: append(engineFlags(),
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "text `FILE`; - is standard input"},
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the `TEXT` itself"},
			&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
			&cli.IntFlag{Name: "chunks", Value: -1, Usage: "windows to evaluate; -1: all"},
			&cli.IntFlag{Name: "ppl-stride", Usage: "step of overlapping windows; 0: disjoint ones"},
		),
		Action: perplexity,
	}
}

func perplexity(ctx context.Context, c *cli.Command) error {
	if err := noArguments(c); err != nil {
		return err
	}
	if !c.IsSet("file") && !c.IsSet("prompt") {
		return errors.New("give a text with -f FILE")
	}
	stride := c.Int("ppl-stride")
	if stride < 0 {
		return fmt.Errorf("--ppl-stride %d is negative", stride)
	}
	text, err := readText(c)
	if err != nil {
		return err
	}
	window := perplexityContext
	if n := c.Int("ctx-size"); n > 0 {
		window = n
	}
	if stride > window {
		return fmt.Errorf("--ppl-stride %d is longer than the context of %d", stride, window)
	}
	if stride > 0 {
		window += stride / 2 // as llama.cpp does
	}
	e, closeAll, err := openEngine(ctx, c, func(o *engine.Options, _ *gguf.File) error {
		o.Context, o.Outputs = window, perplexityOutputs
		return nil
	})
	if err != nil {
		return err
	}
	defer closeAll()
	if limit := e.Config().Context; window > limit {
		fmt.Fprintf(os.Stderr, "note: the model was trained for %d tokens, fewer than the window of %d\n", limit, window)
	}
	tok := e.Tokenizer()
	p := eval.Perplexity{
		Tokens: tok.Encode(text, true, false), Context: window, Chunks: c.Int("chunks"), Stride: stride,
		BOS: -1,
	}
	if tok.AddsBOS() {
		p.BOS = tok.BOS()
	}
	bar := newProgress("perplexity", unitRuns)
	running, kept := io.Writer(os.Stdout), &strings.Builder{}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		running = kept // on a terminal the bar has the line until it is done
	}
	p.Chunk = func(done, total int, ppl float64) {
		bar.set(int64(done), int64(total))
		fmt.Fprintf(running, "[%d]%.4f,", done, ppl)
	}
	est, err := p.Run(ctx, e)
	bar.finish()
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\nFinal estimate: PPL = %.4f +/- %.5f\n", kept, est.PPL, est.Error)
	return err
}
