package convert

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// sizeKeys returns the hyperparameters that every family writes.
func (c *config) sizeKeys(f lineage.Family) []gguf.KV {
	key := func(s string) string { return f.Name + "." + s }
	keys := []gguf.KV{
		{Key: key("context_length"), Value: uint32(c.Context)},
		{Key: key("embedding_length"), Value: uint32(c.Hidden)},
		{Key: key("block_count"), Value: uint32(c.Layers)},
		{Key: key("feed_forward_length"), Value: c.perLayer(func(s sizes) int { return s.FF })},
		{Key: key("attention.head_count"), Value: c.perLayer(func(s sizes) int { return s.Heads })},
		{Key: key("attention.head_count_kv"), Value: c.perLayer(func(s sizes) int { return c.cachedHeads(f, s) })},
		{Key: key("vocab_size"), Value: uint32(c.Vocab)},
	}
	if f.KeysByHead() { // sizes of the cache's rows
		keys = append(keys,
			gguf.KV{Key: key("attention.key_length"), Value: uint32(c.Latent + c.Turned)},
			gguf.KV{Key: key("attention.value_length"), Value: uint32(c.Latent)})
	} else if !f.OnlyRecurrent() && (c.HeadDim*c.Heads != c.Hidden || c.value() != c.HeadDim || c.GlobalHead > 0 || c.LayerHeads != nil) {
		keys = append(keys,
			gguf.KV{Key: key("attention.key_length"), Value: uint32(cmp.Or(c.GlobalHead, c.HeadDim))},
			gguf.KV{Key: key("attention.value_length"), Value: uint32(cmp.Or(c.GlobalHead, c.value()))})
	}
	return keys
}

// cachedHeads returns the number of KV heads that files state. For latent attention by head it is one, as in the cache.
// For models with delta nets it is that of the layers with attention.
func (c *config) cachedHeads(f lineage.Family, s sizes) int {
	switch {
	case f.KeysByHead():
		return min(1, s.KVHeads)
	case f.Delta:
		return c.KVHeads
	}
	return s.KVHeads
}

// value returns the elements of a head's value.
func (c *config) value() int { return cmp.Or(c.ValueDim, c.HeadDim) }

// attentionKeys returns the keys of how scores depend on positions other than by a rotation, of the bounds of queries,
// keys and values, and of the latent vectors of keys and values.
func (c *config) attentionKeys(f lineage.Family) (keys []gguf.KV, err error) {
	add := func(name string, v any) { keys = append(keys, gguf.KV{Key: f.Name + ".attention." + name, Value: v}) }
	if c.MaxAlibi != nil {
		if !(*c.MaxAlibi >= 0 && *c.MaxAlibi <= maxExponent) {
			return nil, c.Errorf("alibi_bias_max", "%g is not a number from 0 to %d", *c.MaxAlibi, maxExponent)
		}
		add("max_alibi_bias", float32(*c.MaxAlibi))
	}
	if c.Clamp != 0 {
		if !(c.Clamp > 0 && c.Clamp <= maxScale) {
			return nil, c.Errorf("clip_qkv", "%g is not a limit from 0 to %g", c.Clamp, maxScale)
		}
		add("clamp_kqv", float32(c.Clamp))
	}
	if f.Later {
		add("causal", false)
	}
	if c.ValueScale != 0 {
		add("value_scale", float32(c.ValueScale))
	}
	if _, ok := f.Outside("token_types.weight"); ok {
		keys = append(keys, gguf.KV{Key: "tokenizer.ggml.token_type_count", Value: uint32(c.TokenTypes)})
	}
	if f.Latent {
		add("kv_lora_rank", uint32(c.Latent))
		if c.QueryLatent > 0 {
			add("q_lora_rank", uint32(c.QueryLatent))
		}
	}
	if c.IndexHeads > 0 {
		add("indexer.head_count", uint32(c.IndexHeads))
		add("indexer.key_length", uint32(c.IndexHead))
		add("indexer.top_k", uint32(c.IndexTop))
		if x := c.BlockIndexing; x != nil {
			add("indexer.block_size", uint32(x.Block))
			add("indexer.local_blocks", uint32(x.Local))
		}
		if kinds := c.IndexerTypes; kinds != nil {
			full := make([]bool, len(kinds))
			for l, kind := range kinds {
				full[l] = kind == "full"
			}
			add("indexer.types", full)
		}
	}
	if f.KeysByHead() {
		add("key_length_mla", uint32(c.HeadDim))
		add("value_length_mla", uint32(c.value()))
		if w := c.WindowLatent; w != nil {
			add("kv_lora_rank_swa", uint32(w.Latent))
			add("key_length_swa", uint32(w.Latent+c.Turned))
			add("value_length_swa", uint32(w.Latent))
			add("key_length_mla_swa", uint32(w.Key))
			add("value_length_mla_swa", uint32(w.Value))
		}
		more := func(name string, n int) { keys = append(keys, gguf.KV{Key: f.Name + "." + name, Value: uint32(n)}) }
		if c.Mixture.Count == 0 { // llama.cpp requires it even of a model without experts
			more("leading_dense_block_count", c.Layers)
			more("expert_feed_forward_length", c.FF)
			more("expert_shared_count", 0)
		}
	}
	return keys, nil
}

