package convert

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
)

// towerKinds are the kinds of towers that are converted.
func towerKinds() []towerKind {
	return []towerKind{
		{
			name: "gemma3", architectures: []string{"Gemma3ForConditionalGeneration"},
			parts: []string{"vision_tower.", "multi_modal_projector."}, plan: gemma3Tower,
		},
		{
			name: "gemma4uv", mixed: true, architectures: []string{"Gemma4UnifiedForConditionalGeneration"},
			parts: []string{"vision_embedder.", "embed_vision."}, plan: gemma4UnifiedTower,
		},
		{
			name: "gemma4v", mixed: true, architectures: []string{"Gemma4ForConditionalGeneration"},
			parts: []string{"vision_tower.", "embed_vision."}, plan: gemma4Tower,
		},
		{
			name: "glm4v", architectures: []string{"Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration", "GlmOcrForConditionalGeneration"},
			parts: []string{"visual."}, plan: glm4VTower,
		},
		{
			name: "internvl", architectures: []string{"InternVLChatModel", "InternVLForConditionalGeneration", "InternS1ForConditionalGeneration"},
			parts: []string{"vision_model.", "vision_tower.", "mlp1.", "multi_modal_projector."}, plan: internVLTower,
		},
		{
			name: "kimik25", architectures: []string{"KimiK25ForConditionalGeneration", "Glm5vForConditionalGeneration"},
			parts: []string{"vision_tower.", "mm_projector."}, plan: kimiK25Tower,
		},
		{
			name: "lfm2", architectures: []string{"Lfm2VlForConditionalGeneration"},
			parts: []string{"vision_tower.", "multi_modal_projector."}, plan: lfm2Tower,
		},
		{
			name: "llama4", architectures: []string{"Llama4ForConditionalGeneration"},
			parts: []string{"vision_model.", "multi_modal_projector."}, plan: llama4Tower,
		},
		{
			name: "pixtral", architectures: []string{"Mistral3ForConditionalGeneration", "LlavaForConditionalGeneration"},
			parts: []string{"vision_tower.", "multi_modal_projector."}, plan: pixtralTower,
		},
		{
			name: "qwen2vl_merger", architectures: []string{"Qwen2VLForConditionalGeneration"},
			parts: []string{"visual."}, plan: qwen2Tower,
		},
		{
			name: "qwen2.5vl_merger", architectures: []string{"Qwen2_5_VLForConditionalGeneration"},
			parts: []string{"visual."}, plan: qwen25Tower,
		},
		{
			name: "qwen3vl_merger", architectures: []string{
				"Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
				"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
			},
			parts: []string{"visual."}, plan: qwen3Tower,
		},
	}
}

// siglip plans SigLIP's blocks and the tensors around them, without the filter of patches.
func (t *towerPlan) siglip(root string) {
	t.blocks(root, towerBlock{
		layer: "encoder.layers.%d.", attnNorm: "layer_norm1", ffnNorm: "layer_norm2",
		q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj", out: "self_attn.out_proj", up: "mlp.fc1", down: "mlp.fc2",
	})
	t.norm("v.post_ln", root+"post_layernorm", t.width)
	t.leaveOut(root + "head.") // which classifies pictures
}

// scale adds the key of how many patches each way become a row.
func (t *towerPlan) scale(n int) { t.key("vision.projector.scale_factor", uint32(n)) }

// merge returns and adds the key of the same, as other towers' files have it.
func (t *towerPlan) merge(of *fields) int {
	n := of.count(2, maxPatch, "spatial_merge_size")
	t.key("vision.spatial_merge_size", uint32(n))
	return n
}

// inverse returns 1 divided by the number that a key has, which must be whole.
func (t *towerPlan) inverse(of *fields, key string) int {
	v := 1 / of.number(0.5, key)
	if n := math.Round(v); of.err == nil && n >= 1 && n <= maxPatch && math.Abs(v-n) < 1e-6 {
		return int(n)
	}
	of.fail(key, "%g is not 1 divided by a whole number", 1/v)
	return 1
}

