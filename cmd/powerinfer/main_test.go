package main

import (
	"errors"
	"slices"
	"strings"
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

func TestOneLine(t *testing.T) {
	long, cut := strings.Repeat("ä", 2000), strings.Repeat("ä", longestError)+"…"
	for in, want := range map[string]string{
		"a\nb\x1b[31mc": "a b[31mc",
		`invalid value "1e3" for flag -n: strconv.ParseInt: parsing "1e3": invalid syntax`: `invalid value "1e3" for flag -n: invalid syntax`,
		`strconv.ParseFloat: parsing "a\"b": invalid syntax`:                               "invalid syntax",
		long: cut,
	} {
		if got := oneLine(errors.New(in)); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
}
