package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

func runFlags() []cli.Flag {
	d := sample.DefaultOptions()
	return append(engineFlags(),
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "`TEXT` to continue"},
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the prompt from `FILE`; - is standard input"},
		&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
		&cli.IntFlag{Name: "n-predict", Aliases: []string{"n", "predict"}, Value: -1, Usage: "tokens to generate; -1: until the text or the context ends", Sources: env("N_PREDICT")},
		&cli.Int64Flag{Name: "seed", Aliases: []string{"s"}, Value: -1, Usage: "of the random choices; -1: a new one each time", Sources: env("SEED")},
		&cli.Float32Flag{Name: "temp", Aliases: []string{"temperature"}, Value: d.Temperature, Usage: "temperature; 0 always takes the likeliest token", Sources: env("TEMPERATURE", "TEMP")},
		&cli.IntFlag{Name: "top-k", Value: d.TopK, Usage: "keep the k likeliest tokens; 0: all", Sources: env("TOP_K")},
		&cli.Float32Flag{Name: "top-p", Value: d.TopP, Usage: "keep the likeliest tokens that make up this probability", Sources: env("TOP_P")},
		&cli.Float32Flag{Name: "min-p", Value: d.MinP, Usage: "drop tokens less likely than this share of the likeliest", Sources: env("MIN_P")},
		&cli.IntFlag{Name: "repeat-last-n", Value: d.RepeatLastN, Usage: "tokens that penalties look back on; -1: the context"},
		&cli.Float32Flag{Name: "repeat-penalty", Value: d.RepeatPenalty, Usage: "divide the logits of recent tokens by this", Sources: env("REPEAT_PENALTY")},
		&cli.Float32Flag{Name: "presence-penalty", Value: d.PresencePenalty, Usage: "subtract this from the logits of recent tokens", Sources: env("PRESENCE_PENALTY")},
		&cli.Float32Flag{Name: "frequency-penalty", Value: d.FrequencyPenalty, Usage: "subtract this for every recent occurrence", Sources: env("FREQUENCY_PENALTY")},
		&cli.BoolFlag{Name: "ignore-eos", Usage: "go on where the model would end the text"},
		&cli.BoolFlag{Name: "no-display-prompt", Usage: "print only what is generated"},
		traceFlag(),
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
			return traced(c, func(l *trace.Log) error { return run(ctx, c, l) })
		},
	}
}

func run(ctx context.Context, c *cli.Command, l *trace.Log) error {
	if c.Bool("list-devices") {
		return listDevices()
	}
	if !c.IsSet("prompt") && !c.IsSet("file") {
		return errors.New("no prompt: give -p TEXT or -f FILE; -f - reads standard input")
	}
	if n := c.Int("n-predict"); n < -2 { // -2 is llama.cpp's other way to say -1
		return fmt.Errorf("--n-predict %d: give a number of tokens, or -1 for until the text or the context ends", n)
	}
	if n := c.Int64("seed"); n < -1 {
		return fmt.Errorf("--seed %d: give a number from 0, or -1 for a new one each time", n)
	}
	if n := c.Int("repeat-last-n"); n < -1 {
		return fmt.Errorf("--repeat-last-n %d: give a number of tokens, or -1 for the context", n)
	}
	prompt, err := readText(c)
	if err != nil {
		return err
	}
	begin := time.Now()
	var file bench.Model
	e, closeAll, err := openEngine(ctx, c, func(o *engine.Options, f *gguf.File) error {
		o.Trace = l
		file = bench.Describe(f)
		return nil
	})
	if err != nil {
		return err
	}
	defer closeAll()
	loadTime := time.Since(begin)
	o := samplerOptions(c, e)
	sampler, err := sample.New(o, e.Config().Vocab)
	if err != nil {
		return err
	}
	if limit := e.Config().Context; e.Context() > limit {
		fmt.Fprintf(os.Stderr, "note: the model was trained for %d tokens, fewer than the context of %d\n", limit, e.Context())
	}
	if c.Bool("verbose") {
		describe(e, file, o)
	}
	tok := e.Tokenizer()
	ids := tok.Encode(prompt, true, true)
	if len(ids) == 0 {
		return errors.New("the prompt is empty and the model has no token to begin with; give -p or -f")
	}
	if len(ids) > e.Context() {
		return fmt.Errorf("the prompt has %d tokens, more than the context of %d; raise it with -c or shorten the prompt", len(ids), e.Context())
	}
	text := newText(os.Stdout, tok.NewStream(false), "reading the prompt")
	if !c.Bool("no-display-prompt") {
		text.prompt = prompt
	}
	res, err := e.Generate(ctx, engine.Request{
		Prompt: ids, Max: c.Int("n-predict"), Sampler: sampler, IgnoreEOG: c.Bool("ignore-eos"),
		Progress: func(done, total int) { text.bar.set(int64(done), int64(total)) },
		Token:    text.push,
	})
	text.bar.finish()
	if err != nil {
		return err
	}
	cancelled := res.Stop == engine.StopCancelled
	if !cancelled || text.begun {
		if err := text.end(); err != nil {
			return err
		}
	}
	if c.Bool("verbose") {
		for _, u := range e.CardUse() {
			if u.Note != "" {
				fmt.Fprintf(os.Stderr, "%s: %s\n", u.Name, u.Note)
			}
		}
		neurons(res.Neurons)
	}
	closing(res, loadTime)
	if cancelled {
		return errInterrupted
	}
	return nil
}

