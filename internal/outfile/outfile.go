// Package outfile writes files that appear under their name only when they are complete: a crash leaves an older file as
// it was. Nothing but a regular file is ever replaced; root could rename over a device.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is written under a temporary name beside its target. Commit or Abort ends it.
type File struct {
	*os.File
	path   string // as it was asked for, for messages
	target string // links resolved
	mode   fs.FileMode
	ended  bool
}

// mode of a file that is new; one that is replaced keeps its own.
const newMode = 0o644

// Check refuses a path that Create would refuse, so that it can be said before the work is done.
func Check(path string) error {
	f, err := Create(path)
	if err == nil {
		f.Abort()
	}
	return err
}

// Create begins a file. A symbolic link stays, and the regular file that it leads to is replaced. Errors are one line
// that begins with path.
func Create(path string) (*File, error) {
	f := &File{path: path, target: path, mode: newMode}
	if err := f.resolve(); err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.target), "."+filepath.Base(f.target)+".*")
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	f.File = tmp
	return f, nil
}

// resolve follows links and looks at what will be replaced.
func (f *File) resolve() error {
	if f.path == "" {
		return errors.New("a file to write has no name")
	}
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(f.path); err == nil {
			return fmt.Errorf("%s is a symbolic link to nothing; remove it or name another file", f.path)
		}
		return nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s cannot be written: %w", f.path, cause(err))
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", f.path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file and is not replaced; name another file", f.path)
	}
	f.mode = info.Mode().Perm()
	if f.target, err = filepath.EvalSymlinks(f.path); err != nil {
		return fmt.Errorf("%s cannot be written: %w", f.path, cause(err))
	}
	return nil
}

// cause is err without the operation and the path that the system puts before it.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Commit makes the file appear under its name, with all that was written.
func (f *File) Commit() error {
	f.ended = true
	err := f.Chmod(f.mode)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), f.target)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return nil
}

// Abort drops what was written. After Commit it does nothing, so that it can be deferred.
func (f *File) Abort() {
	if f.ended {
		return
	}
	f.ended = true
	f.Close()
	os.Remove(f.Name())
}

// Write creates path with what write puts into it.
func Write(path string, write func(f *File) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return f.Commit()
}