// layerKeys returns the keys for differences between layers, and for inputs of layers other than their weights.
func (c *config) layerKeys(f lineage.Family) ([]gguf.KV, error) {
	var keys []gguf.KV
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: f.Name + "." + key, Value: v}) }
	if n := len(c.Widths); n > 1 && n != c.Layers {
		return nil, c.Errorf("intermediate_size", "%d numbers for %d layers", n, c.Layers)
	}
	if c.Input < 0 || c.Input > maxWidth/c.Layers {
		return nil, c.Errorf("hidden_size_per_layer_input", "%d is outside 0…%d", c.Input, maxWidth/c.Layers)
	}
	if f.LayerInputs {
		add("embedding_length_per_layer_input", uint32(c.Input))
	}
	if f.SharedKV {
		if n := c.Shares(); n < 0 || n >= c.Layers && !f.Drafts {
			return nil, c.Errorf("num_kv_shared_layers", "%d of %d layers cannot share those of others", n, c.Layers)
		}
		add("attention.shared_kv_layers", uint32(c.Shares()))
	}
	if f.Drafts && f.SharedKV {
		add("nextn_predict_layers", uint32(c.Layers))
	}
	if c.Target != 0 {
		if c.Target < 0 || c.Target > maxWidth {
			return nil, c.Errorf("backbone_hidden_size", "%d is outside 1…%d", c.Target, maxWidth)
		}
		add("embedding_length_out", uint32(c.Target))
	}
	if f.AltUp {
		if c.LowRank < 1 || c.LowRank > maxWidth {
			return nil, c.Errorf("laurel_rank", "%d is outside 1…%d", c.LowRank, maxWidth)
		}
		add("altup.active_idx", uint32(c.ActiveStream))
		add("altup.num_inputs", uint32(c.Streams))
	}
	if f.ExpertLimit > 0 {
		add("swiglu_clamp_exp", slices.Repeat([]float32{f.ExpertLimit}, c.Layers))
	}
	for _, l := range []struct {
		from, to string
		values   []float64
	}{{"swiglu_limits", "swiglu_clamp_exp", c.RouterLimits}, {"swiglu_limits_shared", "swiglu_clamp_shexp", c.SharedLimits}} {
		if l.values == nil {
			continue
		}
		all := make([]float32, c.Layers+max(0, c.Further))
		for i, v := range l.values[:min(len(l.values), len(all))] {
			if !(v >= 0 && v <= maxScale) {
				return nil, c.Errorf(l.from, "%g is not a limit from 0 to %g", v, maxScale)
			}
			all[i] = float32(v)
		}
		add(l.to, all)
	}
	if f.SaysRotated && c.NoRope != nil {
		if len(c.NoRope) != c.Layers {
			return nil, c.Errorf("no_rope_layers", "%d numbers for %d layers", len(c.NoRope), c.Layers)
		}
		rotated := make([]bool, c.Layers)
		for l, v := range c.NoRope {
			rotated[l] = v != 0
		}
		add("attention.rope_pattern", rotated)
	}
	if c.Loops != 0 {
		if c.Loops < 1 || c.Loops > maxLoops {
			return nil, c.Errorf("num_loops", "%d is outside 1…%d", c.Loops, maxLoops)
		}
		add("num_loops", uint32(c.Loops))
		add("skip_loop_final_norm", c.SkipsLoopNorm)
	}
	if f.WindowHeads {
		add("attention.key_length_swa", uint32(c.HeadDim))
		add("attention.value_length_swa", uint32(c.HeadDim))
	}
	if f.TopK {
		scales, err := c.deviations()
		if err != nil {
			return nil, err
		}
		add("activation_sparsity_scale", scales)
	}
	return keys, nil
}

