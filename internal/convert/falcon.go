package convert

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// falconContext is what Falcon was trained for; its older configurations do not say it.
const falconContext = 2048

// falconKeys reads Falcon 7B (one KV head, one norm) and 40B (grouped KV heads, two norms).
func falconKeys(c *config, arch string) ([]gguf.KV, error) {
	if c.Alibi || c.Bias || !or(c.Parallel, true) {
		return nil, c.errorf("architectures", "Falcon-RW (alibi, biases or sequential blocks) is not supported; Falcon 7B and 40B are")
	}
	c.Layers = firstPositive(c.Layers, c.OldLayers)
	c.Heads = firstPositive(c.Heads, c.OldHeads)
	// As the model's own code decides it: without the new layout, multi-query means one KV head whatever else is said.
	switch {
	case c.NewDecoder:
		c.KVHeads = firstPositive(c.FalconKV, c.OldKVHeads, c.Heads)
	case or(c.MultiQuery, true) && c.OldKVHeads <= 1:
		c.KVHeads = 1
	default:
		c.KVHeads = firstPositive(c.FalconKV, c.OldKVHeads, c.Heads)
	}
	c.FF = firstPositive(c.FalconFF, 4*min(c.Hidden, maxWidth))
	c.Context = firstPositive(c.Context, falconContext)
	if err := c.checkSizes(); err != nil {
		return nil, err
	}
	if c.Heads*c.HeadDim != c.Hidden {
		return nil, c.errorf("head_dim", "%d heads of %d do not make up a width of %d", c.Heads, c.HeadDim, c.Hidden)
	}
	eps, err := c.eps("layer_norm_epsilon", c.LayerNormEps, 1e-5)
	if err != nil {
		return nil, err
	}
	if c.FalconAct == "" {
		c.FalconAct = "gelu"
	}
	key := "activation"
	if c.Act != "" { // ReLU variants name it as Llama does
		c.FalconAct, key = c.Act, "hidden_act"
	}
	kind, threshold, err := c.activation(key, c.FalconAct)
	if err != nil {
		return nil, err
	}
	keys := append(c.sizeKeys(arch),
		gguf.KV{Key: arch + ".tensor_data_layout", Value: "jploski"}, // q, k and v apart, see falconOrder
		gguf.KV{Key: arch + ".attention.layer_norm_epsilon", Value: eps})
	rope, factors, err := c.rope(arch)
	if err != nil {
		return nil, err
	}
	if factors != nil {
		return nil, c.errorf("rope_scaling", "llama3 scaling of Falcon is not supported")
	}
	return append(append(keys, rope...), activationKeys(kind, threshold)...), nil
}

func planFalcon(p *plan, c *config) {
	p.tie(c, "transformer.word_embeddings.weight", or(c.Tied, true))
	p.add("output_norm.weight", "transformer.ln_f.weight", c.Hidden)
	p.add("output_norm.bias", "transformer.ln_f.bias", c.Hidden)
	for i := 0; i < c.Layers && p.err == nil; i++ {
		blk, hf := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("transformer.h.%d.", i)
		norm := func(name, from string) {
			p.add(blk+name+".weight", hf+from+".weight", c.Hidden)
			p.add(blk+name+".bias", hf+from+".bias", c.Hidden)
		}
		if p.source.tensors[hf+"ln_attn.weight"] != nil {
			norm("attn_norm", "ln_mlp")
			norm("attn_norm_2", "ln_attn")
		} else {
			norm("attn_norm", "input_layernorm")
		}
		rows := (c.Heads + 2*c.KVHeads) * c.HeadDim
		p.add(blk+"attn_qkv.weight", hf+"self_attention.query_key_value.weight", rows, c.Hidden).row = falconOrder(c.Heads, c.KVHeads, c.HeadDim)
		p.add(blk+"attn_output.weight", hf+"self_attention.dense.weight", c.Hidden, c.Hidden)
		p.add(blk+"ffn_up.weight", hf+"mlp.dense_h_to_4h.weight", c.FF, c.Hidden)
		p.add(blk+"ffn_down.weight", hf+"mlp.dense_4h_to_h.weight", c.Hidden, c.FF)
	}
}

// falconOrder gives the source row of a row of all q heads, then all k heads, then all v heads. The source lies in
// groups: heads/kvHeads q heads, followed by the k and the v head that they share.
func falconOrder(heads, kvHeads, headDim int) func(int) int {
	per := heads / kvHeads
	return func(r int) int {
		h, i := r/headDim, r%headDim
		group, member := h/per, h%per
		switch {
		case h >= heads+kvHeads:
			group, member = h-heads-kvHeads, per+1
		case h >= heads:
			group, member = h-heads, per
		}
		return (group*(per+2)+member)*headDim + i
	}
}
