// Package anthropic answers Anthropic's routes: messages, and their numbers of tokens.
package anthropic

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Register adds the routes to s.
func Register(s *server.Server) {
	api := s.API(form)
	api.Ask("/v1/messages", answerMessages)
	api.Ask("/v1/messages/count_tokens", countTokens)
	api.GetWith(versionHeader, "/v1/models", func(w http.ResponseWriter, r *http.Request) error { return listModels(s, w, r) })
	api.GetWith(versionHeader, "/v1/models/{id...}", func(w http.ResponseWriter, r *http.Request) error { return showModel(s, w, r) })
	api.Default("/v1/messages")
	api.Default("/v1/messages/")
}

// versionHeader is in all requests of Anthropic's clients.
const versionHeader = "Anthropic-Version"

// idHeader names the header that has a request's id, which clients tell when something fails.
const idHeader = "Request-Id"

// newID returns an id that nothing else has.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// requestID returns the id of the request that h answers.
func requestID(h http.Header) string {
	if h.Get(idHeader) == "" {
		h.Set(idHeader, newID("req_"))
	}
	return h.Get(idHeader)
}

// overloaded is the status by which Anthropic's clients know that a request may succeed when it is sent again.
const overloaded = 529

// errorTypes are the types by which Anthropic's clients know errors, by status.
var errorTypes = map[int]string{
	http.StatusBadRequest:            "invalid_request_error",
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusMisdirectedRequest:    "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestTimeout:        "timeout_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	overloaded:                       "overloaded_error",
}

// failure is an error as Anthropic's clients expect it, as an answer and as an event.
type failure struct {
	named
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func form(h http.Header, e *server.Error) (status int, body any) { return failureOf(h, e) }

// failureOf returns an error in Anthropic's form. Unsupported features count as errors of the request, because clients
// repeat requests after a status from 500 on.
func failureOf(h http.Header, e *server.Error) (status int, f failure) {
	status = e.Status
	switch status {
	case http.StatusServiceUnavailable:
		status = overloaded
	case http.StatusNotImplemented:
		status = http.StatusBadRequest
	}
	f = failure{named: named{"error"}, RequestID: requestID(h)}
	f.Error.Message = e.Message
	if e.PromptTokens > 0 { // Claude Code knows by these words that it has to shorten the conversation
		f.Error.Message = fmt.Sprintf("prompt is too long: %d tokens > %d maximum", e.PromptTokens, e.Context)
	}
	if f.Error.Type = errorTypes[status]; f.Error.Type == "" {
		f.Error.Type = "api_error"
	}
	return status, f
}
