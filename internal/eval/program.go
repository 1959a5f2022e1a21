package eval

import (
	"github.com/powerinfer-go/powerinfer/internal/eval/task"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Prompt returns the tokens of a program's prompt, to be continued.
func Prompt(tok *tokenizer.Tokenizer, p *task.Program) []int32 { return withoutEnd(tok, p.Prompt) }
