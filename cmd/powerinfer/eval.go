package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// evalContext is the default size of the KV cache, shared by all questions that are read at a time.
const evalContext = 4096

func evalCommand() *cli.Command {
	return &cli.Command{
		Name: "eval", UsageText: `powerinfer eval hellaswag -m model.gguf -f hellaswag_val.jsonl`, Usage: "score a model on a published task", ArgsUsage: "TASK [MODEL]",
		Description: "TASK is " + strings.Join(evaluate.TaskNames(), ", ") + ".\n" +
			"Its data comes from -f FILE, in its publishers' form or llama.cpp's: docs/evaluation.md.\n" +
			"With -o FILE an interrupted run is continued by the same command.\n" +
			"Programs that a model wrote run only with --execute, in a sandbox, on Linux.",
		Flags: slices.Concat(flags.Engine(), []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the task's data `FILE`; of mmlu also a folder of CSV"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "add what the model answered to `FILE`, a JSON object on each line"},
			&cli.StringFlag{Name: "scoring", Usage: "whose definition scores choices: " + strings.Join(evaluate.TaskScorings(), " or ") + "; default: that of the data's form"},
			&cli.IntFlag{Name: "shots", Usage: "put `N` examples with their answers before each question; usual are 5 in mmlu, 3 in mbpp"},
			&cli.StringFlag{Name: "shots-file", Usage: "the examples' `FILE`, the task's training or development questions; mbpp's are in its own"},
			&cli.IntFlag{Name: "limit", Usage: "take `N` questions only, drawn at random; 0: all"},
			&cli.Uint32Flag{Name: "limit-seed", Value: evaluate.TaskSeed, Usage: "draw them by this `SEED`; 1: llama.cpp's questions"},
			&cli.IntFlag{Name: "parallel", Aliases: []string{"np"}, Value: usualParallel, Usage: "`N` questions to read at a time"},
			&cli.BoolFlag{Name: "json", Usage: "print the result as JSON"},
			verboseFlag(),
		}, programFlags(), flags.Sampling()),
		Action: runEval,
	}
}

func runEval(ctx context.Context, c *cli.Command) error {
	if c.Args().Len() == 0 {
		return fmt.Errorf("name a task: powerinfer eval TASK -f FILE; tasks are %s", strings.Join(evaluate.TaskNames(), ", "))
	}
	if n := c.Int("parallel"); n < 1 || n > mostSequences {
		return fmt.Errorf("--parallel %d is not a number from 1 to %d", n, mostSequences)
	}
	if n := c.Int("limit"); n < 0 {
		return fmt.Errorf("--limit %d is negative", n)
	}
	if scoring := c.String("scoring"); scoring != "" && !slices.Contains(evaluate.TaskScorings(), scoring) {
		return fmt.Errorf("--scoring %q is neither %s", scoring, strings.Join(evaluate.TaskScorings(), " nor "))
	}
	name := c.Args().First()
	if i := slices.IndexFunc(c.Args().Slice(), isTask); i >= 0 {
		name = c.Args().Get(i)
	}
	if !isTask(name) {
		return fmt.Errorf("there is no task %q; tasks are %s", name, strings.Join(evaluate.TaskNames(), ", "))
	}
	if !c.IsSet("file") {
		return fmt.Errorf("give the data of %s with -f FILE", name)
	}
	t, err := readTask(c, name)
	if err != nil {
		return err
	}
	if t.Kind.Generates() {
		return evalPrograms(ctx, c, t)
	}
	for _, f := range programFlags() {
		if c.IsSet(f.Names()[0]) {
			return fmt.Errorf("--%s is for tasks in which programs are written, not %s", f.Names()[0], name)
		}
	}
	return evalChoices(ctx, c, t)
}

func isTask(word string) bool { return slices.Contains(evaluate.TaskNames(), word) }

