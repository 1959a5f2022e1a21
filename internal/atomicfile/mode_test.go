//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMode: only the user can read a new file, unless it is shared; then the umask decides. A replaced file keeps its
// mode.
func TestMode(t *testing.T) {
	for _, k := range []struct {
		umask           int
		private, shared fs.FileMode
	}{{0, 0o600, 0o666}, {0o002, 0o600, 0o664}, {0o022, 0o600, 0o644}, {0o027, 0o600, 0o640}, {0o077, 0o600, 0o600}} {
		old := unix.Umask(k.umask)
		dir := t.TempDir()
		write := func(name string, shared bool, want fs.FileMode) {
			t.Helper()
			path := filepath.Join(dir, name)
			err := Write(path, Kind{Shared: shared}, func(f *File) error {
				if info, err := f.Stat(); err != nil || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("while it is written: mode %v, %v", info.Mode(), err)
				}
				_, err := f.WriteString("a")
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != want {
				t.Errorf("umask %03o, %s: mode %v, %v; want %v", k.umask, name, info.Mode(), err, want)
			}
		}
		write("private", false, k.private)
		write("shared", true, k.shared)
		for name, mode := range map[string]fs.FileMode{"wide": 0o644, "narrow": 0o400, "odd": 0o751} {
			put(t, filepath.Join(dir, name), "old")
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Error(err)
			}
			write(name, false, mode)
			write(name, true, mode)
		}
		only(t, dir, "narrow", "odd", "private", "shared", "wide")
		unix.Umask(old)
	}
}