// text is what a generation prints. On a terminal the prompt's bar and the prompt share a line, so the prompt is
// printed when the bar is done.
type text struct {
	out    *bufio.Writer
	stream *tokenizer.Stream
	bar    *progress
	prompt string // printed before the first token
	begun  bool
	err    error // of writing
}

func newText(w io.Writer, s *tokenizer.Stream, what string) *text {
	return &text{out: bufio.NewWriter(w), stream: s, bar: newProgress(what, unitTokens)}
}

func (t *text) begin() {
	if !t.begun {
		t.begun = true
		t.bar.finish()
		t.out.WriteString(t.prompt)
	}
}

// push prints a token. It flushes, for the text is read as it comes, and says whether that went well.
func (t *text) push(id int32) bool {
	t.begin()
	t.out.WriteString(t.stream.Push(id))
	t.err = t.out.Flush()
	return t.err == nil
}

// end prints what the stream still holds and a newline.
func (t *text) end() error {
	t.begin()
	if t.err == nil {
		t.out.WriteString(t.stream.Flush() + "\n")
		t.err = t.out.Flush()
	}
	return t.err
}

// samplerOptions reads the flags of the sampler chain. A drawn seed is in them, so that it can be told.
func samplerOptions(c *cli.Command, e *engine.Engine) sample.Options {
	o := sample.DefaultOptions()
	if seed := c.Int64("seed"); seed >= 0 {
		o.Seed = uint64(seed)
	} else {
		o.Seed = uint64(time.Now().UnixNano()) % sample.RandomSeed
	}
	o.Temperature = c.Float32("temp")
	o.TopK = c.Int("top-k")
	o.TopP = c.Float32("top-p")
	o.MinP = c.Float32("min-p")
	o.RepeatLastN = c.Int("repeat-last-n")
	if o.RepeatLastN < 0 {
		o.RepeatLastN = e.Context()
	}
	o.RepeatPenalty = c.Float32("repeat-penalty")
	o.PresencePenalty = c.Float32("presence-penalty")
	o.FrequencyPenalty = c.Float32("frequency-penalty")
	if c.Bool("ignore-eos") {
		o.LogitBias = map[int32]float32{}
		for id := range e.Config().Vocab {
			if e.Tokenizer().IsEOG(int32(id)) {
				o.LogitBias[int32(id)] = float32(math.Inf(-1))
			}
		}
	}
	return o
}