// expect refuses other numbers than the one that programs assume and files do not contain.
func (t *towerPlan) expect(of *fields, key string, want float64) {
	if v := of.number(want, key); v != want {
		of.fail(key, "%g is not supported; %g is", v, want)
	}
}

// base refuses other bases of rotations than the one that programs assume.
func (t *towerPlan) base(want float64) {
	t.expect(t.vision, "rope_theta", want)
	in := t.vision.within("rope_parameters")
	t.expect(in, "rope_theta", want)
	if t.vision.err == nil {
		t.vision.err = in.err
	}
}

func gemma3Tower(t *towerPlan) {
	t.read(towerSizes{768, 12, 12, 224, 16}, t.vision.number(1e-6, "layer_norm_eps"))
	t.activation("hidden_act", "gelu_pytorch_tanh")
	rows := t.config.count(256, maxWidth, "mm_tokens_per_image")
	grid, side := t.image/t.patch, int(math.Sqrt(float64(rows)))
	if side*side != rows || grid%side != 0 {
		t.config.fail("mm_tokens_per_image", "%d rows are not blocks of %d times %d patches", rows, grid, grid)
	} else if n := grid / side; n != 4 {
		t.scale(n)
	}
	root, projector := t.in("vision_tower.vision_model.", "vision_tower."), t.in("multi_modal_projector.")
	t.filter(root + "embeddings.patch_embedding")
	t.float("v.position_embd.weight", root+"embeddings.position_embedding.weight", grid*grid, t.width)
	t.siglip(root)
	t.norm("mm.soft_emb_norm", projector+"mm_soft_emb_norm", t.width).change(plus(1))
	shape := []int{t.width, t.textWidth}
	t.halved(t.from("mm.input_projection.weight", projector+"mm_input_projection_weight", shape, shape))
}

func gemma4Tower(t *towerPlan) {
	v := t.vision
	t.read(towerSizes{768, 16, 12, 224, 16}, v.number(1e-6, "rms_norm_eps"))
	t.activation("hidden_activation", "gelu_pytorch_tanh")
	t.base(100)
	if v.err == nil {
		t.expect(v, "head_dim", float64(t.width/t.heads))
		t.expect(v, "num_key_value_heads", float64(t.heads))
	}
	if n := v.count(3, maxPatch, "pooling_kernel_size"); n != 3 {
		t.scale(n)
	}
	root := t.in("vision_tower.")
	t.pixelsLast(root+"patch_embedder.input_proj", t.patch)
	t.float("v.position_embd.weight", root+"patch_embedder.position_embedding_table", 2, v.count(10240, maxWidth, "position_embedding_size"), t.width)
	t.blocks(root, towerBlock{
		layer: "encoder.layers.%d.", attnNorm: "input_layernorm", attnAfter: "post_attention_layernorm",
		ffnNorm: "pre_feedforward_layernorm", ffnAfter: "post_feedforward_layernorm", scale: "layer_scalar",
		q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj", out: "self_attn.o_proj",
		qNorm: "self_attn.q_norm", kNorm: "self_attn.k_norm", gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj",
	})
	for _, name := range []string{"std_bias", "std_scale"} {
		if t.has(root + name) {
			t.float("v."+name, root+name, t.width)
		}
	}
	t.clamped("mm.input_projection", t.in("embed_vision.")+"embedding_projection", t.textWidth, t.width)
}

