package bundle

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/disk"
)

// source reads a layer's neurons from the model's files.
type source struct {
	*layer
	files  [parts]*disk.File
	reader *disk.Reader
	step   int    // neurons read at once; they are whole blocks
	sums   []byte // [n_ff, parts] checksums of what was read, and zeros up to the end of a block
}

// read fills buffers from free with neurons, in order, until all are read or ctx ends.
func (s *source) read(ctx context.Context, free <-chan []byte, out chan<- run) {
	defer close(out)
	for first := 0; first < s.neurons; first += s.step {
		var r run
		select {
		case b := <-free:
			r = s.next(first, b)
		case <-ctx.Done():
			return
		}
		select {
		case out <- r:
		case <-ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

// next reads a step's neurons from first on.
func (s *source) next(first int, b []byte) run {
	n := min(s.step, s.neurons-first)
	b = b[:(int64(n)*s.stride+block-1)/block*block]
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
		pieces []*disk.Piece
	)
	for p, t := range s.rows {
		if t == nil {
			continue
		}
		size := s.partBytes(Part(p))
		step := max(1, readBytes/size)
		for i := 0; i < n; i += step {
			done := func(data []byte, err error) {
				defer group.Done()
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = cmp.Or(failed, err)
					return
				}
				s.place(Part(p), first+i, data, b[int64(i)*s.stride:])
			}
			group.Add(1)
			pieces = append(pieces, &disk.Piece{
				File: s.files[p], Offset: t.Offset + int64(first+i)*int64(size), Bytes: min(step, n-i) * size, Done: done,
			})
		}
	}
	s.reader.Read(pieces...)
	for i := range int64(n) {
		clear(b[i*s.stride+s.bytes : (i+1)*s.stride])
	}
	clear(b[int64(n)*s.stride:])
	group.Wait()
	return run{first: first, data: b, err: failed}
}

// place copies rows of part p, of the neurons from first on, to their places in a bundle file. b begins with the first.
func (s *source) place(p Part, first int, rows, b []byte) {
	size := s.partBytes(p)
	for i := range len(rows) / size {
		row := rows[i*size:][:size]
		copy(b[int64(i)*s.stride+s.at[p]:], row)
		binary.LittleEndian.PutUint32(s.sums[int64(first+i)*sumsBytes+4*int64(p):], crc32.Checksum(row, castagnoli))
	}
}
