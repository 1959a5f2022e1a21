package responses

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// customInput is the only parameter of a custom tool, in the form for models.
const customInput = "input"

// A definition describes a tool.
type definition struct {
	Type        string            `json:"type"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Parameters  json.RawMessage   `json:"parameters"`
	Strict      bool              `json:"strict"`
	Tools       []json.RawMessage `json:"tools"` // a namespace's tools
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

// A spacedName is the name of a tool within a namespace, which may be empty. Models know it by both in one.
type spacedName struct{ space, name string }

func (n spacedName) joined() string {
	const between = "__"
	if n.space == "" || strings.HasPrefix(n.name, n.space+between) {
		return n.name
	}
	return strings.TrimSuffix(n.space, between) + between + n.name
}

// readTools reads the fields about tools, and more definitions, which items of the input have. Of tools that only
// OpenAI's servers have the model is not told, so that coding agents may name them.
func (q *request) readTools(f *server.Fields, more []json.RawMessage) {
	e := &q.echo
	e.Tools, e.ToolChoice, e.Parallel = []json.RawMessage{}, "auto", true
	f.Read("tools", &e.Tools)
	f.Read("parallel_tool_calls", &e.Parallel)
	raw := f.Raw("tool_choice")
	if raw != nil {
		e.ToolChoice = raw
	}
	c := &server.ToolChoice{Parallel: e.Parallel}
	told, err := q.tell(e.Tools, "", nil)
	if err == nil {
		if c.Tools, err = q.toolsOf(told); err == nil && len(more) > 0 {
			known := map[string]bool{}
			for _, t := range c.Tools {
				known[t.Name] = true
			}
			var added []json.RawMessage
			if added, err = q.tell(more, "", known); err == nil {
				told = append(told, added...)
				c.Tools, err = q.toolsOf(told)
			}
		}
	}
	if err != nil {
		f.Fail(server.Invalid("%s", err))
		return
	}
	c.Allowed = c.Tools
	if q.choose(c, f, raw) && len(told) > 0 {
		q.conversation.Choice, q.conversation.Tools = c, told
	}
}

// toolsOf returns the tools of definitions that tell returned.
func (q *request) toolsOf(told []json.RawMessage) ([]answer.Tool, error) {
	if len(told) == 0 {
		return nil, nil
	}
	tools, err := answer.Tools(told)
	for i := range tools {
		tools[i].Strict = q.strict[tools[i].Name]
	}
	return tools, err
}

// tell returns the definitions of tools, including those of namespaces, as templates take them. If known is not nil,
// tools with names in it are left out, and the others' names are added to it.
func (q *request) tell(definitions []json.RawMessage, space string, known map[string]bool) ([]json.RawMessage, error) {
	var told []json.RawMessage
	for i, d := range definitions {
		var t definition
		if err := json.Unmarshal(d, &t); err != nil {
			return nil, server.Invalid("tool %d cannot be read", i)
		}
		switch t.Type {
		case "":
			return nil, server.Invalid("tool %d has no type", i)
		case "namespace":
			if space != "" {
				return nil, server.Invalid("tool %d of the namespace %.100q is a namespace, too", i, space)
			}
			inner, err := q.tell(t.Tools, t.Name, known)
			if err != nil {
				return nil, err
			}
			told = append(told, inner...)
			continue
		case "function", "custom":
		default:
			continue
		}
		name := spacedName{space, t.Name}
		t.Name = name.joined()
		if known[t.Name] {
			continue
		}
		if known != nil {
			known[t.Name] = true
		}
		if t.Type == "custom" {
			t.asFunction()
			q.custom[t.Name] = true
		}
		if space != "" {
			q.spaced[t.Name] = name
		}
		q.strict[t.Name] = t.Strict
		told = append(told, t.told())
	}
	return told, nil
}

// nameOf returns the names of a tool's namespace and of the tool in it.
func (q *request) nameOf(joined string) spacedName {
	if n, ok := q.spaced[joined]; ok {
		return n
	}
	return spacedName{"", joined}
}

// asFunction turns a tool with a text as input into a function with one parameter. The model sees a grammar of the
// input, but the grammar is not enforced.
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

// choice is tool_choice as an object.
type choice struct {
	named
	Mode  string  `json:"mode"`
	Tools []named `json:"tools"`
}

// A named is a tool that is named, or a namespace.
type named struct {
	Type      string `json:"type"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// names returns the models' names for what n names: a tool, possibly without its namespace, or all tools of a
// namespace.
func (q *request) names(n *named) []string {
	if n.Namespace != "" {
		return []string{spacedName{n.Namespace, n.Name}.joined()}
	}
	names := []string{n.Name}
	for _, joined := range slices.Sorted(maps.Keys(q.spaced)) {
		if s := q.spaced[joined]; n.Type == "namespace" && s.space == n.Name || n.Type != "namespace" && s.name == n.Name {
			names = append(names, joined)
		}
	}
	return names
}

// choose reads tool_choice and reports whether tools may be called.
func (q *request) choose(c *server.ToolChoice, f *server.Fields, raw json.RawMessage) bool {
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
		if !slices.ContainsFunc(q.names(&one.named), c.Only) {
			f.Fail(server.Invalid("the field tool_choice names %.100q, which is none of the tools", one.Name))
		}
		return true
	case "allowed_tools":
		mode = one.Mode
		var names []string
		for i := range one.Tools {
			names = append(names, q.names(&one.Tools[i])...)
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
