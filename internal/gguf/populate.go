package gguf

import (
	"fmt"
	"os"
)

// populateStep is how much is brought in between two reports of progress.
const populateStep = 64 << 20

// Populate brings the whole mapping into memory, so that the first pass over the weights does not fault page by page
// (3 GB/s where populating reads 13 to 16). progress may be nil; it is told bytes. A file from Parse is in memory already.
func (f *File) Populate(progress func(done, total int64)) error {
	var done, total int64
	for _, m := range f.mappings {
		total += int64(len(m))
	}
	for _, m := range f.mappings {
		for len(m) > 0 {
			step := m[:min(len(m), populateStep)]
			if err := populate(step); err != nil {
				return fmt.Errorf("%s: reading the file into memory: %w", f.Path, err)
			}
			m = m[len(step):]
			done += int64(len(step))
			if progress != nil {
				progress(done, total)
			}
		}
	}
	return nil
}

// Lock keeps the whole mapping in memory until the file is closed, where the system's limit allows it.
func (f *File) Lock() error {
	for _, m := range f.mappings {
		if err := lockMapping(m); err != nil {
			return fmt.Errorf("%s: --mlock: %d MiB: %w; raise the limit (ulimit -l) or leave --mlock out", f.Path, len(m)>>20, err)
		}
	}
	return nil
}

// touch reads one byte of every page; not inlined, where the compiler would drop reads of which it sees no use.
//
//go:noinline
func touch(b []byte) (x byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		x ^= b[i]
	}
	return x
}
