package lineage

import "slices"

// graniteSWA describes Granite with sliding windows and attention sinks, dense or with experts and a shared one. Files
// store the shared expert's gate and up as one tensor.
func graniteSWA() Family {
	f := granite()
	f.Name, f.HuggingFace = "granite_swa", []string{"GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM"}
	f.Window, f.FullEvery, f.WindowList, f.SaysRotated = true, 4, true, true
	f.Experts = &Experts{Optional: true, Normalised: true, MinSum: leastSum}
	const both = "block_sparse_moe.experts.gate_up_proj block_sparse_moe.input_linear.weight"
	f.Block = slices.Concat(f.Block, []Tensor{
		{Name: "attn_sinks.weight", Source: "self_attn.sinks"},
		{Name: "ffn_gate_inp.weight", Source: "block_sparse_moe.router.layer.weight block_sparse_moe.router.weight"},
		{Name: "ffn_gate_exps.weight", Source: both, Change: FirstHalf},
		{Name: "ffn_up_exps.weight", Source: both, Change: SecondHalf},
		{Name: "ffn_down_exps.weight", Source: "block_sparse_moe.experts.down_proj block_sparse_moe.output_linear.weight"},
		{Name: "ffn_up_shexp.weight", Source: "shared_mlp.input_linear.weight", Optional: true},
		{Name: "ffn_down_shexp.weight", Source: "shared_mlp.output_linear.weight", Optional: true},
	})
	read := f.Read
	f.Read = func(c *Config) error {
		if c.LayerTypes == nil {
			for l := range min(max(c.Layers, 0), 1<<12) {
				kind := "sliding_attention"
				if l%4 == 0 {
					kind = "full_attention"
				}
				c.LayerTypes = append(c.LayerTypes, kind)
			}
		}
		if c.Window == 0 {
			c.Window = 128
		}
		c.mixture(c.FF)
		c.Mixture.Shared = c.SharedMLP
		return read(c)
	}
	return f
}
