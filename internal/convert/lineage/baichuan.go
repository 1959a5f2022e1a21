package lineage

import "cmp"

// The layers of Baichuan's models, by which GGUF files say how positions are known.
const (
	baichuan7B  = 32 // rotated
	baichuan13B = 40 // ALiBi
)

// baichuan describes Baichuan 1 and 2: llama with q, k and v in one tensor of the checkpoint. The 13B have ALiBi
// instead of RoPE. Files of other depths, which nobody published, have neither, as in llama.cpp.
func baichuan() Family {
	f := llama()
	f.Name, f.HuggingFace = "baichuan", []string{"BaichuanForCausalLM", "BaiChuanForCausalLM"}
	f.HeadsFillWidth, f.QKV = true, "self_attn.W_pack"
	f.Block = each(without(llamaBlock(Pairs), "*.bias"), func(t *Tensor) { t.Source = f.QKV + ".weight" }, "attn_[qkv].weight")
	f.Read = func(c *Config) error {
		if c.Layers != baichuan7B && c.Layers != baichuan13B {
			return c.Errorf("num_hidden_layers", "Baichuan has %d layers (7B, rotated) or %d (13B, ALiBi), not %d; GGUF files say no other way which it is",
				baichuan7B, baichuan13B, c.Layers)
		}
		c.Context = cmp.Or(c.Context, c.LongContext)
		c.UnitHead = c.ZLoss != nil // only Baichuan 2 has it
		return readLlama(c)
	}
	return f
}
