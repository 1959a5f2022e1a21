package gguf

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// hostile returns a table of damaged files, each with what its error must say.
func hostile() map[string]struct {
	file raw
	want string
} {
	type entry = struct {
		file raw
		want string
	}
	one := func(kind uint32) raw { return start(3, 0, 1).key("k", kind) }
	tensor := func(kind uint32, offset uint64, shape ...uint64) raw {
		return start(3, 1, 0).tensor("w", kind, offset, shape...).data(32, 4096)
	}
	aligned := func(a uint32) raw { return start(3, 0, 1).key("general.alignment", kindUint32).u32(a) }
	swapped := append(raw("GGUF"), 0, 0, 0, 3)
	return map[string]entry{
		"empty":                   {raw{}, "the file is empty"},
		"a pointer of Git LFS":    {raw("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4\n"), "run git lfs pull"},
		"foreign magic":           {raw("ggml").u32(3), `this is no GGUF file: it begins with "ggml"`},
		"only magic":              {raw("GGUF"), "offset 4: the file ends inside the version"},
		"version 1":               {raw("GGUF").u32(1), "GGUF version 1 is not supported"},
		"big-endian":              {swapped, "big-endian"},
		"version 0":               {raw("GGUF").u32(0), "GGUF version 0"},
		"version 4":               {raw("GGUF").u32(4), "GGUF version 4"},
		"hostile tensor count":    {start(3, math.MaxUint64, 0), "offset 8: the number of tensors: a count of 18446744073709551615"},
		"hostile key count":       {start(3, 0, 1<<62), "offset 16: the number of keys"},
		"missing key":             {start(3, 0, 1).data(1, 64), "offset 24: a key"},
		"key length":              {start(3, 0, 1).u64(1<<63).data(1, 64), "offset 24: a key: a count of 9223372036854775808"},
		"empty key":               {start(3, 0, 1).key("", kindUint8).data(1, 8), "a key of 0 bytes"},
		"long key":                {start(3, 0, 1).key(strings.Repeat("k", maxKey+1), kindUint8).data(1, 8), "a key of 65536 bytes"},
		"key not UTF-8":           {start(3, 0, 1).key("\xff", kindUint8).data(1, 8), "a key is not UTF-8"},
		"duplicate key":           {start(3, 0, 2).key("k", kindUint32).u32(1).key("k", kindUint32).u32(2), `offset 41: key "k" occurs twice`},
		"value type":              {one(13).data(1, 8), `key "k" has value type 13`},
		"value cut short":         {one(kindUint64).u32(1), `the file ends inside key "k": 8 bytes wanted, 4 left`},
		"bool of 2":               {append(one(kindBool), 2), `key "k" is a bool of value 2`},
		"bool of 2 in array":      {append(one(kindArray).u32(kindBool).u64(1), 2), `key "k" is a bool of value 2`},
		"string length":           {one(kindString).u64(1 << 40), `key "k": a count of 1099511627776 is more than the 0 bytes left`},
		"array element type":      {one(kindArray).u32(99).u64(0), `key "k" is an array of type 99`},
		"array length":            {one(kindArray).u32(kindUint64).u64(1<<61).data(1, 64), `key "k": a count of 2305843009213693952`},
		"array length by size":    {one(kindArray).u32(kindUint64).u64(2).u64(0), `key "k": a count of 2 is more than the 8 bytes left`},
		"array of strings cut":    {one(kindArray).u32(kindString).u64(2).text("abcdefgh"), `key "k"`},
		"arrays too deep":         {nested(maxDepth + 1), "nests arrays more than 4 deep"},
		"alignment 0":             {aligned(0), `key "general.alignment": 0 is not a power of two`},
		"alignment 48":            {aligned(48), `48 is not a power of two`},
		"alignment 2^31":          {aligned(1 << 31), `2147483648 is not a power of two up to`},
		"alignment of wrong type": {start(3, 0, 1).key("general.alignment", kindString).text("32"), `key "general.alignment" is a string, not an integer`},
		"empty tensor name":       {start(3, 1, 0).u64(0).data(1, 40), "offset 24: tensor \"\": a name of 0 bytes"},
		"tensor name length":      {start(3, 1, 0).u64(1<<64-1).data(1, 64), "a tensor's name: a count of"},
		"long tensor name":        {start(3, 1, 0).tensor(strings.Repeat("n", maxName+1), 0, 0, 1).data(32, 4), "a name of 257 bytes"},
		"tensor name not UTF-8":   {start(3, 1, 0).tensor("\xff", 0, 0, 1).data(32, 4), "a tensor's name is not UTF-8"},
		"duplicate tensor":        {start(3, 2, 0).tensor("w", 0, 0, 1).tensor("w", 0, 32, 1).data(32, 64), `tensor "w": the name occurs twice`},
		"no dimension":            {tensor(0, 0), `tensor "w": 0 dimensions`},
		"five dimensions":         {tensor(0, 0, 1, 1, 1, 1, 1), `tensor "w": 5 dimensions`},
		"empty dimension":         {tensor(0, 0, 8, 0), `tensor "w": dimension 1 is 0`},
		"negative dimension":      {tensor(0, 0, math.MaxUint64), `tensor "w": dimension 0 is 18446744073709551615`},
		"product overflow":        {tensor(0, 0, 1<<40, 1<<40), `tensor "w": shape [1099511627776 1099511627776] has too many elements`},
		"product wraps to small":  {tensor(0, 0, 1<<32, 1<<32, 1), "has too many elements"},
		"bytes wrap to zero":      {tensor(0, 0, 1<<31, 1<<31), "has too many elements"},
		"bytes overflow":          {tensor(0, 0, 1<<60+1), `dimension 0 is`},
		"foreign type":            {tensor(9, 0, 32), `tensor "w": its elements are of Q8_1, which is not supported: take the model in another type; supported are ` + quant.Supported()},
		"unknown type":            {tensor(77, 0, 32), "its elements are of type 77, which is not supported"},
		"removed type":            {tensor(4, 0, 32), "its elements are of type 4, which is not supported"},
		"rows of half a block":    {tensor(2, 0, 48), "rows of 48 elements are not whole blocks of 32 (Q4_0)"},
		"rows of half a super":    {tensor(12, 0, 128, 2), "rows of 128 elements are not whole blocks of 256 (Q4_K)"},
		"offset not aligned":      {tensor(0, 16, 4), `tensor "w": data offset 16 is not a multiple of the alignment 32`},
		"offset beyond the end":   {tensor(0, 1<<20, 4), `tensor "w": 16 bytes at data offset 1048576 reach beyond the file's end`},
		"offset wraps":            {tensor(0, math.MaxUint64-31, 32), "reach beyond the file's end"},
		"data cut short":          {tensor(0, 0, 2048), `tensor "w": 8192 bytes at data offset 0 reach beyond the file's end`},
		"data absent":             {start(3, 1, 0).tensor("w", 0, 0, 1), "reach beyond the file's end"},
		"overlap":                 {start(3, 2, 0).tensor("a", 0, 0, 16).tensor("b", 0, 32, 1).data(32, 64), `tensor "b" overlaps tensor "a"`},
		"fork's Q2_0":             {start(3, 2, 0).tensor("a", 42, 0, 1024, 8).tensor("b", 0, 2176, 1).data(32, 2336), `tensor "b" overlaps tensor "a"; the file is damaged, or has Q2_0 in blocks of 128`},
		"same place":              {start(3, 2, 0).tensor("a", 0, 0, 1).tensor("b", 0, 0, 1).data(32, 64), `tensor "b" overlaps tensor "a"`},
	}
}

