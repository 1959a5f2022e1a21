package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// TestMemoryOfFactors: a mapped file's matrices take no memory, but those of NVFP4 that have a factor beside them, which are copied with it.
func TestMemoryOfFactors(t *testing.T) {
	need := func(typ quant.Type) int64 {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := synth.Write(t.Context(), path, synth.Spec{Arch: "llama", Layers: 2, Embd: 256, FF: 1024, Heads: 8, Type: typ}, func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o := engine.Options{Context: 64, NoRepack: true}
		n, err := o.Memory(f, placement.Layout{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	plain, factored := need(quant.Q4_0), need(quant.NVFP4)
	// Two layers' feed-forward matrices alone, at four bits and more a weight.
	if least := int64(2 * 3 * 256 * 1024 / 2); factored-plain < least {
		t.Errorf("with factors %d bytes more than without, of copies that have at least %d", factored-plain, least)
	}
}
