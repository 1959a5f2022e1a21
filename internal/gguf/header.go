package gguf

import (
	"fmt"
	"math"
	"math/bits"
	"sort"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Limits of the format and of what is sensible.
const (
	maxDims          = 4
	maxName          = 256 // the specification says 64; longer names occur
	maxKey           = 65535
	defaultAlignment = 32
	maxAlignment     = 1 << 24
	leastKV          = 8 + 4 + 1         // key length, type, value
	leastTensor      = 8 + 4 + 8 + 4 + 8 // name length, dims, one dim, type, offset
)

func (f *File) header(r *reader) error {
	magic, err := r.take(4, "the magic")
	if err != nil {
		return err
	}
	f.Magic = string(magic)
	if f.Magic != "GGUF" && f.Magic != "PWRI" {
		return r.fail(0, "magic %q is neither GGUF nor PWRI: this is no GGUF file", f.Magic)
	}
	if f.Version, err = r.u32("the version"); err != nil {
		return err
	}
	switch {
	case f.Version == 1:
		return r.fail(4, "GGUF version 1 is not supported; convert the model again")
	case f.Version != 2 && f.Version != 3 && bits.ReverseBytes32(f.Version) < 16:
		return r.fail(4, "big-endian GGUF files are not supported")
	case f.Version != 2 && f.Version != 3:
		return r.fail(4, "GGUF version %d is not supported; 2 and 3 are", f.Version)
	}
	tensors, err := r.count(leastTensor, "the number of tensors")
	if err != nil {
		return err
	}
	keys, err := r.count(leastKV, "the number of keys")
	if err != nil {
		return err
	}
	for range keys {
		if err := f.key(r); err != nil {
			return err
		}
	}
	if err := f.alignment(); err != nil {
		return err
	}
	var infos []info
	for range tensors {
		t, err := f.tensorInfo(r)
		if err != nil {
			return err
		}
		infos = append(infos, t)
	}
	return f.place(r, infos)
}

func (f *File) key(r *reader) error {
	at := r.at
	key, err := r.text("a key")
	if err != nil {
		return err
	}
	if key == "" || len(key) > maxKey {
		return r.fail(at, "a key of %d bytes", len(key))
	}
	if _, ok := f.index[key]; ok {
		return r.fail(at, "key %q occurs twice", key)
	}
	kind, err := r.u32(fmt.Sprintf("key %q", key))
	if err != nil {
		return err
	}
	v, err := r.value(kind, key, 0)
	if err != nil {
		return err
	}
	f.index[key] = len(f.Keys)
	f.Keys = append(f.Keys, KV{key, v})
	return nil
}

func (f *File) alignment() error {
	a, ok, err := f.Uint("general.alignment")
	if err != nil {
		return err
	}
	if !ok {
		a = defaultAlignment
	}
	if a == 0 || a&(a-1) != 0 || a > maxAlignment {
		return fmt.Errorf("%s: key \"general.alignment\": %d is not a power of two up to %d", f.Path, a, maxAlignment)
	}
	f.Alignment = a
	return nil
}

// info is a tensor whose data has not been placed yet.
type info struct {
	t      *Tensor
	at     int    // of the description, for messages
	offset uint64 // from the start of tensor data
	bytes  int
}

func (f *File) tensorInfo(r *reader) (info, error) {
	at := r.at
	fail := func(name, format string, args ...any) (info, error) {
		return info{}, r.fail(at, "tensor %q: %s", name, fmt.Sprintf(format, args...))
	}
	name, err := r.text("a tensor's name")
	if err != nil {
		return info{}, err
	}
	if name == "" || len(name) > maxName {
		return fail(name[:min(len(name), 64)], "a name of %d bytes", len(name))
	}
	if f.tensors[name] != nil {
		return fail(name, "the name occurs twice")
	}
	what := fmt.Sprintf("tensor %q", name)
	dims, err := r.u32(what)
	if err != nil {
		return info{}, err
	}
	if dims < 1 || dims > maxDims {
		return fail(name, "%d dimensions, not 1 to %d", dims, maxDims)
	}
	t := &Tensor{Name: name, Shape: make([]int, dims)}
	elems := uint64(1)
	for i := range t.Shape {
		d, err := r.u64(what)
		if err != nil {
			return info{}, err
		}
		hi, lo := bits.Mul64(elems, d)
		if d == 0 || hi != 0 || lo > math.MaxInt64/8 {
			return fail(name, "dimension %d is %d", i, d)
		}
		elems = lo
		t.Shape[i] = int(d)
	}
	kind, err := r.u32(what)
	if err != nil {
		return info{}, err
	}
	t.Type = quant.Type(kind)
	if !t.Type.Known() {
		return fail(name, "type %s is not supported; supported are %s", t.Type, quant.Supported())
	}
	if t.Shape[0]%t.Type.BlockElems() != 0 {
		return fail(name, "rows of %d elements are not whole blocks of %d (%s)", t.Shape[0], t.Type.BlockElems(), t.Type)
	}
	offset, err := r.u64(what)
	if err != nil {
		return info{}, err
	}
	if offset%f.Alignment != 0 {
		return fail(name, "data offset %d is not a multiple of the alignment %d", offset, f.Alignment)
	}
	f.tensors[name] = t
	f.Tensors = append(f.Tensors, t)
	return info{t: t, at: at, offset: offset, bytes: int(elems / uint64(t.Type.BlockElems()) * uint64(t.Type.BlockBytes()))}, nil
}

// place cuts every tensor's data out of the file, which must hold it, and no two may overlap.
func (f *File) place(r *reader, infos []info) error {
	if len(infos) == 0 {
		return nil
	}
	start := (uint64(r.at) + f.Alignment - 1) &^ (f.Alignment - 1)
	size := uint64(len(r.data))
	for _, n := range infos {
		if start > size || n.offset > size-start || uint64(n.bytes) > size-start-n.offset {
			return r.fail(n.at, "tensor %q: %d bytes at data offset %d reach beyond the file's end; the file is truncated or damaged", n.t.Name, n.bytes, n.offset)
		}
		at := start + n.offset
		n.t.Offset = int64(at)
		n.t.Data = r.data[at : at+uint64(n.bytes) : at+uint64(n.bytes)]
	}
	sort.SliceStable(infos, func(i, j int) bool { return infos[i].offset < infos[j].offset })
	for i := 1; i < len(infos); i++ {
		a, b := infos[i-1], infos[i]
		if a.offset+uint64(a.bytes) > b.offset {
			return r.fail(b.at, "tensor %q overlaps tensor %q", b.t.Name, a.t.Name)
		}
	}
	return nil
}
