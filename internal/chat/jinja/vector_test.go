package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

// A vector is a template with what Python's Jinja2 made of it; see testdata/README.md.
type vector struct {
	Template string
	Out, Err *string
}

func readVectors(t testing.TB) (vars *Dict, vectors []vector) {
	t.Helper()
	data, err := os.ReadFile("testdata/jinja2.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vars    json.RawMessage
		Vectors []vector
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	v, err := FromJSON(file.Vars)
	if err != nil {
		t.Fatal(err)
	}
	return v.(*Dict), file.Vectors
}

func vectors(t testing.TB) []vector {
	_, v := readVectors(t)
	return v
}

// kindOf returns our kind of an error of Jinja2's.
func kindOf(python string) error {
	name, message, _ := strings.Cut(python, ": ")
	if message == "no loader for this environment specified" {
		return ErrSyntax // it fails when the statement is reached, we when it is read
	}
	switch name {
	case "TemplateSyntaxError", "TemplateAssertionError", "SyntaxError":
		return ErrSyntax
	case "UndefinedError":
		return ErrUndefined
	case "SecurityError":
		return ErrSecurity
	case "TemplateError":
		return ErrRaised
	}
	return ErrType
}

// late reports whether Python names an error only TemplateRuntimeError, which may be of several kinds.
func late(python string) bool { return strings.HasPrefix(python, "TemplateRuntimeError") }

// TestVectors renders each template of testdata as Jinja2 did, and fails if Jinja2 failed.
func TestVectors(t *testing.T) {
	vars, all := readVectors(t)
	for _, v := range all {
		var got string
		tmpl, err := Parse(v.Template)
		if err == nil {
			got, err = tmpl.Render(vars, Options{Now: day})
		}
		switch {
		case v.Err != nil && err == nil:
			t.Errorf("%s\ngot  %q\nbut Jinja2 fails with %s", v.Template, got, *v.Err)
		case v.Err != nil && !late(*v.Err) && !errors.Is(err, kindOf(*v.Err)) && !errors.Is(err, ErrMemory):
			t.Errorf("%s\nfails with %v, which is no %v; Jinja2 fails with %s", v.Template, err, kindOf(*v.Err), *v.Err)
		case v.Err != nil:
		case err != nil:
			t.Errorf("%s\nfails: %v\nwant %q", v.Template, err, *v.Out)
		case got != *v.Out:
			t.Errorf("%s\ngot  %q\nwant %q", v.Template, got, *v.Out)
		}
	}
	if len(all) < 400 {
		t.Errorf("there are only %d vectors", len(all))
	}
}
