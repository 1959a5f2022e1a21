package hub

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTowerBeside: in a folder of several models each gets the tower with the nearest name, and models without such a
// tower get none.
func TestTowerBeside(t *testing.T) {
	for _, c := range []struct {
		files []string
		want  map[string]string
	}{
		{
			[]string{
				"gemma-3-4b-it-Q4_0.gguf", "gemma-3-4b-it-tales-Q4_0.gguf", "gemma-3-12b-it-Q4_0.gguf", "other-Q4_0.gguf",
				"mmproj-gemma-3-4b-it-f16.gguf", "gemma-3-4b-it-tales-mmproj-Q8_0.gguf", "mmproj-gemma-3-4b-it-BF16.gguf", "mmproj-F16.gguf",
			},
			map[string]string{
				"gemma-3-4b-it-Q4_0.gguf":       "mmproj-gemma-3-4b-it-f16.gguf",
				"gemma-3-4b-it-tales-Q4_0.gguf": "gemma-3-4b-it-tales-mmproj-Q8_0.gguf",
				"gemma-3-12b-it-Q4_0.gguf":      "",
				"other-Q4_0.gguf":               "",
			},
		},
		{
			[]string{"Qwen3VL-4B-Instruct-Q4_K_M.gguf", "Qwen3VL-4B-Instruct-Q8_0.gguf", "mmproj-F32.gguf", "mmproj-F16.gguf"},
			map[string]string{"Qwen3VL-4B-Instruct-Q4_K_M.gguf": "mmproj-F16.gguf", "Qwen3VL-4B-Instruct-Q8_0.gguf": "mmproj-F16.gguf"},
		},
		{
			[]string{"a-Q4_0.gguf", "mmproj-model-f16.gguf", "mmproj-b-F16.gguf"},
			map[string]string{"a-Q4_0.gguf": "mmproj-b-F16.gguf"},
		},
	} {
		dir := t.TempDir()
		for _, name := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for model, want := range c.want {
			link := filepath.Join(t.TempDir(), "linked.gguf")
			if err := os.Symlink(filepath.Join(dir, model), link); err != nil {
				t.Logf("links are not tried: %v", err)
			} else if got := TowerBeside(link); got != "" && filepath.Base(got) != want || got == "" && want != "" {
				t.Errorf("of a link to %s: %q, want %q", model, got, want)
			}
			if got := TowerBeside(filepath.Join(dir, model)); got != "" && filepath.Base(got) != want || got == "" && want != "" {
				t.Errorf("of %s: %q, want %q", model, got, want)
			}
		}
	}
}
