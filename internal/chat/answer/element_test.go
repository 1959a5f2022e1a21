package answer

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestElementsFollowSchemas: values in lists and objects have the type of the tool's schema, or else the type that they
// look like.
func TestElementsFollowSchemas(t *testing.T) {
	tools := []Tool{{Name: "put", Parameters: json.RawMessage(`{"type":"object","$defs":{"point":{"type":"object","properties":{"x":{"type":"number"},"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}}}},` +
		`"properties":{"at":{"$ref":"#/$defs/point"},"all":{"type":"array","items":{"$ref":"#/$defs/point"}},"names":{"type":"array","items":{"type":"string"}},"by":{"type":"object","additionalProperties":{"type":"string"}},` +
		`"item":{"type":"object","properties":{"item":{"type":"integer"}}}}}`)}}
	f := FormatOf(sources["m3"], true, true)
	for elements, want := range map[string]string{
		"<at><x>3</x><name>4</name><tags><item>5</item></tags></at>": `{"at":{"x":3,"name":"4","tags":["5"]}}`,
		"<all><item><name>1</name></item><item></item></all>":        `{"all":[{"name":"1"},{}]}`,
		"<names></names><by><a>1</a><b> 2\n</b></by>":                `{"names":[],"by":{"a":"1","b":" 2\n"}}`,
		"<names>[\"1\", \"2\"]</names>":                              `{"names":["1", "2"]}`,
		"<item><item>7</item></item>":                                `{"item":{"item":7}}`,
		"<other><item>7</item><item><a>x</a></item></other>":         `{"other":[7,{"a":"x"}]}`,
		"\n<at>\n<x>\n3\n</x>\n</at>\n":                              `{"at":{"x":3}}`,
		"":                                                           `{}`,
	} {
		text := strings.ReplaceAll("<tool_call><invoke name=\"put\">"+elements+"</invoke></tool_call>", "<", minimaxPrefix+"<")
		for _, pieces := range [][]string{{text}, strings.Split(text, "")} {
			m, _ := parse(f, Options{Tools: tools}, pieces...)
			if len(m.Calls) != 1 || string(m.Calls[0].Arguments) != want || m.Content != "" {
				t.Errorf("%q is read as %+v", elements, m)
			}
		}
	}
}
