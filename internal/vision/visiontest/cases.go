package visiontest

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// Cases returns all cases.
func Cases() []Case {
	qwen3 := Case{
		Name: "qwen3vl_merger", Pictures: []Picture{{"even", 160, 96}, {"odd", 201, 133}},
		text:   text("qwen3vl", "silu", 4, gguf.KV{Key: "qwen3vl.n_deepstack_layers", Value: uint32(2)}),
		tokens: []string{"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},
		tower:  func(f *file) { f.qwen3vl(0, 2) },
	}
	// of returns a case of another text model, without rows for its layers.
	of := func(s synth.Spec) Case {
		c := qwen3
		c.Name, c.text, c.tower, c.Pictures = "qwen3vl_merger_"+s.Arch, s, func(f *file) { f.qwen3vl() }, qwen3.Pictures[:1]
		return c
	}
	typed := func(name string, t quant.Type) Case {
		c := qwen3
		c.Name, c.matrices = c.Name+"_"+name, t
		return c
	}
	gemma := []string{"<|image>", "<|image|>", "<image|>"}
	wide := text("gemma4", "gelu", 4)
	wide.Embd, wide.HeadDim = 1536, 16 // the width identifies the smallest Gemma 4, which reads pictures in one direction
	latent := text("deepseek2", "silu", 3)
	latent.KVHeads = latent.Heads
	return []Case{
		qwen3,
		typed("f16", quant.F16),
		typed("bf16", quant.BF16),
		typed("q8_0", quant.Q8_0),
		of(text("qwen3vlmoe", "silu", 3)),
		of(text("qwen35", "silu", 4)),
		of(text("qwen35moe", "silu", 4)),
		of(text("qwen4exp", "silu", 4, gguf.KV{Key: "qwen4exp.ple.image_token_id", Value: uint32(vocab - 2)})),
		of(text("glm4moe", "silu", 3, gguf.KV{Key: "glm4moe.rope.dimension_sections", Value: []int32{2, 3, 3, 0}})),
		{
			Name: "gemma3", Pictures: []Picture{{"even", 224, 224}, {"odd", 201, 133}},
			text:   text("gemma3", "gelu", 7, gguf.KV{Key: "gemma3.attention.sliding_window", Value: uint32(16)}),
			tokens: []string{"<start_of_image>", "<image_soft_token>", "<end_of_image>"},
			tower:  func(f *file) { f.gemma3(shape{64, 224, 14, 72, 104, 3, 3, half, half, 1e-6}) },
		},
		{
			Name: "qwen2.5vl_merger", Pictures: []Picture{{"even", 168, 140}, {"odd", 201, 133}},
			text:   text("qwen2vl", "silu", 3),
			tokens: []string{"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},
			tower:  qwen25vl,
		},
		{
			Name: "qwen2vl_merger", Pictures: []Picture{{"even", 168, 140}, {"odd", 201, 133}},
			text:   text("qwen2vl", "silu", 2),
			tokens: []string{"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},
			tower:  qwen2vl,
		},
		{
			Name: "gemma4v", Pictures: []Picture{{"even", 192, 96}, {"odd", 161, 213}}, Least: 4,
			text: text("gemma4", "gelu", 6), tokens: gemma, tower: func(f *file) { f.gemma4v(64) },
			peer: func(f *file) { f.key("clip.use_gelu", true) }, // files have no such key, and it takes quick GELU then
		},
		{
			Name: "gemma4v_causal", Pictures: []Picture{{"even", 192, 96}}, Least: 4,
			text: wide, tokens: gemma,
			tower: func(f *file) {
				f.gemma4v(wide.Embd)
				f.key("clip.use_gelu", true)
			},
		},
		{
			Name: "pixtral", Pictures: []Picture{{"even", 140, 84}, {"odd", 217, 133}},
			text:   text("mistral3", "silu", 3),
			tokens: []string{"[IMG]", "[IMG_BREAK]", "[IMG_END]"},
			tower:  func(f *file) { f.pixtral(2) },
		},
		{
			Name: "pixtral_patches", Pictures: []Picture{{"even", 56, 42}},
			text:   text("mistral3", "silu", 2),
			tokens: []string{"[IMG]", "[IMG_BREAK]", "[IMG_END]"},
			tower:  func(f *file) { f.pixtral(1) },
		},
		{
			Name: "internvl", Pictures: []Picture{{"even", 56, 56}, {"tiles", 112, 56}},
			text:   text("qwen3", "silu", 3),
			tokens: []string{"<img>", "<IMG_CONTEXT>", "</img>"},
			tower:  internvl,
			peer: func(f *file) { // it puts the class last, and the positions as they are
				for i := range f.tensors {
					if f.tensors[i].Name == "v.position_embd.weight" {
						f.tensors[i] = roll(f.tensors[i])
					}
				}
			},
		},
		{
			Name: "lfm2", Pictures: []Picture{{"even", 320, 224}, {"odd", 301, 251}, {"tiles", 803, 701}},
			text: text("lfm2", "silu", 4),
			tokens: []string{
				"<|image_start|>", "<image>", "<|image_end|>", "<|img_thumbnail|>",
				"<|img_row_1_col_1|>", "<|img_row_1_col_2|>", "<|img_row_2_col_1|>", "<|img_row_2_col_2|>",
			},
			tower: lfm2,
		},
		{
			Name: "gemma4uv", Pictures: []Picture{{"even", 192, 96}, {"odd", 161, 213}}, Least: 4,
			text: text("gemma4", "gelu", 6), tokens: gemma, tower: gemma4uv,
		},
		{
			Name: "glm4v", Pictures: []Picture{{"even", 140, 84}, {"odd", 201, 133}},
			text:   text("glm4", "silu", 3, gguf.KV{Key: "glm4.rope.dimension_sections", Value: []int32{2, 3, 3, 0}}),
			tokens: []string{"<|begin_of_image|>", "<|image|>", "<|end_of_image|>"},
			tower:  func(f *file) { f.glm4v(false) },
		},
		{
			Name: "glm4v_ocr", Pictures: []Picture{{"even", 140, 84}},
			text:   text("glm4", "silu", 2, gguf.KV{Key: "glm4.rope.dimension_sections", Value: []int32{2, 3, 3, 0}}),
			tokens: []string{"<|begin_of_image|>", "<|image|>", "<|end_of_image|>"},
			tower:  func(f *file) { f.glm4v(true) },
		},
		{
			Name: "kimik25", Pictures: []Picture{{"even", 140, 84}, {"odd", 280, 168}},
			text:   latent,
			tokens: []string{"<|media_begin|>", "<|media_pad|>", "<|media_end|>"},
			tower:  kimik25,
		},
		{
			Name: "llama4", Pictures: []Picture{{"even", 56, 56}, {"tiles", 112, 112}},
			text:   text("llama4", "silu", 4),
			tokens: []string{"<|image_start|>", "<|image|>", "<|image_end|>"},
			tower:  llama4,
		},
	}
}

// Large returns a case with Gemma 3's tower in its published shape, in F16, to measure speed with. It has no figures.
func Large() Case {
	for _, c := range Cases() {
		if c.Name == "gemma3" {
			c.Name, c.matrices, c.Pictures = "gemma3_large", quant.F16, []Picture{{"even", 896, 896}}
			c.tower = func(f *file) { f.gemma3(shape{64, 896, 14, 1152, 4304, 27, 16, half, half, 1e-6}) }
			return c
		}
	}
	panic("visiontest: there is no case gemma3")
}

// layers adds the tensors of a tower's layers.
func (f *file) layers(s shape, each func(prefix string)) {
	for i := range s.layers {
		each(fmt.Sprintf("v.blk.%d.", i))
	}
}

// qwen3vl adds Qwen3-VL's tower, with rows of some layers.
func (f *file) qwen3vl(deep ...int) {
	s := shape{64, 128, 16, 64, 96, 3, 4, half, half, 1e-6}
	f.common("qwen3vl_merger", s)
	f.key("clip.use_gelu", true)
	f.key("clip.vision.spatial_merge_size", uint32(2))
	f.key("clip.vision.is_deepstack_layers", []bool{slices.Contains(deep, 0), slices.Contains(deep, 1), slices.Contains(deep, 2)})
	f.patches("v.patch_embd.weight", s)
	f.patches("v.patch_embd.weight.1", s)
	f.bias("v.patch_embd.bias", s.embd)
	f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, 64) // 8 x 8
	f.layers(s, func(p string) {
		f.layerNorm(p+"ln1", s.embd)
		f.linear(p+"attn_qkv", s.embd, 3*s.embd)
		f.linear(p+"attn_out", s.embd, s.embd)
		f.layerNorm(p+"ln2", s.embd)
		f.linear(p+"ffn_up", s.embd, s.ff)
		f.linear(p+"ffn_down", s.ff, s.embd)
	})
	f.layerNorm("v.post_ln", s.embd)
	f.linear("mm.0", 4*s.embd, 4*s.embd)
	f.linear("mm.2", 4*s.embd, s.text)
	for _, i := range deep {
		p := fmt.Sprintf("v.deepstack.%d.", i)
		f.layerNorm(p+"norm", 4*s.embd)
		f.linear(p+"fc1", 4*s.embd, 4*s.embd)
		f.linear(p+"fc2", 4*s.embd, s.text)
	}
}

// siglip adds the tensors of the tower that Gemma 3 and LFM2 have.
func (f *file) siglip(s shape) {
	f.patches("v.patch_embd.weight", s)
	f.bias("v.patch_embd.bias", s.embd)
	side := s.image / s.patch
	f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, side*side)
	f.layers(s, func(p string) {
		f.layerNorm(p+"ln1", s.embd)
		f.linear(p+"attn_q", s.embd, s.embd)
		f.linear(p+"attn_k", s.embd, s.embd)
		f.linear(p+"attn_v", s.embd, s.embd)
		f.linear(p+"attn_out", s.embd, s.embd)
		f.layerNorm(p+"ln2", s.embd)
		f.linear(p+"ffn_up", s.embd, s.ff)
		f.linear(p+"ffn_down", s.ff, s.embd)
	})
	f.layerNorm("v.post_ln", s.embd)
}

func (f *file) gemma3(s shape) {
	f.common("gemma3", s)
	f.key("clip.use_gelu", true)
	f.siglip(s)
	f.norm("mm.soft_emb_norm.weight", s.embd)
	f.matrixOf(quant.F16, "mm.input_projection.weight", s.text, s.embd) // [embd] -> [text] by columns
}

func qwen25vl(f *file) {
	s := shape{64, 560, 14, 64, 96, 4, 4, clipMean, clipDeviation, 1e-6}
	f.common("qwen2.5vl_merger", s)
	f.key("clip.use_silu", true)
	f.key("clip.vision.n_wa_pattern", uint32(2)) // layers 1 and 3 attend to all patches
	f.patches("v.patch_embd.weight", s)
	f.patches("v.patch_embd.weight.1", s)
	f.layers(s, func(p string) {
		f.norm(p+"ln1.weight", s.embd)
		f.linear(p+"attn_q", s.embd, s.embd)
		f.linear(p+"attn_k", s.embd, s.embd)
		f.linear(p+"attn_v", s.embd, s.embd)
		f.linear(p+"attn_out", s.embd, s.embd)
		f.norm(p+"ln2.weight", s.embd)
		f.linear(p+"ffn_gate", s.embd, s.ff)
		f.linear(p+"ffn_up", s.embd, s.ff)
		f.linear(p+"ffn_down", s.ff, s.embd)
	})
	f.norm("v.post_ln.weight", s.embd)
	f.linear("mm.0", 4*s.embd, 4*s.embd)
	f.linear("mm.2", 4*s.embd, s.text)
}

// qwen2vl adds Qwen2-VL's tower as in old files: without the width of the feed-forward layers, and with their matrices'
// names swapped.
func qwen2vl(f *file) {
	s := shape{64, 560, 14, 64, 0, 3, 4, clipMean, clipDeviation, 1e-6}
	f.common("qwen2vl_merger", s)
	f.patches("v.patch_embd.weight", s)
	f.patches("v.patch_embd.weight.1", s)
	f.layers(s, func(p string) {
		f.layerNorm(p+"ln1", s.embd)
		f.linear(p+"attn_q", s.embd, s.embd)
		f.linear(p+"attn_k", s.embd, s.embd)
		f.linear(p+"attn_v", s.embd, s.embd)
		f.linear(p+"attn_out", s.embd, s.embd)
		f.layerNorm(p+"ln2", s.embd)
		f.linear(p+"ffn_down", s.embd, 96)
		f.linear(p+"ffn_up", 96, s.embd)
	})
	f.layerNorm("v.post_ln", s.embd)
	f.linear("mm.0", 4*s.embd, 4*s.embd)
	f.linear("mm.2", 4*s.embd, s.text)
}

// gated adds a layer with RMS norms, a gate and no biases, as Pixtral, Gemma 4 and GLM-4V have.
func (f *file) gated(p string, s shape) {
	f.norm(p+"ln1.weight", s.embd)
	f.matrix(p+"attn_out.weight", s.embd, s.embd)
	f.norm(p+"ln2.weight", s.embd)
	f.matrix(p+"ffn_gate.weight", s.embd, s.ff)
	f.matrix(p+"ffn_up.weight", s.embd, s.ff)
	f.matrix(p+"ffn_down.weight", s.ff, s.embd)
}

// projections adds the matrices of queries, keys and values without biases.
func (f *file) projections(p string, s shape) {
	for _, name := range []string{"attn_q", "attn_k", "attn_v"} {
		f.matrix(p+name+".weight", s.embd, s.embd)
	}
}

// gemma4Keys adds the keys of Gemma 4's towers, which name the projector otherwise than others do.
func (f *file) gemma4Keys(projector string, s shape) {
	f.common(projector, s)
	for i := range f.keys {
		if f.keys[i].Key == "clip.projector_type" {
			f.keys[i].Key = "clip.vision.projector_type"
		}
	}
}

func (f *file) gemma4v(width int) {
	s := shape{width, 224, 16, 64, 96, 3, 4, []float32{0, 0, 0}, []float32{1, 1, 1}, 1e-6}
	f.gemma4Keys("gemma4v", s)
	f.patches("v.patch_embd.weight", s)
	f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, 64, 2) // of columns, then of rows
	f.layers(s, func(p string) {
		f.gated(p, s)
		f.projections(p, s)
		f.norm(p+"attn_q_norm.weight", s.embd/s.heads)
		f.norm(p+"attn_k_norm.weight", s.embd/s.heads)
		f.norm(p+"attn_post_norm.weight", s.embd)
		f.norm(p+"ffn_post_norm.weight", s.embd)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"} {
			for _, limit := range []struct {
				name  string
				value float32
			}{{"input_min", -1.5}, {"input_max", 1.75}, {"output_min", -1.25}, {"output_max", 1.5}} {
				f.add(quant.F32, p+name+"."+limit.name, limit.value, 0, 1)
			}
		}
	})
	f.bias("v.std_bias", s.embd)
	f.norm("v.std_scale", s.embd)
	f.matrix("mm.input_projection.weight", s.embd, s.text)
}

