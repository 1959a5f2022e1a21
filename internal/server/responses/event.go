package responses

import "github.com/powerinfer-go/powerinfer/internal/server"

// An event is an event of a response's stream. Each kind has further fields.
type event struct {
	Type     string `json:"type"`
	Sequence int    `json:"sequence_number"`
}

type responseEvent struct {
	event
	Response response         `json:"response"`
	Progress *server.Progress `json:"prompt_progress,omitempty"`
	Timings  *server.Timings  `json:"timings,omitempty"`
}

type itemEvent struct {
	event
	Output int `json:"output_index"`
	Item   any `json:"item"`
}

// at says which item an event belongs to.
type at struct {
	Item   string `json:"item_id"`
	Output int    `json:"output_index"`
}

type partEvent struct {
	event
	at
	Content int `json:"content_index"`
	Part    any `json:"part"`
}

// deltaEvent has the logprobs of texts, none for thoughts.
type deltaEvent struct {
	event
	at
	Content  int                   `json:"content_index"`
	Delta    string                `json:"delta"`
	Logprobs *[]server.Probability `json:"logprobs,omitempty"`
	Timings  *server.Timings       `json:"timings,omitempty"`
}

type textEvent struct {
	event
	at
	Content  int                   `json:"content_index"`
	Text     string                `json:"text"`
	Logprobs *[]server.Probability `json:"logprobs,omitempty"`
}

type callDeltaEvent struct {
	event
	at
	Delta string `json:"delta"`
}

type argumentsEvent struct {
	event
	at
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type inputEvent struct {
	event
	at
	Input string `json:"input"`
}

type errorEvent struct {
	event
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}
