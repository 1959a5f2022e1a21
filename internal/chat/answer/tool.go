package answer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A Tool is a function that the model may call.
type Tool struct {
	Name       string
	Parameters json.RawMessage // JSON Schema of the arguments, an object; nil if there is none
	Strict     bool            // a schema that cannot be held to in every part is an error
}

// Tools reads definitions in OpenAI's form: {"type":"function","function":{"name":…,"parameters":…}}, or only the
// function.
func Tools(definitions []json.RawMessage) ([]Tool, error) {
	type function struct {
		Name        string
		Description string
		Parameters  json.RawMessage
		Strict      bool
	}
	tools := make([]Tool, 0, len(definitions))
	seen := map[string]bool{}
	for i, d := range definitions {
		var t struct {
			Type string
			function
			Function *function
		}
		if err := json.Unmarshal(d, &t); err != nil {
			return nil, fmt.Errorf("tool %d cannot be read: %w", i, err)
		}
		f := t.function
		if t.Function != nil {
			f = *t.Function
		}
		switch {
		case f.Name == "" || len(f.Name) > maxName:
			return nil, fmt.Errorf("tool %d needs a name of 1 to %d bytes", i, maxName)
		case strings.ContainsAny(f.Name, " \t\r\n\"'\\<>()[]{}:"):
			return nil, fmt.Errorf("the name %q of tool %d has white space, quotes, brackets or a colon, which models' forms of calls do not have", f.Name, i)
		case len(f.Parameters) > 0 && f.Parameters[0] != '{' && string(f.Parameters) != "null":
			return nil, fmt.Errorf("the parameters of %q are not an object, a JSON Schema", f.Name)
		case seen[f.Name]:
			continue // several MCP servers may have it: the first one counts
		}
		seen[f.Name] = true
		if string(f.Parameters) == "null" {
			f.Parameters = nil
		}
		tools = append(tools, Tool{f.Name, f.Parameters, f.Strict})
	}
	return tools, nil
}
