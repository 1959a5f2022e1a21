package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
)

// ticking returns a clock that advances by while at every look, and the lines that it shows.
func ticking(while time.Duration) (r *progress.Remaining, told *[]string) {
	told = new([]string)
	at := time.Unix(1000, 0)
	r = progress.NewRemaining("questions")
	r.Now, r.Out = func() time.Time { at = at.Add(while); return at }, func(s string) { *told = append(*told, s) }
	return r, told
}

// TestForetell: before the first question, a trial of known length gives an estimate for all questions.
func TestForetell(t *testing.T) {
	t.Setenv("POWERINFER_PATIENCE", "2s")
	const sequences = 2
	m, err := powerinfer.OpenBytes(t.Context(), demo.Name, demo.Model(), powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Limits: powerinfer.Limits{Context: 512, Sequences: sequences}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const questions = 100
	e := choices{task: &evaluate.Task{}}
	var left []int
	all := int64(0)
	for i := range questions {
		e.task.Items = append(e.task.Items, evaluate.TaskItem{Choices: []task.Text{{Context: strings.Repeat("once upon a time ", 30), Continuation: "there was"}}})
		left = append(left, i)
		all += e.task.Items[i].Bytes()
	}
	// The trial reads 128 tokens of the two first questions together. All questions have questions/2 times as many
	// tokens as these.
	first := e.task.Items[0].Choices[0]
	tokens := len(m.Tokenize(strings.Repeat(first.Context+first.Continuation, 2), true, false)) * questions / 2
	for _, c := range []struct {
		trial time.Duration
		all   int64
		want  []string
	}{
		{time.Second, all, []string{fmt.Sprintf("about %s for 100 questions", quantity.Time(time.Second*time.Duration(tokens)/128))}},
		{4 * time.Second, all, []string{fmt.Sprintf("about %s for 100 questions", quantity.Time(4*time.Second*time.Duration(tokens)/128))}},
		{time.Millisecond, all, nil},               // shorter than the patience
		{time.Hour, worthTrial*trialText - 1, nil}, // too little for a trial
	} {
		clock, told := ticking(c.trial)
		if err := e.foretell(t.Context(), m, left, c.all, clock); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*told, c.want) {
			t.Errorf("a trial of %s: told %q, not %q", c.trial, *told, c.want)
		}
	}
	w := programs{model: m, task: &evaluate.Task{Kind: "humaneval", Programs: []evaluate.TaskProgram{{ID: "T/1", Prompt: "Once upon a time"}}}, sampling: powerinfer.DefaultSampling(), most: 128}
	for _, c := range []struct {
		trial    time.Duration
		programs int
		want     []string
	}{
		{time.Second, 10, []string{"at most about 20s for 10 programs of up to 128 tokens"}}, // five times two, each of 32 tokens a second
		{time.Second, 9, []string{"at most about 20s for 9 programs of up to 128 tokens"}},
		{time.Millisecond, 10, nil},
		{time.Hour, 2*sequences - 1, nil},
	} {
		clock, told := ticking(c.trial)
		if err := w.foretell(t.Context(), make([]attempt, c.programs), sequences, clock); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*told, c.want) {
			t.Errorf("a trial of %s: told %q, not %q", c.trial, *told, c.want)
		}
	}
}
