package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestLinesResume: complete lines stay, and an incomplete one is removed only on request; texts do not change.
func TestLinesResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("1\n2\n{\"torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(f.Whole) != "1\n2\n" || string(f.Torn) != `{"torn` || content(t, path) != "1\n2\n{\"torn" {
		t.Fatalf("%q, %q, %q", f.Whole, f.Torn, content(t, path))
	}
	if err := errors.Join(f.Cut(), f.Add("<&>"), f.Add(4), f.Close()); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != "1\n2\n\"<&>\"\n4\n" {
		t.Errorf("%q", got)
	}
}

// TestLinesOneWriter: a second writer is refused, also from the same process, until the first has closed the file.
func TestLinesOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLines(path); err == nil || !strings.Contains(err.Error(), "another run is writing to "+path+"; wait for it") {
		t.Errorf("%v", err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if err := f.Add("a line"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("\"a line\"\n", 160); content(t, path) != want {
		t.Errorf("%q", content(t, path))
	}
	again, err := OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestLinesRefusals: only regular files are opened, and errors begin with the path.
func TestLinesRefusals(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, os.DevNull, filepath.Join(dir, "no", "file")} {
		if _, err := OpenLines(path); err == nil || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestLinesFailure: after a failed line all later lines give the same error, with advice.
func TestLinesFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(1); err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	regular := f.file
	f.file = full
	err = f.Add(2)
	if !errors.Is(err, syscall.ENOSPC) || err.Error() != "writing "+path+": no space left on device: make room, and the same command goes on" {
		t.Errorf("%v", err)
	}
	f.file = regular
	if again := f.Add(3); again != err {
		t.Errorf("%v", again)
	}
	if again := f.Close(); again != err {
		t.Errorf("%v", again)
	}
	if got := content(t, path); got != "1\n" {
		t.Errorf("%q", got)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
