package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// A tool is a request's description of a tool. Other fields that it may have change nothing here.
type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Width       int             `json:"display_width_px"` // width in pixels of the screen that a computer tool controls
	Height      int             `json:"display_height_px"`

	CacheControl map[string]any `json:"cache_control"` // changes nothing
}

// definition returns the tool as templates take it.
func (t *tool) definition() (chat.Tool, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	return json.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function{t.Name, t.Description, t.InputSchema}})
}

// serverTools are prefixes of the types of tools that Anthropic's servers run. The model is not told of them.
var serverTools = []string{"web_search_", "web_fetch_", "code_execution_", "mcp_toolset"}

// readTools reads the fields about tools into c.
func readTools(f *server.Fields, c *server.Conversation) {
	var tools []tool
	f.Read("tools", &tools)
	var choice toolChoice
	if !f.Read("tool_choice", &choice) {
		choice.Type = "auto"
	}
	var definitions []chat.Tool
	for i := range tools {
		t := &tools[i]
		if strings.HasPrefix(t.Type, "tool_search_tool_") {
			continue // it finds tools that were withheld; here the model sees all
		}
		if slices.ContainsFunc(serverTools, func(begin string) bool { return strings.HasPrefix(t.Type, begin) }) {
			f.LeaveOut("tools: " + t.Type)
			continue
		}
		if t.Type != "" && t.Type != "custom" && len(t.InputSchema) == 0 && !t.describe() {
			f.Fail(server.Invalid("tools.%d: the type %.60q is unknown; give the tool's input_schema", i, t.Type))
			return
		}
		if len(t.InputSchema) == 0 || t.InputSchema[0] != '{' {
			f.Fail(server.Invalid("tools.%d.input_schema: an object is required", i))
			return
		}
		d, err := t.definition()
		if err != nil {
			f.Fail(server.Invalid("tools.%d: %s", i, err))
			return
		}
		definitions = append(definitions, d)
	}
	known, err := answer.Tools(definitions)
	if err != nil {
		f.Fail(server.Invalid("tools: %s", err))
		return
	}
	if c.Choice = choice.read(f, known); c.Choice != nil {
		c.Tools = definitions
	}
}

// A toolChoice is the field tool_choice.
type toolChoice struct {
	Type            string `json:"type"`
	Name            string `json:"name"`
	DisableParallel bool   `json:"disable_parallel_tool_use"`
}

// read returns the choice among tools, nil where none may be called.
func (t *toolChoice) read(f *server.Fields, tools []answer.Tool) *server.ToolChoice {
	c := &server.ToolChoice{Tools: tools, Allowed: tools, Parallel: !t.DisableParallel}
	switch t.Type {
	case "none":
		return nil
	case "auto":
		if len(tools) == 0 {
			return nil
		}
	case "any":
		if c.Required = true; len(tools) == 0 {
			f.Fail(server.Invalid("tool_choice asks for a call, but there are no tools"))
		}
	case "tool":
		if !c.Only(t.Name) {
			f.Fail(server.Invalid("tool_choice names %.100q, which is none of the tools", t.Name))
		}
	default:
		f.Fail(server.Invalid("tool_choice is of type %.40q; there are auto, any, tool and none", t.Type))
	}
	return c
}
