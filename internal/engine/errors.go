package engine

import (
	"errors"
	"fmt"
)

// ErrClosed is the error of what was asked of an engine that is closed.
var ErrClosed = errors.New("the model is closed")

// ContextError is the error of a text that is longer than the context.
type ContextError struct {
	Tokens  int // of the text; 0 where it is not known how long it would become
	Context int // tokens
}

func (e *ContextError) Error() string {
	if e.Tokens == 0 {
		return fmt.Sprintf("the context of %d tokens is full; raise it with -c", e.Context)
	}
	return fmt.Sprintf("the prompt has %d tokens, more than the context of %d; raise it with -c or shorten the prompt", e.Tokens, e.Context)
}
