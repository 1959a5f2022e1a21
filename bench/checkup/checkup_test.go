package checkup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func threeParts(out string) *Check {
	say := func(text string) func(context.Context, *Report) error {
		return func(_ context.Context, w *Report) error {
			w.Say("%s", text)
			w.Table([]string{"a", "b"}, []string{"1|2", "two\nlines"})
			return nil
		}
	}
	return &Check{Title: "Check: it", out: out, limit: time.Hour, Parts: []Part{
		{Name: "machine", Says: "first", Run: say("one")}, {Name: "verbs", Says: "second", Run: say("two")}, {Name: "7b-q4_0", Says: "third", Run: say("three")},
	}}
}

func TestChosen(t *testing.T) {
	c := threeParts("")
	for names, want := range map[string][]int{"": {0, 1, 2}, "machine": {0}, "3": {2}, " verbs , 1": {1, 0}, "7b-q4_0": {2}} {
		if got, err := c.chosen(names); err != nil || !slices.Equal(got, want) {
			t.Errorf("parts %q are %v, want %v: %v", names, got, want, err)
		}
	}
	for _, names := range []string{"0", "99", "-1", "kernel"} {
		if _, err := c.chosen(names); err == nil {
			t.Errorf("%q is a part", names)
		}
	}
}

// TestRun: the report has the sections of this run and of earlier ones, in order. A failed part does not stop the
// others, and one that the machine cannot run writes nothing.
func TestRun(t *testing.T) {
	c := threeParts(t.TempDir())
	c.some = []int{2}
	if err := c.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.Parts[0].Run = func(context.Context, *Report) error { return errors.New("no luck") }
	c.Parts[1].Skip = true
	c.some = []int{0, 1}
	if err := c.Run(context.Background()); err == nil || err.Error() != "part machine: no luck" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.some = []int{2}
	c.Parts[2].Run = func(context.Context, *Report) error { return errors.New("it ran") }
	if err := c.Run(ctx); err == nil || err.Error() != "context canceled" {
		t.Errorf("after an interruption: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(c.out, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	first, third := strings.Index(text, "## machine: first\n\n**Failed:** no luck"), strings.Index(text, "## 7b-q4_0: third\n\nthree")
	if !strings.HasPrefix(text, "# Check: it\n") || first < 0 || third < first || strings.Contains(text, "second") || !strings.Contains(text, "| 1\\|2 | two lines |") {
		t.Errorf("%s", text)
	}
}

// TestTests: the output of compiled tests is read, and a failed test fails the check.
func TestTests(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a shell script stands for the tests")
	}
	c := Tests{Dir: t.TempDir(), Log: "tests.log", Env: []string{"DEVICE=3"}}
	c.Path = filepath.Join(c.Dir, "tests")
	script := func(text string) (string, error) {
		if err := os.WriteFile(c.Path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		w := NewReport(io.Discard)
		err := c.Run(context.Background(), w)
		return w.Text(), err
	}
	text, err := script(`[ "$DEVICE" = 3 ] || exit 1
echo '=== RUN   TestA'
echo '--- PASS: TestA (0.00s)'
echo '    --- PASS: TestA/part (0.00s)'
echo '--- SKIP: TestB (0.00s)'`)
	if err != nil || !strings.Contains(text, "2 tests passed and 1 were skipped") {
		t.Errorf("%v: %s", err, text)
	}
	text, err = script(`cat <<'END'
=== RUN   TestA
    a_test.go:1: all is well
--- PASS: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/part
    b_test.go:7: 1 is not 2
--- FAIL: TestB (0.00s)
    --- FAIL: TestB/part (0.00s)
END
exit 1`)
	if err == nil || !strings.Contains(text, "TestB\n") || !strings.Contains(text, "TestB/part\n      b_test.go:7: 1 is not 2") || strings.Contains(text, "all is well") {
		t.Errorf("%v: %s", err, text)
	}
	if _, err = script("exit 0"); err == nil {
		t.Error("no test ran, and that is no failure")
	}
}