// readTask reads a task's data, adds the examples before the questions, and keeps the questions to ask.
func readTask(c *cli.Command, name string) (*evaluate.Task, error) {
	t, err := evaluate.ReadTask(name, c.String("file"), c.String("scoring"))
	if err != nil {
		return nil, err
	}
	shots := c.Int("shots")
	switch {
	case shots < 0:
		return nil, fmt.Errorf("--shots %d is negative", shots)
	case shots == 0 && c.IsSet("shots-file"):
		return nil, errors.New("--shots-file has nothing to do without --shots N")
	case shots > 0:
		var examples *evaluate.Task
		if file := c.String("shots-file"); file != "" {
			if examples, err = evaluate.ReadTask(name, file, c.String("scoring")); err != nil {
				return nil, err
			}
		}
		if err := t.AddShots(shots, examples); err != nil {
			return nil, fmt.Errorf("--shots %d: %w", shots, err)
		}
	}
	if n := t.Aside(); n > 0 {
		screen.Note(fmt.Sprintf("%d of %d programs are the publishers' test and asked for", t.Len(), t.Len()+n))
	}
	if n := c.Int("limit"); n > 0 {
		t.Draw(n, c.Uint32("limit-seed"))
	} else if c.IsSet("limit-seed") {
		return nil, errors.New("--limit-seed has nothing to do without --limit N")
	}
	return t, nil
}

// scoreFlags returns the names of the flags that change a model's answers, beyond rounding.
func scoreFlags() []string {
	names := []string{"override-kv"}
	for _, f := range slices.Concat(flags.Bound(), flags.Prediction(), flags.Adapters(), flags.Rope(), []cli.Flag{flags.Experts(), flags.CacheKeys(), flags.CacheValues()}) {
		names = append(names, f.Names()[0])
	}
	return names
}

// evalRun describes the run in its file of samples.
func evalRun(c *cli.Command, t *evaluate.Task, m *powerinfer.Model, options map[string]string) evaluate.TaskRun {
	info := m.Info()
	const short = 16 // enough hexadecimal digits to tell models apart
	options["sparse"], options["activation"], options[evaluate.TaskFingerprint] = info.Sparse.String(), info.Activation, m.Fingerprint()[:short]
	for _, name := range scoreFlags() {
		if c.IsSet(name) {
			options[name] = fmt.Sprint(c.Value(name))
		}
	}
	if info.Sparse == powerinfer.SparseMagnitude && !c.IsSet("max-kld") && !c.IsSet("min-same-top") {
		options["max-kld"] = fmt.Sprint(model.UsualMaxKLD)
	}
	if t.Shots.N > 0 {
		options["shots"] = fmt.Sprint(t.Shots.N)
	}
	if t.Shots.Hash != "" {
		options["shots_sha256"] = t.Shots.Hash
	}
	return evaluate.TaskRun{
		Task: t.Kind, Scoring: t.Scoring, Data: t.Hash, Options: options,
		Model: fmt.Sprintf("%s, %s, %d bytes of weights", info.Path, info.Type, info.Bytes),
	}
}

// openEval opens the model for this many questions or programs at a time.
func openEval(ctx context.Context, c *cli.Command, parallel, window int) (*powerinfer.Model, error) {
	if err := evaluate.CheckTaskSamples(c.String("output")); err != nil {
		return nil, err
	}
	return open(ctx, c, func(o *powerinfer.Options) {
		if o.Limits.Context == 0 {
			o.Limits.Context = window
		}
		o.Limits.Sequences = parallel
		expect(c, o, summary.ReadsOnly)
	})
}

// openSamples opens the file of samples, and tells the user what it removes from the file.
func openSamples(name string, run evaluate.TaskRun) (*evaluate.TaskSamples, error) {
	s, err := evaluate.OpenTaskSamples(name, run)
	if err == nil && s.Torn > 0 {
		screen.NoteTorn(s.Torn, name)
	}
	return s, err
}

