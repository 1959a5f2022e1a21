package sweep

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/eval"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// ProgramTokens is the length of a program at most, which its publishers have.
const ProgramTokens = 512

// ParallelQuestions are asked, and ParallelQuestions programs written, at a time.
const ParallelQuestions = 4

// programs scores a setting on a task in which programs are written: one of each, greedily, which is run with its
// tests.
func (l *lab) programs(ctx context.Context, s Setting, t *Task, told func(float64)) (any, error) {
	m, err := l.in(ctx, s)
	if err != nil {
		return nil, err
	}
	all := t.Data.Programs
	written := make([]string, len(all))
	for at := 0; at < len(all); at += ParallelQuestions {
		errs := make([]error, min(ParallelQuestions, len(all)-at))
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { written[at+i], errs[i] = write(ctx, m, &all[at+i]) })
		}
		group.Wait()
		for i, err := range errs {
			if err != nil {
				return nil, fmt.Errorf("%s, program %s: %w", t.Name, all[at+i].ID, err)
			}
		}
		told(float64(at+len(errs)) / float64(len(all)))
	}
	return l.judge(ctx, t, written)
}

// write has the model write a program.
func write(ctx context.Context, m *session.Session, p *task.Program) (string, error) {
	greedy := sample.DefaultOptions()
	greedy.Temperature = 0
	sampler, err := sample.New(greedy, m.Config().Vocab)
	if err != nil {
		return "", err
	}
	s, err := m.Submit(ctx, engine.Request{Prompt: eval.Prompt(m.Tokenizer(), p), Max: ProgramTokens, Sampler: sampler, StopStrings: p.Stop, Text: true})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for token, ok := s.Next(); ok; token, ok = s.Next() {
		text.WriteString(token.Text)
	}
	end := s.Result()
	text.WriteString(end.Text)
	switch end.Stop {
	case engine.StopCancelled:
		return "", context.Cause(ctx)
	case engine.StopContext: // with more room it might have gone on
		return "", fmt.Errorf("the context is full before the program ends; raise it with -c")
	}
	return text.String(), s.Err()
}

// judge runs what was written for a task.
func (l *lab) judge(ctx context.Context, t *Task, written []string) (Score, error) {
	var values []float64
	for i, completion := range written {
		v, err := l.o.Sandbox.CheckCompletion(ctx, &t.Data.Programs[i], completion)
		if err != nil {
			return Score{}, err
		}
		passed := 0.0
		if v.Passed {
			passed = 1
		}
		values = append(values, passed)
	}
	return Score{Task: t.Name, Metric: t.Data.Main(), Figure: task.Mean(values)}, nil
}