// gemma4UnifiedTower is of a tower without blocks.
func gemma4UnifiedTower(t *towerPlan) {
	v := t.vision
	t.width = v.count(0, maxWidth, "mm_embed_dim")
	t.patch, t.image = v.count(16, maxPatch, "patch_size"), 224 // programs do not use the image's size
	t.readRows()
	t.common(v.number(1e-6, "rms_norm_eps"))
	t.key("vision.feed_forward_length", uint32(0))
	pool := v.count(3, maxPatch, "pooling_kernel_size")
	if pool != 3 {
		t.scale(pool)
	}
	side := t.patch * pool
	t.expect(v, "model_patch_size", float64(side))
	root := t.in("vision_embedder.")
	w := t.pixelsLast(root+"patch_dense", side)
	w.stated = nil
	t.halved(w)
	for _, end := range []string{".weight", ".bias"} {
		t.float("v.patch_norm.1"+end, root+"patch_ln1"+end, 3*side*side).change(reordered(coloursLast(side)))
	}
	t.norm("v.patch_norm.2", root+"patch_ln2", t.width)
	t.norm("v.patch_norm.3", root+"pos_norm", t.width)
	n := t.rowsOf(root + "pos_embedding")
	p := t.from("v.position_embd.weight", root+"pos_embedding", []int{2, n, t.width}, []int{n, 2, t.width})
	p.row, p.as = func(r int) int { return r%n*2 + r/n }, asFloats
	t.clamped("mm.input_projection", t.in("embed_vision.")+"embedding_projection", t.textWidth, t.width)
}

func glm4VTower(t *towerPlan) {
	t.read(towerSizes{1536, 24, 12, 336, 14}, t.vision.number(1e-5, "rms_norm_eps"))
	t.activation("hidden_act", "silu")
	n := t.merge(t.vision)
	root := t.in("visual.")
	t.filters(root + "patch_embed.proj")
	if t.has(root + "post_conv_layernorm.weight") {
		t.norm("v.norm_embd", root+"post_conv_layernorm", t.width)
	}
	if grid := t.image / t.patch; t.has(root + "embeddings.position_embedding.weight") {
		t.float("v.position_embd.weight", root+"embeddings.position_embedding.weight", grid*grid, t.width)
	}
	t.blocks(root, towerBlock{
		layer: "blocks.%d.", attnNorm: "norm1", ffnNorm: "norm2", qkv: "attn.qkv", out: "attn.proj", qNorm: "attn.q_norm", kNorm: "attn.k_norm",
		gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj",
	})
	t.norm("v.post_ln", root+"post_layernorm", t.width)
	block := []int{t.textWidth, t.width, n, n}
	t.halved(t.from("mm.patch_merger.weight", root+"downsample.weight", block, block))
	t.float("mm.patch_merger.bias", root+"downsample.bias", t.textWidth)
	t.linear("mm.model.fc", root+"merger.proj", t.textWidth, t.textWidth)
	t.norm("mm.post_norm", root+"merger.post_projection_norm", t.textWidth)
	hidden := t.rowsOf(root + "merger.up_proj.weight")
	t.linear("mm.gate", root+"merger.gate_proj", hidden, t.textWidth)
	t.linear("mm.up", root+"merger.up_proj", hidden, t.textWidth)
	t.linear("mm.down", root+"merger.down_proj", t.textWidth, hidden)
}

