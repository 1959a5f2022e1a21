package lineage

import (
	"cmp"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// minimaxM3 describes MiniMax M3: routed and shared experts, clamped SwiGLUs, norms of each head of q and k, and in
// layers with experts indexers, which choose blocks of positions for each head of keys and values.
func minimaxM3() Family {
	f := llama()
	f.Name, f.HuggingFace = "minimax-m3", []string{"MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"}
	f.Rotation, f.PartialRotary, f.Root = HalvesApart, true, textRoots()
	f.Activation = compute.ClampedSwiGLU
	f.Experts = &Experts{Score: compute.Sigmoid, Normalised: true, MinSum: leastSum, Counted: true}
	f.Block = append(mixtralExperts(headNorms(llamaBlock(Same))), Tensor{Name: "exp_probs_b.bias", Source: "block_sparse_moe.e_score_correction_bias"})
	f.Block = append(sharedExpert(f.Block, "block_sparse_moe.shared_experts"),
		Tensor{Name: "indexer.q_proj.weight", Source: "self_attn.index_q_proj.weight", Optional: true},
		Tensor{Name: "indexer.k_proj.weight", Source: "self_attn.index_k_proj.weight", Optional: true},
		Tensor{Name: "indexer.q_norm.weight", Source: "self_attn.index_q_norm.weight", Optional: true},
		Tensor{Name: "indexer.k_norm.weight", Source: "self_attn.index_k_norm.weight", Optional: true})
	f.Outer, f.Block = plusOne(f.Outer), plusOne(f.Block)
	f.Read = readMiniMaxM3
	return f
}

func readMiniMaxM3(c *Config) error {
	x := c.BlockIndexing
	c.refuse(c.Scoring != "" && c.Scoring != "sigmoid", "scoring_func", "%q is not supported in MiniMax M3; sigmoid is", c.Scoring)
	const most = 1 << 20
	if x == nil || min(x.Heads, x.Key, x.Top, x.Block) < 1 || max(x.Heads, x.Key, x.Top, x.Block) > most || x.Local < 0 || x.Local > x.Top {
		return c.Errorf("sparse_attention_config", "it does not say how blocks of positions are chosen")
	}
	c.IndexHeads, c.IndexHead, c.IndexTop = x.Heads, x.Key, x.Top
	width := c.FF
	c.FF, c.Widths = cmp.Or(c.DenseFF, c.FF), nil
	c.mixture(width)
	m := &c.Mixture
	m.Shared, m.Scale = c.SharedExperts*width, c.ExpertScale
	for _, has := range c.ExpertEvery {
		if has != 0 {
			break
		}
		m.First++
	}
	if c.SharedExperts < 0 || c.SharedExperts > 1<<10 || slices.Contains(c.ExpertEvery[m.First:], 0) {
		return c.Errorf("moe_layer_freq", "layers without experts after others with some, or %d shared experts, are not supported", c.SharedExperts)
	}
	c.rotatesDims()
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.Nonlinearity.Value = ClampedSwiGLU()
	c.TiedHead = or(c.Tied, false)
	return nil
}
