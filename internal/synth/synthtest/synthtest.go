// Package synthtest gives tests synthetic models.
package synthtest

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// File returns the model that s describes, as a file in memory.
func File(t testing.TB, s synth.Spec) *gguf.File {
	t.Helper()
	path := written(t, s)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(path, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Sparse returns the model that s describes, small and nine tenths sparse: n_embd 256, n_ff 1024 unless s says
// otherwise.
func Sparse(t testing.TB, s synth.Spec, layers int) *gguf.File {
	t.Helper()
	return File(t, sparse(s, layers))
}

// SparseOnDisk is Sparse as a file on disk.
func SparseOnDisk(t testing.TB, s synth.Spec, layers int) *gguf.File {
	t.Helper()
	return OnDisk(t, sparse(s, layers))
}

// OnDisk is File as a file on disk, which is closed when the test ends.
func OnDisk(t testing.TB, s synth.Spec) *gguf.File {
	t.Helper()
	f, err := gguf.Open(written(t, s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func sparse(s synth.Spec, layers int) synth.Spec {
	s.Layers, s.Embd, s.FF, s.Heads, s.Sparsity, s.PowerLaw, s.Seed = layers, 256, cmp.Or(s.FF, 1024), 4, 0.9, 1, 5
	return s
}

// written returns the path of a file of the model that s describes.
func written(t testing.TB, s synth.Spec) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	return path
}
