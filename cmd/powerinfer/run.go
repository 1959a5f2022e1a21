package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// generationFlags are of the commands that generate one text.
func generationFlags() []cli.Flag {
	return slices.Concat(engineFlags(), grammarFlags(), []cli.Flag{
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "`TEXT` to continue, or a conversation's first message"},
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the prompt from `FILE`; - is standard input"},
		&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
		lengthFlag(),
	}, samplerFlags(), []cli.Flag{
		traceFlag(),
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say what was loaded and how it is computed"},
	})
}

func lengthFlag() cli.Flag {
	return &cli.IntFlag{Name: "n-predict", Aliases: []string{"n", "predict"}, Value: -1, Usage: "tokens to generate; -1: until the text or the context ends", Sources: env("N_PREDICT")}
}

func runFlags() []cli.Flag {
	return slices.Concat(generationFlags(), []cli.Flag{
		&cli.BoolFlag{Name: "no-display-prompt", Usage: "print only what is generated"},
	}, modeFlags(), chatFlags())
}

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "continue a prompt", Flags: runFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if talks(c) {
				return traced(c, func(l *trace.Log) error { return runChat(ctx, c, l) })
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
	if err := checkGeneration(c); err != nil {
		return err
	}
	prompt, err := readText(c)
	if err != nil {
		return err
	}
	g, err := readGrammar(c)
	if err != nil {
		return err
	}
	begin := time.Now()
	var file bench.Model
	e, err := openEngine(ctx, c, func(o *engine.Options, f *gguf.File) error {
		o.Trace = l
		file = bench.Describe(f)
		return nil
	})
	if err != nil {
		return err
	}
	defer e.Close()
	loadTime := time.Since(begin)
	o, err := samplerOptions(c, e.Engine)
	if err != nil {
		return err
	}
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
	constraint, err := constrain(g, tok)
	if err != nil {
		return err
	}
	text := newText(os.Stdout, tok.NewStream(false), "reading the prompt")
	if !c.Bool("no-display-prompt") {
		text.prompt = prompt
	}
	res, err := e.Generate(ctx, engine.Request{
		Prompt: ids, Max: c.Int("n-predict"), Sampler: sampler, IgnoreEOG: c.Bool("ignore-eos"), Constraint: constraint,
		Reuse: engine.ReuseAny, Neurons: c.Bool("verbose"),
		Progress: func(done, total int) { text.bar.set(int64(done), int64(total)) },
	}, text.push)
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
		for _, u := range e.Planner.Usage() {
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
func (t *text) push(tok engine.Token) bool {
	t.begin()
	t.out.WriteString(t.stream.Push(tok.ID))
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
