package checkpoint

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxPickle bounds the description of a file's tensors, in bytes; a state dict needs about 100 a tensor.
const maxPickle = 1 << 20

// Torch is an open file of torch.save: a ZIP archive with a pickle, data.pkl, and one uncompressed record for each
// storage.
type Torch struct {
	path    string
	r       io.ReaderAt
	size    int64
	file    *os.File             // the file of r
	records map[string]*zip.File // by name in the archive's folder
	root    any                  // what was saved
}

// OpenTorch reads which tensors the file at path holds; elements are read later. Errors name the file.
func OpenTorch(path string) (*Torch, error) {
	size, err := regular(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t, err := readTorch(path, file, size)
	if err != nil {
		file.Close()
		return nil, err
	}
	t.file = file
	return t, nil
}

// readTorch is OpenTorch for a file of size bytes in r; path is for messages.
func readTorch(path string, r io.ReaderAt, size int64) (*Torch, error) {
	t := &Torch{path: path, r: r, size: size, records: map[string]*zip.File{}}
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, t.notArchive()
	}
	for _, r := range archive.File {
		_, name, _ := strings.Cut(r.Name, "/") // everything is in one folder of any name
		if t.records[name] != nil {
			return nil, t.errorf("record %.80q occurs twice", name)
		}
		t.records[name] = r
	}
	if order, err := t.record("byteorder", 16); err == nil && string(order) != "little" {
		return nil, t.errorf("byte order %.16q is not supported; little is", order)
	}
	pickle, err := t.record("data.pkl", maxPickle)
	if err != nil {
		return nil, err
	}
	if t.root, err = unpickle(pickle); err != nil {
		return nil, t.errorf("%w", err)
	}
	return t, nil
}

func (t *Torch) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", t.path, fmt.Errorf(format, args...))
}

// notArchive describes a file that is not a ZIP archive.
func (t *Torch) notArchive() error {
	var head [4]byte
	_, _ = t.r.ReadAt(head[:], 0)
	if bytes.HasPrefix(head[:], []byte{0x80, 2, 0x8a, 10}) {
		return t.errorf("saved in the form of PyTorch before 1.6; load it and save it again with torch.save")
	}
	return t.errorf("it is no archive of torch.save; it is damaged, download it again")
}

// record reads a small record of at most limit bytes.
func (t *Torch) record(name string, limit int64) ([]byte, error) {
	r := t.records[name]
	if r == nil {
		return nil, t.errorf("record %q is missing; it was not written by torch.save", name)
	}
	if r.UncompressedSize64 > uint64(limit) {
		return nil, t.errorf("record %q: %d bytes are more than the %d that it may have", name, r.UncompressedSize64, limit)
	}
	in, err := r.Open()
	if err != nil {
		return nil, t.errorf("record %q: %w", name, err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, t.errorf("record %q: %w", name, err)
	}
	return data, nil
}

// Tensor returns the saved tensor of a file that holds a single one.
func (t *Torch) Tensor() (*Tensor, error) {
	x, ok := t.root.(*torchTensor)
	if !ok {
		return nil, t.errorf("it holds no tensor; expected is one, saved by torch.save")
	}
	return t.locate("", x)
}

// StateDict returns the saved tensors by name.
func (t *Torch) StateDict() (map[string]*Tensor, error) {
	d, ok := t.root.(*dict)
	if !ok {
		return nil, t.errorf("it holds no state dict; save the model's state_dict()")
	}
	out := map[string]*Tensor{}
	for _, e := range d.pairs {
		name, isText := e.key.(string)
		x, isTensor := e.value.(*torchTensor)
		if !isText || !isTensor {
			return nil, t.errorf("its dict holds other things than tensors; save the model's state_dict()")
		}
		if out[name] != nil {
			return nil, t.errorf("tensor %.80q occurs twice", name)
		}
		s, err := t.locate(name, x)
		if err != nil {
			return nil, err
		}
		out[name] = s
	}
	return out, nil
}

// locate finds the elements of x in the file.
func (t *Torch) locate(name string, x *torchTensor) (*Tensor, error) {
	fail := func(format string, args ...any) (*Tensor, error) {
		return nil, t.errorf("tensor %.80q: %w", name, fmt.Errorf(format, args...))
	}
	record := "data/" + x.storage.key
	r := t.records[record]
	if r == nil {
		return fail("its record %.80q is missing", record)
	}
	if r.Method != zip.Store {
		return fail("its record is compressed, which torch.save does not do")
	}
	size := int64(elements()[x.storage.dtype].bytes)
	if x.storage.elems > t.size/size || uint64(x.storage.elems*size) > r.UncompressedSize64 {
		return fail("%d elements of %s do not lie in a record of %d bytes", x.storage.elems, x.storage.dtype, r.UncompressedSize64)
	}
	start, err := r.DataOffset()
	if err != nil {
		return fail("%w", err)
	}
	if start > t.size || x.storage.elems*size > t.size-start {
		return fail("its record ends behind the end of the file; it is truncated, download it again")
	}
	elems, err := x.elems()
	if err != nil {
		return fail("%w", err)
	}
	s := &Tensor{Name: name, DType: x.storage.dtype, Offset: start + x.offset*size, Bytes: elems * size, file: &shard{t.path, t.r}}
	for _, d := range x.shape {
		s.Shape = append(s.Shape, int(d))
	}
	return s, nil
}

// elems returns the number of elements, which must be contiguous in the storage.
func (x *torchTensor) elems() (int64, error) {
	n := int64(1)
	for i := len(x.shape) - 1; i >= 0; i-- {
		d := x.shape[i]
		if d != 1 && x.strides[i] != n {
			return 0, errors.New("it is a transposed or cut view; save it with .contiguous()")
		}
		if d < 1 || d > x.storage.elems/n {
			return 0, fmt.Errorf("shape %v does not fit a storage of %d elements", x.shape, x.storage.elems)
		}
		n *= d
	}
	if x.offset > x.storage.elems-n {
		return 0, fmt.Errorf("%d elements from %d on do not fit a storage of %d", n, x.offset, x.storage.elems)
	}
	return n, nil
}

// Close closes the file; tensors cannot be read afterwards.
func (t *Torch) Close() error { return t.file.Close() }