func gemma4uv(f *file) {
	s := shape{64, 224, 16, 64, 0, 0, 0, []float32{0, 0, 0}, []float32{1, 1, 1}, 1e-6}
	f.gemma4Keys("gemma4uv", s)
	const pixels = 48 * 48 * 3
	f.add(quant.F32, "v.patch_embd.weight", 0, float32(2/math.Sqrt(pixels)), pixels, s.embd)
	f.bias("v.patch_embd.bias", s.embd)
	f.layerNorm("v.patch_norm.1", pixels)
	f.layerNorm("v.patch_norm.2", s.embd)
	f.layerNorm("v.patch_norm.3", s.embd)
	f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, 64, 2)
	f.matrix("mm.input_projection.weight", s.embd, s.text)
}

// pixtral adds Pixtral's tower, which merges side times side patches into a row.
func (f *file) pixtral(side int) {
	s := shape{64, 280, 14, 64, 96, 3, 4, clipMean, clipDeviation, 1e-5}
	f.common("pixtral", s)
	f.key(map[bool]string{true: "clip.use_silu", false: "clip.use_gelu"}[side > 1], true) // Pixtral 12B has GELU
	if side > 1 {
		f.key("clip.vision.spatial_merge_size", uint32(side))
	}
	f.patches("v.patch_embd.weight", s)
	f.norm("v.pre_ln.weight", s.embd)
	f.layers(s, func(p string) {
		f.gated(p, s)
		f.projections(p, s)
	})
	if side > 1 {
		f.norm("mm.input_norm.weight", s.embd)
		f.matrix("mm.patch_merger.weight", side*side*s.embd, s.embd)
		f.matrix("mm.1.weight", s.embd, s.text)
		f.matrix("mm.2.weight", s.text, s.text)
	} else {
		f.linear("mm.1", s.embd, s.text)
		f.linear("mm.2", s.text, s.text)
	}
	f.add(quant.F32, "v.token_embd.img_break", 0, 1, s.text)
}

