package session

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// The counts of a file of statistics become the model's own, once; those of another model, or other counts, are
// refused.
func TestStatisticsOfExperts(t *testing.T) {
	f := synthtest.File(t, synth.Spec{Arch: "qwen3moe", Layers: 1, Embd: 64, FF: 32, Heads: 4, Experts: 4, Used: 1, Type: quant.F16, Activation: "silu", Seed: 1})
	write := func(name string, uses ...uint32) string {
		x := neuron.NewExperts([]string{"a"}, []int{len(uses)}, 0)
		for e, n := range uses {
			x.Layers[0].Uses[0][e] = n
			x.Texts[0].Tokens += uint64(n)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := prepared.WriteUses(path, f, strings.Repeat("0", 64), x, nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stats := write("stats.gguf", 1, 4, 2, 1)
	if _, err := Statistics(f, write("other.gguf", 1, 2, 3), ""); err == nil || !strings.Contains(err.Error(), "other.gguf is of another model") {
		t.Errorf("uses of three experts in a model of four: %v", err)
	}
	f = synthtest.File(t, synth.Spec{Arch: "qwen3moe", Layers: 1, Embd: 64, FF: 32, Heads: 4, Experts: 4, Used: 1, Type: quant.F16, Activation: "silu", Seed: 1})
	for range 2 { // planning and opening both ask
		if s, err := Statistics(f, stats, ""); s != nil || err != nil {
			t.Fatal(s, err)
		}
		c, err := model.ReadConfig(f, "")
		if err != nil {
			t.Fatal(err)
		}
		if prior := c.Prior(0); len(prior) != 4 || prior[1] != 0.5 {
			t.Errorf("prior %v", prior)
		}
	}
	if _, err := Statistics(f, write("more.gguf", 2, 8, 4, 2), ""); err == nil || !strings.Contains(err.Error(), "holds its own statistics") {
		t.Errorf("other counts: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty.gguf")
	if err := gguf.Create(t.Context(), empty, "GGUF", []gguf.KV{{Key: "a", Value: "b"}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Statistics(f, empty, ""); err == nil || !strings.Contains(err.Error(), "holds no statistics of experts") {
		t.Errorf("no counts: %v", err)
	}
}
