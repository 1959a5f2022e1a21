package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// programTokens is the default length of a completion, as published.
const programTokens = 512

// bytesOfToken is a lower estimate of the bytes per token of a program's prompt.
const bytesOfToken = 2

// programContext returns the size of the KV cache for writing programs, parallel at a time, with their prompts.
func programContext(t *evaluate.Task, parallel, tokens int) int {
	longest := 0
	for i := range t.Programs {
		longest = max(longest, len(t.Programs[i].Prompt))
	}
	return parallel * (longest/bytesOfToken + tokens)
}

// programFlags returns the flags of tasks that write programs.
func programFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "tries", Value: 1, Usage: "write `N` programs for each question; with more than one --temp is the sampler's usual one, else 0"},
		&cli.StringFlag{Name: "pass-at", Value: "1,10,100", Usage: "the `K`s of pass@k, of which those up to --tries are told"},
		&cli.BoolFlag{Name: "execute", Usage: "run the programs that the model wrote with the task's tests, in a sandbox"},
		&cli.StringFlag{Name: "samples", Usage: "score the completions in `FILE` instead of a model's; it needs --execute"},
		&cli.DurationFlag{Name: "timeout", Usage: "the time that a program has with all its tests; default: 10s"},
		&cli.IntFlag{Name: "n-predict", Aliases: []string{"n", "predict"}, Value: programTokens, Usage: "tokens of a program at most"},
	}
}

// numbers reads a list of numbers from 1 on.
func numbers(flag, list string) (all []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--%s %q is not a list of numbers from 1 on", flag, list)
		}
		all = append(all, n)
	}
	return all, nil
}

// evalPrograms makes a model write programs, or takes given ones, and runs them if --execute asks for it.
func evalPrograms(ctx context.Context, c *cli.Command, t *evaluate.Task) error {
	ks, err := numbers("pass-at", c.String("pass-at"))
	if err != nil {
		return err
	}
	switch {
	case c.Int("tries") < 1:
		return fmt.Errorf("--tries %d is not a number from 1 on", c.Int("tries"))
	case c.Int("n-predict") < 1:
		return fmt.Errorf("--n-predict %d is not a number from 1 on", c.Int("n-predict"))
	case c.Duration("timeout") < 0:
		return fmt.Errorf("--timeout %s is negative", c.Duration("timeout"))
	case c.IsSet("samples") && !c.Bool("execute"):
		return errors.New("--samples has nothing to do without --execute, which runs the programs in the file")
	case c.IsSet("samples") && c.IsSet("output"):
		return errors.New("--samples reads completions and --output writes them; give one")
	case !c.IsSet("samples") && !c.IsSet("output") && !c.Bool("execute"):
		return errors.New("give -o FILE for the programs that the model writes, or --execute to run them, or both")
	}
	var box *evaluate.Sandbox
	if c.Bool("execute") {
		if box, err = evaluate.OpenSandbox(ctx, c.Duration("timeout")); errors.Is(err, evaluate.ErrNoSandbox) {
			return fmt.Errorf("%w: -o FILE has them written here, and --samples FILE --execute runs them there", err)
		} else if err != nil {
			return err
		}
	}
	var samples []evaluate.TaskSample
	var run evaluate.TaskRun
	if name := c.String("samples"); name != "" {
		data, err := wholefile.Read(name, wholefile.Text)
		if err != nil {
			return err
		}
		if samples, err = evaluate.ReadTaskSamples(name, data); err != nil {
			return err
		}
		run = evaluate.TaskRun{Task: t.Kind, Model: "the samples in " + name, Data: t.Hash}
	} else if samples, run, err = writePrograms(ctx, c, t); err != nil {
		return err
	}
	if box == nil {
		fmt.Fprintf(screen.Err, "note: %s hold %s; --samples %s --execute runs them\n", c.String("output"), quantity.Of(len(samples), "program"), c.String("output"))
		return nil
	}
	report := newEvalReport(t, run)
	if report.Metrics, report.Verdicts, err = runPrograms(ctx, t, box, samples, ks); err != nil {
		return err
	}
	return report.print(c.Bool("json"))
}

