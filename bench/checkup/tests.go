package checkup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tests are compiled tests that a check runs on the machine.
type Tests struct {
	Path    string   // the binary; empty: none
	Pattern string   // -test.run; empty: all tests
	Flags   []string // further flags, such as -test.short
	Dir     string   // the working directory; the log is written there
	Log     string   // its name
	Env     []string // variables in addition to this process's
}

// Run runs the tests and writes their results. It fails if a test fails, if none ran, or if they do not end in time.
func (t Tests) Run(ctx context.Context, w *Report) error {
	if t.Path == "" {
		w.Say("No compiled tests were given: nothing was verified.")
		return nil
	}
	path, err := filepath.Abs(t.Path)
	if err != nil {
		return err
	}
	args := append([]string{"-test.v"}, t.Flags...)
	if t.Pattern != "" {
		args = append(args, "-test.run", t.Pattern)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.Dir
	cmd.Env = append(os.Environ(), t.Env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if werr := os.WriteFile(filepath.Join(t.Dir, t.Log), out.Bytes(), 0o644); werr != nil {
		return werr
	}
	o := outcomesOf(out.String())
	w.Say("%d tests passed and %d were skipped, subtests included; %s has their whole output.", o.passed, o.skipped, t.Log)
	if o.counted != "" {
		w.Say("The tests' process had %s.", o.counted)
	}
	if len(o.failed) > 0 {
		w.Say("Failed:")
		w.Say("    %s", strings.Join(o.failed, "\n    "))
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("the tests did not end in time")
	case err != nil:
		return fmt.Errorf("the tests: %w", err)
	case o.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}

// mostLines bounds the output of failed tests that a report shows.
const mostLines = 60

// outcomes counts tests by result.
type outcomes struct {
	passed, skipped int
	failed          []string // names, each followed by its output
	counted         string   // what the tests' TestMain counted; empty: nothing
}

// outcomesOf reads the output of a test binary with -test.v: a test's output follows a line that names the test.
func outcomesOf(text string) outcomes {
	var o outcomes
	said, current := map[string][]string{}, ""
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case len(words) < 3:
		case words[0] == "counted:":
			o.counted = strings.Join(words[1:], " ")
		case words[0] == "===":
			current = words[2]
		case words[0] == "---" && words[1] == "PASS:":
			o.passed++
		case words[0] == "---" && words[1] == "SKIP:":
			o.skipped++
		case words[0] == "---" && words[1] == "FAIL:":
			o.failed = append(o.failed, words[2])
			for _, s := range said[words[2]] {
				o.failed = append(o.failed, "  "+s)
			}
		case strings.HasPrefix(line, "panic:"):
			o.failed = append(o.failed, line)
		default:
			said[current] = append(said[current], line)
		}
	}
	if len(o.failed) > mostLines {
		o.failed = append(o.failed[:mostLines], "…")
	}
	return o
}