func internVLTower(t *towerPlan) {
	v := t.vision
	t.read(towerSizes{1024, 24, 16, 448, 14}, v.number(1e-6, "layer_norm_eps"))
	t.activation("hidden_act", "gelu")
	if norm := v.text("layer_norm", "norm_type"); norm != "layer_norm" {
		v.fail("norm_type", "norms of %.40q are not supported; layer_norm is", norm)
	}
	if version := t.config.text("v2", "ps_version"); version != "v2" {
		t.config.fail("ps_version", "blocks of patches in the order %.40q are not supported; v2 is", version)
	}
	t.expect(t.config, "select_layer", -1)
	t.expect(t.config, "vision_feature_layer", -1)
	n := t.inverse(t.config, "downsample_ratio")
	t.scale(n)
	for _, tiles := range []struct{ key, config, processor string }{
		{"vision.preproc_min_tiles", "min_dynamic_patch", "min_patches"}, {"vision.preproc_max_tiles", "max_dynamic_patch", "max_patches"},
	} {
		switch {
		case t.config.has(tiles.config):
			t.key(tiles.key, uint32(t.config.count(1, maxWidth, tiles.config)))
		case t.processor.has(tiles.processor):
			t.key(tiles.key, uint32(t.processor.count(1, maxWidth, tiles.processor)))
		}
	}
	grid := t.image / t.patch
	if root := t.in("vision_model.", "vision_tower."); t.has(root + "embeddings.class_embedding") { // as InternVL's own code has it
		t.float("v.class_embd", root+"embeddings.class_embedding", 1, 1, t.width)
		t.filter(root + "embeddings.patch_embedding")
		t.float("v.position_embd.weight", root+"embeddings.position_embedding", 1, grid*grid+1, t.width)
		t.blocks(root, towerBlock{
			layer: "encoder.layers.%d.", attnNorm: "norm1", ffnNorm: "norm2", qkv: "attn.qkv", split: true, out: "attn.proj",
			qNorm: "attn.q_norm", kNorm: "attn.k_norm", attnScale: "ls1", ffnScale: "ls2", up: "mlp.fc1", down: "mlp.fc2",
		})
		t.internVLProjector("mlp1.0", "mlp1.1", "mlp1.3", n)
	} else {
		t.float("v.class_embd", root+"embeddings.cls_token", 1, 1, t.width)
		t.filter(root + "embeddings.patch_embeddings.projection")
		t.float("v.position_embd.weight", root+"embeddings.position_embeddings", 1, grid*grid+1, t.width)
		t.blocks(root, towerBlock{
			layer: "encoder.layer.%d.", attnNorm: "layernorm_before", ffnNorm: "layernorm_after",
			q: "attention.q_proj", k: "attention.k_proj", v: "attention.v_proj", out: "attention.projection_layer",
			qNorm: "attention.q_norm", kNorm: "attention.k_norm", attnScale: "lambda_1", ffnScale: "lambda_2", up: "mlp.fc1", down: "mlp.fc2",
		})
		p := t.in("multi_modal_projector.")
		t.internVLProjector(p+"layer_norm", p+"linear_1", p+"linear_2", n)
		t.leaveOut(root + "embeddings.mask_token")
	}
}

func (t *towerPlan) internVLProjector(norm, first, second string, n int) {
	wide, hidden := n*n*t.width, t.rowsOf(first+".weight")
	t.norm("mm.model.mlp.0", norm, wide)
	t.linear("mm.model.mlp.1", first, hidden, wide)
	t.linear("mm.model.mlp.3", second, t.textWidth, hidden)
}

func kimiK25Tower(t *towerPlan) {
	v := t.vision
	patch := v.count(14, maxPatch, "patch_size")
	high, wide := v.count(64, maxWidth, "init_pos_emb_height"), v.count(64, maxWidth, "init_pos_emb_width")
	t.read(towerSizes{1152, 27, 16, min(maxSide, high*patch), 14}, v.number(1e-5, "projector_ln_eps"))
	t.activation("projector_hidden_act", "gelu")
	n := v.count(2, maxPatch, "merge_kernel_size")
	t.scale(n)
	const least = 8 // patches of a picture, as llama.cpp has it
	t.key("vision.image_min_pixels", uint32(least*patch*patch))
	t.key("vision.image_max_pixels", uint32(min(math.MaxInt32, t.processor.count(16384, maxWidth, "in_patch_limit")*patch*patch)))
	root := t.in("vision_tower.")
	t.filter(root + "patch_embed.proj")
	t.float("v.position_embd.weight", root+"patch_embed.pos_emb.weight", high, wide, t.width)
	t.leaveOut(root + "patch_embed.pos_emb.time_weight") // which still pictures do not need
	t.blocks(root, towerBlock{
		layer: "encoder.blocks.%d.", attnNorm: "norm0", ffnNorm: "norm1", qkv: "wqkv", out: "wo", turned: splitHalves, up: "mlp.fc0", down: "mlp.fc1",
	})
	t.norm("v.post_ln", root+"encoder.final_layernorm", t.width)
	projector := t.in("mm_projector.")
	t.norm("mm.input_norm", projector+"pre_norm", t.width)
	first, second := projector+"proj.0", projector+"proj.2"
	if !t.has(first + ".weight") {
		first, second = projector+"linear_1", projector+"linear_2"
	}
	hidden := t.rowsOf(first + ".weight")
	t.linear("mm.1", first, hidden, n*n*t.width)
	t.linear("mm.2", second, t.textWidth, hidden)
}