// writePrograms makes the model write the missing programs, and returns all programs.
func writePrograms(ctx context.Context, c *cli.Command, t *evaluate.Task) (all []evaluate.TaskSample, run evaluate.TaskRun, err error) {
	parallel, tries := c.Int("parallel"), c.Int("tries")
	m, err := openEval(ctx, c, parallel, programContext(t, parallel, c.Int("n-predict")))
	if err != nil {
		return nil, run, err
	}
	defer m.Close()
	chosen, err := flags.ReadSampling(c, m)
	if err != nil {
		return nil, run, err
	}
	if tries == 1 && !c.IsSet("temp") {
		chosen.Temperature = 0
	}
	if !c.IsSet("seed") { // a fixed seed, so that the run can be continued
		chosen.Seed = 1
	}
	run = evalRun(c, t, m, map[string]string{"n-predict": strconv.Itoa(c.Int("n-predict")), "sampling": fmt.Sprintf("%+v", chosen)}) // not as JSON, which has no infinite bias
	samples, err := openSamples(c.String("output"), run)
	if err != nil {
		return nil, run, err
	}
	defer func() { err = cmp.Or(err, samples.Close()) }()
	w := programs{model: m, task: t, sampling: chosen, most: c.Int("n-predict"), samples: samples, all: samples.Done}
	left := w.left(tries)
	if n := len(t.Programs)*tries - len(left); n > 0 {
		screen.Note(fmt.Sprintf("%d of %d programs are written already", n, len(t.Programs)*tries))
	}
	if err := w.foretell(ctx, left, parallel, progress.NewRemaining("programs")); err != nil {
		return nil, run, err
	}
	err = w.write(ctx, left, parallel)
	return slices.DeleteFunc(w.all, func(s evaluate.TaskSample) bool { return s.Try >= tries }), run, err
}

// programs makes a model write a task's programs.
type programs struct {
	model    *powerinfer.Model
	task     *evaluate.Task
	sampling powerinfer.Sampling
	most     int // tokens of a program
	samples  *evaluate.TaskSamples

	mu  sync.Mutex
	all []evaluate.TaskSample
}

// attempt is try number try of a program.
type attempt struct{ program, try int }

// left returns the attempts that are not written yet. All first tries come first, so that an interrupted run covers
// every question.
func (w *programs) left(tries int) (left []attempt) {
	type written struct {
		id  string
		try int
	}
	done := map[written]bool{}
	for _, s := range w.all {
		done[written{s.ID, s.Try}] = true
	}
	for try := range tries {
		for i := range w.task.Programs {
			if !done[written{w.task.Programs[i].ID, try}] {
				left = append(left, attempt{i, try})
			}
		}
	}
	return left
}

// trialTokens is the number of tokens that the trial writes to estimate the run's time.
const trialTokens = 32

// foretell estimates how long the programs take at most, from the speed at which the model writes the beginning of the
// first one. clock shows the remaining time.
func (w *programs) foretell(ctx context.Context, left []attempt, parallel int, clock *progress.Remaining) error {
	if len(left) < 2*parallel || w.most < 2*trialTokens { // hardly longer than the trial
		return nil
	}
	begin := clock.Now()
	greedy := w.sampling
	greedy.Temperature = 0
	err := inParallel(ctx, parallel, parallel, func(ctx context.Context, i int) error {
		prompt := evaluate.TaskPrompt(w.model, &w.task.Programs[left[i].program])
		s, err := w.model.Start(ctx, prompt, powerinfer.Generation{Max: trialTokens, Sampling: &greedy, IgnoreEnd: true})
		if err != nil {
			return err
		}
		for _, ok := s.Next(); ok; _, ok = s.Next() {
		}
		return s.Err()
	})
	if err != nil {
		return err
	}
	rounds := (len(left) + parallel - 1) / parallel
	if whole := clock.Now().Sub(begin) * time.Duration(rounds) * time.Duration(w.most) / trialTokens; whole > progress.Patience() {
		clock.Out(fmt.Sprintf("at most about %s for %s of up to %d tokens", quantity.Time(whole), quantity.Of(len(left), "program"), w.most))
	}
	return nil
}

// write makes the model write programs, parallel at a time.
func (w *programs) write(ctx context.Context, left []attempt, parallel int) error {
	bar, rest := progress.New("writing programs", progress.Runs), progress.NewRemaining("programs")
	defer bar.Finish()
	done := 0
	err := inParallel(ctx, len(left), parallel, func(ctx context.Context, i int) error {
		s, err := w.one(ctx, left[i])
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		done++
		bar.Count(done, len(left))
		if done >= parallel {
			rest.Set(int64(done), int64(len(left)))
		}
		w.all = append(w.all, s)
		return w.samples.Add(s)
	})
	return err
}

