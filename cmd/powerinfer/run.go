package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

func runFlags() []cli.Flag {
	d := sample.DefaultOptions()
	return append(engineFlags(),
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "`TEXT` to continue", Sources: env("PROMPT")},
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the prompt from `FILE`; - is standard input"},
		&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
		&cli.IntFlag{Name: "n-predict", Aliases: []string{"n", "predict"}, Value: -1, Usage: "tokens to generate; -1: until the text or the context ends", Sources: env("N_PREDICT")},
		&cli.Int64Flag{Name: "seed", Aliases: []string{"s"}, Value: -1, Usage: "of the random choices; -1: a new one each time", Sources: env("SEED")},
		&cli.Float64Flag{Name: "temp", Aliases: []string{"temperature"}, Value: float64(d.Temperature), Usage: "temperature; 0 always takes the likeliest token", Sources: env("TEMP")},
		&cli.IntFlag{Name: "top-k", Value: d.TopK, Usage: "keep the k likeliest tokens; 0: all", Sources: env("TOP_K")},
		&cli.Float64Flag{Name: "top-p", Value: float64(d.TopP), Usage: "keep the likeliest tokens that make up this probability", Sources: env("TOP_P")},
		&cli.Float64Flag{Name: "min-p", Value: float64(d.MinP), Usage: "drop tokens less likely than this share of the likeliest", Sources: env("MIN_P")},
		&cli.IntFlag{Name: "repeat-last-n", Value: d.RepeatLastN, Usage: "tokens that penalties look back on; -1: the context"},
		&cli.Float64Flag{Name: "repeat-penalty", Value: float64(d.RepeatPenalty), Usage: "divide the logits of recent tokens by this"},
		&cli.Float64Flag{Name: "presence-penalty", Value: float64(d.PresencePenalty), Usage: "subtract this from the logits of recent tokens"},
		&cli.Float64Flag{Name: "frequency-penalty", Value: float64(d.FrequencyPenalty), Usage: "subtract this for every recent occurrence"},
		&cli.BoolFlag{Name: "ignore-eos", Usage: "go on where the model would end the text"},
		&cli.BoolFlag{Name: "no-display-prompt", Usage: "print only what is generated"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say what was loaded and how it is computed"},
	)
}

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "continue a prompt", Flags: runFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return run(ctx, c)
		},
	}
}

func run(ctx context.Context, c *cli.Command) error {
	prompt, err := readText(c)
	if err != nil {
		return err
	}
	begin := time.Now()
	e, closeAll, err := openEngine(c, nil)
	if err != nil {
		return err
	}
	defer closeAll()
	loadTime := time.Since(begin)
	if c.Bool("verbose") {
		describe(e, loadTime)
	}
	sampler, err := newSampler(c, e)
	if err != nil {
		return err
	}
	tok := e.Tokenizer()
	ids := tok.Encode(prompt, true, true)
	if len(ids) == 0 {
		return fmt.Errorf("the prompt is empty and the model has no token to begin with; give -p or -f")
	}
	if len(ids) > e.Context() {
		return fmt.Errorf("the prompt has %d tokens, more than the context of %d; raise it with -c or shorten the prompt", len(ids), e.Context())
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if !c.Bool("no-display-prompt") {
		out.WriteString(prompt)
		out.Flush()
	}
	bar := newProgress("reading the prompt", unitTokens)
	stream := tok.NewStream(false)
	var writeErr error
	res, err := e.Generate(ctx, engine.Request{
		Prompt: ids, Max: c.Int("n-predict"), Sampler: sampler, IgnoreEOG: c.Bool("ignore-eos"),
		Progress: func(done, total int) { bar.set(int64(done), int64(total)) },
		Token: func(id int32) bool {
			out.WriteString(stream.Push(id))
			writeErr = out.Flush() // a token at a time: it is read as it comes
			return writeErr == nil
		},
	})
	bar.finish()
	out.WriteString(stream.Flush())
	if err == nil && writeErr == nil {
		out.WriteString("\n")
	}
	out.Flush()
	if err != nil {
		return err
	}
	closing(res, loadTime)
	return writeErr
}

func newSampler(c *cli.Command, e *engine.Engine) (*sample.Sampler, error) {
	o := sample.DefaultOptions()
	if seed := c.Int64("seed"); seed >= 0 {
		o.Seed = uint64(seed)
	} else {
		o.Seed = uint64(time.Now().UnixNano())
	}
	o.Temperature = float32(c.Float64("temp"))
	o.TopK = c.Int("top-k")
	o.TopP = float32(c.Float64("top-p"))
	o.MinP = float32(c.Float64("min-p"))
	o.RepeatLastN = c.Int("repeat-last-n")
	if o.RepeatLastN < 0 {
		o.RepeatLastN = e.Context()
	}
	o.RepeatPenalty = float32(c.Float64("repeat-penalty"))
	o.PresencePenalty = float32(c.Float64("presence-penalty"))
	o.FrequencyPenalty = float32(c.Float64("frequency-penalty"))
	if c.Bool("ignore-eos") {
		o.LogitBias = map[int32]float32{}
		for id := range e.Config().Vocab {
			if e.Tokenizer().IsEOG(int32(id)) {
				o.LogitBias[int32(id)] = float32(negInf)
			}
		}
	}
	return sample.New(o, e.Config().Vocab)
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