// deviations returns for each layer the number of standard deviations by which a gate must exceed the mean to be kept,
// so that config.json's share of gates becomes zero. Minus infinity keeps all.
func (c *config) deviations() ([]float32, error) {
	shares, one := make([]float64, c.Layers), 0.0
	switch raw := c.GateSparsity; {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &one) == nil:
		for l := range shares {
			shares[l] = one
		}
	case json.Unmarshal(raw, &shares) != nil || len(shares) != c.Layers:
		return nil, c.Errorf("activation_sparsity_pattern", "it is neither a number nor %d of them", c.Layers)
	}
	out := make([]float32, c.Layers)
	for l, share := range shares {
		if !(share >= 0 && share < 1) {
			return nil, c.Errorf("activation_sparsity_pattern", "%g of layer %d is not a share below 1", share, l)
		}
		out[l] = float32(math.Sqrt2 * math.Erfinv(2*share-1))
	}
	return out, nil
}

// perLayer returns a list with each layer's number if they differ, else the one number.
func (c *config) perLayer(of func(s sizes) int) any {
	all, first := make([]int32, c.Layers), of(c.sizes(0))
	same := true
	for l := range all {
		n := of(c.sizes(l))
		all[l], same = int32(n), same && n == first
	}
	if same {
		return uint32(first)
	}
	return all
}

// scaleKeys returns config.json's factors of activations.
func (c *config) scaleKeys(f lineage.Family) (keys []gguf.KV, err error) {
	for _, s := range []struct {
		from, to string
		value    float64
		known    bool // to the family
	}{
		{"attention_multiplier", "attention.scale", c.AttentionScale, f.Multipliers},
		{"embedding_multiplier", "embedding_scale", c.EmbeddingScale, f.Multipliers},
		{"residual_multiplier", "residual_scale", c.ResidualScale, f.Multipliers},
		{"logits_scaling", "logit_scale", c.LogitScale, f.Multipliers},
		{"logit_scale", "logit_scale", c.LogitFactor, f.ScaledLogits},
		{"query_pre_attn_scalar", "attention.scale", c.ScoreScale, true},
		{"attn_logit_softcapping", "attn_logit_softcapping", or(c.ScoreCap, 0), f.ScaledInput || f.ProductScale},
		{"final_logit_softcapping", "final_logit_softcapping", or(c.LogitCap, 0), f.ScaledInput || f.ProductScale || c.OutputFactor != 0},
		{"embedding_multiplier_scale", "embedding_scale", c.InputScale, f.ProductScale},
		{"attn_output_multiplier", "attention.output_scale", c.Products, f.ProductScale},
	} {
		switch {
		case s.value == 0: // absent
		case !s.known:
			return nil, c.Errorf(s.from, "%s has no such factor", f.Name)
		case !(s.value > 0 && s.value <= maxScale):
			return nil, c.Errorf(s.from, "%g is not a factor from 0 to %g", s.value, maxScale)
		default:
			keys = append(keys, gguf.KV{Key: f.Name + "." + s.to, Value: float32(s.value)})
		}
	}
	return keys, nil
}

