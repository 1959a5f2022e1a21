package powerinfer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/demo"
)

// TestSaveCache: another model of the same file continues from a saved generation, and a file that would be too large
// is not written.
func TestSaveCache(t *testing.T) {
	openOne := func() *powerinfer.Model {
		m, err := powerinfer.OpenBytes(t.Context(), demo.Name, demo.Model(), powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, CPU: powerinfer.CPU{Threads: 1}, Limits: powerinfer.Limits{Context: 128}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	generate := func(m *powerinfer.Model, prompt []int32) ([]int32, powerinfer.Result) {
		s, err := m.Start(t.Context(), prompt, powerinfer.Generation{Max: 10, IgnoreEnd: true, Sampling: greedy()})
		if err != nil {
			t.Fatal(err)
		}
		var out []int32
		for token, err := range s.Tokens() {
			if err != nil {
				t.Fatal(err)
			}
			if token.ID >= 0 {
				out = append(out, token.ID)
			}
		}
		return out, s.Result()
	}
	first := openOne()
	prompt := first.Tokenize("Once upon a time there was a king", true, true)
	begun, _ := generate(first, prompt)
	text := slices.Concat(prompt, begun)
	path := filepath.Join(t.TempDir(), "text.kv")
	var size *powerinfer.CacheSizeError
	if _, err := first.SaveCache(t.Context(), path, text, 100); !errors.As(err, &size) || size.Most != 100 {
		t.Errorf("a file of 100 bytes at most: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file that is too large was written")
	}
	saved, err := first.SaveCache(t.Context(), path, text, size.Bytes)
	if err != nil || len(saved.Tokens) < len(text)-1 || saved.Bytes != size.Bytes {
		t.Fatalf("%d of %d tokens in %d bytes: %v", len(saved.Tokens), len(text), saved.Bytes, err)
	}
	want, _ := generate(first, text)
	second := openOne()
	if restored, err := second.RestoreCache(t.Context(), path); err != nil || !slices.Equal(restored.Tokens, saved.Tokens) {
		t.Fatalf("%d tokens were restored: %v", len(restored.Tokens), err)
	}
	got, res := generate(second, text)
	if res.Prompt > len(text)-len(saved.Tokens)+1 || !slices.Equal(got, want) {
		t.Errorf("%d tokens were evaluated again; %v follow instead of %v", res.Prompt, got, want)
	}
	if _, err := second.SaveCache(t.Context(), path, []int32{5, 6, 7}, 0); !errors.Is(err, powerinfer.ErrNotCached) {
		t.Errorf("a text that was never evaluated: %v", err)
	}
}
