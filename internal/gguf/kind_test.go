package gguf

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestKinds: a file replaces only one of the same kind, according to llama.cpp's keys.
func TestKinds(t *testing.T) {
	model := []Source{{"w", quant.F32, []int{2}, func(w io.Writer) error { _, err := w.Write(make([]byte, 8)); return err }}}
	kinds := map[string]struct {
		keys    []KV
		tensors []Source
	}{
		"model":      {[]KV{{"general.architecture", "llama"}, {"general.type", "model"}, {"powerinfer.version", uint32(1)}}, model},
		"adapter":    {[]KV{{"general.type", "adapter"}}, model},
		"matrix":     {[]KV{{"general.type", "imatrix"}}, model},
		"neurons":    {[]KV{TypeOfNeurons(), {"powerinfer.bundle.version", uint32(1)}}, model},
		"statistics": {[]KV{{"general.architecture", "llama"}, {"general.name", strings.Repeat("n", 200)}, {"powerinfer.profile.version", uint32(1)}}, nil},
	}
	for old, o := range kinds {
		for now, n := range kinds {
			path := filepath.Join(t.TempDir(), "f")
			if err := Create(context.Background(), path, "GGUF", o.keys, o.tensors, nil); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			err := Create(context.Background(), path, "GGUF", n.keys, n.tensors, nil)
			same := old == now || old == "model" && now == "adapter" || old == "adapter" && now == "model"
			if same != (err == nil) || err != nil && !strings.Contains(err.Error(), "is not replaced") {
				t.Errorf("%s over %s: %v", now, old, err)
			}
			if after, _ := os.ReadFile(path); !same && string(after) != string(before) {
				t.Errorf("%s over %s: the file was changed", now, old)
			}
		}
	}
}
