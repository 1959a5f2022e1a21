// Package atomicfile writes files that appear under their name only when they are complete: a crash leaves an older
// file as it was. Nothing but a regular file is ever replaced; root could rename over a device.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// File is written without a name, or under a temporary one beside its target where the system has no files without a
// name. Commit or Abort ends it.
type File struct {
	*os.File
	path      string // as it was asked for, for messages
	target    string // links resolved
	temporary string // its name until Commit; empty: none
	mode      fs.FileMode
	ended     bool
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
	dir := filepath.Dir(f.target)
	if f.File = createUnnamed(dir); f.File != nil {
		return f, nil
	}
	tmp, err := os.CreateTemp(dir, temporaryPattern(f.target))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	f.File, f.temporary = tmp, tmp.Name()
	return f, nil
}

// temporaryPattern returns os.CreateTemp's pattern of a target's temporary name.
func temporaryPattern(target string) string { return "." + filepath.Base(target) + ".*" }

// resolve follows links and looks at what will be replaced.
func (f *File) resolve() error {
	if f.path == "" {
		return errors.New("a file to write has no name")
	}
	if clean := filepath.ToSlash(filepath.Clean(f.path)); strings.HasPrefix(clean, "/proc/") || strings.HasPrefix(clean, "/dev/") && !strings.HasPrefix(clean, "/dev/shm/") {
		return fmt.Errorf("%s is not a regular file and is not replaced; name another file", f.path) // even if it leads to one now
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
	if err == nil && f.temporary == "" {
		err = f.name()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.temporary, f.target)
	}
	if err != nil {
		f.remove()
		return Writing(f.path, err)
	}
	return nil
}

// Write is the file's, with errors that leave out its name, which it does not have yet.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if err != nil {
		err = cause(err)
	}
	return n, err
}

// Room refuses to begin where the disk has less room than n bytes. The room of a file that is replaced is free only
// when the new one is complete.
func (f *File) Room(n int64) error {
	free, err := hw.FreeDisk(filepath.Dir(f.target))
	if unknown := err != nil; unknown || free >= n {
		return nil
	}
	unit, name := 1<<20, "MiB"
	if n < 1<<20 {
		unit, name = 1<<10, "KiB"
	}
	return fmt.Errorf("it takes %.1f %s and its disk has %.1f free: make room, or name a file on another disk", float64(n)/float64(unit), name, float64(free)/float64(unit))
}

// Writing adds to err the path that was written, and what to do about a disk that is full.
func Writing(path string, err error) error {
	if hw.DiskFull(err) {
		return fmt.Errorf("writing %s: %w: make room, or name a file on another disk", path, err)
	}
	return fmt.Errorf("writing %s: %w", path, err)
}

// name gives a file that has none a temporary name: a name can be given, but not taken from an older file.
func (f *File) name() error {
	tmp, err := os.CreateTemp(filepath.Dir(f.target), temporaryPattern(f.target)) // for a name that is free
	if err != nil {
		return err
	}
	tmp.Close()
	os.Remove(tmp.Name())
	if err := nameIt(f.File, tmp.Name()); err != nil {
		return err
	}
	f.temporary = tmp.Name()
	return nil
}

func (f *File) remove() {
	if f.temporary != "" {
		os.Remove(f.temporary)
	}
}

// Abort drops what was written. After Commit it does nothing, so that it can be deferred.
func (f *File) Abort() {
	if f.ended {
		return
	}
	f.ended = true
	f.Close()
	f.remove()
}

// Write creates path with what write puts into it.
func Write(path string, write func(f *File) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return Writing(path, err)
	}
	return f.Commit()
}
