package gguf

import (
	"fmt"
	"math"
	"math/bits"
	"sort"

	"github.com/powerinfer-go/powerinfer/internal/filekind"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Limits of the format, and sensible ones.
const (
	maxDims          = 4
	maxName          = 256 // the specification says 64; longer names occur
	maxKey           = 65535
	maxElems         = math.MaxInt64 / 8 // of a tensor; no type stores more than 8 bytes an element
	defaultAlignment = 32
	maxAlignment     = 1 << 24
	leastKV          = 8 + 4 + 1         // key length, type, value
	leastTensor      = 8 + 4 + 8 + 4 + 8 // name length, dims, one dim, type, offset
	keyBytes         = 128               // about, for a key in memory with its place in the index
	tensorBytesHeld  = 256               // about, for a tensor's description in memory
)

// header reads everything before the tensors' data.
func (f *File) header(r *reader) ([]info, error) {
	f.Magic = string(r.data[:min(len(r.data), 4)])
	if f.Magic != "GGUF" && f.Magic != "PWRI" {
		if what := filekind.Wrong(r.data); what != "" {
			return nil, fmt.Errorf("%s: %s", r.path, what)
		}
		return nil, fmt.Errorf("%s: this is no GGUF file: it begins with %q", r.path, f.Magic)
	}
	r.at = len(f.Magic)
	var err error
	if f.Version, err = r.u32("the version"); err != nil {
		return nil, err
	}
	switch {
	case f.Version == 1:
		return nil, r.fail(4, "GGUF version 1 is not supported; convert the model again")
	case f.Version != 2 && f.Version != 3 && f.Version != 0 && bits.ReverseBytes32(f.Version) < 16:
		return nil, r.fail(4, "big-endian GGUF files are not supported")
	case f.Version != 2 && f.Version != 3:
		return nil, r.fail(4, "GGUF version %d is not supported; 2 and 3 are", f.Version)
	}
	tensors, err := r.count(leastTensor, "the number of tensors")
	if err != nil {
		return nil, err
	}
	keys, err := r.count(leastKV, "the number of keys")
	if err != nil {
		return nil, err
	}
	if err := r.hold(keys, keyBytes, "the number of keys"); err != nil {
		return nil, err
	}
	for range keys {
		if err := f.key(r); err != nil {
			return nil, err
		}
	}
	if err := f.alignment(); err != nil {
		return nil, err
	}
	if err := r.hold(tensors, tensorBytesHeld, "the number of tensors"); err != nil {
		return nil, err
	}
	var infos []info
	for range tensors {
		t, err := f.tensorInfo(r)
		if err != nil {
			return nil, err
		}
		infos = append(infos, t)
	}
	return infos, nil
}

func (f *File) key(r *reader) error {
	at := r.at
	key, err := r.name("a key")
	if err != nil {
		return err
	}
	if key == "" || len(key) > maxKey {
		return r.fail(at, "a key of %d bytes", len(key))
	}
	if _, ok := f.index[key]; ok {
		return r.fail(at, "key %q occurs twice", clip(key))
	}
	what := fmt.Sprintf("key %q", clip(key))
	kind, err := r.u32(what)
	if err != nil {
		return err
	}
	v, err := r.value(kind, what, 0)
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

// info is a tensor without its data.
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
	name, err := r.name("a tensor's name")
	if err != nil {
		return info{}, err
	}
	if name == "" || len(name) > maxName {
		return fail(clip(name), "a name of %d bytes", len(name))
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
	for i := range t.Shape {
		d, err := r.u64(what)
		if err != nil {
			return info{}, err
		}
		if d == 0 || d > maxElems {
			return fail(name, "dimension %d is %d; the file is damaged", i, d)
		}
		t.Shape[i] = int(d)
	}
	kind, err := r.u32(what)
	if err != nil {
		return info{}, err
	}
	t.Type = quant.Type(kind)
	size, err := tensorBytes(t.Type, t.Shape)
	if err != nil {
		return fail(name, "%v", err)
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
	return info{t: t, at: at, offset: offset, bytes: size}, nil
}

// tensorBytes returns the stored size of a tensor, or an error about its type or shape.
func tensorBytes(t quant.Type, shape []int) (int, error) {
	if !t.InFiles() {
		return 0, fmt.Errorf("its elements are of %s, which is not supported: take the model in another type; supported are %s", t, quant.Supported())
	}
	if len(shape) < 1 || len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions, not 1 to %d", len(shape), maxDims)
	}
	elems := uint64(1)
	for _, d := range shape {
		if d <= 0 {
			return 0, fmt.Errorf("shape %v has an empty dimension", shape)
		}
		hi, lo := bits.Mul64(elems, uint64(d))
		if hi != 0 || lo > maxElems {
			return 0, fmt.Errorf("shape %v has too many elements", shape)
		}
		elems = lo
	}
	if shape[0]%t.BlockElems() != 0 {
		return 0, fmt.Errorf("rows of %d elements are not whole blocks of %d (%s): choose another type for it, or the file is damaged", shape[0], t.BlockElems(), t)
	}
	return int(elems) / t.BlockElems() * t.BlockBytes(), nil
}

// clip shortens a name from a file so that it fits a one-line message.
func clip(s string) string { return s[:min(len(s), 64)] }

// place takes every tensor's data from the file. The file must hold it, and no two tensors may overlap.
func (f *File) place(r *reader, infos []info) error {
	if len(infos) == 0 {
		return nil
	}
	start := (uint64(r.at) + f.Alignment - 1) &^ (f.Alignment - 1)
	size := uint64(len(r.data))
	for _, n := range infos {
		if start > size || n.offset > size-start || uint64(n.bytes) > size-start-n.offset {
			return r.fail(n.at, "tensor %q: %d bytes at data offset %d reach beyond the file's end; %s", n.t.Name, n.bytes, n.offset, misplaced(n.t.Type, "the file is truncated or damaged: download it again"))
		}
		at := start + n.offset
		n.t.Offset = int64(at)
		n.t.Data = r.data[at : at+uint64(n.bytes) : at+uint64(n.bytes)]
	}
	sort.SliceStable(infos, func(i, j int) bool { return infos[i].offset < infos[j].offset })
	for i := 1; i < len(infos); i++ {
		a, b := infos[i-1], infos[i]
		if a.offset+uint64(a.bytes) > b.offset {
			return r.fail(b.at, "tensor %q overlaps tensor %q; %s", b.t.Name, a.t.Name, misplaced(a.t.Type, "the file is damaged"))
		}
	}
	return nil
}

// misplaced returns reason, why a tensor takes more bytes than the file has for it, with another possible cause for
// type t.
func misplaced(t quant.Type, reason string) string {
	if t == quant.Q2_0 {
		return reason + ", or has Q2_0 in blocks of 128, from before llama.cpp had the type: take a file in blocks of 64, or quantize one in F16"
	}
	return reason
}