func internvl(f *file) {
	s := shape{64, 56, 14, 64, 96, 3, 4, []float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}, 1e-6}
	f.common("internvl", s)
	f.key("clip.use_gelu", true)
	f.key("clip.vision.projector.scale_factor", uint32(2))
	f.key("clip.vision.preproc_min_tiles", uint32(1))
	f.key("clip.vision.preproc_max_tiles", uint32(12))
	f.add(quant.F32, "v.class_embd", 0, 1, s.embd, 1, 1)
	f.patches("v.patch_embd.weight", s)
	f.bias("v.patch_embd.bias", s.embd)
	f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, 17, 1)
	f.layers(s, func(p string) {
		f.layerNorm(p+"ln1", s.embd)
		f.linear(p+"attn_q", s.embd, s.embd)
		f.linear(p+"attn_k", s.embd, s.embd)
		f.linear(p+"attn_v", s.embd, s.embd)
		f.linear(p+"attn_out", s.embd, s.embd)
		f.norm(p+"ls1.weight", s.embd)
		f.layerNorm(p+"ln2", s.embd)
		f.linear(p+"ffn_up", s.embd, s.ff)
		f.linear(p+"ffn_down", s.ff, s.embd)
		f.norm(p+"ls2.weight", s.embd)
	})
	f.layerNorm("mm.model.mlp.0", 4*s.embd)
	f.linear("mm.model.mlp.1", 4*s.embd, s.text)
	f.linear("mm.model.mlp.3", s.text, s.text)
}

