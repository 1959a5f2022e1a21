package convert

import (
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// stateKeys returns the keys of the sizes of recurrent layers.
func (c *config) stateKeys(f lineage.Family) (keys []gguf.KV, err error) {
	if !f.StateSpace {
		return nil, nil
	}
	s := &c.StateSpace
	if f.ShortConv {
		if s.Taps < 2 || s.Taps > maxTaps {
			return nil, c.Errorf("conv_L_cache", "%d is outside 2…%d", s.Taps, maxTaps)
		}
		return []gguf.KV{{Key: f.Name + ".shortconv.l_cache", Value: uint32(s.Taps)}}, nil
	}
	if f.Lightning() {
		full := make([]bool, c.Layers)
		for l := range full {
			full[l] = c.LayerParts[l]&lineage.Recurrent != 0
		}
		return []gguf.KV{
			{Key: f.Name + ".attention.recurrent_layers", Value: full},
			{Key: f.Name + ".residual_scale", Value: float32(c.FullAlpha)},
		}, nil
	}
	if f.DeltaAttention() {
		return c.deltaAttentionKeys(f)
	}
	switch {
	case f.Selective():
		return c.selectiveKeys(f)
	case f.TimeMixed():
		r := s.Ranks
		for _, k := range []struct {
			name  string
			value int
		}{
			{"wkv.head_size", s.StateSize},
			{"attention.decay_lora_rank", r.Decay},
			{"attention.iclr_lora_rank", r.Rate},
			{"attention.value_residual_mix_lora_rank", r.Value},
			{"attention.gate_lora_rank", r.Gate},
		} {
			keys = append(keys, gguf.KV{Key: f.Name + "." + k.name, Value: uint32(k.value)})
		}
		return keys, nil
	}
	names := [...]string{"conv_kernel", "mamba_num_heads", "ssm_state_size", "n_groups"}
	if f.PerhapsRotated || f.AllLayers&lineage.Attention != 0 {
		names = [...]string{"mamba_d_conv", "mamba_n_heads", "mamba_d_state", "mamba_n_groups"}
	}
	if f.Delta {
		names = [...]string{"linear_conv_kernel_dim", "linear_num_value_heads", "linear_key_head_dim", "linear_num_key_heads"}
	}
	for _, k := range []struct {
		from, to string
		value    int
	}{
		{names[0], "conv_kernel", s.Taps},
		{names[1], "inner_size", s.Inner},
		{names[2], "state_size", s.StateSize},
		{names[1], "time_step_rank", s.StateHeads},
		{names[3], "group_count", s.Groups},
	} {
		if k.value < 1 || k.value > maxWidth {
			return nil, c.Errorf(k.from, "%d is outside 1…%d", k.value, maxWidth)
		}
		keys = append(keys, gguf.KV{Key: f.Name + ".ssm." + k.to, Value: uint32(k.value)})
	}
	if s.Inner%s.StateHeads != 0 || s.StateHeads%s.Groups != 0 {
		return nil, c.Errorf(names[3], "%d elements of %d heads in %d groups are not all alike", s.Inner, s.StateHeads, s.Groups)
	}
	if f.Delta {
		if s.Inner/s.StateHeads != s.StateSize { // llama.cpp takes them for the same
			return nil, c.Errorf("linear_value_head_dim", "heads of %d elements that are written by keys of %d are not supported", s.Inner/s.StateHeads, s.StateSize)
		}
		return append(keys, gguf.KV{Key: f.Name + ".full_attention_interval", Value: uint32(c.DeltaNet.Every)}), nil
	}
	if f.PerhapsRotated {
		keys = append(keys, gguf.KV{Key: f.Name + ".rope.scaling.finetuned", Value: !c.Unrotated})
	}
	if !f.OnePart {
		return keys, nil
	}
	// llama.cpp requires it, for MTP layers.
	return append(keys, gguf.KV{Key: f.Name + ".attention.layer_norm_epsilon", Value: float32(c.Epsilon.Value)}), nil
}

// deltaAttentionKeys returns the keys of Kimi delta attention, and of other parts of such models.
func (c *config) deltaAttentionKeys(f lineage.Family) (keys []gguf.KV, err error) {
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: f.Name + "." + key, Value: v}) }
	s := &c.StateSpace
	if s.Taps < 2 || s.Taps > maxTaps {
		return nil, c.Errorf("short_conv_kernel_size", "%d is outside 2…%d", s.Taps, maxTaps)
	}
	add("ssm.conv_kernel", uint32(s.Taps))
	add("kda.head_dim", uint32(s.StateSize))
	if c.LowerBound < 0 {
		add("kda.gate_lower_bound", float32(c.LowerBound))
		add("kda.safe_gate", true)
	}
	if c.Mixture.First == 0 { // llama.cpp requires it of Ling
		add("leading_dense_block_count", uint32(0))
	}
	if c.CheckEvery > 0 {
		add("attn_res.block_size", uint32(c.CheckEvery))
		add("activation.situ_beta", float32(c.SituGate))
		add("activation.situ_linear_beta", float32(max(0, c.SituUp)))
	}
	return keys, nil
}

