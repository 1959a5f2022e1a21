// Command pack takes the page that was built in web/dist into the folder dist, which is embedded: scripts and styles with
// gzip, as most browsers take them, other files as they are.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	built    = "web/dist"
	embedded = "internal/server/page/dist"
)

func main() {
	if err := pack(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pack() error {
	wanted := map[string]bool{}
	err := filepath.WalkDir(built, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(built, path)
		if err != nil {
			return err
		}
		to := filepath.Join(embedded, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".js", ".css":
			to += ".gz"
			wanted[to] = true
			return writePacked(to, content)
		}
		wanted[to] = true
		return os.WriteFile(to, content, 0o644)
	})
	if err != nil {
		return err
	}
	return filepath.WalkDir(embedded, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || wanted[path] {
			return err
		}
		return os.Remove(path) // of an earlier build
	})
}

// writePacked writes content with gzip, unless the file holds it: other versions of Go may pack it otherwise.
func writePacked(path string, content []byte) error {
	if old, err := unpacked(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// unpacked returns what a file holds.
func unpacked(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 1<<26))
}
