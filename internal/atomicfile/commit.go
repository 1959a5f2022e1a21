package atomicfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Commit makes the file appear under its name, with all that was written.
func (f *File) Commit() error { return Commit(f) }

// Commit makes files appear under their names, all or none. If one fails, the previous ones are restored.
func Commit(files ...*File) error {
	for _, f := range files {
		if err := f.complete(len(files) == 1); err != nil {
			abort(files)
			return Writing(f.path, cause(err))
		}
	}
	for _, f := range files {
		if err := f.kept(); err != nil {
			if len(files) == 1 {
				return fmt.Errorf("%w; the complete new file is %s", err, f.temporary)
			}
			abort(files)
			return err
		}
	}
	var done []placed
	for _, f := range files {
		p, err := f.place(len(files) > 1)
		if err != nil {
			for _, p := range done {
				p.undo()
			}
			abort(files)
			return Writing(f.path, cause(err))
		}
		done = append(done, p)
	}
	for _, p := range done {
		if p.older != "" {
			_ = os.Remove(p.older)
		}
	}
	return nil
}

// abort removes what files have under temporary names.
func abort(files []*File) {
	for _, f := range files {
		f.Abort()
		f.remove()
	}
}

// complete writes the file to the disk and closes it. With alone, a file that replaces none then has its name; any
// other has a temporary one.
func (f *File) complete(alone bool) error {
	f.ended = true
	err := f.setMode()
	if err == nil {
		err = toDisk(f.File)
	}
	if err == nil && f.temporary == "" {
		err = f.name(alone)
	}
	if e := closed(f.File); err == nil {
		err = e
	}
	return err
}

// name gives a file without a name its own name if it is alone and replaces none. Otherwise it gives it a temporary
// name, because the system cannot give a file a name that another file has.
func (f *File) name(alone bool) error {
	if alone && !f.replaces {
		err := nameIt(f.File, f.path)
		if err == nil {
			f.temporary = f.path
		}
		if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for tries := 0; ; tries++ {
		name := freeName(f.path)
		err := nameIt(f.File, name)
		if err == nil {
			f.temporary = name
		}
		const most = 100
		if !errors.Is(err, os.ErrExist) || tries == most {
			return err
		}
	}
}

// freeName returns a name in path's folder that is free, or nearly certainly so.
func freeName(path string) string {
	return filepath.Join(filepath.Dir(path), strings.ReplaceAll(temporaryPattern(path), "*", fmt.Sprint(rand.Uint32())))
}

// kept checks the file to be replaced again: another program may have changed it during writing, which may take hours.
func (f *File) kept() error {
	if f.temporary == f.path {
		return nil
	}
	return f.look()
}

// placed is a file that has got its name.
type placed struct {
	path  string
	older string // name of the file that it replaced; empty: there was none, or it is not kept
}

// place gives a complete file its name. If keep is set, the file that it replaces gets another name.
func (f *File) place(keep bool) (placed, error) {
	p := placed{path: f.path}
	if f.temporary == f.path {
		return p, nil
	}
	if keep && f.replaces {
		p.older = freeName(f.path)
		if os.Link(f.path, p.older) != nil { // a file system without hard links
			if err := os.Rename(f.path, p.older); err != nil {
				return p, err
			}
		}
	}
	if err := os.Rename(f.temporary, f.path); err != nil {
		if p.older != "" {
			p.undo()
		}
		return p, err
	}
	f.temporary = ""
	return p, nil
}

// undo restores the replaced file.
func (p placed) undo() {
	if p.older != "" {
		_ = os.Rename(p.older, p.path)
		_ = os.Remove(p.older) // where both names were of one file
		return
	}
	_ = os.Remove(p.path)
}

// toDisk waits until all of a file is on the disk, if the file system supports that.
func toDisk(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// closed closes a file. It ignores EINTR: the file is closed then, too.
func closed(f *os.File) error {
	if err := f.Close(); !errors.Is(err, syscall.EINTR) {
		return err
	}
	return nil
}
