package visiontest

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Text returns the text model's file, which is closed when the test ends.
func (c Case) Text(t testing.TB) *gguf.File { return opened(t, TextFile, c.WriteText) }

// Tower returns the tower's file, which is closed when the test ends.
func (c Case) Tower(t testing.TB) *gguf.File { return opened(t, TowerFile, c.WriteTower) }

func opened(t testing.TB, name string, write func(path string) error) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Named returns the case of that name.
func Named(t testing.TB, name string) Case {
	t.Helper()
	for _, c := range Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	return Case{}
}
