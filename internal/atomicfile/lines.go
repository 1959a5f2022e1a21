package atomicfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// Lines is a file to which one process at a time appends whole lines. A killed process leaves whole lines and at most
// the beginning of one, which the next process cuts off.
type Lines struct {
	Whole []byte // the complete lines that were there when it was opened
	Torn  []byte // what followed them: the beginning of a line that was never completed

	path   string
	file   *os.File
	mu     sync.Mutex
	failed error // error of a line that could not be written; no later line is written
}

// CheckLines returns an error if the file at path is not a regular file or cannot be written. It changes nothing and
// does not create the file, since other programs may wait for it.
func CheckLines(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return Check(path, Kind{})
	case err == nil && !info.Mode().IsRegular(): // opening a pipe would wait for its reader
		return fmt.Errorf("%s is no regular file, to which lines are added; name another file", path)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	file.Close()
	return nil
}

// OpenLines opens the file at path, or creates it, locks it and reads it. It changes nothing: the caller makes sure
// that the file is its own and then calls Cut. Errors name the file.
func OpenLines(path string) (*Lines, error) {
	if err := CheckLines(path); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|appending, privateMode)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	f := &Lines{path: path, file: file}
	if err := f.take(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// mostLines bounds a file of lines, in bytes: a run may write more than the texts that people give it.
const mostLines = 16 * wholefile.Text

// take locks the file and reads it.
func (f *Lines) take() error {
	held, err := Lock(f.file)
	if err != nil {
		return fmt.Errorf("%s cannot be locked: %w", f.path, err)
	}
	if held {
		return fmt.Errorf("another run is writing to %s; wait for it, or name another file", f.path)
	}
	old, err := wholefile.ReadFrom(f.file, mostLines)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", f.path, cause(err))
	}
	whole := bytes.LastIndexByte(old, '\n') + 1
	f.Whole, f.Torn = old[:whole], old[whole:]
	return nil
}

// Cut cuts off Torn.
func (f *Lines) Cut() error {
	if len(f.Torn) == 0 {
		return nil
	}
	if err := f.file.Truncate(int64(len(f.Whole))); err != nil {
		return f.failure(err)
	}
	return nil
}

// Add adds v as a line of JSON. A line that cannot be written whole is cut off again, and all later calls return the
// error.
func (f *Lines) Add(v any) error {
	line, err := Line(v)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.failed
	}
	begin, err := f.file.Seek(0, io.SeekEnd)
	if err == nil {
		var n int
		if n, err = f.file.Write(line); err != nil {
			f.revert(begin, n)
		}
	}
	if err != nil {
		f.failed = f.failure(err)
	}
	return f.failed
}

// Line returns v as a line of JSON. It does not escape <, > and &.
func Line(v any) ([]byte, error) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return line.Bytes(), err
}

// revert cuts off the n bytes of a line that begins at begin, if nothing followed them. If it fails the next run cuts
// them off.
func (f *Lines) revert(begin int64, n int) {
	if end, err := f.file.Seek(0, io.SeekEnd); err == nil && end == begin+int64(n) {
		_ = f.file.Truncate(begin)
	}
}

// Sync waits until all lines are on the disk.
func (f *Lines) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.failed
	}
	if err := toDisk(f.file); err != nil {
		f.failed = f.failure(err)
	}
	return f.failed
}

// Close writes the lines to the disk and lets another process write.
func (f *Lines) Close() error {
	err := f.Sync()
	if e := closed(f.file); e != nil && err == nil {
		err = f.failure(e)
	}
	return err
}

// failure adds the file's name to err, and advice about a full disk.
func (f *Lines) failure(err error) error {
	if hw.DiskFull(err) {
		return fmt.Errorf("writing %s: %w: make room, and the same command goes on", f.path, cause(err))
	}
	return fmt.Errorf("writing %s: %w", f.path, cause(err))
}
