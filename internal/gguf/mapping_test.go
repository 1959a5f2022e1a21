package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.gguf")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		empty:                             "the file is empty",
		filepath.Join(dir, "absent.gguf"): "",
		dir:                               "",
	} {
		_, err := Open(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("Open(%q): %v", path, err)
		}
	}
}

// TestDontNeed drops an unaligned range: its bytes must come back from the file, and neighbouring pages must stay.
func TestDontNeed(t *testing.T) {
	var in []Source
	want := map[string][]byte{}
	for i, n := range []int{25, 5000, 3, 100_000} {
		name := string(rune('a' + i))
		want[name] = bytes.Repeat([]byte{byte(i + 1), 2, 3, 4}, n)
		in = append(in, bytesOf(name, quant.F32, []int{n}, want[name]))
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := Create(t.Context(), path, "GGUF", nil, in, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Populate(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for _, x := range f.Tensors {
		f.DontNeed(x)
	}
	for name, data := range want {
		if !bytes.Equal(f.Tensor(name).Data, data) {
			t.Errorf("tensor %q changed", name)
		}
	}
}

// TestPopulateSteps: progress grows in steps to the sum of all mappings.
func TestPopulateSteps(t *testing.T) {
	f := &File{mappings: [][]byte{make([]byte, populateStep+1), make([]byte, 5)}} // never unmapped
	var seen []int64
	if err := f.Populate(t.Context(), func(done, total int64) { seen = append(seen, done, total) }); err != nil {
		t.Fatal(err)
	}
	const all = populateStep + 6
	if want := []int64{populateStep, all, populateStep + 1, all, all, all}; !slices.Equal(seen, want) {
		t.Errorf("progress was %v, want %v", seen, want)
	}
}

// Files from memory have nothing to populate, drop or unmap; Close may be called twice.
func TestParsedInMemory(t *testing.T) {
	f, err := Parse("m", small(3))
	if err != nil {
		t.Fatal(err)
	}
	f.DontNeed(f.Tensors[0])
	if err := f.Populate(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