// one writes a program.
func (w *programs) one(ctx context.Context, a attempt) (evaluate.TaskSample, error) {
	p, chosen := &w.task.Programs[a.program], w.sampling
	if chosen.Seed != powerinfer.RandomSeed {
		chosen.Seed += uint64(a.try)
	}
	s, err := w.model.Start(ctx, evaluate.TaskPrompt(w.model, p), powerinfer.Generation{Max: w.most, Sampling: &chosen, Stop: p.Stop, Reproducible: true})
	if err != nil {
		return evaluate.TaskSample{}, fmt.Errorf("%s: %w", p.ID, err)
	}
	var text strings.Builder
	for token, ok := s.Next(); ok; token, ok = s.Next() {
		text.WriteString(token.Text)
	}
	switch s.Result().Stopped {
	case powerinfer.StoppedByCtx: // not an error of the text
		return evaluate.TaskSample{}, context.Cause(ctx)
	case powerinfer.StoppedContext: // with more room it might have continued
		return evaluate.TaskSample{}, fmt.Errorf("%s: the context is full before the program ends; raise it with -c, or lower -n or -np", p.ID)
	}
	written := text.String()
	return evaluate.TaskSample{ID: p.ID, Try: a.try, Completion: &written}, s.Err()
}

// inParallel calls do with the numbers below n, parallel at a time, until one call fails or ctx ends.
func inParallel(ctx context.Context, n, parallel int, do func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	var group sync.WaitGroup
	for range min(parallel, n) {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	if err := context.Cause(ctx); err != nil && errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return context.Cause(ctx)
}

// programVerdict is the JSON form of a program's result.
type programVerdict struct {
	ID     string `json:"task_id"`
	Passed bool   `json:"passed"`
	Why    string `json:"why,omitempty"` // why it failed
}

// runPrograms runs the programs of samples, and returns pass@k.
func runPrograms(ctx context.Context, t *evaluate.Task, box *evaluate.Sandbox, samples []evaluate.TaskSample, ks []int) (map[string]evaluate.TaskFigure, []programVerdict, error) {
	at := map[string]int{}
	for i := range t.Programs {
		at[t.Programs[i].ID] = i
	}
	given := len(samples)
	samples = slices.DeleteFunc(slices.Clone(samples), func(s evaluate.TaskSample) bool {
		_, asked := at[s.ID]
		return !asked || s.Completion == nil
	})
	if len(samples) == 0 {
		return nil, nil, errors.New("no sample is of a question of the data")
	}
	if n := given - len(samples); n > 0 {
		screen.Note(fmt.Sprintf("left out: %s of questions that are not asked for", quantity.Of(n, "sample")))
	}
	slices.SortStableFunc(samples, func(a, b evaluate.TaskSample) int { // samples of parallel and continued runs are in any order
		return cmp.Or(cmp.Compare(at[a.ID], at[b.ID]), cmp.Compare(a.Try, b.Try))
	})
	verdicts := make([]programVerdict, len(samples))
	bar, rest := progress.New("running programs", progress.Runs), progress.NewRemaining("programs to run")
	defer bar.Finish()
	parallel := runtime.GOMAXPROCS(0)
	var mu sync.Mutex
	done := 0
	err := inParallel(ctx, len(samples), parallel, func(ctx context.Context, i int) error {
		s := &samples[i]
		v, err := evaluate.CheckProgram(ctx, box, &t.Programs[at[s.ID]], *s.Completion)
		verdicts[i] = programVerdict{s.ID, v.Passed, v.Why}
		mu.Lock()
		defer mu.Unlock()
		done++
		bar.Count(done, len(samples))
		if done >= parallel {
			rest.Set(int64(done), int64(len(samples)))
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	tries, passes := map[string]int{}, map[string]int{}
	for _, v := range verdicts {
		tries[v.ID]++
		if v.Passed {
			passes[v.ID]++
		}
	}
	if n := len(t.Programs) - len(tries); n > 0 {
		screen.Note(fmt.Sprintf("%d of %d questions have no sample and are left out", n, len(t.Programs)))
	}
	return evaluate.PassEstimates(tries, passes, ks), verdicts, nil
}
