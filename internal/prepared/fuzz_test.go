package prepared

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// FuzzReadExperts: whatever a file says of the uses of its experts, it is refused in one line that names the file, or
// gives the same back when it is written again.
func FuzzReadExperts(f *testing.F) {
	keys, err := ExpertKeys(counted(), strings.Repeat("0", 64))
	if err != nil {
		f.Fatal(err)
	}
	for drop := range len(keys) + 1 {
		var some []gguf.KV
		for i, kv := range keys {
			if i+1 != drop {
				some = append(some, kv)
			}
		}
		path := filepath.Join(f.TempDir(), "x.gguf")
		if err := gguf.Create(f.Context(), path, "GGUF", some, nil, nil); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse("x.gguf", data)
		if err != nil {
			return
		}
		x, hash, err := ReadExperts(file)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x.gguf: ") || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error %q", err)
			}
			return
		}
		if x == nil {
			return
		}
		for l := range x.Layers {
			y := &x.Layers[l]
			if n := y.Count(); n > 0 && (len(x.Again(l)) != len(x.Pairs) || len(y.Order(1)) != n || x.Used(l) > n) {
				t.Fatalf("layer %d of %d experts", l, n)
			}
		}
		if _, err := ExpertKeys(x, hash); err != nil {
			t.Fatalf("what was read is not written: %v", err)
		}
	})
}
