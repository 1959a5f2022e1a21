//go:build unix

package wholefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A device that never ends is an error, whatever its kind; an empty one and a pipe are read.
func TestDevicesAndPipes(t *testing.T) {
	for _, most := range []int64{1 << 10, Setting, Text} {
		if _, err := Read("/dev/zero", most); !errors.Is(err, ErrTooLarge) {
			t.Errorf("at most %d: %v", most, err)
		}
	}
	if got, err := Read("/dev/null", Text); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(pipe, []byte("through a pipe"), 0) }()
	if got, err := Read(pipe, Setting); string(got) != "through a pipe" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
