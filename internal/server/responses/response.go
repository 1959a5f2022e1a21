package responses

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// The states of responses and items.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
)

// A response is what a request is answered with.
type response struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	CreatedAt   int64           `json:"created_at"`
	CompletedAt *int64          `json:"completed_at"`
	Status      string          `json:"status"`
	Background  bool            `json:"background"`
	Error       *failure        `json:"error"`
	Incomplete  *reason         `json:"incomplete_details"`
	Model       string          `json:"model"`
	Output      []any           `json:"output"`
	Previous    *string         `json:"previous_response_id"`
	ServiceTier string          `json:"service_tier"`
	Store       bool            `json:"store"`
	Usage       *usage          `json:"usage"`
	Timings     *server.Timings `json:"timings,omitempty"` // llama-server's; in streams next to the response, not in it
	echoed
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type reason struct {
	Reason string `json:"reason"`
}

type usage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

func usageOf(r *engine.Result, thought int) *usage {
	u := &usage{Input: r.Reused + r.PromptTokens, Output: r.Tokens}
	u.InputDetails.Cached, u.OutputDetails.Reasoning = r.Reused, thought
	u.Total = u.Input + u.Output
	return u
}

func newResponse(m *server.Model, q *request) response {
	return response{
		ID: newID("resp_"), Object: "response", CreatedAt: time.Now().Unix(), Status: inProgress, Model: m.Name, Output: []any{},
		ServiceTier: "default", echoed: q.echo,
	}
}

func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// Items of an output. Each has an id, and a status when it is sent.
type (
	message struct {
		Type    string       `json:"type"`
		ID      string       `json:"id"`
		Status  string       `json:"status"`
		Role    string       `json:"role"`
		Content []outputText `json:"content"`
	}
	thought struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		Status    string          `json:"status"`
		Summary   []struct{}      `json:"summary"`
		Content   []reasoningText `json:"content"`
		Encrypted *string         `json:"encrypted_content"`
	}
	functionCall struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	customCall struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name"`
		Input     string `json:"input"`
	}
)

// The parts of items' contents.
type (
	outputText struct {
		Type        string               `json:"type"`
		Annotations []struct{}           `json:"annotations"`
		Logprobs    []server.Probability `json:"logprobs"`
		Text        string               `json:"text"`
	}
	reasoningText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

func newOutputText(text string, logs []server.Probability) outputText {
	return outputText{"output_text", []struct{}{}, append([]server.Probability{}, logs...), text}
}
