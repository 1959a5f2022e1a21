package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// reader walks a file's bytes and remembers its position for errors. It checks every length against the rest before it
// reads or allocates anything.
type reader struct {
	path string
	data []byte
	at   int
	held int // bytes of memory that metadata takes so far
}

// maxHeld bounds the memory that a file's metadata may take. The largest vocabularies, of 262,144 tokens with scores
// and merges, take about 40 MiB.
const maxHeld = 512 << 20

// hold counts n things of size bytes each that what will keep in memory, before they are allocated.
func (r *reader) hold(n, size int, what string) error {
	if n > (maxHeld-r.held)/size {
		return r.fail(r.at, "%s makes the metadata larger than %d MiB in memory, more than any model needs; the file is damaged or not a model", what, maxHeld>>20)
	}
	r.held += n * size
	return nil
}

func (r *reader) fail(offset int, format string, args ...any) error {
	return fmt.Errorf("%s: offset %d: %s", r.path, offset, fmt.Sprintf(format, args...))
}

func (r *reader) left() int { return len(r.data) - r.at }

func (r *reader) take(n int, what string) ([]byte, error) {
	if n > r.left() {
		return nil, r.fail(r.at, "the file ends inside %s: %d bytes wanted, %d left; it is truncated or damaged: download it again", what, n, r.left())
	}
	b := r.data[r.at : r.at+n]
	r.at += n
	return b, nil
}

func (r *reader) u32(what string) (uint32, error) {
	b, err := r.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (r *reader) u64(what string) (uint64, error) {
	b, err := r.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads a number of items, each with at least size bytes in the rest of the file.
func (r *reader) count(size int, what string) (int, error) {
	at := r.at
	n, err := r.u64(what)
	if err != nil {
		return 0, err
	}
	if n > uint64(r.left()/size) {
		return 0, r.fail(at, "%s: a count of %d is more than the %d bytes left can hold; the file is truncated or damaged: download it again", what, n, r.left())
	}
	return int(n), nil
}

// name reads a text that must be UTF-8.
func (r *reader) name(what string) (string, error) {
	at := r.at
	s, err := r.text(what)
	if err == nil && !utf8.ValidString(s) {
		err = r.fail(at, "%s is not UTF-8", what)
	}
	return s, err
}

// text reads a text as it is stored: tokens may be parts of characters.
func (r *reader) text(what string) (string, error) {
	n, err := r.count(1, what)
	if err != nil {
		return "", err
	}
	if err := r.hold(n, 1, what); err != nil {
		return "", err
	}
	b, err := r.take(n, what)
	return string(b), err
}

// Metadata value types as numbered in the GGUF specification.
const (
	kindUint8 = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

// kindSize returns the least size of a value in bytes.
func kindSize(kind uint32) (int, bool) {
	switch kind {
	case kindUint8, kindInt8, kindBool:
		return 1, true
	case kindUint16, kindInt16:
		return 2, true
	case kindUint32, kindInt32, kindFloat32:
		return 4, true
	case kindUint64, kindInt64, kindFloat64, kindString:
		return 8, true
	case kindArray:
		return 12, true
	}
	return 0, false
}

// maxDepth bounds arrays within arrays.
const maxDepth = 4

// value reads a value of the given type; what names its key in errors.
func (r *reader) value(kind uint32, what string, depth int) (any, error) {
	at := r.at
	switch kind {
	case kindString:
		s, err := r.text(what)
		if depth == 0 && !utf8.ValidString(s) { // descriptions are in any encoding
			s = strings.ToValidUTF8(s, "\uFFFD")
			err = cmp.Or(err, r.hold(len(s), 1, what))
		}
		return s, err
	case kindArray:
		return r.array(what, depth)
	}
	size, ok := kindSize(kind)
	if !ok {
		return nil, r.fail(at, "%s has value type %d, which GGUF does not have", what, kind)
	}
	b, err := r.take(size, what)
	if err != nil {
		return nil, err
	}
	switch kind {
	case kindUint8:
		return b[0], nil
	case kindInt8:
		return int8(b[0]), nil
	case kindBool:
		if b[0] > 1 {
			return nil, r.fail(at, "%s is a bool of value %d", what, b[0])
		}
		return b[0] == 1, nil
	case kindUint16:
		return binary.LittleEndian.Uint16(b), nil
	case kindInt16:
		return int16(binary.LittleEndian.Uint16(b)), nil
	case kindUint32:
		return binary.LittleEndian.Uint32(b), nil
	case kindInt32:
		return int32(binary.LittleEndian.Uint32(b)), nil
	case kindFloat32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
	case kindUint64:
		return binary.LittleEndian.Uint64(b), nil
	case kindInt64:
		return int64(binary.LittleEndian.Uint64(b)), nil
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

func (r *reader) array(what string, depth int) (any, error) {
	at := r.at
	if depth >= maxDepth {
		return nil, r.fail(at, "%s nests arrays more than %d deep", what, maxDepth)
	}
	kind, err := r.u32(what)
	if err != nil {
		return nil, err
	}
	size, ok := kindSize(kind)
	if !ok {
		return nil, r.fail(at, "%s is an array of type %d, which GGUF does not have", what, kind)
	}
	n, err := r.count(size, what)
	if err != nil {
		return nil, err
	}
	switch kind {
	case kindUint8:
		return numbers[uint8](r, n, size, what)
	case kindInt8:
		return numbers[int8](r, n, size, what)
	case kindUint16:
		return numbers[uint16](r, n, size, what)
	case kindInt16:
		return numbers[int16](r, n, size, what)
	case kindUint32:
		return numbers[uint32](r, n, size, what)
	case kindInt32:
		return numbers[int32](r, n, size, what)
	case kindFloat32:
		return numbers[float32](r, n, size, what)
	case kindUint64:
		return numbers[uint64](r, n, size, what)
	case kindInt64:
		return numbers[int64](r, n, size, what)
	case kindFloat64:
		return numbers[float64](r, n, size, what)
	case kindBool:
		return list[bool](r, kind, n, what, depth)
	case kindString:
		return list[string](r, kind, n, what, depth)
	}
	return list[any](r, kind, n, what, depth)
}

// numbers reads n numbers of size bytes each at once; count has checked that they exist.
func numbers[T any](r *reader, n, size int, what string) ([]T, error) {
	if err := r.hold(n, size, what); err != nil {
		return nil, err
	}
	b, err := r.take(n*size, what)
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
		panic(err) // T is a fixed-size number and b is as long as out
	}
	return out, nil
}

// list reads n values one by one, because each is checked or has its own length.
func list[T any](r *reader, kind uint32, n int, what string, depth int) ([]T, error) {
	var element T
	if err := r.hold(n, int(unsafe.Sizeof(element)), what); err != nil {
		return nil, err
	}
	out := make([]T, n)
	for i := range out {
		v, err := r.value(kind, what, depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = v.(T)
	}
	return out, nil
}
