package main

import (
	"strings"
	"testing"
)

func TestPermitted(t *testing.T) {
	for licence, want := range map[string]bool{
		"MIT":                               true,
		"Apache-2.0, BSD-3-Clause":          true, // both hold
		"BSD-3-Clause OR GPL-2.0-only":      true, // the program chooses
		"(MPL-2.0 OR Apache-2.0)":           true,
		"MIT, GPL-3.0":                      false,
		"GPL-2.0-only OR AGPL-3.0-or-later": false,
		"not stated":                        false,
	} {
		if permitted(licence) != want {
			t.Errorf("%s: want %v", licence, want)
		}
	}
}

// TestCheck: imports without a reason, reasons without an import, and unsuitable licences are errors.
func TestCheck(t *testing.T) {
	var all []*module
	for _, r := range reasons {
		all = append(all, &module{path: strings.Replace(r.path, "*", "x", 1), licence: "MIT", direct: true})
	}
	with := func(more ...*module) *found {
		return &found{groups: []group{{title: "In the program", distributed: true, modules: append(more, all...)}}}
	}
	if err := with(&module{path: "example.org/pulled/in", licence: "MIT"}).check(); err != nil {
		t.Error(err)
	}
	for want, f := range map[string]*found{
		"example.org/new (In the program) has no reason": with(&module{path: "example.org/new", licence: "MIT", direct: true}),
		"under AGPL-3.0":          with(&module{path: "example.org/pulled/in", licence: "AGPL-3.0"}),
		"nothing imports " + last: {groups: []group{{modules: all[:len(all)-1]}}},
	} {
		if err := f.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

var last = reasons[len(reasons)-1].path
