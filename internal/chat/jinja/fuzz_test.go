package jinja

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRender holds that no template panics, hangs or fails with an error that has no place, whatever its text.
func FuzzRender(f *testing.F) {
	published, _ := filepath.Glob("../../testenv/testdata/chat-templates/*.jinja")
	for _, name := range published {
		source, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(source))
	}
	for _, v := range vectors(f) {
		f.Add(v.Template)
	}
	vars, err := FromJSON([]byte(`{"messages":[{"role":"user","content":"hé"},{"role":"assistant","content":null,
		"tool_calls":[{"function":{"name":"f","arguments":{"x":1.5}}}]}],"tools":[],"add_generation_prompt":true}`))
	if err != nil {
		f.Fatal(err)
	}
	small := Limits{Steps: 20_000, Output: 1 << 16, Memory: 1 << 20, Depth: 20}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source)
		if err == nil {
			var out string
			out, err = tmpl.Render(vars.(*Dict), Options{Limits: small, Now: day})
			if len(out) > small.Output {
				t.Fatalf("%d bytes of output", len(out))
			}
		}
		var placed *Error
		if err != nil && (!errors.As(err, &placed) || placed.Line < 1 || placed.Column < 1 || placed.Unwrap() == nil) {
			t.Fatalf("the error %v has no place or kind", err)
		}
	})
}