func evalChoices(ctx context.Context, c *cli.Command, t *evaluate.Task) (err error) {
	m, err := openEval(ctx, c, perplexityOutputs, evalContext)
	if err != nil {
		return err
	}
	defer m.Close()
	run := evalRun(c, t, m, map[string]string{})
	samples, err := openSamples(c.String("output"), run)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, samples.Close()) }()
	e := choices{task: t, answers: make([]map[string]float64, len(t.Items))}
	left := e.resume(samples.Done)
	if n := len(t.Items) - len(left); n > 0 {
		screen.Note(fmt.Sprintf("%d of %d questions are answered already", n, len(t.Items)))
	}
	bar, rest := progress.New(string(t.Kind), progress.Runs), progress.NewRemaining("questions")
	done, read, all := 0, int64(0), int64(0)
	for _, i := range left {
		all += t.Items[i].Bytes()
	}
	if err := e.foretell(ctx, m, left, all, rest); err != nil {
		return err
	}
	rest.Starts()
	err = evaluate.Score(ctx, m, t, left, c.Int("parallel"), func(i int, l []evaluate.Likelihood) error {
		it := &t.Items[i]
		e.answers[i] = t.Score(it, l)
		done++
		bar.Count(done, len(left))
		read += it.Bytes()
		if done >= c.Int("parallel") { // the first ones finish at the same time
			rest.Share(float64(read)/float64(all), int64(len(left)))
		}
		return samples.Add(evaluate.TaskSample{ID: it.ID, Choices: l, Answer: e.answers[i]})
	})
	bar.Finish()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return errInterrupted
		}
		return err
	}
	r := newEvalReport(t, run)
	r.Metrics, r.Subjects = e.figures(), e.subjects()
	return r.print(c.Bool("json"))
}

// choices collects the scores of a task's questions.
type choices struct {
	task    *evaluate.Task
	answers []map[string]float64 // [questions]
}

// resume restores the samples of an earlier run and returns the remaining questions.
func (e *choices) resume(done []evaluate.TaskSample) (left []int) {
	before := map[string]*evaluate.TaskSample{}
	for i := range done {
		before[done[i].ID] = &done[i]
	}
	for i := range e.task.Items {
		it := &e.task.Items[i]
		if s := before[it.ID]; s != nil && len(s.Choices) == len(it.Choices) {
			e.answers[i] = e.task.Score(it, s.Choices)
		} else {
			left = append(left, i)
		}
	}
	return left
}

// A trial reads some text before the first question to estimate the run's time. It pays off for a run of worthTrial
// times its length.
const (
	trialText  = 1 << 10 // bytes of the trial's text
	trialRead  = 128     // tokens that it reads, at most
	worthTrial = 16      // trials
)

// foretell estimates how long the remaining questions take, from the speed at which the model reads the beginning of
// the first one. all is the number of their bytes. clock shows the remaining time later.
func (e *choices) foretell(ctx context.Context, m *powerinfer.Model, left []int, all int64, clock *progress.Remaining) error {
	if all < worthTrial*trialText {
		return nil
	}
	var text strings.Builder
	for _, i := range left {
		if text.Len() >= trialText {
			break
		}
		text.WriteString(e.task.Items[i].Choices[0].Context + e.task.Items[i].Choices[0].Continuation)
	}
	tokens := m.Tokenize(text.String(), true, false)
	perToken := float64(text.Len()) / float64(max(1, len(tokens)))
	tokens = tokens[:min(len(tokens), trialRead)]
	begin := clock.Now()
	if err := m.Logits(ctx, tokens, func(int) bool { return false }, nil); err != nil {
		return err
	}
	whole := time.Duration(float64(clock.Now().Sub(begin)) / float64(len(tokens)) * float64(all) / perToken)
	if whole > progress.Patience() {
		clock.Out(fmt.Sprintf("about %s for %s", quantity.Time(whole), quantity.Of(len(left), "question")))
	}
	return nil
}

