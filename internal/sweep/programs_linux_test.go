package sweep

import (
	"errors"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/eval/sandbox"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
)

// TestPrograms: a small model's tales are not programs, and prepared right and wrong programs get their verdicts.
func TestPrograms(t *testing.T) {
	limits := sandbox.DefaultLimits()
	limits.Time = time.Hour // on a busy machine Python takes seconds to begin
	box, err := sandbox.New(t.Context(), "python3", limits)
	if errors.Is(err, sandbox.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	const line = `{"task_id": "T/%", "prompt": "def one():\n", "entry_point": "one", "canonical_solution": "    return 1\n", "test": "def check(f):\n    assert f() == 1\n"}` + "\n"
	data, err := task.Parse(task.HumanEval, "made.jsonl", []byte(line[:14]+"1"+line[15:]+line[:14]+"2"+line[15:]), task.ByForm)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t.TempDir())
	o.Windows, o.Rounds, o.Grid.Modes, o.Sandbox = 2, 0, []string{"off"}, box
	o.Session.Engine.Context = 4 * ProgramTokens
	made := Task{Name: "humaneval", File: "made.jsonl", Data: data}
	o.Tasks = []Task{made}
	rep, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if s := rep.Points[0].Scores; len(s) != 1 || s[0].Metric != "pass@1" || s[0].Figure.N != 2 || s[0].Figure.Value != 0 {
		t.Errorf("scores %+v", s)
	}
	l := lab{o: &o}
	got, err := l.judge(t.Context(), &made, []string{"    return 1\n", "    return 2\n"})
	if err != nil || got.Figure.Value != 0.5 || got.Figure.N != 2 {
		t.Errorf("one right of two: %+v, %v", got, err)
	}
}
