package bundle_test

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// TestFamilies compares bundles with models of families with and without gates, and with the original's files.
func TestFamilies(t *testing.T) {
	for name, s := range map[string]synth.Spec{
		"llama":    {Arch: "llama", Type: quant.Q4_0, Form: synth.Form{Transposed: true}},
		"float":    {Arch: "llama", Type: quant.F16, Form: synth.Form{Transposed: true}},
		"opt":      {Arch: "opt", Type: quant.F16, Form: synth.Form{Transposed: true}},
		"original": {Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			s.Layers, s.Embd, s.FF, s.Heads, s.Sparsity, s.PowerLaw, s.Seed = 3, 128, 352, 4, 0.9, 1, 1
			if err := synth.Write(t.Context(), path, s, nil); err != nil {
				t.Fatal(err)
			}
			bundle.CheckRows(t, path, s.Layers, s.Arch == "llama")
		})
	}
}
