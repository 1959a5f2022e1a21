package eval

import (
	"context"
	"regexp"

	"github.com/powerinfer-go/powerinfer/internal/eval/sandbox"
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Prompt returns the tokens of a program's prompt, which goes on.
func Prompt(tok *tokenizer.Tokenizer, p *task.Program) []int32 { return withoutEnd(tok, p.Prompt) }

// definition matches a function's name in Python.
var definition = regexp.MustCompile(`(?m)^def (\w+)\(`)

// CheckProgram runs a completion of a program with the program's tests.
func CheckProgram(ctx context.Context, s *sandbox.Runner, p *task.Program, completion string) (sandbox.Verdict, error) {
	q := sandbox.Program{Text: p.Code + completion, Setup: p.Setup, Tests: p.Tests, Entry: p.Entry}
	for _, name := range definition.FindAllStringSubmatch(p.Right, -1) {
		q.Keep = append(q.Keep, name[1])
	}
	return s.Check(ctx, q)
}
