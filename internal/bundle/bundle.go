// Package bundle reads and writes bundle files. A bundle file stores each neuron's rows of the gate, up and down
// projections of a model together, so that one read brings a neuron. docs/prepared-file.md describes the file.
package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// File is an open bundle file. Its methods may be called from several goroutines.
type File struct {
	file   *disk.File
	layers map[int]*open
}

// open is a layer of an open file.
type open struct {
	layer
	sums [parts][]uint32        // [n_ff]
	seen [parts][]atomic.Uint32 // a bit for each neuron, set once its checksum was right
}

// errOther is the error of a file that cannot serve the model, and may be made again if it is a bundle file.
type errOther struct{ text string }

func (e *errOther) Error() string { return e.text }

// Open opens the bundle file at path, which must belong to this model.
func Open(path string, model *gguf.File) (*File, error) {
	y, err := guarded(model)
	if err != nil {
		return nil, err
	}
	return y.open(path)
}

// open is Open of a model with that layout. From the layout follow all bytes before the neurons and the file's size, so
// nothing in the file is used before it is known to be right.
func (y *layout) open(path string) (*File, error) {
	d, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{file: d, layers: map[int]*open{}}
	err = f.read(y)
	if err == nil {
		err = d.Changed() // meanwhile
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return f, nil
}

// read compares the file with y and reads its checksums.
func (f *File) read(y *layout) error {
	file, err := os.Open(f.Path())
	if err != nil {
		return err
	}
	defer file.Close()
	head := make([]byte, len(y.head))
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if !bytes.Equal(head[:n], y.head) {
		return &errOther{fmt.Sprintf("%s: %s", f.Path(), differs(head[:n]))}
	}
	if f.file.Size() != y.size {
		return &errOther{fmt.Sprintf("%s: it has %d bytes, not %d: it is damaged", f.Path(), f.file.Size(), y.size)}
	}
	for i := range y.layers {
		l := &open{layer: y.layers[i]}
		b := make([]byte, int64(l.neurons)*sumsBytes)
		if _, err := file.ReadAt(b, l.layer.sums); err != nil {
			return err
		}
		for p := range parts {
			if l.rows[p] == nil {
				continue
			}
			l.sums[p], l.seen[p] = make([]uint32, l.neurons), make([]atomic.Uint32, (l.neurons+31)/32)
			for i := range l.sums[p] {
				l.sums[p][i] = binary.LittleEndian.Uint32(b[int64(i)*sumsBytes+4*int64(p):])
			}
		}
		f.layers[l.number] = l
	}
	return nil
}

// Path returns the file's name.
func (f *File) Path() string { return f.file.Path() }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Part returns where a part of a layer's neurons is on disk; nil if the file does not have it.
func (f *File) Part(layer int, p Part) *compute.OnDisk {
	l := f.layers[layer]
	if l == nil || l.rows[p] == nil {
		return nil
	}
	return &compute.OnDisk{
		File: f.file, Offset: l.offset + l.at[p], Stride: l.stride, Units: l.neurons,
		Verify: func(neuron int, row []byte) error { return l.verify(f, p, neuron, row) },
	}
}

// castagnoli is the polynomial that CPUs have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// verify returns an error if row is not what was written for a part of a neuron. Rows that were right once are not
// checked again.
func (l *open) verify(f *File, p Part, neuron int, row []byte) error {
	word, bit := &l.seen[p][neuron/32], uint32(1)<<(neuron%32)
	if word.Load()&bit != 0 {
		return nil
	}
	if crc32.Checksum(row, castagnoli) != l.sums[p][neuron] {
		return fmt.Errorf("%s: the %s row of neuron %d of layer %d, at offset %d, is not what was written: its checksum is another; delete the file, and it is made again from the model",
			f.Path(), p, neuron, l.number, l.offset+int64(neuron)*l.stride+l.at[p])
	}
	word.Or(bit)
	return nil
}
