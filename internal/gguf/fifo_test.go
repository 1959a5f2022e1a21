//go:build unix

package gguf

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A FIFO has no size to map; opening one must fail at once and not wait for its writer.
func TestOpenRefusesFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo.gguf")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("Open of a FIFO: %v", err)
	}
}

// TestCreateFIFO: a pipe is neither read nor replaced, and no tensor is read for it.
func TestCreateFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := false
	source := Source{"a", quant.F32, []int{1}, func(io.Writer) error { asked = true; return nil }}
	if err := Create(t.Context(), path, "GGUF", nil, []Source{source}, nil); err == nil || !strings.Contains(err.Error(), "pipe is not a regular file") {
		t.Errorf("%v", err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe || asked {
		t.Errorf("the pipe is %v, %v; asked: %v", info.Mode(), err, asked)
	}
}