func lfm2(f *file) {
	s := shape{64, 256, 16, 72, 104, 2, 3, half, half, 1e-6}
	f.common("lfm2", s)
	f.key("clip.vision.projector.scale_factor", uint32(2))
	f.key("clip.use_gelu", true)
	f.siglip(s)
	f.layerNorm("mm.input_norm", 4*s.embd)
	f.linear("mm.1", 4*s.embd, 96)
	f.linear("mm.2", 96, s.text)
}

// glm4v adds the tower of GLM-4.1V, or that of GLM-OCR, which has biases, norms of heads and no learned positions.
func (f *file) glm4v(ocr bool) {
	s := shape{64, 112, 14, 64, 96, 3, 4, clipMean, clipDeviation, 1e-5}
	f.common("glm4v", s)
	f.key("clip.use_silu", true)
	f.patches("v.patch_embd.weight", s)
	f.patches("v.patch_embd.weight.1", s)
	f.bias("v.patch_embd.bias", s.embd)
	f.norm("v.norm_embd.weight", s.embd)
	if !ocr {
		f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, 64)
	}
	f.layers(s, func(p string) {
		f.gated(p, s)
		f.matrix(p+"attn_qkv.weight", s.embd, 3*s.embd)
		if ocr {
			f.bias(p+"attn_qkv.bias", 3*s.embd)
			f.bias(p+"attn_out.bias", s.embd)
			f.bias(p+"ffn_gate.bias", s.ff)
			f.bias(p+"ffn_up.bias", s.ff)
			f.bias(p+"ffn_down.bias", s.embd)
			f.norm(p+"attn_q_norm.weight", s.embd/s.heads)
			f.norm(p+"attn_k_norm.weight", s.embd/s.heads)
		}
	})
	f.norm("v.post_ln.weight", s.embd)
	f.matrix("mm.patch_merger.weight", 2, 2, s.embd, s.text)
	f.bias("mm.patch_merger.bias", s.text)
	f.matrix("mm.model.fc.weight", s.text, s.text)
	f.layerNorm("mm.post_norm", s.text)
	f.matrix("mm.gate.weight", s.text, 96)
	f.matrix("mm.up.weight", s.text, 96)
	f.matrix("mm.down.weight", 96, s.text)
}

