package main

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

// The device's tests that a GPU can pass; the others are about lavapipe, or machines without a driver.
const (
	gpuTests = "^(TestConformance|TestArithmetic|TestTiles|TestHeads|TestPackedForms|TestOtherWays|TestHotNeurons|TestModels|TestDemoText|TestReplay|TestManyShapes|TestHost|" +
		"TestWrongParams|TestOverlap|TestSetsPass|TestUpload|TestAllocations|TestPipelineCache|TestReadAll|TestTraits|TestAddJoins|TestOpenings)$"
	tinyTests = "^(TestReplay|TestReadAll|TestSetsPass)$"
)

// verbs has the compiled tests run on the GPU.
func verbs(ctx context.Context, c *check, w *report) error {
	if c.tests == "" {
		w.say("No compiled tests were given (--tests): nothing was verified.")
		return nil
	}
	path, err := filepath.Abs(c.tests)
	if err != nil {
		return err
	}
	pattern := gpuTests
	if c.tiny {
		pattern = tinyTests
	}
	cmd := exec.CommandContext(ctx, path, "-test.v", "-test.run", pattern)
	cmd.Dir = c.out
	cmd.Env = append(os.Environ(), fmt.Sprintf("POWERINFER_TEST_DEVICE=%d", c.info.Index), "POWERINFER_REQUIRE=vulkan")
	if !c.tiny {
		cmd.Env = append(cmd.Env, "POWERINFER_EXHAUSTIVE=1")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if werr := os.WriteFile(filepath.Join(c.out, "verbs.log"), out.Bytes(), 0o644); werr != nil {
		return werr
	}
	t := outcomes(out.String())
	w.say("%d tests passed and %d were skipped, their parts counted; verbs.log has all that they say.", t.passed, t.skipped)
	if t.opened != "" {
		w.say("The tests' process had %s.", t.opened)
	}
	if len(t.failed) > 0 {
		w.say("Failed:")
		w.say("    %s", strings.Join(t.failed, "\n    "))
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("the tests did not end in time")
	case err != nil:
		return fmt.Errorf("the tests: %w", err)
	case t.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}

// mostLines are as many of what failed tests say as a report has room for.
const mostLines = 60

// tally is how tests went.
type tally struct {
	passed, skipped int
	failed          []string // names, and what they say
	opened          string   // how many devices they opened
}

// outcomes reads what a test binary prints with -test.v: what a test says stands behind a line that names it.
func outcomes(text string) tally {
	var t tally
	said, current := map[string][]string{}, ""
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case len(words) < 3:
		case words[0] == "counted:": // by the tests' TestMain
			t.opened = strings.Join(words[1:], " ")
		case words[0] == "===":
			current = words[2]
		case words[0] == "---" && words[1] == "PASS:":
			t.passed++
		case words[0] == "---" && words[1] == "SKIP:":
			t.skipped++
		case words[0] == "---" && words[1] == "FAIL:":
			t.failed = append(t.failed, words[2])
			for _, s := range said[words[2]] {
				t.failed = append(t.failed, "  "+s)
			}
		case strings.HasPrefix(line, "panic:"):
			t.failed = append(t.failed, line)
		default:
			said[current] = append(said[current], line)
		}
	}
	if len(t.failed) > mostLines {
		t.failed = append(t.failed[:mostLines], "…")
	}
	return t
}
