package model

import (
	"math"
	"path/filepath"
	"reflect"
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

// TestNumbersThatAreNone: a number that would make every logit NaN is refused with the name of its key.
func TestNumbersThatAreNone(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for key, values := range map[string][]float32{
		"llama.attention.layer_norm_rms_epsilon": {nan, -1, inf, 2},
		"llama.rope.freq_base":                   {nan, 0.5, -10000, inf},
		"llama.rope.scaling.factor":              {nan, -1, inf},
		"llama.rope.scale_linear":                {nan, -1, inf},
		"llama.rope.scaling.yarn_ext_factor":     {nan, -1, inf},
		"llama.rope.scaling.attn_factor":         {nan, -1, inf},
		"llama.rope.scaling.yarn_attn_factor":    {nan, -1, inf},
		"llama.rope.scaling.yarn_beta_fast":      {nan, -1, inf},
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

// TestActivationNames: the names of activations in files and for --activation.
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

// TestAutoTrust: predictors are not used with another activation than that with which they were trained and measured.
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

// TestZeroIsNone: 0 for a missing property means the same as a missing key.
func TestZeroIsNone(t *testing.T) {
	zero := []any{uint32(0), int32(0), uint64(0), float32(0)}
	for arch, keys := range map[string][]string{
		"llama": {
			"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
			"attention.sliding_window", "attention.clamp_kqv", "attention.max_alibi_bias", "attention.scale", "attention.temperature_scale",
			"rope.dimension_count", "rope.freq_base", "rope.freq_base_swa", "rope.scale_linear", "rope.scaling.factor", "rope.scaling.original_context_length",
			"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow", "rope.scaling.yarn_log_multiplier",
			"logit_scale", "embedding_scale", "residual_scale", "final_logit_softcapping", "attn_logit_softcapping", "nextn_predict_layers", "leading_dense_block_count", "vocab_size",
			"embedding_length_per_layer_input", "attention.q_lora_rank", "attention.kv_lora_rank",
		},
		"deepseek2": {"attention.q_lora_rank", "expert_count", "expert_shared_count", "expert_group_count", "expert_group_used_count", "expert_weights_scale", "expert_gating_func", "rope.scaling.yarn_log_multiplier"},
		"qwen3moe":  {"expert_shared_feed_forward_length", "expert_shared_count", "expert_group_count", "expert_weights_scale", "moe_latent_size", "leading_dense_block_count", "feed_forward_length"},
		"gemma2":    {"attention.key_length_swa", "rope.freq_base_swa"},
		"gemma4":    {"attention.scale"}, // its own is 1
		"mamba2":    {"attention.head_count", "attention.head_count_kv", "feed_forward_length", "rope.dimension_count", "attention.key_length"},
	} {
		s := synth.Spec{Arch: arch, Layers: 2, Embd: 64, FF: 64, Heads: 2, Type: quant.F16, Seed: 1}
		switch arch {
		case "qwen3moe":
			s.Experts = 4
		case "deepseek2":
			s.DirectQueries = true
		}
		want := configOf(t, openSynth(t, s))
		for i, key := range keys {
			f, v := openSynth(t, s), zero[i%len(zero)]
			f.Set(arch+"."+key, v)
			got := configOf(t, f)
			if key == "feed_forward_length" && arch == "qwen3moe" {
				got.FF = want.FF // no layer has its own number
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s.%s of %T 0: the configuration differs from that without the key", arch, key, v)
			}
		}
	}
}

// TestLayersWithWindows: bools or numbers may say whether a layer has a window, also for additional MTP layers.
func TestLayersWithWindows(t *testing.T) {
	s := synth.Spec{Arch: "gemma3", Layers: 4, Embd: 64, FF: 64, Heads: 2, Type: quant.F16, Seed: 1}
	for _, pattern := range []any{
		[]bool{true, false, false, true}, []int32{1, 0, 0, 1}, []uint8{1, 0, 0, 1}, []int64{1, 0, 0, 1}, []uint32{1, 0, 0, 1}, []float32{1, 0, 0, 1},
	} {
		f := openSynth(t, s)
		f.Set("gemma3.attention.sliding_window", uint32(16))
		f.Set("gemma3.attention.sliding_window_pattern", pattern)
		for l, b := range configOf(t, f).Blocks {
			if want := l == 0 || l == 3; b.Window == 16 != want {
				t.Errorf("%T: layer %d has a window of %d", pattern, l, b.Window)
			}
		}
	}
	f := openSynth(t, s)
	f.Set("gemma3.attention.sliding_window_pattern", []int32{1, 0})
	f.Set("gemma3.attention.sliding_window", uint32(16))
	if _, err := ReadConfig(f, ""); err == nil || !strings.Contains(err.Error(), "2 values for 4 layers") {
		t.Error(err)
	}
}

// configOf reads f's configuration.
func configOf(t *testing.T, f *gguf.File) Config {
	t.Helper()
	c, err := ReadConfig(f, "")
	if err != nil {
		t.Error(err)
	}
	return c
}
