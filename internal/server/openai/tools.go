package openai

import (
	"encoding/json"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A toolChoice says which tools an answer may or must call.
type toolChoice struct {
	tools    []answer.Tool // all that the model is told
	allowed  []answer.Tool // those that it may call
	required bool
	parallel bool
}

// readTools reads the fields about tools; nil where the answer calls none.
func readTools(f *server.Fields, q *chat.Request) *toolChoice {
	var definitions []json.RawMessage
	f.Read("tools", &definitions)
	c := &toolChoice{}
	f.Read("parallel_tool_calls", &c.parallel)
	f.Only("parse_tool_calls", "true")
	raw := f.Raw("tool_choice")
	if len(definitions) == 0 {
		if raw != nil && string(raw) != `"none"` && string(raw) != `"auto"` {
			f.Fail(server.Invalid("the field tool_choice asks for a call, but there are no tools"))
		}
		return nil
	}
	for i, d := range definitions {
		var t struct{ Type string }
		if json.Unmarshal(d, &t) == nil && t.Type != "" && t.Type != "function" {
			f.Fail(server.Invalid("tool %d is of type %.40q; only functions are supported", i, t.Type))
		}
	}
	var err error
	if c.tools, err = answer.Tools(definitions); err != nil {
		f.Fail(server.Invalid("%s", err))
		return nil
	}
	c.allowed = c.tools
	if !c.choose(f, raw) {
		return nil
	}
	q.Tools = definitions
	return c
}

// choose reads tool_choice and reports whether tools may be called.
func (c *toolChoice) choose(f *server.Fields, raw json.RawMessage) bool {
	var mode string
	if raw == nil || json.Unmarshal(raw, &mode) == nil {
		switch mode {
		case "", "auto":
		case "required", "any":
			c.required = true
		case "none":
			return false
		default:
			f.Fail(server.Invalid("the field tool_choice is none of none, auto, required and a function"))
		}
		return true
	}
	var one struct {
		Type     string
		Function struct{ Name string }
	}
	if json.Unmarshal(raw, &one) != nil || one.Type != "function" {
		f.Fail(server.Invalid("the field tool_choice is none of none, auto, required and a function"))
		return false
	}
	i := slices.IndexFunc(c.tools, func(t answer.Tool) bool { return t.Name == one.Function.Name })
	if i < 0 {
		f.Fail(server.Invalid("the field tool_choice names %.100q, which is none of the tools", one.Function.Name))
		return false
	}
	c.allowed, c.required = c.tools[i:i+1], true
	return true
}

// hold has g's calls be those that the choice allows, behind prompt.
func (a *api) hold(g *server.Generation, c *toolChoice, format *answer.Format, prompt string) error {
	constraint, err := format.Constraint(answer.ConstraintOptions{Tools: c.allowed, Required: c.required, Parallel: c.parallel, Prompt: prompt})
	if err != nil {
		return server.Invalid("the tools' schemas cannot be used: %s", err)
	}
	for _, reason := range constraint.Loose {
		a.Options().Log.Warn("arguments are not held to a schema", "reason", reason)
	}
	compiled, err := a.Compile(constraint.Grammar)
	if err != nil {
		return server.Invalid("the tools' schemas cannot be used: %s", err)
	}
	g.Constrain = func() sample.Constraint { return constraint.NewState(compiled) }
	return nil
}
