package atomicfile

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
)

// privateMode is the mode of new files, before the umask: they may contain conversations with a model.
const privateMode = 0o600

// sharedMode is the mode of new files of shared kinds, before the umask.
const sharedMode = 0o666

// setMode gives the file the mode of the file that it replaces, or the mode of a new file.
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

// newMode returns the mode that the system gives a new shared file in a folder. It creates one to find out, because the
// only other way to read the umask changes it for all goroutines.
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