// splitHalves maps rows of heads in which the first half rotates by the column and the second by the row to rows of a
// source in which pairs of both alternate.
func splitHalves(headDim int) func(int) int {
	return func(r int) int {
		i := r % headDim
		half, pair, of := i/(headDim/2), i%(headDim/2)/2, i%2
		return r - i + 4*pair + 2*half + of
	}
}

func lfm2Tower(t *towerPlan) {
	v := t.vision
	patch, cells := v.count(16, maxPatch, "patch_size"), v.count(256, maxWidth, "num_patches")
	grid := int(math.Sqrt(float64(cells)))
	if grid*grid != cells {
		v.fail("num_patches", "%d are not a square", cells)
	}
	delete(v.of, "image_size") // it describes the model that the tower was made from
	all := v.count(12, maxLayers, "num_hidden_layers")
	last := t.config.number(-1, "vision_feature_layer")
	if last != math.Trunc(last) || last > -1 || last <= -1-float64(all) {
		t.config.fail("vision_feature_layer", "%g is none of the layers −%d…−1", last, all)
		last = -1
	}
	t.unused = -1 - int(last)
	t.read(towerSizes{768, 12, 12, min(maxSide, grid*patch), 16}, v.number(1e-6, "layer_norm_eps"))
	t.activation("hidden_act", "gelu_pytorch_tanh")
	n := t.config.count(2, maxPatch, "downsample_factor")
	t.scale(n)
	root, projector := t.in("vision_tower.vision_model.", "vision_tower."), t.in("multi_modal_projector.")
	t.pixelsLast(root+"embeddings.patch_embedding", t.patch)
	t.float("v.position_embd.weight", root+"embeddings.position_embedding.weight", cells, t.width)
	t.siglip(root)
	for l := t.layers; l < all; l++ {
		t.leaveOut(fmt.Sprintf("%sencoder.layers.%d.", root, l))
	}
	wide := n * n * t.width
	if t.has(projector + "layer_norm.weight") {
		t.norm("mm.input_norm", projector+"layer_norm", wide)
	}
	hidden := t.rowsOf(projector + "linear_1.weight")
	t.linear("mm.1", projector+"linear_1", hidden, wide)
	t.linear("mm.2", projector+"linear_2", t.textWidth, hidden)
}

func llama4Tower(t *towerPlan) {
	v := t.vision
	t.read(towerSizes{768, 34, 16, 448, 14}, v.number(1e-5, "norm_eps"))
	t.activation("hidden_act", "gelu")
	t.base(10000)
	n := t.inverse(v, "pixel_shuffle_ratio")
	t.scale(n)
	grid := t.image / t.patch
	root := t.in("vision_model.")
	t.float("v.class_embd", root+"class_embedding", t.width)
	t.float("v.patch_embd.weight", root+"patch_embedding.linear.weight", t.width, 3*t.patch*t.patch)
	t.float("v.position_embd.weight", root+"positional_embedding_vlm", grid*grid+1, t.width)
	t.norm("v.pre_ln", root+"layernorm_pre", t.width)
	t.blocks(root, towerBlock{
		layer: "model.layers.%d.", attnNorm: "input_layernorm", ffnNorm: "post_attention_layernorm",
		q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj", out: "self_attn.o_proj", up: "mlp.fc1", down: "mlp.fc2",
	})
	t.norm("v.post_ln", root+"layernorm_post", t.width)
	first, second := root+"vision_adapter.mlp.fc1", root+"vision_adapter.mlp.fc2"
	hidden, out := t.rowsOf(first+".weight"), t.rowsOf(second+".weight")
	t.linear("mm.model.mlp.1", first, hidden, n*n*t.width)
	t.linear("mm.model.mlp.2", second, out, hidden)
	t.linear("mm.model.fc", t.in("multi_modal_projector.")+"linear_1", t.textWidth, out)
}

