// Package wholefile reads files that users give into memory. It bounds their size, so that /dev/zero is an error.
package wholefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// The most bytes that a file may have, by its kind.
const (
	Text    = 1 << 30  // a corpus, a dataset
	Setting = 16 << 20 // files that people write: system prompts, templates, grammars, lists, certificates
	device  = 1 << 20  // any device: a terminal's user ends its input, other devices never end
)

// Read returns the content of the file at path, which may be a pipe. More than most bytes are an error.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFrom(f, most)
}

// ReadFrom is Read of an open file, from its current offset on.
func ReadFrom(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	name := f.Name()
	if info.Mode()&os.ModeDevice != 0 {
		most = min(most, device)
	}
	var data bytes.Buffer
	if info.Mode().IsRegular() {
		if at, err := f.Seek(0, io.SeekCurrent); err == nil {
			left := max(0, info.Size()-at)
			if left > most {
				return nil, tooLarge(name, most)
			}
			data.Grow(int(left) + bytes.MinRead) // so that ReadFrom need not grow it, which copies
		}
	}
	_, err = data.ReadFrom(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(data.Len()) > most:
		return nil, tooLarge(name, most)
	}
	return data.Bytes(), nil
}

// ErrTooLarge means that a file has more bytes than its kind may have.
var ErrTooLarge = errors.New("larger than such a file may be")

func tooLarge(name string, most int64) error {
	if name == os.Stdin.Name() {
		name = "standard input"
	}
	size := fmt.Sprintf("%d MiB", most>>20)
	if most < 1<<20 {
		size = fmt.Sprintf("%d bytes", most)
	}
	return fmt.Errorf("%s is %w, %s; give a smaller one", name, ErrTooLarge, size)
}
