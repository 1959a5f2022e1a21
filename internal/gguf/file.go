// Package gguf reads, validates and writes GGUF files: versions 2 and 3, the magics GGUF and PWRI (the original
// PowerInfer's), single or split. Files are taken for hostile: every count, offset and name is checked before use.
// Names in files that Ollama's converters wrote are read as llama.cpp's (dialect.go).
//
// Source: the GGUF specification (ggml/docs/gguf.md).
package gguf

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/filekind"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// KV is one metadata entry. Value is a Go number, bool, string, or a slice of these; nested arrays are []any.
type KV struct {
	Key   string
	Value any
}

// Tensor is a tensor's description and bytes. Data is mapped, read-only, and lives until the file is closed.
type Tensor struct {
	Name   string
	Type   quant.Type
	Shape  []int // Shape[0] is the row length, as stored
	Offset int64 // of Data in its part's file
	PartNo int   // of a split file's parts, from 0
	Data   []byte
}

// Part returns the rows [first, first+n) of t under another name; they share t's bytes.
func (t *Tensor) Part(name string, first, n int) *Tensor {
	bytes := t.Type.RowBytes(t.Shape[0])
	return &Tensor{
		Name: name, Type: t.Type, Shape: []int{t.Shape[0], n},
		Offset: t.Offset + int64(first*bytes), PartNo: t.PartNo, Data: t.Data[first*bytes:][:n*bytes],
	}
}

// Bytes returns the size of the elements, also if Data is not set.
func (t *Tensor) Bytes() int64 { return int64(t.Type.RowBytes(t.Shape[0])) * int64(t.Rows()) }

// Elems returns the number of elements.
func (t *Tensor) Elems() int { return t.Shape[0] * t.Rows() }

// Rows returns the product of all dimensions but the first.
func (t *Tensor) Rows() int {
	n := 1
	for _, d := range t.Shape[1:] {
		n *= d
	}
	return n
}

// File is an open GGUF file, or all parts of a split one.
type File struct {
	Path      string
	Magic     string // GGUF or PWRI
	Version   uint32
	Alignment uint64
	Keys      []KV // in the file's order
	Tensors   []*Tensor
	Notes     []string // lines about content of the file that is not used

	index    map[string]int // of Keys
	tensors  map[string]*Tensor
	mappings [][]byte           // owned; nil for Parse
	opening  sync.Mutex         // guards direct
	direct   map[int]*disk.File // owned: parts that are read past their mappings
}

// mappable says why a file cannot be mapped, if so.
func mappable(st os.FileInfo) error {
	switch {
	case st.IsDir():
		return errors.New("it is a folder, and no GGUF file; powerinfer convert makes one of a Hugging Face folder")
	case !st.Mode().IsRegular():
		return errors.New("not a regular file")
	case st.Size() == 0:
		return errors.New(filekind.Wrong(nil))
	case st.Size() != int64(int(st.Size())):
		return errors.New("the file is larger than this machine's addresses")
	}
	return nil
}

// Open maps the file at path and validates it. A name ending in -00001-of-0000N.gguf opens all N parts.
func Open(path string) (*File, error) {
	f, err := openPart(path)
	if err != nil {
		return nil, err
	}
	parts, err := f.splitCount()
	if err == nil && parts > 1 {
		err = f.openSplit(parts)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	f.normalise()
	return f, nil
}

func openPart(path string) (*File, error) {
	data, err := mapFile(path)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var f *File
	err = fault.Guard(func() error {
		f, err = parse(path, data)
		return err
	})
	if err != nil {
		_ = unmapFile(data)
		if errors.Is(err, fault.Err) {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return nil, err
	}
	f.mappings = [][]byte{data}
	return f, nil
}

// Parse validates a file in memory. data must stay unchanged as long as the File is used; name is for
// messages.
func Parse(name string, data []byte) (*File, error) {
	f, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	f.normalise()
	return f, nil
}

// parse is Parse with names as the file has them.
func parse(name string, data []byte) (*File, error) {
	f := &File{Path: name, index: map[string]int{}, tensors: map[string]*Tensor{}}
	r := &reader{path: name, data: data}
	infos, err := f.header(r)
	if err == nil {
		err = f.place(r, infos)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Close unmaps the file; tensors' data must not be used afterwards.
func (f *File) Close() error {
	var first error
	for _, m := range f.mappings {
		if err := unmapFile(m); err != nil && first == nil {
			first = err
		}
	}
	f.mappings = nil
	f.opening.Lock()
	defer f.opening.Unlock()
	for _, d := range f.direct {
		if err := d.Close(); err != nil && first == nil {
			first = err
		}
	}
	f.direct = nil
	return first
}

// Direct opens the part of a split file that contains t, or the file, for reads past the page cache. f owns and closes
// it. Several goroutines may call Direct.
func (f *File) Direct(t *Tensor) (*disk.File, error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	if d := f.direct[t.PartNo]; d != nil {
		return d, nil
	}
	if len(f.mappings) == 0 {
		return nil, fmt.Errorf("%s: it is in memory only", f.Path)
	}
	path := f.Path
	if m := partName.FindStringSubmatch(f.Path); m != nil && len(f.mappings) > 1 {
		path = PartNames(m[1], len(f.mappings))[t.PartNo]
	}
	d, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	if size := int64(len(f.mappings[t.PartNo])); d.Size() != size {
		d.Close()
		return nil, fmt.Errorf("%s: it has %d bytes now, and had %d when it was opened: it was replaced meanwhile; start again", path, d.Size(), size)
	}
	if f.direct == nil {
		f.direct = map[int]*disk.File{}
	}
	f.direct[t.PartNo] = d
	return d, nil
}

// Changed returns an error if one of the files that Direct opened was replaced or written to meanwhile. Reads continue
// from the opened files.
func (f *File) Changed() error {
	f.opening.Lock()
	defer f.opening.Unlock()
	for _, d := range f.direct {
		if err := d.Changed(); err != nil {
			return err
		}
	}
	return nil
}

// Tensor returns the tensor of that name, or nil.
func (f *File) Tensor(name string) *Tensor { return f.tensors[name] }
