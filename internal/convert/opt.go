package convert

import (
	"fmt"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// optPositionOffset is how many rows of OPT's learned positions come before position 0.
const optPositionOffset = 2

func optKeys(c *config, arch string) ([]gguf.KV, error) {
	c.FF = firstPositive(c.OPTFF, c.FF)
	if err := c.checkSizes(); err != nil {
		return nil, err
	}
	switch {
	case c.Projection != 0 && c.Projection != c.Hidden:
		return nil, c.errorf("word_embed_proj_dim", "embeddings narrower than the model (%d of %d) are not supported", c.Projection, c.Hidden)
	case !or(c.NormFirst, true):
		return nil, c.errorf("do_layer_norm_before", "norms after attention and feed-forward layer are not supported")
	case !or(c.EnableBias, true) || !or(c.NormAffine, true):
		return nil, c.errorf("enable_bias", "OPT without biases is not supported")
	case c.Heads*c.HeadDim != c.Hidden || c.KVHeads != c.Heads:
		return nil, c.errorf("num_attention_heads", "%d heads of %d do not make up a width of %d", c.Heads, c.HeadDim, c.Hidden)
	}
	if c.OPTAct == "" {
		c.OPTAct = "relu"
	}
	kind, threshold, err := c.activation("activation_function", c.OPTAct)
	if err != nil {
		return nil, err
	}
	// OPT's norms use PyTorch's default, which no configuration states.
	keys := append(c.sizeKeys(arch), gguf.KV{Key: arch + ".attention.layer_norm_epsilon", Value: float32(1e-5)})
	return append(keys, activationKeys(kind, threshold)...), nil
}

func planOPT(p *plan, c *config) {
	// Older checkpoints leave out the outer "model.".
	root := "model.decoder."
	if p.source.tensors[root+"embed_tokens.weight"] == nil {
		root = strings.TrimPrefix(root, "model.")
	}
	p.tie(c, root+"embed_tokens.weight", or(c.Tied, true))
	p.add("position_embd.weight", root+"embed_positions.weight", c.Context+optPositionOffset, c.Hidden).plain = true
	both := func(name, from string, dims ...int) {
		p.add(name+".weight", from+".weight", dims...)
		p.add(name+".bias", from+".bias", dims[0])
	}
	both("output_norm", root+"final_layer_norm", c.Hidden)
	for i := 0; i < c.Layers && p.err == nil; i++ {
		blk, hf := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("%slayers.%d.", root, i)
		both(blk+"attn_norm", hf+"self_attn_layer_norm", c.Hidden)
		both(blk+"attn_q", hf+"self_attn.q_proj", c.Hidden, c.Hidden)
		both(blk+"attn_k", hf+"self_attn.k_proj", c.Hidden, c.Hidden)
		both(blk+"attn_v", hf+"self_attn.v_proj", c.Hidden, c.Hidden)
		both(blk+"attn_output", hf+"self_attn.out_proj", c.Hidden, c.Hidden)
		both(blk+"ffn_norm", hf+"final_layer_norm", c.Hidden)
		both(blk+"ffn_up", hf+"fc1", c.FF, c.Hidden)
		both(blk+"ffn_down", hf+"fc2", c.Hidden, c.FF)
	}
}
