package prepare

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// TestSpace: missing disk space is an error before the work begins, with the needed size and advice.
func TestSpace(t *testing.T) {
	s := space{samples: 1 << 60, model: 3 << 20}
	err := s.fits(t.TempDir(), "--work", 1<<60)
	if err == nil {
		t.Fatal("an EiB fits")
	}
	for _, want := range []string{"model 3", "--work", "--resume", "--trace-budget", "free"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if err := s.fits(t.TempDir(), "--work", 1); err != nil {
		t.Error(err)
	}
}

// TestDiskFull: the error of a disk that filled up says how to continue the run. Linux has a device that is always
// full.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	defer full.Close()
	_, err = full.WriteString("x")
	if !hw.DiskFull(err) {
		t.Fatalf("%v is not taken for a full disk", err)
	}
	if err := resumable(err); !strings.Contains(err.Error(), "--resume") {
		t.Errorf("%q does not say --resume", err)
	}
}

// TestOneAtATime: a second run in the same folder names the process that holds it, and foreign folders are not touched.
func TestOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	first, id, err := openWork(dir, identity{Version: workVersion}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, resume := range []bool{false, true} {
		_, _, err = openWork(dir, id, resume)
		if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
			t.Errorf("a second run with resume %v: %v", resume, err)
		}
	}
	first.release()
	again, _, err := openWork(dir, id, true)
	if err != nil {
		t.Fatal(err)
	}
	again.release()

	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openWork(other, id, false); err == nil {
		t.Error("a folder with other things in it was taken")
	}
	if list, _ := os.ReadDir(other); len(list) != 1 {
		t.Errorf("a folder that was refused holds %v", list)
	}
}

// TestPlaceKeepsMode: a replaced file keeps its mode; a new one has the mode with which the run wrote it.
func TestPlaceKeepsMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such modes here")
	}
	for _, older := range []fs.FileMode{0, 0o600, 0o664} {
		dir := t.TempDir()
		from, out := filepath.Join(dir, "work.gguf"), filepath.Join(dir, "out.gguf")
		put := func(path, text string, mode fs.FileMode) {
			if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
		put(from, "GGUF, and new", 0o644)
		want := fs.FileMode(0o644)
		if older != 0 {
			put(out, "GGUF, and old", older)
			want = older
		}
		r := &run{o: &Options{Out: out}}
		if err := r.place(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out)
		info, e := os.Stat(out)
		if err = errors.Join(err, e); err != nil || string(text) != "GGUF, and new" || info.Mode() != want {
			t.Errorf("in place of a file of mode %v there is %q of mode %v, %v", older, text, info.Mode(), err)
		}
	}
}