func pixtralTower(t *towerPlan) {
	v := t.vision
	if kind := v.text("pixtral", "model_type"); kind != "pixtral" {
		v.fail("model_type", "towers of the kind %.40q are not supported; pixtral is", kind)
	}
	t.read(towerSizes{1024, 24, 16, 1024, 16}, v.number(1e-5, "layer_norm_eps"))
	t.activation("hidden_act", "silu")
	t.base(10000)
	if v.err == nil {
		t.expect(v, "head_dim", float64(t.width/t.heads))
	}
	root, projector := t.in("vision_tower."), t.in("multi_modal_projector.")
	t.filter(root + "patch_conv")
	t.norm("v.pre_ln", root+"ln_pre", t.width)
	t.blocks(root, towerBlock{
		layer: "transformer.layers.%d.", attnNorm: "attention_norm", ffnNorm: "ffn_norm", turned: interleaved,
		q: "attention.q_proj", k: "attention.k_proj", v: "attention.v_proj", out: "attention.o_proj",
		gate: "feed_forward.gate_proj", up: "feed_forward.up_proj", down: "feed_forward.down_proj",
	})
	if merger := projector + "patch_merger.merging_layer"; t.has(merger + ".weight") {
		n := t.merge(t.config)
		t.norm("mm.input_norm", projector+"norm", t.width)
		t.halved(t.product("mm.patch_merger", merger, t.width, n*n*t.width, t.width, nil))
	}
	t.linear("mm.1", projector+"linear_1", t.textWidth, t.width)
	t.linear("mm.2", projector+"linear_2", t.textWidth, t.textWidth)
	t.lineBreak("[IMG_BREAK]")
}

// lineBreak plans the text model's embedding of a token, which follows the rows of each line.
func (t *towerPlan) lineBreak(token string) {
	id := t.tokenID(token)
	var from string
	for _, name := range []string{"language_model.model.embed_tokens.weight", "model.language_model.embed_tokens.weight", "model.embed_tokens.weight"} {
		if from = name; t.has(from) {
			break
		}
	}
	vocab := t.rowsOf(from)
	w := t.from("v.token_embd.img_break", from, []int{1, t.textWidth}, []int{vocab, t.textWidth})
	if id >= vocab {
		t.config.fail("vocab_size", "token %s has the number %d, and there are %d embeddings", token, id, vocab)
		return
	}
	w.row, w.as, w.stated = func(int) int { return id }, asFloats, []int{t.textWidth}
}

