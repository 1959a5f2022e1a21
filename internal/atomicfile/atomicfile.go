// Package atomicfile writes files that are never torn. A File appears under its name only when it is complete, so a
// crash leaves an older file intact. It replaces only a regular file of the same kind, and neither a link's target nor
// a device, which root could replace. Lines is a file that grows by whole lines.
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

// File is a file that is being written. Until Commit it has no name, or a temporary one in its target's folder if the
// system has no files without names. Commit or Abort ends it.
type File struct {
	*os.File
	path      string
	kind      Kind
	temporary string      // its name until Commit; empty: it has none
	mode      fs.FileMode // the mode of the file that it replaces
	replaces  bool        // a file with its name exists
	ended     bool
}

// Check refuses a path that Create would refuse, so that users know before the work is done.
func Check(path string, kind Kind) error {
	f, err := Create(path, kind)
	if err == nil {
		f.Abort()
	}
	return err
}

// Create begins a file. Its errors are one line that begins with path.
func Create(path string, kind Kind) (*File, error) {
	f := &File{path: path, kind: kind}
	if err := f.look(); err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if f.File = createUnnamed(dir, privateMode); f.File != nil {
		return f, nil
	}
	tmp, err := os.CreateTemp(dir, temporaryPattern(path))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	f.File, f.temporary = tmp, tmp.Name()
	return f, nil
}

// temporaryPattern returns os.CreateTemp's pattern of a target's temporary name.
func temporaryPattern(target string) string { return "." + filepath.Base(target) + ".*" }

// look refuses what may not be replaced, and notes the mode of what will be.
func (f *File) look() error {
	if f.path == "" {
		return errors.New("a file to write has no name")
	}
	if clean := filepath.ToSlash(filepath.Clean(f.path)); strings.HasPrefix(clean, "/proc/") || strings.HasPrefix(clean, "/dev/") && !strings.HasPrefix(clean, "/dev/shm/") {
		return foreign("%s is not a regular file and is not replaced; name another file", f.path) // even if it leads to one now
	}
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s cannot be written: %w", f.path, cause(err))
	case info.Mode().Type() == fs.ModeSymlink:
		return f.linked()
	case info.IsDir():
		return foreign("%s is a folder; name a file in it", f.path)
	case !info.Mode().IsRegular():
		return foreign("%s is not a regular file and is not replaced; name another file", f.path)
	}
	f.mode, f.replaces = info.Mode().Perm(), true
	return f.kind.check(f.path, info.Size())
}

// linked returns the error of a path that is a symbolic link.
func (f *File) linked() error {
	switch info, err := os.Stat(f.path); {
	case errors.Is(err, fs.ErrNotExist):
		return foreign("%s is a symbolic link to nothing; remove it or name another file", f.path)
	case err != nil:
		return fmt.Errorf("%s cannot be written: %w", f.path, cause(err))
	case info.IsDir():
		return foreign("%s is a folder; name a file in it", f.path)
	case !info.Mode().IsRegular():
		return foreign("%s is not a regular file and is not replaced; name another file", f.path)
	}
	return foreign("%s is a symbolic link, and the file that it leads to is not replaced; name another file, or remove the link", f.path)
}

// ErrForeign is the error of a path with something that must not be replaced.
var ErrForeign = errors.New("what is there is not replaced")

type foreignError struct{ text string }

func (e foreignError) Error() string        { return e.text }
func (e foreignError) Is(target error) bool { return target == ErrForeign }

// foreign returns an ErrForeign that says more.
func foreign(format string, args ...any) error { return foreignError{fmt.Sprintf(format, args...)} }

// cause returns err without the operation and the path that the system puts before it.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

// Write writes to the file. Its errors leave out the file's name, which it does not have yet.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if err != nil {
		err = cause(err)
	}
	return n, err
}

// Room returns an error if the disk has room for fewer than n bytes. A replaced file's room becomes free only when the
// new one is complete.
func (f *File) Room(n int64) error {
	free, err := hw.FreeDisk(filepath.Dir(f.path))
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

func (f *File) remove() {
	if f.temporary != "" {
		os.Remove(f.temporary)
	}
}

// Abort drops what was written. After Commit it does nothing, so it can be deferred.
func (f *File) Abort() {
	if f.ended {
		return
	}
	f.ended = true
	f.Close()
	f.remove()
}

// Write creates path with what write puts into it.
func Write(path string, kind Kind, write func(f *File) error) error {
	f, err := Create(path, kind)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return Writing(path, err)
	}
	return f.Commit()
}
