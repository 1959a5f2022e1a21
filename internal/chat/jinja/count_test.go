package jinja

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// few are bounds that a template soon reaches, to find anything that is not counted.
var few = Limits{Steps: 500_000, Output: 16 << 20, Memory: 32 << 20}

// TestReadingCounts: reading a long value takes steps or memory, whatever reads it, so that no loop over it runs for
// long.
func TestReadingCounts(t *testing.T) {
	const set = "{% set s = 'a ' * 500000 %}{% set w = 'A' * 1000000 %}{% set l = [0] * 100000 %}{% set k = ((s, 1), 2) %}" +
		"{% set d = dict([(1,1),(2,1),(3,1),(4,1),(5,1),(6,1),(7,1),(8,1),(9,1),(10,1),(11,1),(12,1),(13,1),(14,1)]) %}"
	for _, expression := range []string{
		"s|length", "s|count", "s|wordcount", "s|trim", "s|truncate", "s|truncate(2000000)", "s|int", "s|float", "s|striptags", "s|replace('b', 'c')",
		"s|center(1)", "s is lower", "w is upper", "s|attr(w)", "s[999999]", "s[-1000000]", "d[s]", "d.get(s)", "s in d", "s in d.keys()", "{s: 1}", "dict([(s, 1)])", "d[k]",
		"l.count(1)", "(l + [1]).index(1)", "s.startswith(('b',) * 100000)", "[s]|unique|list", "[s, s]|sort|length", "[s, s]|max", "s|urlize",
		"s|wordwrap", "s|title", "s|reverse", "s|escape", "s|urlencode", "s|lower", "s == w ~ ''", "s.find('b')", "s|indent", "s|format", "'%s' % s", "'{}'.format(s)",
	} {
		tmpl, err := Parse(set + "{% for i in range(1000) %}{% set x = " + expression + " %}{% endfor %}")
		if err == nil {
			_, err = tmpl.Render(&Dict{}, Options{Limits: few})
		}
		if !errors.Is(err, ErrSteps) && !errors.Is(err, ErrMemory) {
			t.Errorf("%s, a thousand times: got %v, want too many steps or too much memory", expression, err)
		}
	}
}

// TestMemoryCounts: memory of a template is counted before it grows far beyond the bound.
func TestMemoryCounts(t *testing.T) {
	const most = 8 // times the bound that a rendering may have allocated in all: intermediate copies, and one value too many
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("'" + strings.Repeat("k", i+1) + "': w,")
		}
		return "{" + b.String() + "}"
	}
	for _, template := range []string{
		"{{ ('%s' * 400 % ((w,) * 400))|length }}",
		"{{ (('{0}' * 400).format(w))|length }}",
		"{{ {((w,) * 400): 1}|length }}",
		"{% set n = namespace(x=()) %}{% for i in range(20) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ {n.x: 1}|length }}",
		"{{ (" + keys(400) + "|xmlattr)|length }}",
		"{{ (('www.a.com ' * 400)|urlize(target=w))|length }}",
		"{% set n = namespace(l=[]) %}{% for i in range(400) %}{% set n.l = n.l + [w|replace('A', 'b', 1)] %}{% endfor %}",
		"{{ (([w] * 400)|sort)|length }}",
		"{{ ([[w]] * 400)|groupby(0)|length }}",
		"{{ ([1] * 1000)|sort(attribute=('a,' * 100000))|length }}",
		"{% set n = namespace(l=[]) %}{% for i in range(400) %}{% set n.l = n.l + [(w ~ i)|unique|list] %}{% endfor %}",
	} {
		tmpl, err := Parse("{% set w = 'A' * 1000000 %}" + template)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = tmpl.Render(&Dict{}, Options{Limits: few})
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		if !errors.Is(err, ErrSteps) && !errors.Is(err, ErrMemory) || took > most*uint64(few.Memory) {
			t.Errorf("%.90s: %v, and %d MiB allocated", template, err, took>>20)
		}
	}
}

// TestLongWords: breaking a word longer than many lines takes a time in proportion to it.
func TestLongWords(t *testing.T) {
	tmpl, err := Parse("{{ ('é-' * 250000)|wordwrap(1) }}")
	if err != nil {
		t.Fatal(err)
	}
	out, err := tmpl.Render(&Dict{}, Options{})
	if want := strings.Repeat("é\n-\n", 250000); err != nil || out+"\n" != want {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
