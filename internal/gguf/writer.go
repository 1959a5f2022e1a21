package gguf

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Source is a tensor to be written. Write streams exactly its bytes, rows in order.
type Source struct {
	Name  string
	Type  quant.Type
	Shape []int // Shape[0] is the row length
	Write func(w io.Writer) error
}

// Part is a file to write: a whole model, or one part of a split one.
type Part struct {
	Path    string
	Keys    []KV
	Tensors []Source
}

// Create writes a version 3 file, aligned as the key general.alignment says. It appears under its name when it is
// complete, and whatever atomicfile.Create refuses is refused before anything is written. Keys or tensors that Parse
// would refuse are an error. If ctx ends, Create returns its error and leaves nothing. progress may be nil; it gets
// bytes of tensor data.
func Create(ctx context.Context, path, magic string, keys []KV, tensors []Source, progress func(done, total int64)) error {
	return CreateParts(ctx, magic, []Part{{path, keys, tensors}}, progress)
}

// CreateParts is Create of several files. They appear when all are complete: all or none.
func CreateParts(ctx context.Context, magic string, parts []Part, progress func(done, total int64)) error {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Tensors = written(parts[i].Keys, parts[i].Tensors)
	}
	var files []*atomicfile.File
	var sizes []int64
	var total int64
	for _, p := range parts {
		f, err := atomicfile.Create(p.Path, contentKind(p.Keys, p.Tensors))
		if err != nil {
			return err
		}
		defer f.Abort()
		size, err := tensorsBytes(p.Tensors)
		if err != nil {
			return atomicfile.Writing(p.Path, err)
		}
		files, sizes, total = append(files, f), append(sizes, size), total+size
	}
	for i, f := range files {
		if err := f.Room(total); err != nil {
			return atomicfile.Writing(parts[i].Path, err)
		}
	}
	var before int64
	for i, p := range parts {
		told := func(done, _ int64) {
			if progress != nil {
				progress(before+done, total)
			}
		}
		err := fault.Guard(func() error { return write(ctx, files[i], magic, p.Keys, p.Tensors, told) })
		if err != nil {
			return atomicfile.Writing(p.Path, err)
		}
		before += sizes[i]
	}
	return atomicfile.Commit(files...)
}

// tensorsBytes returns the bytes of all tensors' data.
func tensorsBytes(tensors []Source) (size int64, err error) {
	for i := range tensors {
		n, err := tensorBytes(tensors[i].Type, tensors[i].Shape)
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %w", tensors[i].Name, err)
		}
		size += int64(n)
	}
	return size, nil
}

// counter counts the bytes that pass through it, and those of tensors.
type counter struct {
	ctx         context.Context
	w           io.Writer
	n           int64
	done, total int64 // bytes of tensor data
	progress    func(done, total int64)
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// data takes a tensor's bytes. After every piece it reports progress and checks the context, because a tensor may have
// gigabytes.
type data struct{ *counter }

func (d data) Write(b []byte) (int, error) {
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := d.counter.Write(b)
	d.done += int64(n)
	if d.progress != nil {
		d.progress(min(d.done, d.total), d.total)
	}
	return n, err
}

func write(ctx context.Context, w io.Writer, magic string, keys []KV, tensors []Source, progress func(done, total int64)) error {
	head, alignment, err := encodeHeader(magic, keys, tensors)
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(w, 1<<20)
	c := &counter{ctx: ctx, w: buf, progress: progress}
	for i := range tensors {
		c.total += int64(tensors[i].bytes())
	}
	if _, err := c.Write(head); err != nil {
		return err
	}
	for i := range tensors {
		t := &tensors[i]
		if _, err := c.Write(make([]byte, pad(c.n, alignment)-c.n)); err != nil {
			return err
		}
		before, size := c.n, int64(t.bytes())
		if err := t.Write(data{c}); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if c.n-before != size {
			return fmt.Errorf("tensor %q: %d bytes were written, not %d", t.Name, c.n-before, size)
		}
	}
	if _, err := c.Write(make([]byte, pad(c.n, alignment)-c.n)); err != nil {
		return err
	}
	return buf.Flush()
}

// bytes returns the tensor's stored size; encodeHeader has refused shapes that have none.
func (s *Source) bytes() int {
	n, err := tensorBytes(s.Type, s.Shape)
	if err != nil {
		panic(err)
	}
	return n
}

// Layout returns how Create would write a file, for callers that write it piece by piece: everything before the
// tensors' data, with its padding; where the data of each tensor begins; and the file's size. Zeros follow the data of
// each up to the next multiple of the alignment.
func Layout(magic string, keys []KV, tensors []Source) (head []byte, offsets []int64, size int64, err error) {
	head, alignment, err := encodeHeader(magic, keys, tensors)
	if err != nil {
		return nil, nil, 0, err
	}
	head = append(head, make([]byte, pad(int64(len(head)), alignment)-int64(len(head)))...)
	size = int64(len(head))
	for i := range tensors {
		offsets = append(offsets, size)
		size += pad(int64(tensors[i].bytes()), alignment)
	}
	return head, offsets, size, nil
}

// encodeHeader makes everything before the tensors' data, and parses it, so that nothing is written that Parse refuses.
func encodeHeader(magic string, keys []KV, tensors []Source) (head []byte, alignment int64, err error) {
	f := &File{Path: "header", index: map[string]int{}, tensors: map[string]*Tensor{}}
	for i, kv := range keys {
		f.Keys = append(f.Keys, kv)
		f.index[kv.Key] = i
	}
	if err := f.alignment(); err != nil {
		return nil, 0, err
	}
	alignment = int64(f.Alignment)
	head = append([]byte(magic), 3, 0, 0, 0)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(keys)))
	for _, kv := range keys {
		head = appendText(head, kv.Key)
		if head, err = appendValue(head, kv.Value); err != nil {
			return nil, 0, fmt.Errorf("key %q: %w", kv.Key, err)
		}
	}
	var at int64
	for i := range tensors {
		t := &tensors[i]
		size, err := tensorBytes(t.Type, t.Shape)
		if err != nil {
			return nil, 0, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if int64(size) > math.MaxInt64-alignment-at {
			return nil, 0, fmt.Errorf("tensor %q: the file would be too large", t.Name)
		}
		head = appendText(head, t.Name)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(t.Shape)))
		for _, d := range t.Shape {
			head = binary.LittleEndian.AppendUint64(head, uint64(d))
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(t.Type))
		head = binary.LittleEndian.AppendUint64(head, uint64(at))
		at = pad(at+int64(size), alignment)
	}
	back := &File{Path: "header", index: map[string]int{}, tensors: map[string]*Tensor{}}
	_, err = back.header(&reader{path: "header", data: head})
	return head, alignment, err
}

