package lineage

import (
	"cmp"
	"math"
)

// hunyuanContext is the context of Hunyuan's models with alpha scaling; their configurations tell a shorter one.
const hunyuanContext = 1 << 18

// hunyuanDense describes Hunyuan's models without experts: llama with rotated halves, and norms of each head of q and k
// after the rotation.
func hunyuanDense() Family {
	f := llama()
	f.Name, f.HuggingFace = "hunyuan-dense", []string{"HunYuanDenseV1ForCausalLM"}
	f.Rotation = HalvesApart
	f.Block = with(headNorms(llamaBlock(Same)),
		Tensor{Name: "attn_q_norm.weight", Source: "self_attn.query_layernorm.weight"},
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.key_layernorm.weight"})
	f.Read = readHunyuan
	return f
}

// readHunyuan raises the base by alpha, where the configuration says dynamic.
func readHunyuan(c *Config) error {
	for _, s := range []*RopeScaling{c.RopeScale, c.Rope} {
		if s == nil || s.Alpha == 0 {
			continue
		}
		dim := float64(cmp.Or(c.HeadDim, c.Hidden/max(1, c.Heads)))
		if !(s.Alpha >= 1) || dim <= 2 {
			return c.Errorf("rope_scaling", "alpha %g with heads of %g elements is not supported", s.Alpha, dim)
		}
		c.RopeTheta = cmp.Or(c.RopeTheta, s.Theta, 10000) * math.Pow(s.Alpha, dim/(dim-2))
		s.Type, s.OldType = "default", ""
		c.Context = max(c.Context, hunyuanContext)
		break
	}
	c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
	return readLlama(c)
}
