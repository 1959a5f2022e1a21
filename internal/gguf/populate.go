package gguf

import (
	"context"
	"fmt"
	"os"

	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/memlock"
)

// populateStep is the number of bytes that are read between two reports of progress.
const populateStep = 64 << 20

// Populate reads the whole mapping into memory, so that the first pass over the weights does not fault page by page (3
// GB/s, where populating reads 13 to 16). progress may be nil; it gets bytes. If ctx ends, the error is ctx's. A file
// from Parse is in memory already.
func (f *File) Populate(ctx context.Context, progress func(done, total int64)) error {
	var done, total int64
	for _, m := range f.mappings {
		total += int64(len(m))
	}
	for _, m := range f.mappings {
		for len(m) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			step := m[:min(len(m), populateStep)]
			if err := fault.Guard(func() error { return populate(step) }); err != nil {
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

// Lock keeps the whole mapping in memory until the file is closed, if the system's limit allows it.
func (f *File) Lock() error {
	for _, m := range f.mappings {
		if err := memlock.Lock(m); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return nil
}

// touch reads one byte of every page. It is not inlined, because the compiler would drop reads without use.
//
//go:noinline
func touch(b []byte) (x byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		x ^= b[i]
	}
	return x
}
