package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// engineScript stands for the engine: doctor and version print a line, bench prints llama-bench's JSON.
const engineScript = `#!/bin/sh
case $1 in
bench) echo '[{"n_threads": 1, "n_prompt": 512, "n_gen": 0, "avg_ts": 100}, {"n_threads": 1, "n_prompt": 0, "n_gen": 64, "avg_ts": 10}]' ;;
*) echo "a machine" ;;
esac
`

const testsScript = `#!/bin/sh
echo "$@" | grep -qF -e '-test.skip ^(TestWords|TestRegistersOfAVX2)$' || exit 1
echo '--- PASS: TestPack (0.00s)'
`

// TestReport: every part writes its section, with the bundle's engine and compiled tests.
func TestReport(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("shell scripts stand for the engine and the tests")
	}
	bundle, out := t.TempDir(), filepath.Join(t.TempDir(), "results")
	for name, text := range map[string]string{"powerinfer": engineScript, "kernel.test": testsScript} {
		if err := os.WriteFile(filepath.Join(bundle, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	peer := "llama.cpp=" + filepath.Join(bundle, "powerinfer") + " bench"
	if err := command().Run(context.Background(), []string{"cpucheck", "--tiny", "--rounds", "1", "--bundle", bundle, "--out", out, "--peer", peer}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(out, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{
		"# CPU check\n", "## machine: ", "a machine", "## tests: ", "1 tests passed", "## models: ", "| pp512, 1 thread | 100.0 (100.0–100.0) | 100.0 (100.0–100.0) | 1.00 (1.00–1.00) |",
		"| test | ours | llama.cpp | ours / llama.cpp |", "## depth: ", "## sets: ", "| test | all kernels |", "## neurons: ", "| neurons not zero / all neurons |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Failed") {
		t.Errorf("a part failed:\n%s", text)
	}
}

func TestRefusals(t *testing.T) {
	for flags, want := range map[string]string{
		"--part nothing":        `--part "nothing" is no part's name or number`,
		"--peer llama-bench":    "is not NAME=/PATH ARGUMENTS",
		"--rounds 0":            "--rounds 0 is not a number from 1 to 99",
		"--minutes 0":           "--minutes 0 is not a number of minutes",
		"--part tests,models x": "unexpected argument",
	} {
		args := append([]string{"cpucheck", "--out", t.TempDir()}, strings.Fields(flags)...)
		if err := command().Run(context.Background(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}
