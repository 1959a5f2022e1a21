package model

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

func openSynth(t *testing.T, s synth.Spec) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestNumbersThatAreNone: a number that would make every logit NaN is refused, and the message names its key.
func TestNumbersThatAreNone(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for key, values := range map[string][]float32{
		"llama.attention.layer_norm_rms_epsilon": {nan, -1, inf, 2},
		"llama.rope.freq_base":                   {nan, 0, -10000, inf},
		"llama.rope.scaling.factor":              {nan, -1, inf},
		"llama.rope.scale_linear":                {nan, -1, inf},
		"llama.rope.scaling.yarn_ext_factor":     {nan, -1, inf},
		"llama.rope.scaling.attn_factor":         {nan, -1, inf},
		"llama.rope.scaling.yarn_attn_factor":    {nan, -1, inf},
		"llama.rope.scaling.yarn_beta_fast":      {nan, 0, inf},
		"llama.rope.scaling.yarn_beta_slow":      {nan, -1, inf},
		"powerinfer.sparse_threshold":            {nan},
		"powerinfer.activation_threshold":        {nan, inf},
	} {
		for _, v := range values {
			f := openSynth(t, synth.Spec{Arch: "llama", Layers: 1, Embd: 32, FF: 32, Heads: 1, Type: quant.F16, Seed: 1})
			i := 0
			for i < len(f.Keys) && f.Keys[i].Key != key {
				i++
			}
			if i == len(f.Keys) {
				if err := f.Override(key, "float", "1"); err != nil {
					t.Fatal(err)
				}
			}
			f.Keys[i].Value = v
			if _, err := ReadConfig(f, ""); err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), f.Path) {
				t.Errorf("%s = %g: %v", key, v, err)
			}
		}
	}
}

// TestActivationNames: what may be said in the file and behind --activation.
func TestActivationNames(t *testing.T) {
	f := openSynth(t, synth.Spec{Arch: "llama", Layers: 1, Embd: 32, FF: 32, Heads: 1, Type: quant.F16, Seed: 1})
	for name, threshold := range map[string]float32{"fatrelu:0.5": 0.5, "FATReLU:1e-3": 1e-3, "fatrelu": 0.01, "fatrelu:0": 0} {
		if c, err := ReadConfig(f, name); err != nil || c.Act.Kind.String() != "fatrelu" || c.Act.Threshold != threshold {
			t.Errorf("%s: %v with threshold %g, %v", name, c.Act.Kind, c.Act.Threshold, err)
		}
	}
	for _, name := range []string{"swish", "fatrelu:", "fatrelu:nan", "fatrelu:0.1x", "fatrelu:0.1:0.2", "relu:0.1", "silu:"} {
		if _, err := ReadConfig(f, name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAutoTrust: predictors were trained and measured with one activation; with another that --activation names they
// tell nothing.
func TestAutoTrust(t *testing.T) {
	for _, c := range []struct {
		file       string
		threshold  float32
		divergence float32
		act        compute.Activation
		want       SparseMode
	}{
		{"relu", 0, 0.009, compute.Activation{Kind: compute.ReLU, Threshold: 0.01}, Predict},
		{"relu", 0, 0.011, compute.Activation{Kind: compute.ReLU}, Exact},
		{"relu", 0, 0.009, compute.Activation{Kind: compute.SiLU}, Off},
		{"relu", 0, 0.009, compute.Activation{Kind: compute.ReLU2}, Exact},
		{"fatrelu", 0.5, 0.009, compute.Activation{Kind: compute.FATReLU, Threshold: 0.5}, Predict},
		{"fatrelu", 0.5, 0.009, compute.Activation{Kind: compute.FATReLU, Threshold: 0.1}, Exact},
	} {
		config := Config{Act: c.act, Predictors: true, Prepared: &prepared.Info{
			Activation: c.file, ActivationThreshold: c.threshold, Quality: &prepared.Quality{KLDivergence: c.divergence},
		}}
		if got, err := config.Resolve(Auto); err != nil || got != c.want {
			t.Errorf("measured %g with %s, run with %v: %v, %v; want %v", c.divergence, c.file, c.act, got, err, c.want)
		}
	}
}
