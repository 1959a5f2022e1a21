package jinja

import (
	"errors"
	"fmt"
)

// Kinds of errors, for errors.Is. Every error of this package is one of them.
var (
	ErrSyntax    = errors.New("syntax error")
	ErrUndefined = errors.New("undefined value used")
	ErrSecurity  = errors.New("forbidden attribute used")
	ErrType      = errors.New("operation not possible on these values")
	ErrRaised    = errors.New("raised by the template")
	ErrSteps     = errors.New("too many steps")
	ErrOutput    = errors.New("too much output")
	ErrMemory    = errors.New("too much memory")
	ErrDepth     = errors.New("nested too deeply")
	ErrEnded     = errors.New("the context has ended")
)

// An Error says where in a template an error occurred, and what it is. Line and Column (in code points) count from 1.
type Error struct {
	Line, Column int
	Message      string // one sentence without the place
	kind         error  // one of the kinds above
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Unwrap returns the kind of the error.
func (e *Error) Unwrap() error { return e.kind }

// A fault is an error before its place is known: operations on values return faults, and the node that asked for the
// operation turns them into an Error.
type fault struct {
	kind    error
	message string
}

func (f *fault) Error() string { return f.message }
func (f *fault) Unwrap() error { return f.kind }

func faultf(kind error, format string, a ...any) error {
	return &fault{kind, fmt.Sprintf(format, a...)}
}

func typeErrorf(format string, a ...any) error { return faultf(ErrType, format, a...) }
