package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		`invalid value "1e3" for flag -n: strconv.ParseInt: parsing "1e3": invalid syntax`: `invalid value "1e3" for flag -n: it is not a whole number`,
		`strconv.ParseFloat: parsing "a\"b": invalid syntax`:                               "it is not a number",
		`strconv.ParseBool: parsing "x": invalid syntax`:                                   "it is neither true nor false",
		`strconv.Atoi: parsing "99999999999999999999": value out of range`:                 "value out of range",
		long: cut,
	} {
		if got := oneLine(errors.New(in)); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
	_, err := os.Open(filepath.Join("no", "file"))
	if got, want := oneLine(fmt.Errorf("-f: %w", err)), "-f: "+filepath.Join("no", "file")+": "; !strings.HasPrefix(got, want) {
		t.Errorf("oneLine(%v) = %q, want it to begin with %q", err, got, want)
	}
}
