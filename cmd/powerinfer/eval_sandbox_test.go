package main

import (
	"errors"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestSandboxScripts needs a machine on which programs that a model wrote can be kept in.
func TestSandboxScripts(t *testing.T) {
	if _, err := powerinfer.OpenSandbox(t.Context(), 0); errors.Is(err, powerinfer.ErrNoSandbox) {
		testenv.Missing(t, "sandbox", err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	runScripts(t, "testdata/script/sandbox", func(*testscript.Env) {})
}
