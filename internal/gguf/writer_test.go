package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// bytesOf returns a tensor source of given bytes.
func bytesOf(name string, t quant.Type, shape []int, data []byte) Source {
	return Source{name, t, shape, func(w io.Writer) error { _, err := w.Write(data); return err }}
}

var allKinds = []KV{
	{"u8", uint8(255)},
	{"i8", int8(-128)},
	{"u16", uint16(65535)},
	{"i16", int16(-32768)},
	{"u32", uint32(math.MaxUint32)},
	{"i32", int32(math.MinInt32)},
	{"u64", uint64(math.MaxUint64)},
	{"i64", int64(math.MinInt64)},
	{"f32", float32(1.5)},
	{"f64", -2.25e300},
	{"bool", true},
	{"string", "Rüben — 甜菜\n"},
	{"u8s", []uint8{1, 2}},
	{"i8s", []int8{-1, 2}},
	{"u16s", []uint16{1, 65535}},
	{"i16s", []int16{-1}},
	{"u32s", []uint32{7}},
	{"i32s", []int32{-7, 8}},
	{"u64s", []uint64{1 << 63}},
	{"i64s", []int64{-1 << 63}},
	{"f32s", []float32{0.5, float32(math.Inf(1))}},
	{"f64s", []float64{0.1}},
	{"bools", []bool{true, false}},
	{"strings", []string{"", "a"}},
	{"none", []string{}},
	{"nested", []any{[]int32{1}, []string{"x", "y"}, []any{[]bool{true}}}},
}

