//go:build unix

package fault

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// shrunk returns mapped memory of a file that is empty by now.
func shrunk(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mapped")
	if err := os.WriteFile(path, make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 1<<16, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGuard(t *testing.T) {
	m := shrunk(t)
	var sum byte
	if err := Guard(func() error { sum += m[1<<15]; return nil }); err != Err {
		t.Errorf("reading: %v", err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := Guard(func() error { _, err := out.Write(m); return err }); err != Err {
		t.Errorf("writing it to a file: %v", err)
	}
	err = Guard(func() error {
		var g Group
		g.Go(func() {})
		g.Go(func() { sum += m[0] })
		g.Wait()
		return nil
	})
	if err != Err {
		t.Errorf("in a goroutine: %v", err)
	}
	if err := Guard(func() error { return Guard(func() error { sum += m[0]; return nil }) }); err != Err {
		t.Errorf("twice: %v", err)
	}
}

func TestGuardPassesOthers(t *testing.T) {
	if err := Guard(func() error { return os.ErrNotExist }); err != os.ErrNotExist {
		t.Error(err)
	}
	other := errors.New("another")
	defer func() {
		if got := recover(); got != other {
			t.Errorf("recovered %v", got)
		}
	}()
	_ = Guard(func() error { panic(other) })
}