func kimik25(f *file) {
	s := shape{64, 112, 14, 64, 96, 3, 4, half, half, 1e-5}
	f.common("kimik25", s)
	for _, k := range []struct {
		name  string
		value int
	}{{"pos_emb_height", 8}, {"pos_emb_width", 8}, {"pos_emb_time", 4}} {
		f.key("vision."+k.name, uint32(k.value))
	}
	f.key("clip.use_gelu", true)
	f.key("clip.vision.projector.scale_factor", uint32(2))
	f.key("clip.vision.image_min_pixels", uint32(8*14*14))
	f.key("clip.vision.image_max_pixels", uint32(140*84)) // 16384*14*14 in published files
	f.patches("v.patch_embd.weight", s)
	f.bias("v.patch_embd.bias", s.embd)
	f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, 8, 8)
	f.layers(s, func(p string) {
		f.layerNorm(p+"ln1", s.embd)
		f.linear(p+"attn_qkv", s.embd, 3*s.embd)
		f.linear(p+"attn_out", s.embd, s.embd)
		f.layerNorm(p+"ln2", s.embd)
		f.linear(p+"ffn_up", s.embd, s.ff)
		f.linear(p+"ffn_down", s.ff, s.embd)
	})
	f.layerNorm("v.post_ln", s.embd)
	f.layerNorm("mm.input_norm", s.embd)
	f.linear("mm.1", 4*s.embd, 4*s.embd)
	f.linear("mm.2", 4*s.embd, s.text)
}

