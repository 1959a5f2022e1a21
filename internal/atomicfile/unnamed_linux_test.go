package atomicfile

import (
	"path/filepath"
	"testing"
)

// TestNothingToLeave: a process killed while it writes leaves no file, because the file has no name yet.
func TestNothingToLeave(t *testing.T) {
	dir := t.TempDir()
	if f := createUnnamed(dir, privateMode); f == nil {
		t.Skip("this file system has no files without a name")
	} else {
		f.Close()
	}
	f, err := Create(filepath.Join(dir, "f"), Kind{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	if err := text("half")(f); err != nil {
		t.Fatal(err)
	}
	only(t, dir)
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir, "f"), "half")
	only(t, dir, "f")
}
