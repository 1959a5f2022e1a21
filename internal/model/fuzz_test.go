package model_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// modelKeys are keys that a model's file may have, without the architecture's prefix and without those that every
// synthetic model has.
func modelKeys() []string {
	return strings.Fields(`
		context_length embedding_length block_count feed_forward_length attention.head_count attention.head_count_kv attention.key_length attention.value_length
		attention.key_length_swa attention.value_length_swa attention.key_length_mla attention.value_length_mla attention.kv_lora_rank attention.q_lora_rank
		attention.layer_norm_rms_epsilon attention.layer_norm_epsilon attention.clamp_kqv attention.causal attention.max_alibi_bias attention.scale
		attention.shared_kv_layers attention.sliding_window attention.sliding_window_pattern attention.temperature_scale attention.temperature_length attention.recurrent_layers
		full_attention_interval leading_dense_block_count nextn_predict_layers hidden_activation logit_scale residual_scale embedding_scale attn_logit_softcapping
		final_logit_softcapping rope.dimension_count rope.dimension_count_swa rope.dimension_sections rope.freq_base rope.freq_base_swa rope.scale_linear
		rope.scaling.type rope.scaling.factor rope.scaling.attn_factor rope.scaling.original_context_length rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast
		rope.scaling.yarn_beta_slow rope.scaling.yarn_ext_factor rope.scaling.yarn_log_multiplier rope.scaling.yarn_truncate rope.scaling.finetuned
		expert_count expert_used_count expert_shared_count expert_feed_forward_length expert_shared_feed_forward_length expert_group_count expert_group_used_count
		expert_gating_func expert_weights_norm expert_weights_scale moe_latent_size ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count
		embedding_length_per_layer_input altup.num_inputs altup.active_idx activation_sparsity_scale pooling_type classifier.output_labels use_parallel_residual`)
}

// damaged returns a value of the given kind for a key; n is a number in it.
func damaged(kind uint8, n int64, x float64) any {
	switch kind % 8 {
	case 0:
		return n
	case 1:
		return uint32(n)
	case 2:
		return float32(x)
	case 3:
		return n&1 == 1
	case 4:
		return []string{"", "none", "linear", "yarn", "longrope", "dynamic", "silu", "\n", "llama", "gpt2"}[uint64(n)%10]
	case 5:
		return slices.Repeat([]int32{int32(n), int32(n >> 32)}, int(uint64(n)%5))
	case 6:
		return slices.Repeat([]float32{float32(x)}, int(uint64(n)%9))
	}
	return slices.Repeat([]bool{n&1 == 1, n&2 == 2}, int(uint64(n)%5))
}

// FuzzKeys loads tiny models of every family with other values of two keys and makes them read two tokens. An error
// must be one line that begins with the file's name.
func FuzzKeys(f *testing.F) {
	families := lineage.All()
	files, dir, ctx := make([]func() []byte, len(families)), f.TempDir(), f.Context()
	for i, family := range families {
		files[i] = sync.OnceValue(func() []byte {
			s := synth.Spec{Arch: family.Name, Layers: 2, Embd: 256, FF: 512, Heads: 8, KVHeads: 4, Type: quant.F16, Seed: 1, Context: 512}
			if family.Latent {
				s.KVHeads = s.Heads
			}
			if family.Name == "falcon" || family.Name == "qwen3" {
				s.Tied, s.AttnNorm2 = true, family.Name == "falcon"
			}
			path := filepath.Join(dir, family.Name+".gguf")
			if err := synth.Write(ctx, path, s, nil); err != nil {
				panic(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				panic(err)
			}
			return data
		})
	}
	keys, quick := modelKeys(), testenv.Quick(f)
	for i := range families {
		if quick && i%8 != 0 {
			continue
		}
		f.Add(uint8(i), uint8(i), uint8(i), int64(i), 0.5, uint8(3*i), uint8(i/8), int64(-i))
	}
	f.Fuzz(func(t *testing.T, family, key, kind uint8, n int64, x float64, key2, kind2 uint8, n2 int64) {
		fam := families[int(family)%len(families)]
		file, err := gguf.Parse("m.gguf", files[int(family)%len(families)]())
		if err != nil {
			t.Fatal(err)
		}
		set := func(key, kind uint8, n int64) {
			at := int(key) % (len(keys) + len(file.Keys))
			name := ""
			if at < len(keys) {
				name = fam.Name + "." + keys[at]
			} else {
				name = file.Keys[at-len(keys)].Key
			}
			file.Set(name, damaged(kind, n, x))
		}
		set(key, kind, n)
		set(key2, kind2, n2)
		refused := func(err error) bool {
			if err != nil && (!strings.HasPrefix(err.Error(), "m.gguf: ") || strings.ContainsAny(err.Error(), "\n\r")) {
				t.Fatalf("error %q", err)
			}
			return err != nil
		}
		if _, err := model.Tokenizer(file); refused(err) {
			return
		}
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close() // it holds the models' memory
		m, err := model.Load(t.Context(), file, dev, model.Options{Batch: 2, Outputs: 2, Cache: compute.CacheSpec{Pages: 1}})
		if refused(err) || fam.Headless {
			return
		}
		p := compute.Params{Tokens: []int32{1, 2}, Pos: []int32{0, 1}, Seq: []int32{0, 0}, Out: []int32{0, 1}, Pages: [][]int32{{0}}, Near: [][]int32{{0}}, States: []int32{0}}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Logits(1); err != nil {
			t.Fatal(err)
		}
	})
}
