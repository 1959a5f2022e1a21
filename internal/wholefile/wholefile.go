// Package wholefile reads files that people give into memory, as far as such files may go.
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// The most bytes that are read of a file of a kind.
const (
	Text    = 1 << 30  // a corpus, a dataset, a matrix of importances
	Setting = 16 << 20 // what a person writes: a prompt, a template, a grammar, a list, a certificate
	device  = 1 << 20  // of a device, whatever the kind: a terminal ends where its user says so, others never
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

// ReadFrom returns what an open file holds from where it is, as Read does.
func ReadFrom(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	name := f.Name()
	if info.Mode()&os.ModeDevice != 0 {
		most = min(most, device)
	}
	if info.Mode().IsRegular() {
		at, err := f.Seek(0, io.SeekCurrent)
		if err == nil && info.Size()-at > most {
			return nil, tooLarge(name, most)
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, tooLarge(name, most)
	}
	return data, nil
}

// ErrTooLarge is the error of a file with more bytes than are read of its kind.
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
