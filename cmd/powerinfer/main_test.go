package main

import (
	"slices"
	"testing"
)

func TestWithCommand(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"p"}, []string{"p"}},
		{[]string{"p", "-m", "x"}, []string{"p", "run", "-m", "x"}},
		{[]string{"p", "--prompt=a"}, []string{"p", "run", "--prompt=a"}},
		{[]string{"p", "bench", "-p", "1"}, []string{"p", "bench", "-p", "1"}},
		{[]string{"p", "-h"}, []string{"p", "-h"}},
		{[]string{"p", "--help", "run"}, []string{"p", "--help", "run"}},
		{[]string{"p", "--version"}, []string{"p", "version"}},
	} {
		if got := withCommand(c.args); !slices.Equal(got, c.want) {
			t.Errorf("withCommand(%q) = %q, want %q", c.args, got, c.want)
		}
	}
}
