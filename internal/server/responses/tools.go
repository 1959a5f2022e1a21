package responses

import (
	"encoding/json"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// customInput is the only parameter of a custom tool, by which models are told of it.
const customInput = "input"

// A definition describes a tool.
type definition struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"` // always
	Format      struct {
		Type       string `json:"type"`
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	} `json:"format"`
}

// function is a tool in the form that templates take.
type function struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

// readTools reads the fields about tools. Of tools that only OpenAI's servers have the model is not told, so that
// coding agents may name them.
func (q *request) readTools(f *server.Fields) {
	e := &q.echo
	e.Tools, e.ToolChoice, e.Parallel = []json.RawMessage{}, "auto", true
	f.Read("tools", &e.Tools)
	f.Read("parallel_tool_calls", &e.Parallel)
	raw := f.Raw("tool_choice")
	if raw != nil {
		e.ToolChoice = raw
	}
	var told []json.RawMessage
	for i, d := range e.Tools {
		var t definition
		if err := json.Unmarshal(d, &t); err != nil {
			f.Fail(server.Invalid("tool %d cannot be read", i))
			return
		}
		switch t.Type {
		case "":
			f.Fail(server.Invalid("tool %d has no type", i))
		case "function":
		case "custom":
			t.asFunction()
			q.custom[t.Name] = true
		default:
			continue
		}
		told = append(told, t.told())
	}
	c := &server.ToolChoice{Parallel: e.Parallel}
	if len(told) > 0 {
		var err error
		if c.Tools, err = answer.Tools(told); err != nil {
			f.Fail(server.Invalid("%s", err))
			return
		}
	}
	c.Allowed = c.Tools
	if choose(c, f, raw) && len(told) > 0 {
		q.conversation.Choice, q.conversation.Tools = c, told
	}
}

// asFunction makes a tool whose input is a text a function with one parameter. A grammar of the input is told, but not
// held to.
func (t *definition) asFunction() {
	text := map[string]string{"type": "string"}
	if t.Format.Definition != "" {
		text["description"] = "The input is a text of this " + t.Format.Syntax + " grammar:\n" + t.Format.Definition
	}
	t.Parameters, _ = json.Marshal(map[string]any{
		"type": "object", "properties": map[string]any{customInput: text}, "required": []string{customInput}, "additionalProperties": false,
	})
}

func (t *definition) told() json.RawMessage {
	f := function{Type: "function"}
	f.Function.Name, f.Function.Description = t.Name, t.Description
	if string(t.Parameters) != "null" {
		f.Function.Parameters = t.Parameters
	}
	text, _ := json.Marshal(f)
	return text
}

// A choice is tool_choice where it is an object.
type choice struct {
	Type  string  `json:"type"`
	Name  string  `json:"name"`
	Mode  string  `json:"mode"`
	Tools []named `json:"tools"`
}

type named struct {
	Name string `json:"name"`
}

// choose reads tool_choice and reports whether tools may be called.
func choose(c *server.ToolChoice, f *server.Fields, raw json.RawMessage) bool {
	if raw == nil {
		return true
	}
	var one choice
	var mode string
	if json.Unmarshal(raw, &mode) != nil && json.Unmarshal(raw, &one) != nil {
		f.Fail(server.Invalid("the field tool_choice cannot be read"))
		return false
	}
	switch one.Type {
	case "":
		if raw[0] == '{' {
			f.Fail(server.Invalid("the field tool_choice has no type; there are function, custom and allowed_tools"))
		}
	case "function", "custom":
		if !c.Only(one.Name) {
			f.Fail(server.Invalid("the field tool_choice names %.100q, which is none of the tools", one.Name))
		}
		return true
	case "allowed_tools":
		mode = one.Mode
		names := make([]string, len(one.Tools))
		for i, t := range one.Tools {
			names[i] = t.Name
		}
		c.Among(names)
	default:
		f.Fail(server.Invalid("the field tool_choice is of type %.40q; there are function, custom and allowed_tools", one.Type))
		return false
	}
	switch mode {
	case "auto":
		return len(c.Allowed) > 0
	case "none":
		return false
	case "required":
		c.Required = true
		if len(c.Allowed) == 0 {
			f.Fail(server.Invalid("the field tool_choice asks for a call, but there are no tools that may be called"))
		}
		return true
	}
	f.Fail(server.Invalid("the field tool_choice is none of none, auto, required, and an object that names tools"))
	return false
}
