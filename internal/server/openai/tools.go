package openai

import (
	"encoding/json"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// readTools reads the fields about tools; nil where the answer calls none.
func readTools(f *server.Fields, q *chat.Request) *server.ToolChoice {
	var definitions []json.RawMessage
	f.Read("tools", &definitions)
	c := &server.ToolChoice{Parallel: true}
	f.Read("parallel_tool_calls", &c.Parallel)
	f.Only("parse_tool_calls", "true")
	raw := f.Raw("tool_choice")
	if len(definitions) == 0 {
		if raw != nil && string(raw) != `"none"` && string(raw) != `"auto"` {
			f.Fail(server.Invalid("the field tool_choice asks for a call, but there are no tools"))
		}
		return nil
	}
	for i, d := range definitions {
		var t struct {
			Type     string
			Function *struct{}
		}
		switch err := json.Unmarshal(d, &t); {
		case err != nil:
			f.Fail(server.Invalid("tool %d cannot be read", i))
		case t.Type != "function":
			f.Fail(server.Invalid("tool %d is of type %.40q; only functions are supported", i, t.Type))
		case t.Function == nil:
			f.Fail(server.Invalid("tool %d has no function", i))
		}
	}
	var err error
	if c.Tools, err = answer.Tools(definitions); err != nil {
		f.Fail(server.Invalid("%s", err))
		return nil
	}
	c.Allowed = c.Tools
	if !choose(c, f, raw) {
		return nil
	}
	q.Tools = definitions
	return c
}

// toolChoice is tool_choice as an object.
type toolChoice struct {
	Type     string
	Function named
	Allowed  struct {
		Mode  string
		Tools []struct {
			Type     string
			Function named
		}
	} `json:"allowed_tools"`
}

type named struct{ Name string }

// choose reads tool_choice and reports whether tools may be called.
func choose(c *server.ToolChoice, f *server.Fields, raw json.RawMessage) bool {
	var mode string
	var one toolChoice
	if raw != nil && json.Unmarshal(raw, &mode) != nil && json.Unmarshal(raw, &one) != nil {
		f.Fail(server.Invalid("the field tool_choice cannot be read"))
		return false
	}
	switch one.Type {
	case "":
		if len(raw) > 0 && raw[0] == '{' {
			f.Fail(server.Invalid("the field tool_choice has no type; there are function and allowed_tools"))
			return false
		}
	case "function":
		if !c.Only(one.Function.Name) {
			f.Fail(server.Invalid("the field tool_choice names %.100q, which is none of the tools", one.Function.Name))
			return false
		}
		return true
	case "allowed_tools":
		names := make([]string, len(one.Allowed.Tools))
		for i, t := range one.Allowed.Tools {
			if names[i] = t.Function.Name; t.Type != "function" {
				f.Fail(server.Invalid("the field tool_choice allows a tool of type %.40q; there are functions", t.Type))
			}
		}
		if mode = one.Allowed.Mode; mode != "auto" && mode != "required" {
			f.Fail(server.Invalid("the field tool_choice has the mode %.40q; allowed_tools has auto and required", mode))
		}
		if !c.Among(names) {
			f.Fail(server.Invalid("the field tool_choice allows none of the tools"))
			return false
		}
	default:
		f.Fail(server.Invalid("the field tool_choice is of type %.40q; there are function and allowed_tools", one.Type))
		return false
	}
	switch mode {
	case "", "auto":
	case "required", "any":
		c.Required = true
	case "none":
		return false
	default:
		f.Fail(server.Invalid("the field tool_choice is none of none, auto, required, and an object that names tools"))
	}
	return true
}
