// Package disk reads parts of large files past the page cache, many at once: a model's units that are not in RAM. A
// page cache would also keep what is read only now and then, and so evict what is needed all the time.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// usualAlign is the alignment of offsets and lengths if the system names none: a multiple of all disks' blocks.
const usualAlign = 4096

// File is a file that Readers read. It may be used by several goroutines.
type File struct {
	path   string
	opened fs.FileInfo // as it was opened
	align  int64       // of offsets, lengths and addresses of reads; a power of two
	direct bool        // reads go past the page cache

	mu     sync.RWMutex // held for reading during reads
	source source       // nil: the file is closed
}

// source is the system's way to read a file.
type source interface {
	// readAt is pread: it may read less than len(b), and reads nothing at the end of the file. Offset, length and
	// address are multiples of the file's alignment. Safe for concurrent use.
	readAt(b []byte, offset int64) (int, error)
	io.Closer
}

// Open opens a file for reading, past the page cache if its file system can do that. Otherwise what was read is removed
// from the page cache, if the system has a call for that.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file, so that no parts of it can be read; give a file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	file := &File{path: path, opened: info}
	if file.source, file.align, file.direct, err = direct(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return file, nil
}

// Path returns the path with which the file was opened.
func (f *File) Path() string { return f.path }

// Size returns the file's size when it was opened. [bytes]
func (f *File) Size() int64 { return f.opened.Size() }

// Align returns the power of two that offsets and lengths of reads are multiples of. A Reader extends other parts to such
// ranges. [bytes]
func (f *File) Align() int64 { return f.align }

// Direct reports whether reads go past the page cache.
func (f *File) Direct() bool { return f.direct }

// ErrChanged is the error of a file that changed since it was opened.
var ErrChanged = errors.New("the file was changed while it was in use")

// Changed returns an error that is ErrChanged if the path now names another file, or if the file was written to since
// it was opened. Reads continue from the opened file.
func (f *File) Changed() error {
	now, err := os.Stat(f.path)
	switch {
	case err != nil:
		return fmt.Errorf("%s is not there any more, put it back and start again: %w", f.path, errors.Join(ErrChanged, err))
	case !os.SameFile(f.opened, now):
		return fmt.Errorf("%s was replaced by another file, start again to use that one: %w", f.path, ErrChanged)
	case now.Size() != f.opened.Size() || !now.ModTime().Equal(f.opened.ModTime()):
		return fmt.Errorf("%s was written to, start again to use it as it is now: %w", f.path, ErrChanged)
	}
	return nil
}

// Close closes the file once the running reads have ended; later ones fail. Closing it twice is no error.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.source == nil {
		return nil
	}
	err := f.source.Close()
	f.source = nil
	return err
}

// check returns an error if the file never had these bytes.
func (f *File) check(offset int64, bytes int) error {
	if offset < 0 || bytes < 0 || offset > f.Size() || int64(bytes) > f.Size()-offset {
		return fmt.Errorf("%s has %d bytes and cannot have %d of them at byte %d; it is damaged or incomplete: get it again", f.path, f.Size(), bytes, offset)
	}
	return nil
}

// tries bounds how often a read that could not be done for the moment is tried.
const tries = 100

// read fills b, an aligned range of the file from offset on, up to the file's end. Fewer than least bytes are an error.
func (f *File) read(b []byte, offset int64, least int) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.source == nil {
		return &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrClosed}
	}
	for done, tried := 0, 0; done < least; {
		n, err := f.source.readAt(b[done:], offset+int64(done))
		if err != nil {
			if passes(err) && tried < tries {
				tried++
				continue
			}
			return fmt.Errorf("%s cannot be read at byte %d, see the system's log whether its disk fails: %w", f.path, offset+int64(done), err)
		}
		end := done + n
		if end >= least {
			break
		}
		// The rest is read from the last aligned offset on. If this read began there, the file has ended.
		next := end &^ int(f.align-1)
		if next <= done {
			return fmt.Errorf("%s ends at byte %d and had %d bytes when it was opened, restore the file and start again: %w",
				f.path, offset+int64(end), f.Size(), ErrChanged)
		}
		done = next
	}
	return nil
}
