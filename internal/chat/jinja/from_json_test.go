package jinja

import (
	"errors"
	"testing"
)

func TestFromJSONFilter(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`{% for k, v in '{"b": 1, "a": [true, null, "x"]}'|from_json|items %}{{ k }}={{ v }};{% endfor %}`, "b=1;a=[True, None, 'x'];"},
		{`{{ ('[1, 2.5]'|from_json)[1] + 1 }}`, "3.5"},
	} {
		tmpl, err := Parse(c.source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.Render(&Dict{}, Options{}); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.source, got, err, c.want)
		}
	}
	for _, source := range []string{`{{ '{"a": '|from_json }}`, `{{ 1|from_json }}`, `{{ '1 2'|from_json }}`} {
		tmpl, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Render(&Dict{}, Options{}); !errors.Is(err, ErrType) {
			t.Errorf("%s: got %v, want a type error", source, err)
		}
	}
}