// selectiveKeys returns the keys of the sizes of Mamba's layers.
func (c *config) selectiveKeys(f lineage.Family) (keys []gguf.KV, err error) {
	s := &c.StateSpace
	for _, k := range []struct {
		from, to   string
		value, max int
	}{
		{"conv_kernel", "conv_kernel", s.Taps, maxTaps},
		{"hidden_size", "inner_size", s.Inner, maxWidth},
		{"state_size", "state_size", s.StateSize, maxWidth},
		{"time_step_rank", "time_step_rank", s.StateHeads, maxWidth},
	} {
		if k.value < 1 || k.value > k.max {
			return nil, c.Errorf(k.from, "%d is outside 1…%d", k.value, k.max)
		}
		keys = append(keys, gguf.KV{Key: f.Name + ".ssm." + k.to, Value: uint32(k.value)})
	}
	if f.OnlyRecurrent() {
		keys = append(keys, gguf.KV{Key: f.Name + ".ssm.dt_b_c_rms", Value: c.NormedSteps})
	}
	return keys, nil
}

// deltaSizes are the sizes of a delta net. Neighbouring heads of values form a group, which shares a head of queries
// and keys.
type deltaSizes lineage.StateSpace

// each returns how many heads a group has, and how wide they are.
func (s deltaSizes) each() (heads, dim int) {
	return s.StateHeads / s.Groups, s.Inner / s.StateHeads
}

// mixed maps rows of all queries, then all keys, then all values to source rows. The source has groups, each with a
// query, a key, and the values and gates of its heads.
func (s deltaSizes) mixed(r int) int {
	heads, dim := s.each()
	group, keys := 2*(s.StateSize+heads*dim), s.Groups*s.StateSize
	switch {
	case r < keys:
		return r/s.StateSize*group + r%s.StateSize
	case r < 2*keys:
		r -= keys
		return r/s.StateSize*group + s.StateSize + r%s.StateSize
	}
	r -= 2 * keys
	return r/(heads*dim)*group + 2*s.StateSize + r%(heads*dim)
}

// gates maps rows of all heads' gates to rows of the same source.
func (s deltaSizes) gates(r int) int {
	heads, dim := s.each()
	own := heads * dim
	return r/own*2*(s.StateSize+own) + 2*s.StateSize + own + r%own
}

// tiled maps an element of the output to the source's. The first elements stay in place; heads of dim elements follow.
// In the source the heads of a group are neighbours; in files the groups' heads alternate.
func (s deltaSizes) tiled(first, dim int) func(int) int {
	return func(i int) int {
		if i < first {
			return i
		}
		each, _ := s.each()
		i -= first
		head := i / dim
		return first + (head%s.Groups*each+head/s.Groups)*dim + i%dim
	}
}

// tile reorders t, a tensor of a delta net, from checkpoints' order of heads to the file's.
func (t *tensor) tile(stem string, s deltaSizes) {
	switch stem {
	case "attn_qkv", "ssm_conv1d":
		_, dim := s.each()
		t.row = s.tiled(2*s.Groups*s.StateSize, dim)
	case "attn_gate":
		_, dim := s.each()
		t.row = s.tiled(0, dim)
	case "ssm_alpha", "ssm_beta", "ssm_a", "ssm_dt":
		t.row = s.tiled(0, 1)
	case "ssm_out":
		_, dim := s.each()
		t.change(reordered(s.tiled(0, dim)))
	}
}
