package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// perplexityContext is the default window, as in llama.cpp.
const perplexityContext = 512

// perplexityOutputs is the number of rows of logits held at a time, set through Limits.Sequences. 128 rows of a
// vocabulary of 150k take 75 MiB.
const perplexityOutputs = 128

func perplexityCommand() *cli.Command {
	return &cli.Command{
		Name: "perplexity", UsageText: `powerinfer perplexity -m model.gguf -f text.txt -c 512
powerinfer perplexity -m model.gguf -f text.txt --kl-divergence-base base.kld
powerinfer perplexity -m b.gguf --kl-divergence --kl-divergence-base base.kld`, Usage: "measure how well a model predicts a text, by llama.cpp's method",
		Description: "To compare a model with another: save the other's predictions with --kl-divergence-base FILE,\n" +
			"then give --kl-divergence --kl-divergence-base FILE with this one. FILE has llama.cpp's form.",
		Flags: append(flags.Engine(),
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "text `FILE`; - is standard input"},
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the `TEXT` itself"},
			&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
			&cli.IntFlag{Name: "chunks", Value: -1, Usage: "windows to evaluate; -1: all"},
			&cli.BoolFlag{Name: "by-document", Usage: "end windows with the text's documents, as sweep reads it; of --chunks windows each document has its first ones"},
			&cli.IntFlag{Name: "ppl-stride", Usage: "step of overlapping windows; 0: disjoint ones"},
			&cli.StringFlag{Name: "kl-divergence-base", Aliases: []string{"save-all-logits"}, Usage: "save the model's predictions to `FILE`; with --kl-divergence read them from it"},
			&cli.BoolFlag{Name: "kl-divergence", Usage: "measure how far the predictions are from those in --kl-divergence-base; no text is needed"},
			verboseFlag(),
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Int("chunks") == 0 {
				return errors.New("no chunk to evaluate: raise --chunks, or leave it out for all")
			}
			if c.Bool("kl-divergence") {
				return divergence(ctx, c)
			}
			return perplexity(ctx, c)
		},
	}
}

func perplexity(ctx context.Context, c *cli.Command) error {
	if !c.IsSet("file") && !c.IsSet("prompt") {
		return errors.New("give a text with -f FILE")
	}
	stride, base := c.Int("ppl-stride"), c.String("kl-divergence-base")
	switch {
	case stride < 0:
		return fmt.Errorf("--ppl-stride %d is negative", stride)
	case stride > 0 && base != "":
		return errors.New("predictions are saved of disjoint windows only; leave --ppl-stride out")
	case stride > 0 && c.Bool("by-document"):
		return errors.New("windows by document are disjoint; leave --ppl-stride or --by-document out")
	case c.IsSet("kl-divergence-base"):
		if err := atomicfile.Check(base, atomicfile.Kind{}); err != nil {
			return err
		}
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
	m, err := openWindow(ctx, c, window)
	if err != nil {
		return err
	}
	defer m.Close()
	bar, running, left := progress.New("perplexity", progress.Windows), newRunning(), progress.NewRemaining(fmt.Sprintf("windows of %d tokens", window))
	bar.Begins()
	name := c.String("file")
	if name == "-" {
		name = "standard input"
	}
	estimate, err := evaluate.Perplexity(ctx, m, text, evaluate.PerplexityOptions{
		Name: name, Window: window, Windows: max(0, c.Int("chunks")), Stride: stride, Save: base, ByDocument: c.Bool("by-document"),
		Expect: func(windows int, whole time.Duration) { left.Foretold(windows, whole, bar) },
		Progress: func(done, total int, soFar float64) {
			bar.Begun()
			left.Set(int64(done), int64(total))
			bar.Count(done, total)
			fmt.Fprintf(running, "[%d]%.4f,", done, soFar)
		},
	})
	bar.Finish()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(screen.Out, "%s\nFinal estimate: PPL = %.4f +/- %.5f\n", running.kept.String(), estimate.Value, estimate.Error)
	return err
}

// divergence compares the model's predictions with saved ones. It takes the text and the window from these.
func divergence(ctx context.Context, c *cli.Command) error {
	path := c.String("kl-divergence-base")
	switch {
	case path == "":
		return errors.New("name the saved predictions: --kl-divergence-base FILE; without --kl-divergence it saves them")
	case c.IsSet("ppl-stride"):
		return errors.New("predictions are saved of disjoint windows; leave --ppl-stride out")
	}
	base, err := evaluate.OpenPredictions(path)
	if err != nil {
		return err
	}
	defer base.Close()
	if n := c.Int("ctx-size"); n != 0 && n != base.Window() {
		return fmt.Errorf("%s was saved at a context of %d tokens, not %d; leave -c out", path, base.Window(), n)
	}
	if c.IsSet("file") || c.IsSet("prompt") {
		fmt.Fprintf(screen.Err, "note: the text is that of %s\n", path)
	}
	m, err := openWindow(ctx, c, base.Window())
	if err != nil {
		return err
	}
	defer m.Close()
	bar, running, left := progress.New("KL divergence", progress.Windows), newRunning(), progress.NewRemaining(fmt.Sprintf("windows of %d tokens", base.Window()))
	bar.Begins()
	d, err := evaluate.Compare(ctx, m, base, evaluate.DivergenceOptions{
		Windows: max(0, c.Int("chunks")),
		Expect:  func(windows int, whole time.Duration) { left.Foretold(windows, whole, bar) },
		Progress: func(done, total int, soFar evaluate.Divergence) {
			bar.Begun()
			left.Set(int64(done), int64(total))
			bar.Count(done, total)
			if done == 1 {
				fmt.Fprintln(running, evaluate.DivergenceHeader)
			}
			fmt.Fprintln(running, soFar.Line(done))
		},
	})
	bar.Finish()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(screen.Out, running.kept.String()); err != nil {
		return err
	}
	return d.Report(screen.Out)
}

// openWindow opens the model for windows of this many tokens.
func openWindow(ctx context.Context, c *cli.Command, window int) (*powerinfer.Model, error) {
	m, err := open(ctx, c, func(o *powerinfer.Options) {
		o.Limits.Context, o.Limits.Sequences = window, perplexityOutputs
		expect(c, o, summary.ReadsOnly)
	})
	if err != nil {
		return nil, err
	}
	if trained := m.Info().Trained; window > trained {
		fmt.Fprintf(screen.Err, "note: the model was trained for %d tokens, fewer than the window of %d\n", trained, window)
	}
	return m, nil
}

// running writes figures to standard output as they come. On a terminal it holds them until the progress bar is done
// with the line.
type running struct {
	io.Writer
	kept *strings.Builder
}

func newRunning() running {
	r := running{screen.Out, &strings.Builder{}}
	if screen.Out.IsTerminal() {
		r.Writer = r.kept
	}
	return r
}
