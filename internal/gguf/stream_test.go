package gguf

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// streamedFile returns a file of this many layers, each with two tensors of random bytes. One of them is read in two
// pieces.
func streamedFile(t *testing.T, layers int) (f *File, tensors [][]*Tensor) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{2})
	var list []Source
	for i := range layers {
		for j, n := range []int{1000 + 8*i, streamPiece/4 + 24} {
			data := make([]byte, 4*n)
			_, _ = random.Read(data)
			list = append(list, Source{fmt.Sprintf("blk.%d.%d", i, j), quant.F32, []int{n / 2, 2}, func(w io.Writer) error { _, err := w.Write(data); return err }})
		}
	}
	path := filepath.Join(t.TempDir(), "f.gguf")
	if err := Create(context.Background(), path, "GGUF", nil, list, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for i := range layers {
		tensors = append(tensors, []*Tensor{f.Tensors[2*i], f.Tensors[2*i+1]})
	}
	return f, tensors
}

// TestStream: a layer's tensors are in memory, at fixed places, from its beginning to that of the next one, in any
// order of layers. The memory is that of three layers at most.
func TestStream(t *testing.T) {
	const most = 8
	f, all := streamedFile(t, most)
	order := []int{5, 5, 0, 7, 2, 1}
	for range 3 {
		for i := range most {
			order = append(order, i)
		}
	}
	for keep := range most {
		layers := append(make([][]*Tensor, keep), all[keep:]...)
		s := NewStream(layers)
		if err := s.Open(f); err != nil {
			t.Fatal(err)
		}
		if s.At(all[0][0]) != nil && keep > 0 {
			t.Error("a layer that stays is read")
		}
		for n, i := range order {
			if err := s.Begin(i); err != nil {
				t.Fatal(err)
			}
			for _, tensor := range layers[i] {
				if !bytes.Equal(s.At(tensor), tensor.Data) {
					t.Fatalf("%d layers stay: step %d, tensor %q: other bytes than the file's", keep, n, tensor.Name)
				}
			}
		}
		if want := int64(min(3, most-keep)) * s.size; s.Bytes() < int64(most-keep)<<20 || s.Memory() < want || s.Memory() > want+64<<20 {
			t.Errorf("%d layers stay: %d bytes are read, with %d of memory", keep, s.Bytes(), s.Memory())
		}
		if s.Begin(most) != nil { // a layer of another kind
			t.Error("a layer beyond those failed")
		}
		s.Close()
		s.Close()
	}
}

// TestStreamThatFails: a layer that cannot be read fails when it begins, others do not, and it is read again later.
func TestStreamThatFails(t *testing.T) {
	f, all := streamedFile(t, 6)
	s := NewStream(all)
	if err := s.Open(f); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path, size := f.Path, int64(len(f.mappings[0]))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, all[5][0].Offset); err != nil {
		t.Skipf("an open file is not cut here: %v", err)
	}
	for range 2 {
		for i := range 6 {
			if err := s.Begin(i); (err != nil) != (i == 5) {
				t.Errorf("layer %d: %v", i, err)
			}
		}
	}
	if err := os.WriteFile(path, content[:size], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(5); err != nil || !bytes.Equal(s.At(all[5][1]), content[all[5][1].Offset:][:all[5][1].Bytes()]) {
		t.Errorf("%v, or other bytes", err)
	}
}

// TestStreamAllocatesNothing: reading layers allocates nothing.
func TestStreamAllocatesNothing(t *testing.T) {
	f, all := streamedFile(t, 5)
	s := NewStream(all)
	if err := s.Open(f); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	step := func() {
		for i := range 5 {
			if err := s.Begin(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		step()
	}
	if n := testing.AllocsPerRun(20, step); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
