package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/batchfile"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// usualParallel is the default number of prompts that are continued at a time.
const usualParallel = 8

func batchCommand() *cli.Command {
	return &cli.Command{
		Name: "batch", UsageText: `powerinfer batch -m model.gguf -f prompts.jsonl -o answers.jsonl -np 8`, Usage: "continue many prompts at a time, JSON Lines in and out",
		Description: `Each line of the input is an object with a prompt, and options that differ from the flags:

  {"id": "a", "prompt": "Once upon a time", "n_predict": 64, "seed": 1}

Options have the names of llama-server's API, all samplers', logit_bias, ignore_eos, grammar and json_schema
among them: docs/batch.md.

Each line of the output is an answer, in the order of completion:

  {"id": "a", "text": " there was…", "stop": "token limit",
   "prompt_tokens": 5, "cached_tokens": 0, "tokens": 64}

Where an id is missing the line's number stands for it. What the output already answers is not done again,
so that an interrupted run is continued by the same command. A file is written by one run at a time:
shards have an output each. A prompt that cannot be continued is answered by a line with an "error".`,
		Flags: slices.Concat(flags.Engine(), flags.Drafts(), []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read prompts from `FILE`; - is standard input"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "add answers to `FILE`, also a pipe or device; without it, or with -, they go to standard output"},
			&cli.StringFlag{Name: "shard", Usage: "answer only one share of the lines: `I/N` is every Nth line from line I on, counted from 0"},
			&cli.IntFlag{Name: "parallel", Aliases: []string{"np"}, Value: usualParallel, Usage: "`N` prompts to continue at a time"},
			flags.Length(),
		}, flags.Extension(), grammarFlags(), flags.Sampling(), []cli.Flag{traceFlag()}),
		Action: func(ctx context.Context, c *cli.Command) error {
			return traced(c, func(t *powerinfer.Trace) error { return runBatch(ctx, c, t) })
		},
	}
}

func runBatch(ctx context.Context, c *cli.Command, trace *powerinfer.Trace) (err error) {
	if c.Bool("list-devices") {
		return listDevices()
	}
	parallel := c.Int("parallel")
	if parallel < 1 || parallel > mostSequences {
		return fmt.Errorf("--parallel %d is not a number from 1 to %d", parallel, mostSequences)
	}
	if err := flags.CheckGeneration(c); err != nil {
		return err
	}
	usual := powerinfer.Generation{Max: flags.MostTokens(c.Int("n-predict")), IgnoreEnd: c.Bool("ignore-eos"), Reproducible: true}
	if err := readGrammar(c, &usual); err != nil {
		return err
	}
	if !c.IsSet("file") {
		return errors.New("no prompts: give -f FILE, a JSON object on each line; -f - reads standard input")
	}
	text, err := readFile(c.String("file"), wholefile.Text)
	if err != nil {
		return err
	}
	prompts, err := batchfile.Read(c.String("file"), text)
	if err != nil {
		return err
	}
	if c.IsSet("shard") {
		if prompts, err = batchfile.Shard(prompts, c.String("shard")); err != nil {
			return err
		}
	}
	answers, err := batchfile.Create(ctx, c.String("output"))
	if err != nil {
		return err
	}
	defer func() {
		if e := answers.Close(); err == nil {
			err = e
		}
	}()
	total := len(prompts)
	prompts = slices.DeleteFunc(prompts, func(p batchfile.Prompt) bool { return answers.Has(&p) })
	if len(prompts) < total {
		fmt.Fprintf(screen.Err, "note: %d of %d prompts are answered already\n", total-len(prompts), total)
	}
	if len(prompts) == 0 {
		return nil
	}
	m, err := open(ctx, c, func(o *powerinfer.Options) { o.Trace, o.Limits.Sequences = trace, parallel })
	if err != nil {
		return err
	}
	defer m.Close()
	chosen, err := flags.ReadSampling(c, m)
	if err != nil {
		return err
	}
	usual.Sampling = &chosen
	b := &batch{model: m, usual: usual, answers: answers}
	err = b.run(ctx, prompts, min(parallel, len(prompts)))
	fmt.Fprintf(screen.Err, "generated %s in %s%s\n", quantity.Of(b.all.Tokens, "token"), quantity.Of(b.texts, "answer"), summary.Drafts(&b.all))
	return err
}

// batch continues prompts.
type batch struct {
	model   *powerinfer.Model
	usual   powerinfer.Generation // as the flags say
	answers *batchfile.Answers

	mu    sync.Mutex
	texts int               // generated texts
	all   powerinfer.Result // sums of their tokens and drafts
}

// run continues prompts in their order, parallel at a time.
func (b *batch) run(ctx context.Context, prompts []batchfile.Prompt, parallel int) error {
	bar := progress.New("continuing prompts", progress.Runs)
	defer bar.Finish()
	next := make(chan *batchfile.Prompt)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range parallel {
		group.Go(func() {
			for p := range next {
				if err := b.answer(ctx, p); err != nil {
					stop(err)
					continue
				}
				mu.Lock()
				done++
				bar.Count(done, len(prompts))
				mu.Unlock()
			}
		})
	}
	for i := range prompts {
		select {
		case next <- &prompts[i]:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	if ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return errInterrupted
}

// answer continues p and writes the result. A bad prompt gets its error as the answer. An error of answer itself means
// that the output cannot be written, the model's file can no longer be read, or ctx has ended.
func (b *batch) answer(ctx context.Context, p *batchfile.Prompt) error {
	a := batchfile.Answer{ID: p.ID}
	res, text, err := b.generate(ctx, p)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, fault.Err) { // every further answer would fail, too
		return err
	}
	if err != nil {
		a.Error = setting.Text(err, setting.Flags)
	} else {
		a.Text, a.Stop, a.Tokens = &text, string(res.Stopped), res.Tokens
		a.PromptTokens, a.CachedTokens = res.Prompt+res.Cached, res.Cached
		b.add(&res)
	}
	return b.answers.Write(&a)
}

// add adds a text to the sums.
func (b *batch) add(r *powerinfer.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.texts++
	b.all.Tokens += r.Tokens
	b.all.Drafted, b.all.Accepted = b.all.Drafted+r.Drafted, b.all.Accepted+r.Accepted
	b.all.HotDrafted, b.all.HotAccepted = b.all.HotDrafted+r.HotDrafted, b.all.HotAccepted+r.HotAccepted
	b.all.FurtherDrafted, b.all.FurtherAccepted = b.all.FurtherDrafted+r.FurtherDrafted, b.all.FurtherAccepted+r.FurtherAccepted
}

// generate continues p and returns its text.
func (b *batch) generate(ctx context.Context, p *batchfile.Prompt) (powerinfer.Result, string, error) {
	g, err := p.Generation(b.usual, b.model)
	if err != nil {
		return powerinfer.Result{}, "", err
	}
	s, err := b.model.Start(ctx, b.model.Tokenize(p.Prompt, true, true), g)
	if err != nil {
		return powerinfer.Result{}, "", err
	}
	var text strings.Builder
	for token, ok := s.Next(); ok; token, ok = s.Next() {
		text.WriteString(token.Text)
	}
	return s.Result(), text.String(), s.Err()
}
