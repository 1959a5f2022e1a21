package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// part writes part no (from 0) of a split with one tensor and returns its path.
func part(t *testing.T, dir string, no, parts int, magic, tensor string, keys ...KV) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", no+1, parts))
	data := []byte{byte(no), 1, 2, 3}
	if err := Create(t.Context(), path, magic, keys, []Source{bytesOf(tensor, quant.F32, []int{1}, data)}, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func splitKeys(no, parts, tensors int) []KV {
	return []KV{{"split.no", uint16(no)}, {"split.count", uint16(parts)}, {"split.tensors.count", int32(tensors)}}
}

func TestSplit(t *testing.T) {
	dir := t.TempDir()
	first := part(t, dir, 0, 3, "PWRI", "t0", append(splitKeys(0, 3, 3), KV{"general.architecture", "llama"})...)
	part(t, dir, 1, 3, "PWRI", "t1", splitKeys(1, 3, 3)...)
	part(t, dir, 2, 3, "PWRI", "t2", splitKeys(2, 3, 3)...)
	f, err := Open(first)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if x := f.Tensor(fmt.Sprintf("t%d", i)); x == nil || x.Data[0] != byte(i) || f.Tensors[i] != x {
			t.Errorf("tensor t%d is %+v", i, x)
		}
	}
	if arch, _, _ := f.String("general.architecture"); arch != "llama" || len(f.mappings) != 3 {
		t.Errorf("architecture %q, %d mappings", arch, len(f.mappings))
	}
	var done, total int64
	if err := f.Populate(t.Context(), func(d, n int64) { done, total = d, n }); err != nil || done != total || total == 0 {
		t.Errorf("populated %d of %d: %v", done, total, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestSplitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) string // returns the path to open
		want string
	}{
		"a missing part": {func(dir string) string {
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
		}, "part 2 of 2 is missing: "},
		"the second part": {func(dir string) string {
			part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
			return part(t, dir, 1, 2, "GGUF", "b", splitKeys(1, 2, 2)...)
		}, "this is part 00002 of 2; open the first: "},
		"the second part that says it is the first": {func(dir string) string {
			return part(t, dir, 1, 2, "GGUF", "b", splitKeys(0, 2, 2)...)
		}, "this is part 00002 of 2; open the first: "},
		"a first part that says it is the second": {func(dir string) string {
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(1, 2, 2)...)
		}, "; open the first: "},
		"a name without numbers": {func(dir string) string {
			p := part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
			q := filepath.Join(dir, "m.gguf")
			if err := os.Rename(p, q); err != nil {
				t.Fatal(err)
			}
			return q
		}, "its name does not end in -00001-of-00002.gguf"},
		"count and name differ": {func(dir string) string {
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 3, 2)...)
		}, `named as one of 2 parts, but key "split.count" says 3`},
		"an absurd count": {func(dir string) string {
			return part(t, dir, 0, 2, "GGUF", "a", KV{"split.count", uint64(1 << 40)})
		}, `key "split.count": 1099511627776 parts`},
		"a count of wrong type": {func(dir string) string {
			return part(t, dir, 0, 2, "GGUF", "a", KV{"split.count", "2"})
		}, `key "split.count" is a string`},
		"wrong part number": {func(dir string) string {
			part(t, dir, 1, 2, "GGUF", "b", splitKeys(0, 2, 2)...)
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
		}, "not part 2 of the 2 that"},
		"wrong part count": {func(dir string) string {
			part(t, dir, 1, 2, "GGUF", "b", splitKeys(1, 4, 2)...)
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
		}, "not part 2 of the 2 that"},
		"another magic": {func(dir string) string {
			part(t, dir, 1, 2, "PWRI", "b", splitKeys(1, 2, 2)...)
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
		}, "not part 2 of the 2 that"},
		"number of tensors": {func(dir string) string {
			part(t, dir, 1, 2, "GGUF", "b", splitKeys(1, 2, 9)...)
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 9)...)
		}, `2 tensors in 2 parts, key "split.tensors.count" says 9`},
		"a tensor twice": {func(dir string) string {
			part(t, dir, 1, 2, "GGUF", "a", splitKeys(1, 2, 2)...)
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
		}, `tensor "a" is also in an earlier part`},
		"a damaged part": {func(dir string) string {
			if err := os.Truncate(part(t, dir, 1, 2, "GGUF", "b", splitKeys(1, 2, 2)...), 40); err != nil {
				t.Fatal(err)
			}
			return part(t, dir, 0, 2, "GGUF", "a", splitKeys(0, 2, 2)...)
		}, "m-00002-of-00002.gguf: offset "},
	} {
		dir := t.TempDir()
		path := c.make(dir)
		f, err := Open(path)
		if err == nil {
			f.Close()
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), dir) {
			t.Errorf("%s: error %q does not say %q", name, err, c.want)
		}
	}
}