func llama4(f *file) {
	s := shape{64, 56, 14, 64, 96, 3, 4, half, half, 1e-5}
	f.common("llama4", s)
	f.key("clip.vision.projector.scale_factor", uint32(2))
	f.key("clip.use_gelu", true)
	f.add(quant.F32, "v.class_embd", 0, 1, s.embd)
	f.add(quant.F32, "v.patch_embd.weight", 0, float32(2/math.Sqrt(14*14*3)), 14*14*3, s.embd)
	f.add(quant.F32, "v.position_embd.weight", 0, 0.5, s.embd, 17)
	f.layerNorm("v.pre_ln", s.embd)
	f.layers(s, func(p string) {
		f.layerNorm(p+"ln1", s.embd)
		f.linear(p+"attn_q", s.embd, s.embd)
		f.linear(p+"attn_k", s.embd, s.embd)
		f.linear(p+"attn_v", s.embd, s.embd)
		f.linear(p+"attn_out", s.embd, s.embd)
		f.layerNorm(p+"ln2", s.embd)
		f.linear(p+"ffn_up", s.embd, s.ff)
		f.linear(p+"ffn_down", s.ff, s.embd)
	})
	f.layerNorm("v.post_ln", s.embd)
	f.matrix("mm.model.mlp.1.weight", 4*s.embd, 128)
	f.matrix("mm.model.mlp.2.weight", 128, 128)
	f.matrix("mm.model.fc.weight", 128, s.text)
}
