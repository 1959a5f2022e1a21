package atomicfile

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
)

// privateMode is the mode of new files, less what the umask takes: what people wrote to a model and read from it may be
// in them.
const privateMode = 0o600

// sharedMode is that of new files of shared kinds.
const sharedMode = 0o666

// setMode gives the file the mode of the one that it replaces, or of a new one.
func (f *File) setMode() error {
	switch {
	case f.replaces:
		return f.Chmod(f.mode)
	case f.kind.Shared:
		mode, err := newMode(filepath.Dir(f.path))
		if err != nil {
			return err
		}
		return f.Chmod(mode)
	}
	return nil // it was made with privateMode
}

// newMode returns the mode that the system gives a new shared file in a folder. The umask can be read only by making
// one, or by changing it for all goroutines.
func newMode(dir string) (fs.FileMode, error) {
	probe := createUnnamed(dir, sharedMode)
	if probe == nil {
		var err error
		if probe, err = os.OpenFile(filepath.Join(dir, "."+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, sharedMode); err != nil {
			return 0, err
		}
		defer os.Remove(probe.Name())
	}
	defer probe.Close()
	info, err := probe.Stat()
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}