// TestCreate writes each value type and tensor type and opens what was written.
func TestCreate(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	types := append(quant.Types(), quant.I32)
	for _, magic := range []string{"GGUF", "PWRI"} {
		for _, alignment := range []uint32{0, 1, 8, 4096} {
			keys, wantAlignment := allKinds, uint64(32)
			if alignment != 0 {
				keys, wantAlignment = append(keys[:len(keys):len(keys)], KV{"general.alignment", alignment}), uint64(alignment)
			}
			var in []Source
			want := map[string][]byte{}
			var sum int64
			for i, typ := range types {
				name, shape := fmt.Sprintf("blk.%d.weight", i), []int{256 * (1 + i%2), 3, 2}[:1+i%3]
				data := make([]byte, typ.RowBytes(shape[0]))
				for _, d := range shape[1:] {
					data = append(data, bytes.Repeat(data, d-1)...)
				}
				for j := range data {
					data[j] = byte(rng.Uint32())
				}
				want[name] = data
				sum += int64(len(data))
				in = append(in, bytesOf(name, typ, shape, data))
			}
			path := filepath.Join(t.TempDir(), "m.gguf")
			var done, total int64
			if err := Create(t.Context(), path, magic, keys, in, func(d, n int64) { done, total = d, n }); err != nil {
				t.Fatal(err)
			}
			if done != sum || total != sum {
				t.Errorf("progress ended at %d of %d, not %d", done, total, sum)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatalf("alignment %d: %v", alignment, err)
			}
			if f.Magic != magic || f.Version != 3 || f.Alignment != wantAlignment {
				t.Errorf("%s version %d alignment %d", f.Magic, f.Version, f.Alignment)
			}
			if !reflect.DeepEqual(f.Keys, keys) {
				t.Errorf("keys became %#v", f.Keys)
			}
			for i, s := range in {
				x := f.Tensors[i]
				if x.Name != s.Name || x.Type != s.Type || !reflect.DeepEqual(x.Shape, s.Shape) || !bytes.Equal(x.Data, want[s.Name]) || f.Tensor(s.Name) != x {
					t.Errorf("seed %d: tensor %q came back different", seed, s.Name)
				}
				if x.Offset%int64(f.Alignment) != 0 {
					t.Errorf("tensor %q lies at %d, not aligned to %d", x.Name, x.Offset, f.Alignment)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCreateRefuses: files that Parse would refuse are not written, and an older file stays unchanged, without
// temporary files.
func TestCreateRefuses(t *testing.T) {
	f32 := func(shape ...int) []Source { return []Source{bytesOf("w", quant.F32, shape, make([]byte, 16))} }
	vast := f32(1 << 59)[0] // 2^61 bytes: four pass what a file's offsets can say
	broken := errors.New("the disk of the source broke")
	for name, c := range map[string]struct {
		magic   string
		keys    []KV
		tensors []Source
		want    string
	}{
		"magic":              {"GGML", nil, nil, `it begins with "GGML"`},
		"long magic":         {"GGUF3", nil, nil, "version"},
		"duplicate key":      {"GGUF", []KV{{"a", true}, {"a", true}}, nil, `key "a" occurs twice`},
		"int":                {"GGUF", []KV{{"a", 1}}, nil, `key "a": a int cannot be stored`},
		"nil":                {"GGUF", []KV{{"a", nil}}, nil, `key "a": a <nil> cannot be stored`},
		"ints":               {"GGUF", []KV{{"a", []int{1}}}, nil, `key "a": an array of int cannot be stored`},
		"mixed":              {"GGUF", []KV{{"a", []any{"x"}}}, nil, `key "a": an array of mixed values`},
		"not UTF-8":          {"GGUF", []KV{{"\xff", true}}, nil, "a key is not UTF-8"},
		"alignment":          {"GGUF", []KV{{"general.alignment", uint32(0)}}, nil, "0 is not a power of two"},
		"alignment 3":        {"GGUF", []KV{{"general.alignment", uint32(3)}}, nil, "3 is not a power of two"},
		"no shape":           {"GGUF", nil, f32(), `tensor "w": 0 dimensions`},
		"five dimensions":    {"GGUF", nil, f32(1, 1, 1, 1, 1), `tensor "w": 5 dimensions`},
		"negative":           {"GGUF", nil, f32(-4), `tensor "w": shape [-4]`},
		"huge":               {"GGUF", nil, f32(1<<40, 1<<40), "too many elements"},
		"vast":               {"GGUF", nil, []Source{{"a", 0, vast.Shape, vast.Write}, {"b", 0, vast.Shape, vast.Write}, {"c", 0, vast.Shape, vast.Write}, {"d", 0, vast.Shape, vast.Write}}, "the file would be too large"},
		"half a block":       {"GGUF", nil, []Source{bytesOf("w", quant.Q4_0, []int{16}, nil)}, "whole blocks of 32"},
		"foreign type":       {"GGUF", nil, []Source{bytesOf("w", 9, []int{32}, nil)}, "its elements are of Q8_1, which is not supported"},
		"duplicate tensor":   {"GGUF", nil, append(f32(4), f32(4)...), `tensor "w": the name occurs twice`},
		"too few bytes":      {"GGUF", nil, f32(8), `tensor "w": 16 bytes were written, not 32`},
		"too many bytes":     {"GGUF", nil, f32(2), `tensor "w": 16 bytes were written, not 8`},
		"a source that errs": {"GGUF", nil, []Source{{"w", quant.F32, []int{4}, func(io.Writer) error { return broken }}}, broken.Error()},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "m.gguf")
		if err := os.WriteFile(path, []byte("GGUF older"), 0o644); err != nil {
			t.Fatal(err)
		}
		err := Create(t.Context(), path, c.magic, c.keys, c.tensors, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v does not name the file and say %q", name, err, c.want)
		}
		left, _ := os.ReadDir(dir)
		if old, _ := os.ReadFile(path); string(old) != "GGUF older" || len(left) != 1 {
			t.Errorf("%s: the older file is now %q, among %d", name, old, len(left))
		}
	}
}

// TestParseLayout reads files built from the specification, so that reader and writer cannot share a mistake.
func TestParseLayout(t *testing.T) {
	for _, version := range []uint32{2, 3} {
		file := small(version)
		f, err := Parse("m", file)
		if err != nil {
			t.Fatal(err)
		}
		a, b := f.Tensor("a"), f.Tensor("b")
		if f.Version != version || f.Alignment != 32 || f.Tensor("c") != nil || a.Rows() != 2 || a.Elems() != 16 || len(a.Data) != 64 || b.Type != quant.Q8_0 || len(b.Data) != 34 {
			t.Errorf("version %d: %+v %+v %+v", version, f, a, b)
		}
		if end := len(file); b.Offset != int64(end-34) || b.Data[0] != 64 || a.Offset != int64(end-98) || a.Data[63] != 63 {
			t.Errorf("version %d: data lies at %d and %d of %d", version, a.Offset, b.Offset, end)
		}
		if cap(a.Data) != len(a.Data) {
			t.Error("an append to a tensor's data would write over its neighbour")
		}
	}
	f, err := Parse("m", everyKind())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"a": uint8(1), "b": int8(1), "c": uint16(1), "d": int16(1), "e": uint32(1 + 1<<16), "f": int32(1 + 1<<16),
		"g": math.Float32frombits(1 + 1<<16), "h": true, "i": "é", "k": uint64(1 + 1<<16 + 1<<32 + 1<<48),
		"l": int64(1 + 1<<16 + 1<<32 + 1<<48), "m": math.Float64frombits(1 + 1<<16 + 1<<32 + 1<<48),
		"c.array": []uint16{1, 1}, "h.array": []bool{true, true}, "i.array": []string{"é", "é"},
		"nested": []any{[]uint32{5, 6}, []string{"x"}},
	} {
		if got, ok := f.Lookup(key); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("key %q is %#v, want %#v", key, got, want)
		}
	}
}
