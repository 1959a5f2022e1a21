package jinja

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestLimits holds that whatever a template asks for, it gets an error of the kind that says which bound it met,
// quickly.
func TestLimits(t *testing.T) {
	deep := strings.Repeat("(", 10_000) + "1" + strings.Repeat(")", 10_000)
	for _, c := range []struct {
		template string
		kind     error
	}{
		{"{{ 'a' * 10**9 }}", ErrMemory},
		{"{{ 'a' * 10**18 }}", ErrMemory},
		{"{{ [1] * 10**9 }}", ErrMemory},
		{"{{ (1,) * 10**12 }}", ErrMemory},
		{"{{ range(10**9) }}", ErrMemory},
		{"{{ 10 ** (10 ** 10) }}", ErrMemory},
		{"{{ 2 ** 100000 }}", ErrMemory},
		{"{% set n = namespace(x=2) %}{% for i in range(100) %}{% set n.x = n.x * n.x %}{% endfor %}", ErrMemory},
		{"{% set n = namespace(x='ab') %}{% for i in range(100) %}{% set n.x = n.x + n.x %}{% endfor %}", ErrMemory},
		{"{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = n.x + n.x %}{% endfor %}", ErrMemory},
		{"{% set n = namespace(x='ab') %}{% for i in range(100) %}{% set n.x = n.x|replace('a', n.x) %}{% endfor %}", ErrMemory},
		{"{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}", ErrSteps},
		{"{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}", ErrDepth},
		{"{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x|tojson }}", ErrDepth},
		{"{% set n = namespace(x=()) %}{% for i in range(1000) %}{% set n.x = (n.x,) %}{% endfor %}{{ {n.x: 1} }}", ErrDepth},
		{"{% set n = namespace() %}{% set n.x = [n] %}{{ n }}", ErrDepth},
		{"{% set n = namespace() %}{% set n.x = [n] %}{{ [n.x] == [n.x] }}", nil},
		{"{{ 'x'.ljust(10**12) }}", ErrMemory},
		{"{{ 'x'|center(10**12) }}", ErrMemory},
		{"{{ '%1000000000d' % 1 }}", ErrMemory},
		{"{{ '{:1000000000}'.format(1) }}", ErrMemory},
		{"{{ '\t'.expandtabs(10**12) }}", ErrMemory},
		{"{{ 'a'|indent(10**12) }}", ErrMemory},
		{"{{ [1]|batch(10**12, 0)|list }}", ErrMemory},
		{"{{ [1]|tojson(indent=10**6) }}", ErrMemory},
		{"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ErrDepth},
		{"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", ErrDepth},
		{"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", ErrSteps},
		{"{% for i in range(100000) %}{% set x = range(100000)|sum %}{% endfor %}", ErrSteps},
		{"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}", ErrSteps},
		{"{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s }}{% endfor %}", ErrOutput},
		{"{% set s = 'a' * 1000000 %}{% set t %}{% for i in range(100000) %}{{ s }}{% endfor %}{% endset %}", ErrOutput},
		{"{{ " + deep + " }}", ErrDepth},
		{"{{ " + strings.Repeat("-", 10_000) + "1 }}", ErrDepth},
		{"{{ " + strings.Repeat("not ", 10_000) + "1 }}", ErrDepth},
		{"{{ 1" + strings.Repeat("+1", 10_000) + " }}", ErrDepth},
		{"{{ a" + strings.Repeat(".a", 10_000) + " }}", ErrDepth},
		{"{{ a" + strings.Repeat("|abs", 10_000) + " }}", ErrDepth},
		{"{{ 1" + strings.Repeat(" if 1 else 1", 10_000) + " }}", ErrDepth},
		{strings.Repeat("{% if 1 %}", 10_000) + strings.Repeat("{% endif %}", 10_000), ErrDepth},
		{"{% set " + strings.Repeat("(", 10_000) + "a" + strings.Repeat(")", 10_000) + " = 1 %}", ErrDepth},
		{strings.Repeat("x", 5<<20), ErrMemory},
	} {
		shown := c.template[:min(len(c.template), 90)]
		start := testenv.ProcessorTime(t)
		tmpl, err := Parse(c.template)
		if err == nil {
			_, err = tmpl.Render(&Dict{}, Options{Limits: Limits{Steps: 500_000, Output: 16 << 20, Memory: 32 << 20}})
		}
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want %v", shown, err, c.kind)
		}
		if d := testenv.ProcessorTime(t) - start; d > 10*time.Second {
			t.Errorf("%s: took %v", shown, d)
		}
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct{ template, want string }{
		{"a\n  {{ ü.x }}", "line 2, column 8: 'ü' is undefined"},
		{"{% for x in 5 %}\n{% endfor %}", "line 1, column 4: 'int' object is not iterable"},
		{"{% if 1 %}", "line 1, column 4: the if statement that begins here has no 'endif'"},
		{"{{ 1 +\n }}", "line 2, column 2: expected an expression, got '}}'"},
		{"{% macro m() %}\n{{ raise_exception('no') }}{% endmacro %}{{ m() }}", "line 2, column 19: no"},
	} {
		tmpl, err := Parse(c.template)
		if err == nil {
			_, err = tmpl.Render(&Dict{}, Options{})
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, want %s", c.template, err, c.want)
		}
	}
}
