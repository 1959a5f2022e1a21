package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// An Error is the reason why a request is refused, with the names that llama-server and OpenAI use. Its message is for
// clients, so it names no folder of the server's machine: Invalid, NotFound and the others remove them from the errors
// that they are given.
type Error struct {
	Status  int    // HTTP status
	Type    string // such as invalid_request_error
	Message string

	PromptTokens, Context int // set if the prompt is longer than the context
	RetryAfter            int // seconds; 0: the answer does not say

	whole string // the message for the log, if clients see a shorter one; else empty
}

// serverError is the type of errors that are no fault of the request.
const serverError = "server_error"

// newError returns an error with a formatted message. Errors among the values appear in the form for clients.
func newError(status int, kind, format string, values ...any) *Error {
	e := &Error{Status: status, Type: kind, whole: fmt.Sprintf(format, values...)}
	shown := slices.Clone(values)
	for i, v := range shown {
		if err, ok := v.(error); ok {
			if _, ok := err.(*Error); !ok {
				shown[i] = told(err)
			}
		}
	}
	if e.Message = fmt.Sprintf(format, shown...); e.Message == e.whole {
		e.whole = ""
	}
	return e
}

func (e *Error) Error() string { return e.Message }

// An ErrorForm returns an error's status and body as an API's clients expect them. It may add to the answer's header.
type ErrorForm func(h http.Header, e *Error) (status int, body any)

// CommonForm is the form that llama-server and OpenAI's clients share.
func CommonForm(_ http.Header, e *Error) (status int, body any) { return e.Status, commonBody(e) }

func commonBody(e *Error) any {
	type body struct {
		Code         int    `json:"code"`
		Message      string `json:"message"`
		Type         string `json:"type"`
		PromptTokens int    `json:"n_prompt_tokens,omitempty"`
		Context      int    `json:"n_ctx,omitempty"`
	}
	return map[string]body{"error": {e.Status, e.Message, e.Type, e.PromptTokens, e.Context}}
}

// Invalid returns the error of a request that cannot be understood or granted. If one of values is an error with
// another status, such as that of a request that needs too much memory, its status stays.
func Invalid(format string, values ...any) *Error {
	e := newError(http.StatusBadRequest, "invalid_request_error", format, values...)
	for _, v := range values {
		if inner, ok := v.(*Error); ok && inner.Status != e.Status {
			e.Status, e.Type, e.RetryAfter = inner.Status, inner.Type, inner.RetryAfter
		}
	}
	return e
}

// Unusable returns the error of a field with a schema or a grammar that cannot be used. An error that is not the
// schema's fault, such as the end of the request, stays as it is.
func Unusable(err error, format string, values ...any) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := Invalid(format, values...)
	e.Message += ": " + err.Error() // whole: it is about the client's own text, in which a pattern may look like a path
	return e
}

// NotFound returns the error of a request for something that does not exist.
func NotFound(format string, values ...any) *Error {
	return newError(http.StatusNotFound, "not_found_error", format, values...)
}

// NotSupported returns the error of a request for something that this program does not do.
func NotSupported(format string, values ...any) *Error {
	return newError(http.StatusNotImplemented, "not_supported_error", format, values...)
}

// Unavailable returns the error of a request that may succeed when it is sent again.
func Unavailable(format string, values ...any) *Error {
	e := newError(http.StatusServiceUnavailable, "unavailable_error", format, values...)
	e.RetryAfter = retryAfter
	return e
}

// errorOf returns err in the form for clients.
func errorOf(err error) *Error {
	var known *Error
	var long *engine.ContextError
	var picture *vision.PictureError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &long):
		return &Error{
			Status: http.StatusBadRequest, Type: "exceed_context_size_error", PromptTokens: long.Tokens, Context: long.Context,
			Message: fmt.Sprintf("the prompt has %d tokens, which exceeds the available context size of %d tokens", long.Tokens, long.Context),
		}
	case errors.As(err, &picture):
		return Invalid("%s", picture)
	case errors.Is(err, engine.ErrClosed), errors.Is(err, context.Canceled):
		return &Error{Status: http.StatusServiceUnavailable, Type: "unavailable_error", Message: "the server or the model is being stopped"}
	}
	return &Error{Status: http.StatusInternalServerError, Type: serverError, Message: toldOfMachine(err), whole: err.Error()}
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, form ErrorForm, err error) {
	noteError(w, err)
	e := errorOf(err)
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	status, body := form(w.Header(), e)
	writeJSON(w, status, body)
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, v any) { writeJSON(w, http.StatusOK, v) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	data := encoded(v)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data)
}