// windowKeys returns the window and, if config.json differs from what the family's files imply, which layers have one.
func (c *config) windowKeys(f lineage.Family) ([]gguf.KV, error) {
	keys := []gguf.KV{{Key: f.Name + ".attention.sliding_window", Value: uint32(min(c.Window, math.MaxInt32))}}
	implied, said := make([]bool, c.Layers), make([]bool, c.Layers)
	period := func(of []bool, every int) {
		for l := range of {
			switch {
			case f.FullFirst:
				of[l] = every == 0 || l%every != 0
			default:
				of[l] = every == 0 || (l+1)%every != 0
			}
		}
	}
	period(implied, cmp.Or(c.FullEvery, f.FullEvery))
	copy(said, implied)
	switch {
	case f.FullEvery == 0: // all have it
	case c.LayerTypes != nil:
		if len(c.LayerTypes) != c.Layers {
			return nil, c.Errorf("layer_types", "%d for %d layers", len(c.LayerTypes), c.Layers)
		}
		for l, t := range c.LayerTypes {
			said[l] = t == "sliding_attention"
			if !said[l] && t != "full_attention" {
				return nil, c.Errorf("layer_types", "%q is not supported; full_attention and sliding_attention are", t)
			}
		}
	default:
		var every int
		var letters string
		p := c.Pattern
		if len(p) == 0 {
			p = c.OldPattern
		}
		switch {
		case len(p) == 0:
		case json.Unmarshal(p, &every) == nil && every >= 0:
			if every > 0 {
				period(said, every)
			}
		case json.Unmarshal(p, &letters) == nil && letters != "":
			for l := range said {
				said[l] = letters[l%len(letters)] == 'L'
			}
		default:
			return nil, c.Errorf("sliding_window_pattern", "%.40s is neither a number nor a text such as LLLG", p)
		}
	}
	if f.FullFirst && slices.Equal(said, implied) { // files of such families have a number
		return append(keys, gguf.KV{Key: f.Name + ".attention.sliding_window_pattern", Value: uint32(cmp.Or(c.FullEvery, f.FullEvery))}), nil
	}
	if !slices.Equal(said, implied) || f.WindowHeads || f.WindowList || c.FurtherWindows != nil {
		keys = append(keys, gguf.KV{Key: f.Name + ".attention.sliding_window_pattern", Value: said})
	}
	return keys, nil
}

// activationKeys returns the keys of the nonlinearity, which GGUF files of other tools leave to the architecture.
func activationKeys(kind string, threshold float64) []gguf.KV {
	keys := []gguf.KV{{Key: "powerinfer.activation", Value: kind}}
	if kind == "fatrelu" {
		keys = append(keys, gguf.KV{Key: "powerinfer.activation_threshold", Value: float32(threshold)})
	}
	return keys
}

// keys returns the family's hyperparameters, and tensors that follow from them, by name.
func (c *config) keys(f lineage.Family) (keys []gguf.KV, computed map[string][]float32, err error) {
	eps := c.Epsilon.Value
	if !(eps > 0) || eps > 1 {
		return nil, nil, c.Errorf(c.Epsilon.Key, "%g is not an epsilon", eps)
	}
	kind, threshold, err := c.activation(c.Nonlinearity.Key, c.Nonlinearity.Value)
	if err != nil {
		return nil, nil, err
	}
	keys = c.sizeKeys(f)
	if f.Layout != "" {
		keys = append(keys, gguf.KV{Key: f.Name + ".tensor_data_layout", Value: f.Layout})
	}
	keys = append(keys, gguf.KV{Key: f.Name + "." + f.EpsilonKey(), Value: float32(eps)})
	if f.ParallelKey != "" {
		keys = append(keys, gguf.KV{Key: f.Name + "." + f.ParallelKey, Value: or(c.ParallelParts, f.Parallel)})
	}
	for _, more := range []func(lineage.Family) ([]gguf.KV, error){c.attentionKeys, c.connectionKeys, c.gatedKeys, c.scaleKeys, c.layerKeys, c.headKeys, c.expertKeys, c.stateKeys} {
		some, err := more(f)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, some...)
	}
	if f.Window && c.Window > 0 {
		windows, err := c.windowKeys(f)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, windows...)
	}
	if f.Sections && c.Vision != nil && len(c.Vision.DeepStack) > 0 {
		keys = append(keys, gguf.KV{Key: f.Name + ".n_deepstack_layers", Value: uint32(len(c.Vision.DeepStack))})
	}
	if f.Rotation != lineage.NotRotated {
		rope, factors, err := c.rope(f)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, rope...)
		computed = factors
	}
	if f.FullFirst && f.Headless {
		keys = append(keys, gguf.KV{Key: f.Name + ".hidden_activation", Value: kind}) // as llama.cpp reads it
	}
	return append(keys, activationKeys(kind, threshold)...), computed, nil
}
