package main

import (
	"errors"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/powerinfer-go/powerinfer/evaluate"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestSandboxScripts needs a machine that can confine programs.
func TestSandboxScripts(t *testing.T) {
	testenv.Thorough(t)
	if _, err := evaluate.OpenSandbox(t.Context(), 0); errors.Is(err, evaluate.ErrNoSandbox) {
		testenv.Missing(t, "sandbox", err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	runScripts(t, "testdata/script/sandbox", func(*testscript.Env) {})
}
