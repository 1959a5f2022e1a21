package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
)

// generationFlags are the flags of commands that generate one text.
func generationFlags() []cli.Flag {
	return slices.Concat(flags.Engine(), flags.Drafts(), flags.Tower(), []cli.Flag{imageFlag()}, grammarFlags(), []cli.Flag{
		flags.Stops(),
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "`TEXT` to continue, or a conversation's first message"},
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the prompt from `FILE`; - is standard input"},
		&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
		flags.Length(),
	}, flags.Shift(), flags.Extension(), flags.Sampling(), []cli.Flag{
		traceFlag(), verboseFlag(),
	})
}

func verboseFlag() cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "say what loading takes, what was loaded and how it is computed"}
}

func runFlags() []cli.Flag {
	return slices.Concat(generationFlags(), []cli.Flag{
		&cli.BoolFlag{Name: "no-display-prompt", Usage: "print only what is generated"},
	}, promptCacheFlags(), flags.Mode(), flags.Chat())
}

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", UsageText: `powerinfer run qwen3:0.6b "Why is the sky blue?"
powerinfer run -m model.gguf -p "Once upon a time" -n 128 --temp 0.8
powerinfer run -m model.gguf -f question.txt --json-schema '{"type":"object"}'`, Usage: "answer or continue a text", Flags: runFlags(),
		Description: "TEXT, or standard input where there is none, is answered if the model has a chat template, and continued otherwise. " +
			"What -p and -f give is continued. A file or a pipe at standard input comes before TEXT.",
		Action: func(ctx context.Context, c *cli.Command) error {
			if !talks(c) {
				if err := modelname.TakeInput(c); err != nil {
					return err
				}
			}
			if err := asAnswer(c); err != nil {
				return err
			}
			if talks(c) {
				return traced(c, func(t *powerinfer.Trace) error { return runChat(ctx, c, t) })
			}
			return traced(c, func(t *powerinfer.Trace) error { return run(ctx, c, t) })
		},
	}
}

// asAnswer turns run into a conversation of one answer if the text is a question: it came as words or on standard
// input, or with a picture, and the model has a chat template. Other texts of -p and -f are continued.
func asAnswer(c *cli.Command) error {
	shown := c.IsSet("image") && (c.IsSet("prompt") || c.IsSet("file"))
	if !modelname.Asked(c) && !shown || c.Bool("no-conversation") || c.IsSet("prompt-cache") {
		return nil
	}
	t, err := modelTemplate(c)
	if err != nil || t == nil {
		return err
	}
	return errors.Join(c.Set("conversation", "true"), c.Set("single-turn", "true"))
}

// errNoPrompt means that the command line has no text to continue.
var errNoPrompt = errors.New("no prompt: give a text, as in powerinfer run \"Once upon a time\", -p TEXT or -f FILE")

func run(ctx context.Context, c *cli.Command, trace *powerinfer.Trace) error {
	if c.Bool("list-devices") {
		return listDevices()
	}
	cached, err := readPromptCache(c)
	if err != nil {
		return err
	}
	if cached.path != "" && c.IsSet("image") {
		return errors.New("--prompt-cache keeps texts without pictures: leave out --image, or --prompt-cache")
	}
	given := c.IsSet("prompt") || c.IsSet("file")
	if !given && cached.path == "" {
		if path := c.String("model"); path != "" {
			if _, err := os.Stat(path); err != nil { // more likely a misspelt name than a missing text
				return err
			}
		}
		return errNoPrompt
	}
	if err := flags.CheckGeneration(c); err != nil {
		return err
	}
	if flags.IsDemo(c) && screen.Err.IsTerminal() {
		screen.Note(demoNote)
	}
	prompt, err := readText(c)
	if err != nil {
		return err
	}
	pictures, err := readImages(c)
	if err != nil {
		return err
	}
	g, err := readGeneration(c)
	if err != nil {
		return err
	}
	begin := time.Now()
	m, err := open(ctx, c, func(o *powerinfer.Options) {
		o.Trace = trace
		expect(c, o, max(0, g.Max))
	})
	if err != nil {
		return err
	}
	defer m.Close()
	loadTime := time.Since(begin)
	chosen, err := flags.ReadSampling(c, m)
	if err != nil {
		return err
	}
	g.Sampling = &chosen
	if err := sayModel(c, m, &chosen); err != nil {
		return err
	}
	if err := cached.load(ctx, m); err != nil {
		return err
	}
	ids := m.Tokenize(prompt, true, true)
	if len(pictures) > 0 {
		if ids, err = withPictures(m, prompt, pictures, &g); err != nil {
			return err
		}
	}
	if !given {
		if ids = cached.held; len(ids) == 0 {
			return fmt.Errorf("--prompt-cache %s holds no text yet, and there is %w", cached.path, errNoPrompt)
		}
		prompt = wholeText(m, ids)
	}
	if len(ids) == 0 {
		return errors.New("the prompt is empty and the model has no token to begin with; give -p or -f")
	}
	text := newText(screen.Out, "reading the prompt")
	if !c.Bool("no-display-prompt") {
		text.prompt = prompt
	}
	g.Looking = progress.Looking()
	g.Progress = text.bar.Count
	res, generated, err := generate(ctx, m, ids, g, text)
	if err != nil {
		return err
	}
	if err := cached.save(ctx, m, ids, generated); err != nil {
		return errors.Join(err, text.end())
	}
	cancelled := res.Stopped == powerinfer.StoppedByCtx
	if !cancelled || text.begun {
		if err := text.end(); err != nil {
			return err
		}
	}
	if c.Bool("verbose") {
		if err := summary.GPUs(m); err != nil {
			return err
		}
		summary.Neurons(res.Neurons)
		summary.Experts(res.Experts)
	}
	fmt.Fprint(screen.Err, summary.Closing(res, loadTime))
	if cancelled {
		return errInterrupted
	}
	return nil
}

// readGeneration reads the flags of a generation, except those of sampling.
func readGeneration(c *cli.Command) (powerinfer.Generation, error) {
	g := powerinfer.Generation{
		Max: flags.MostTokens(c.Int("n-predict")), IgnoreEnd: c.Bool("ignore-eos"), Neurons: c.Bool("verbose"), Shift: c.Bool("context-shift"),
	}
	if err := readGrammar(c, &g); err != nil {
		return g, err
	}
	var err error
	if g.Stop, err = flags.ReadStops(c); err != nil {
		return g, err
	}
	g.Keep, err = flags.ReadKeep(c)
	return g, err
}

// sayModel warns of a context longer than the trained one. With --verbose it also prints how the model is computed and
// sampled.
func sayModel(c *cli.Command, m *powerinfer.Model, chosen *powerinfer.Sampling) error {
	if i := m.Info(); i.Context > i.Trained {
		fmt.Fprintf(screen.Err, "note: the model was trained for %d tokens, fewer than the context of %d\n", i.Trained, i.Context)
	}
	if !c.Bool("verbose") {
		return nil
	}
	return summary.Model(m, chosen)
}

// wholeText returns the text of tokens that begin a text, without the space that some vocabularies put before it.
func wholeText(m *powerinfer.Model, tokens []int32) string {
	text := m.Detokenize(tokens)
	if strings.HasPrefix(m.Detokenize(m.Tokenize("a", false, false)), " ") {
		return strings.TrimPrefix(text, " ")
	}
	return text
}

// generate continues prompt and prints the text as it comes, until printing fails. It also returns the tokens.
func generate(ctx context.Context, m *powerinfer.Model, prompt []int32, g powerinfer.Generation, t *text) (_ powerinfer.Result, tokens []int32, _ error) {
	defer t.bar.Finish()
	s, err := m.Start(ctx, prompt, g)
	if err != nil {
		return powerinfer.Result{}, nil, err
	}
	for token, ok := s.Next(); ok && t.push(token.Text); token, ok = s.Next() {
		if token.ID >= 0 {
			tokens = append(tokens, token.ID)
		}
	}
	s.Close()
	return s.Result(), tokens, s.Err()
}

// text prints a generation. On a terminal the prompt's bar and the prompt share a line, so the prompt is
// printed when the bar is done.
type text struct {
	out    *bufio.Writer
	bar    *progress.Bar
	prompt string // printed before the first token
	begun  bool
	err    error // the first error of writing
}

func newText(w io.Writer, what string) *text {
	return &text{out: bufio.NewWriter(w), bar: progress.New(what, progress.Tokens)}
}

func (t *text) begin() {
	if !t.begun {
		t.begun = true
		t.bar.Finish()
		t.out.WriteString(t.prompt)
	}
}

// push prints a token's text and flushes it, because people read along. It reports whether printing succeeded.
func (t *text) push(more string) bool {
	t.begin()
	t.out.WriteString(more)
	t.err = t.out.Flush()
	return t.err == nil
}

// end prints a newline.
func (t *text) end() error {
	t.begin()
	if t.err == nil {
		t.out.WriteString("\n")
		t.err = t.out.Flush()
	}
	return t.err
}
