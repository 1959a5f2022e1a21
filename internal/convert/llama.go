package convert

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// llamaKeys reads Llama, Mistral, Qwen and Bamboo, which share their configuration's names.
func llamaKeys(c *config, arch string) ([]gguf.KV, error) {
	if err := c.checkSizes(); err != nil {
		return nil, err
	}
	eps, err := c.eps("rms_norm_eps", c.RMSEps, 1e-6)
	if err != nil {
		return nil, err
	}
	act := c.Act
	if act == "" {
		act = "silu"
	}
	if f := families()[c.Architectures[0]]; f.act != "" {
		act = f.act
	}
	kind, threshold, err := c.activation("hidden_act", act)
	if err != nil {
		return nil, err
	}
	keys := append(c.sizeKeys(arch), gguf.KV{Key: arch + ".attention.layer_norm_rms_epsilon", Value: eps})
	rope, _, err := c.rope(arch)
	if err != nil {
		return nil, err
	}
	return append(append(keys, rope...), activationKeys(kind, threshold)...), nil
}

func planLlama(p *plan, c *config) {
	p.tie(c, "model.embed_tokens.weight", or(c.Tied, false))
	p.add("output_norm.weight", "model.norm.weight", c.Hidden)
	if _, factors, _ := c.rope(p.family.arch); factors != nil {
		p.tensors = append(p.tensors, &tensor{name: "rope_freqs.weight", shape: []int{len(factors)}, values: factors, plain: true})
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	var order func(int) int
	if p.family.interleave {
		order = interleaved(c.HeadDim)
	}
	for i := 0; i < c.Layers && p.err == nil; i++ {
		blk, hf := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		p.add(blk+"attn_norm.weight", hf+"input_layernorm.weight", c.Hidden)
		p.add(blk+"attn_q.weight", hf+"self_attn.q_proj.weight", q, c.Hidden).row = order
		p.add(blk+"attn_k.weight", hf+"self_attn.k_proj.weight", kv, c.Hidden).row = order
		p.add(blk+"attn_v.weight", hf+"self_attn.v_proj.weight", kv, c.Hidden)
		if b := p.optional(blk+"attn_q.bias", hf+"self_attn.q_proj.bias", q); b != nil {
			b.row = order
		}
		if b := p.optional(blk+"attn_k.bias", hf+"self_attn.k_proj.bias", kv); b != nil {
			b.row = order
		}
		p.optional(blk+"attn_v.bias", hf+"self_attn.v_proj.bias", kv)
		if p.family.qkNorm {
			p.add(blk+"attn_q_norm.weight", hf+"self_attn.q_norm.weight", c.HeadDim)
			p.add(blk+"attn_k_norm.weight", hf+"self_attn.k_norm.weight", c.HeadDim)
		}
		p.add(blk+"attn_output.weight", hf+"self_attn.o_proj.weight", c.Hidden, q)
		p.optional(blk+"attn_output.bias", hf+"self_attn.o_proj.bias", c.Hidden)
		p.add(blk+"ffn_norm.weight", hf+"post_attention_layernorm.weight", c.Hidden)
		p.add(blk+"ffn_gate.weight", hf+"mlp.gate_proj.weight", c.FF, c.Hidden)
		p.add(blk+"ffn_up.weight", hf+"mlp.up_proj.weight", c.FF, c.Hidden)
		p.add(blk+"ffn_down.weight", hf+"mlp.down_proj.weight", c.Hidden, c.FF)
	}
}

// interleaved gives, for rotation of neighbours (2j, 2j+1), the row of a head whose rotation pairs (j, j+headDim/2).
func interleaved(headDim int) func(int) int {
	return func(r int) int {
		i := r % headDim
		return r - i + i/2 + i%2*(headDim/2)
	}
}