// tokenID returns the number of a special token.
func (t *towerPlan) tokenID(token string) int {
	var list struct {
		Added []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	path := filepath.Join(t.dir, "tokenizer.json")
	if own := filepath.Join(t.dir, tekkenFile); !checkpoint.Exists(path) && checkpoint.Exists(own) {
		specials, _, err := readTekken(own)
		id := slices.Index(specials, token)
		if err == nil && id < 0 {
			err = fmt.Errorf("%s: key %q: token %s is not among them, and the tower's rows need its embedding", own, "special_tokens", token)
		}
		t.err = cmp.Or(t.err, err)
		return max(0, id)
	}
	if err := checkpoint.ReadJSON(path, &list); err != nil {
		t.err = cmp.Or(t.err, err)
		return 0
	}
	for _, a := range list.Added {
		if a.Content == token && a.ID >= 0 {
			return a.ID
		}
	}
	t.err = cmp.Or(t.err, fmt.Errorf("%s: key %q: token %s is not among them, and the tower's rows need its embedding", path, "added_tokens", token))
	return 0
}

func qwen2Tower(t *towerPlan) {
	t.read(towerSizes{1280, 32, 16, 560, 14}, 1e-6)
	t.activation("hidden_act", "quick_gelu")
	root := t.in("visual.")
	t.filters(root + "patch_embed.proj")
	t.blocks(root, towerBlock{
		layer: "blocks.%d.", attnNorm: "norm1", ffnNorm: "norm2", qkv: "attn.qkv", split: true, out: "attn.proj", up: "mlp.fc1", down: "mlp.fc2",
	})
	t.qwen2Merger(root)
}

func (t *towerPlan) qwen2Merger(root string) {
	n := t.merge(t.vision)
	wide := n * n * t.width
	t.norm("v.post_ln", root+"merger.ln_q", t.width)
	t.linear("mm.0", root+"merger.mlp.0", wide, wide)
	t.linear("mm.2", root+"merger.mlp.2", t.textWidth, wide)
}

func qwen25Tower(t *towerPlan) {
	v := t.vision
	t.read(towerSizes{1280, 32, 16, 560, 14}, 1e-6)
	t.activation("hidden_act", "silu")
	t.expect(v, "window_size", 112)
	full := []int{7, 15, 23, 31}
	v.read("fullatt_block_indexes", &full)
	for i, l := range full {
		if l < 0 || l >= t.layers || l+1 != (i+1)*(full[0]+1) {
			v.fail("fullatt_block_indexes", "%v are not every so many layers of %d", full, t.layers)
		}
	}
	if len(full) > 0 {
		t.key("vision.n_wa_pattern", uint32(full[0]+1))
	}
	root := t.in("visual.")
	t.filters(root + "patch_embed.proj")
	t.blocks(root, towerBlock{
		layer: "blocks.%d.", attnNorm: "norm1", ffnNorm: "norm2", qkv: "attn.qkv", split: true, out: "attn.proj",
		gate: "mlp.gate_proj", up: "mlp.up_proj", down: "mlp.down_proj",
	})
	t.qwen2Merger(root)
}

func qwen3Tower(t *towerPlan) {
	v := t.vision
	patch, cells := v.count(16, maxPatch, "patch_size"), v.count(2304, maxWidth, "num_position_embeddings")
	grid := int(math.Sqrt(float64(cells)))
	if grid*grid != cells {
		v.fail("num_position_embeddings", "%d are not a square", cells)
	}
	t.read(towerSizes{1152, 27, 16, min(maxSide, grid*patch), 16}, 1e-6)
	t.activation("hidden_act", "gelu_pytorch_tanh")
	n := t.merge(v)
	wide := n * n * t.width
	root := t.in("visual.")
	t.filters(root + "patch_embed.proj")
	t.float("v.position_embd.weight", root+"pos_embed.weight", cells, t.width)
	t.blocks(root, towerBlock{
		layer: "blocks.%d.", attnNorm: "norm1", ffnNorm: "norm2", qkv: "attn.qkv", out: "attn.proj", up: "mlp.linear_fc1", down: "mlp.linear_fc2",
	})
	var deep []int
	v.read("deepstack_visual_indexes", &deep)
	flags := make([]bool, t.layers)
	for i, l := range deep {
		if l < 0 || l >= t.layers || flags[l] {
			v.fail("deepstack_visual_indexes", "%v are not different layers of %d", deep, t.layers)
			return
		}
		flags[l] = true
		to, from := fmt.Sprintf("v.deepstack.%d.", l), fmt.Sprintf("%sdeepstack_merger_list.%d.", root, i)
		t.norm(to+"norm", from+"norm", wide)
		t.linear(to+"fc1", from+"linear_fc1", wide, wide)
		t.linear(to+"fc2", from+"linear_fc2", t.textWidth, wide)
	}
	t.key("vision.is_deepstack_layers", flags)
	t.norm("v.post_ln", root+"merger.norm", t.width)
	t.linear("mm.0", root+"merger.linear_fc1", wide, wide)
	t.linear("mm.2", root+"merger.linear_fc2", t.textWidth, wide)
}
