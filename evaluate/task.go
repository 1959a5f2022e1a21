package evaluate

import (
	"context"
	"time"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/eval/sandbox"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// What tasks are made of. Task is the data of a published task, TaskItem a question with choices, TaskProgram a program
// to write, Likelihood what a model thinks of a choice, and TaskFigure a metric with its interval.
type (
	Task        = task.Data
	TaskItem    = task.Item
	TaskProgram = task.Program
	TaskRun     = task.Run
	TaskSample  = task.Sample
	TaskSamples = task.Samples
	TaskFigure  = task.Figure
	Likelihood  = task.Likelihood
)

// TaskNames returns the names of the tasks.
func TaskNames() (names []string) {
	for _, k := range task.Kinds() {
		names = append(names, string(k))
	}
	return names
}

// TaskScorings returns the names of the definitions by which choices can be scored.
func TaskScorings() []string { return task.Scorings() }

// ReadTask reads a task's data in a form of its publishers or of llama.cpp. scoring names the definition by which
// choices are scored; empty: that of the form's maker.
func ReadTask(name, path, scoring string) (*Task, error) {
	t, err := task.Read(task.Kind(name), path, task.Scoring(scoring))
	return t, setting.For(setting.Fields, err)
}

// TaskSeed is the seed by which llama.cpp draws a task's questions, as Task.Draw does.
const TaskSeed = task.LlamaSeed

// TaskFingerprint is the option of a TaskRun that names its model: see powerinfer.Model.Fingerprint.
const TaskFingerprint = task.Fingerprint

// OpenTaskSamples opens a file of samples to add to, or continues it if it is of the same run.
func OpenTaskSamples(path string, run TaskRun) (*TaskSamples, error) {
	return task.OpenSamples(path, run)
}

// ReadTaskSamples reads samples in HumanEval's form.
func ReadTaskSamples(name string, data []byte) ([]TaskSample, error) {
	all, whole, err := task.ReadSamples(name, data)
	if err == nil && whole < len(data) { // the last line has no end
		all, _, err = task.ReadSamples(name, append(data[:len(data):len(data)], '\n'))
	}
	return all, err
}

// MeanFigure returns the mean of shares of a point with its interval of 95 % confidence.
func MeanFigure(values []float64) TaskFigure { return task.Mean(values) }

// PassEstimates returns pass@k by the unbiased estimator, for every k for which all programs have at least k tries.
func PassEstimates(tries, passes map[string]int, ks []int) map[string]TaskFigure {
	return task.PassEstimates(tries, passes, ks)
}

// Sandbox runs programs that a model wrote; ProgramVerdict is what became of one.
type (
	Sandbox        = sandbox.Runner
	ProgramVerdict = sandbox.Verdict
)

// ErrNoSandbox is the error, wrapped with the reason, of a machine that cannot run programs that a model wrote in a
// sandbox.
var ErrNoSandbox = sandbox.ErrUnsupported

// OpenSandbox returns a sandbox that runs programs in the system's Python, each for at most so long; 0: ten seconds.
// SandboxChild must have been called.
func OpenSandbox(ctx context.Context, most time.Duration) (*Sandbox, error) {
	l := sandbox.DefaultLimits()
	if most > 0 {
		l.Time = most
	}
	return sandbox.New(ctx, "python3", l)
}

// SandboxChild must be called first in main of a program that opens a Sandbox. A Sandbox runs the same program again as
// its child, and in the child SandboxChild does not return.
func SandboxChild() { sandbox.Child() }

// CheckProgram runs a completion of a program with the program's tests.
func CheckProgram(ctx context.Context, s *Sandbox, p *TaskProgram, completion string) (ProgramVerdict, error) {
	return s.CheckCompletion(ctx, p, completion)
}

// TaskPrompt returns the tokens of a program's unfinished prompt.
func TaskPrompt(m *powerinfer.Model, p *TaskProgram) []int32 {
	return eval.Prompt(engineOf(m).Tokenizer(), p)
}

// CheckTaskSamples refuses a file of samples that OpenTaskSamples would refuse for any run, so that it can be said
// before a model is loaded.
func CheckTaskSamples(path string) error { return task.CheckSamples(path) }

// Score asks m the questions of a task with the numbers in items, parallel at a time. It calls each with the
// likelihoods of every question's choices.
func Score(ctx context.Context, m *powerinfer.Model, t *Task, items []int, parallel int, each func(item int, l []Likelihood) error) error {
	q := eval.Questions{Data: t, Items: items, Parallel: parallel, Each: each}
	return setting.For(setting.Fields, q.Run(ctx, engineOf(m)))
}