// figures returns all metrics.
func (e *choices) figures() map[string]evaluate.TaskFigure {
	values := map[string][]float64{}
	for _, a := range e.answers {
		for metric, v := range a {
			values[metric] = append(values[metric], v)
		}
	}
	figures := map[string]evaluate.TaskFigure{}
	for metric, v := range values {
		figures[metric] = evaluate.MeanFigure(v)
	}
	return figures
}

// subjects returns the main metric of each subject; nil if there are fewer than two.
func (e *choices) subjects() map[string]evaluate.TaskFigure {
	values := map[string][]float64{}
	for i, a := range e.answers {
		if v, ok := a[e.task.Main()]; ok {
			topic := e.task.Items[i].Topic()
			values[topic] = append(values[topic], v)
		}
	}
	if len(values) < 2 {
		return nil
	}
	figures := map[string]evaluate.TaskFigure{}
	for topic, v := range values {
		figures[topic] = evaluate.MeanFigure(v)
	}
	return figures
}

// evalReport is the result of a run.
type evalReport struct {
	Task    string                         `json:"task"`
	Scoring string                         `json:"scoring,omitempty"`
	Main    string                         `json:"main"` // name of the task's main metric
	Shots   int                            `json:"shots,omitempty"`
	Drawn   *drawnQuestions                `json:"drawn,omitempty"` // nil: all were asked
	Run     evaluate.TaskRun               `json:"run"`
	Metrics map[string]evaluate.TaskFigure `json:"metrics"`

	Subjects map[string]evaluate.TaskFigure `json:"subjects,omitempty"` // mmlu's subjects, by Main
	Verdicts []programVerdict               `json:"verdicts,omitempty"`
}

// drawnQuestions says which questions were asked.
type drawnQuestions struct {
	N    int    `json:"n"`
	Of   int    `json:"of"`
	Seed uint32 `json:"seed"`
}

func newEvalReport(t *evaluate.Task, run evaluate.TaskRun) evalReport {
	r := evalReport{Task: string(t.Kind), Scoring: string(t.Scoring), Main: t.Main(), Shots: t.Shots.N, Run: run}
	if t.Len() < t.All {
		r.Drawn = &drawnQuestions{t.Len(), t.All, t.Seed}
	}
	return r
}

// print writes the report to standard output.
func (r evalReport) print(machine bool) error {
	if machine {
		e := json.NewEncoder(screen.Out)
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	head := r.Task
	if r.Scoring != "" {
		head += ", scored as " + map[string]string{"llama.cpp": "llama.cpp does", "harness": "lm-evaluation-harness does"}[r.Scoring]
	}
	if r.Shots > 0 {
		head += ", behind " + quantity.Of(r.Shots, "example")
	}
	lines := []string{head}
	if d := r.Drawn; d != nil {
		lines = append(lines, fmt.Sprintf("%d of %d questions, drawn by seed %d", d.N, d.Of, d.Seed))
	}
	for _, metric := range slices.Sorted(maps.Keys(r.Metrics)) {
		f := r.Metrics[metric]
		mark := ""
		if metric == r.Main && len(r.Metrics) > 1 {
			mark = "  ← the usual figure"
		}
		lines = append(lines, fmt.Sprintf("%-9s %6.2f %%  [%.2f, %.2f]  (95 %%, %s, n = %d)%s", metric, 100*f.Value, 100*f.Low, 100*f.High, f.Method, f.N, mark))
	}
	for _, topic := range slices.Sorted(maps.Keys(r.Subjects)) {
		f := r.Subjects[topic]
		lines = append(lines, fmt.Sprintf("%-9s %6.2f %%  [%.2f, %.2f]  (n = %d)  %s", r.Main, 100*f.Value, 100*f.Low, 100*f.High, f.N, cmp.Or(topic, "no subject")))
	}
	_, err := fmt.Fprintln(screen.Out, strings.Join(lines, "\n"))
	return err
}