func pad(n, alignment int64) int64 { return (n + alignment - 1) / alignment * alignment }

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func appendValue(b []byte, v any) ([]byte, error) {
	kind, ok := kindOf(reflect.TypeOf(v))
	if !ok {
		return nil, fmt.Errorf("a %T cannot be stored", v)
	}
	return appendPlain(binary.LittleEndian.AppendUint32(b, kind), kind, reflect.ValueOf(v))
}

// kindOf maps Go types to GGUF's value types.
func kindOf(t reflect.Type) (uint32, bool) {
	if t == nil {
		return 0, false
	}
	kind, ok := map[reflect.Kind]uint32{
		reflect.Uint8: kindUint8, reflect.Int8: kindInt8, reflect.Uint16: kindUint16, reflect.Int16: kindInt16,
		reflect.Uint32: kindUint32, reflect.Int32: kindInt32, reflect.Uint64: kindUint64, reflect.Int64: kindInt64,
		reflect.Float32: kindFloat32, reflect.Float64: kindFloat64, reflect.Bool: kindBool, reflect.String: kindString,
		reflect.Slice: kindArray,
	}[t.Kind()]
	return kind, ok
}

func appendPlain(b []byte, kind uint32, v reflect.Value) ([]byte, error) {
	switch kind {
	case kindUint8:
		return append(b, byte(v.Uint())), nil
	case kindInt8:
		return append(b, byte(v.Int())), nil
	case kindUint16:
		return binary.LittleEndian.AppendUint16(b, uint16(v.Uint())), nil
	case kindInt16:
		return binary.LittleEndian.AppendUint16(b, uint16(v.Int())), nil
	case kindUint32:
		return binary.LittleEndian.AppendUint32(b, uint32(v.Uint())), nil
	case kindInt32:
		return binary.LittleEndian.AppendUint32(b, uint32(v.Int())), nil
	case kindUint64:
		return binary.LittleEndian.AppendUint64(b, v.Uint()), nil
	case kindInt64:
		return binary.LittleEndian.AppendUint64(b, uint64(v.Int())), nil
	case kindFloat32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v.Float()))), nil
	case kindFloat64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float())), nil
	case kindBool:
		if v.Bool() {
			return append(b, 1), nil
		}
		return append(b, 0), nil
	case kindString:
		return appendText(b, v.String()), nil
	}
	return appendArray(b, v)
}

func appendArray(b []byte, v reflect.Value) ([]byte, error) {
	kind, ok := kindOf(v.Type().Elem())
	if v.Type().Elem().Kind() == reflect.Interface { // an array of arrays
		kind, ok = kindArray, true
	}
	if !ok {
		return nil, fmt.Errorf("an array of %s cannot be stored", v.Type().Elem())
	}
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(v.Len()))
	var err error
	for i := range v.Len() {
		e := v.Index(i)
		if e.Kind() == reflect.Interface {
			e = e.Elem()
			if e.Kind() != reflect.Slice {
				return nil, fmt.Errorf("an array of mixed values cannot be stored")
			}
		}
		if b, err = appendPlain(b, kind, e); err != nil {
			return nil, err
		}
	}
	return b, nil
}
