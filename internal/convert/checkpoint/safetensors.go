package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// maxHeader is the format's own limit on the length of a file's JSON header, in bytes.
const maxHeader = 100_000_000

// element describes a safetensors dtype.
type element struct {
	bytes   int // size of one element
	typ     quant.Type
	weights bool // the converter reads it; other dtypes are accepted for tensors that are not weights
}

func elements() map[string]element {
	return map[string]element{
		"F32": {4, quant.F32, true}, "F16": {2, quant.F16, true}, "BF16": {2, quant.BF16, true},
		"F64": {bytes: 8}, "I64": {bytes: 8}, "U64": {bytes: 8}, "I32": {bytes: 4}, "U32": {bytes: 4},
		"I16": {bytes: 2}, "U16": {bytes: 2}, "I8": {bytes: 1}, "U8": {bytes: 1}, "BOOL": {bytes: 1},
		"F8_E4M3": {bytes: 1}, "F8_E5M2": {bytes: 1}, "F8_E8M0": {bytes: 1},
	}
}

// Tensor is a tensor of a file, rows outermost. It can be read until its file is closed.
type Tensor struct {
	Name   string
	DType  string // as safetensors names it: F32, BF16, …
	Shape  []int  // outermost dimension first
	Offset int64  // of the first byte, from the start of the file
	Bytes  int64
	file   *shard
	packed bool       // the file has fewer bits of each element
	blocks bool       // the elements are in blocks of typ
	typ    quant.Type // of blocks
}

// Path returns the name of t's file, for messages.
func (t *Tensor) Path() string { return t.file.path }

// Type returns the element type of a tensor that holds weights; ok is false for other dtypes.
func (t *Tensor) Type() (typ quant.Type, ok bool) {
	if t.blocks {
		return t.typ, true
	}
	e := elements()[t.DType]
	return e.typ, e.weights
}

// Packed reports whether the file has fewer bits of each element of t than t's type. See Checkpoint.Unpack.
func (t *Tensor) Packed() bool { return t.packed }

// ReadAt fills b with t's bytes from offset on, which counts from t's first byte. Errors name the file, the offset and
// the tensor.
func (t *Tensor) ReadAt(b []byte, offset int64) error {
	if _, err := t.file.r.ReadAt(b, t.Offset+offset); err != nil {
		return fmt.Errorf("%s: offset %d: tensor %q: %w", t.file.path, t.Offset+offset, t.Name, err)
	}
	return nil
}

// shard is one open file of tensors.
type shard struct {
	path string
	r    io.ReaderAt
}

// readHeader reads the header of a safetensors file of size bytes and checks it: every tensor is inside the file, has
// as many bytes as its shape says, and tensors cover the data section without overlap or hole. Tensors come in the
// order of their data.
//
// Source: the format's description, https://huggingface.co/docs/safetensors.
func readHeader(s *shard, size int64) ([]Tensor, error) {
	fail := func(offset int64, format string, args ...any) error {
		return fmt.Errorf("%s: offset %d: %s", s.path, offset, fmt.Sprintf(format, args...))
	}
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, fail(0, "the file has %d bytes, a safetensors file at least 8; download it again", size)
	}
	if _, err := s.r.ReadAt(prefix[:], 0); err != nil {
		return nil, fail(0, "%v", err)
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader || n > uint64(size)-8 {
		return nil, fail(0, "a header of %d bytes does not fit the file's %d (limit %d); it is truncated or not safetensors", n, size, maxHeader)
	}
	header := make([]byte, n)
	if _, err := s.r.ReadAt(header, 8); err != nil {
		return nil, fail(8, "%v", err)
	}
	tensors, err := parseHeader(s, header, fail)
	if err != nil {
		return nil, err
	}
	data := 8 + int64(n)
	return tensors, place(tensors, data, size-data, fail)
}

type failure func(offset int64, format string, args ...any) error

// parseHeader decodes the JSON object of tensors; offsets are still relative to the data section.
func parseHeader(s *shard, header []byte, fail failure) ([]Tensor, error) {
	dec := json.NewDecoder(bytes.NewReader(header))
	at := func() int64 { return 8 + dec.InputOffset() }
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, fail(8, "the header is not a JSON object")
	}
	var tensors []Tensor
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		name, ok := tok.(string)
		if err != nil || !ok {
			return nil, fail(at(), "the header is damaged: %v", err)
		}
		if seen[name] {
			return nil, fail(at(), "tensor %q occurs twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			var notes map[string]string
			if err := dec.Decode(&notes); err != nil {
				return nil, fail(at(), "key %q: %v", name, err)
			}
			continue
		}
		var entry struct {
			Dtype   string   `json:"dtype"`
			Shape   []uint64 `json:"shape"`
			Offsets []uint64 `json:"data_offsets"`
		}
		if err := dec.Decode(&entry); err != nil {
			return nil, fail(at(), "tensor %q: %v", name, err)
		}
		t := Tensor{Name: name, DType: entry.Dtype, file: s}
		if err := t.measure(entry.Shape, entry.Offsets); err != nil {
			return nil, fail(at(), "tensor %q: %v", name, err)
		}
		tensors = append(tensors, t)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fail(at(), "the header is damaged: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fail(at(), "the header goes on after its JSON object")
	}
	return tensors, nil
}

// measure checks shape, dtype and data range against each other and fills them in.
func (t *Tensor) measure(shape, offsets []uint64) error {
	e, ok := elements()[t.DType]
	if !ok {
		return fmt.Errorf("dtype %q is not supported; supported are F32, F16, BF16", t.DType)
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] || offsets[1] > 1<<62 {
		return fmt.Errorf("data_offsets %v are not a range", offsets)
	}
	size := uint64(e.bytes)
	for _, d := range shape {
		hi, lo := bits.Mul64(size, d)
		if hi != 0 || lo > 1<<62 || d > 1<<31-1 {
			return fmt.Errorf("shape %v is too large", shape)
		}
		size = lo
		t.Shape = append(t.Shape, int(d))
	}
	if got := offsets[1] - offsets[0]; got != size {
		return fmt.Errorf("shape %v of %s needs %d bytes, data_offsets give %d", shape, t.DType, size, got)
	}
	t.Offset, t.Bytes = int64(offsets[0]), int64(size)
	return nil
}

// place moves offsets to the file's start and checks that the tensors tile the data section of length bytes.
func place(tensors []Tensor, start, length int64, fail failure) error {
	slices.SortStableFunc(tensors, func(a, b Tensor) int {
		if a.Offset != b.Offset {
			return cmp.Compare(a.Offset, b.Offset)
		}
		return cmp.Compare(a.Bytes, b.Bytes)
	})
	var end int64
	for i := range tensors {
		t := &tensors[i]
		switch {
		case t.Bytes > length || t.Offset > length-t.Bytes:
			return fail(start, "tensor %q ends %d bytes past the end of the file; it is truncated, download it again",
				t.Name, t.Offset+t.Bytes-length)
		case t.Offset < end:
			return fail(start+t.Offset, "tensor %q overlaps tensor %q", t.Name, tensors[i-1].Name)
		case t.Offset > end:
			return fail(start+end, "%d bytes before tensor %q belong to no tensor", t.Offset-end, t.Name)
		}
		end = t.Offset + t.Bytes
		t.Offset += start
	}
	if end != length {
		return fail(start+end, "%d bytes after the last tensor belong to none", length-end)
	}
	return nil
}