// nested returns a file whose one key has arrays in arrays, depth levels of them.
func nested(depth int) raw {
	b := start(3, 0, 1).key("k", kindArray)
	for range depth - 1 {
		b = b.u32(kindArray).u64(1)
	}
	return b.u32(kindUint8).u64(0)
}

func TestDepthAllowed(t *testing.T) {
	if _, err := Parse("x", nested(maxDepth)); err != nil {
		t.Error(err)
	}
}

func TestHostileFiles(t *testing.T) {
	for name, c := range hostile() {
		f, err := Parse("model.gguf", c.file)
		switch {
		case err == nil:
			t.Errorf("%s: accepted with %d keys, %d tensors", name, len(f.Keys), len(f.Tensors))
		case !strings.HasPrefix(err.Error(), "model.gguf: "), !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: error %q does not say %q", name, err, c.want)
		case strings.Contains(err.Error(), "\n"), len(err.Error()) > 400:
			t.Errorf("%s: error is no short line: %q", name, err)
		}
	}
}

// TestTruncation cuts a valid file everywhere: no prefix is valid, since the file ends with its last tensor's last
// byte.
func TestTruncation(t *testing.T) {
	whole := small(3)
	for n := range len(whole) {
		if _, err := Parse("x", whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
	if _, err := Parse("x", whole); err != nil {
		t.Error(err)
	}
}

// A control character in a name must not break the one line that an error is.
func TestErrorsQuoteNames(t *testing.T) {
	_, err := Parse("x", start(3, 0, 2).key("a\nb", kindUint8).data(1, 1).key("a\nb", kindUint8).data(1, 1))
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("error is %q", err)
	}
}

// allocated returns what f allocates in all, freed or not.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// Go values are larger than stored ones: an empty string takes 8 bytes in a file, a 16-byte header here and another on
// the way; a key with a byte takes 18, and about 300 here, with what growing the list and the map threw away.
const (
	allocFactor = 20
	allocBase   = 64 << 10
)

// TestAllocationBounded feeds files that promise much: none may allocate more than a small multiple of its size.
func TestAllocationBounded(t *testing.T) {
	files := map[string]raw{}
	for name, c := range hostile() {
		files[name] = c.file
	}
	const n = 1 << 18
	files["empty strings"] = start(3, 0, 1).key("k", kindArray).u32(kindString).u64(n).data(1, 0)
	files["empty strings"] = append(files["empty strings"], make([]byte, 8*n)...)
	files["empty arrays"] = append(start(3, 0, 1).key("k", kindArray).u32(kindArray).u64(n), make([]byte, 12*n)...)
	// Work or memory for an element must not grow with its key's length: here that would be 16 GiB.
	long := strings.Repeat("k", maxKey)
	files["long key, many bools"] = append(start(3, 0, 1).key(long, kindArray).u32(kindBool).u64(n), make([]byte, n)...)
	files["long key, many strings"] = append(start(3, 0, 1).key(long, kindArray).u32(kindString).u64(n), make([]byte, 8*n)...)
	// Each level claims all that is left.
	nest := start(3, 0, 1).key("k", kindArray)
	for i := range uint64(maxDepth) {
		nest = nest.u32(kindArray).u64(n - 8*i)
	}
	files["nested claims"] = append(nest, bytes.Repeat([]byte{kindArray, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, n)...)
	keys := start(3, 0, n/8)
	for i := range n / 8 {
		keys = append(keys.key(fmt.Sprintf("%05x", i), kindUint8), 0)
	}
	files["many keys"] = keys
	for name, file := range files {
		got := allocated(func() { _, _ = Parse("x", file) })
		if limit := uint64(allocBase + allocFactor*len(file)); got > limit {
			t.Errorf("%s: a file of %d bytes made Parse allocate %d, more than %d", name, len(file), got, limit)
		}
	}
}
