package jinja

import (
	"context"
	"errors"
	"testing"
)

// leaving is a context that ends when it was asked a number of times.
type leaving struct {
	context.Context
	left int
}

func (l *leaving) Err() error {
	if l.left--; l.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRenderingEndsWithItsContext holds that loops, recursion, filters and comparisons end when their context does, within
// a few thousand steps.
func TestRenderingEndsWithItsContext(t *testing.T) {
	for _, text := range []string{
		"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"{% for i in range(100000) %}{% set x = range(100000)|sum %}{% endfor %}",
		"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}",
		"{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(100) }}",
		"{% for x in [1, 2] recursive %}{% if loop.depth < 100 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}",
		"{% set n = namespace(x='') %}{% for i in range(100000) %}{% set n.x = n.x + 'a' %}{{ n.x|join(',')|length }}{% endfor %}",
		"{% for i in range(100000) %}{{ (range(1000)|list == range(1000)|list) and (range(1000)|sort|reverse|list|tojson|length) }}{% endfor %}",
	} {
		tmpl, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range []int{0, 3} {
			c := &leaving{t.Context(), asked}
			_, err = tmpl.Render(&Dict{}, Options{Context: c})
			if !errors.Is(err, ErrEnded) {
				t.Errorf("%s: %v", text, err)
			}
			if c.left < -2 {
				t.Errorf("%s: the context was asked %d times after its end", text, -c.left)
			}
		}
	}
}
