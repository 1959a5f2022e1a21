package engine

import (
	"errors"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// ErrClosed means that the engine is closed.
var ErrClosed = errors.New("the model is closed")

// ContextError means that a text is longer than the context.
type ContextError struct {
	Tokens  int // length of the text; 0: unknown
	Context int // tokens
}

func (e *ContextError) Error() string { return e.Text(setting.Flags) }

// Text implements setting.Namer.
func (e *ContextError) Text(n setting.Names) string {
	if e.Tokens == 0 {
		return setting.Sprintf(n, "the context of %d tokens is full; raise it with %s", e.Context, setting.Context)
	}
	return setting.Sprintf(n, "the prompt has %d tokens, more than the context of %d; raise it with %s or shorten the prompt", e.Tokens, e.Context, setting.Context)
}
