package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// dbrxEpsilon is the epsilon of DBRX's norms, which its configuration does not have.
const dbrxEpsilon = 1e-5

// DBRXExperts is DBRX's ffn_config.
type DBRXExperts struct {
	Activation struct {
		Name string `json:"name"`
	} `json:"ffn_act_fn"`
	Width int      `json:"ffn_hidden_size"`
	Count int      `json:"moe_num_experts"`
	Used  int      `json:"moe_top_k"`
	Norm  *float64 `json:"moe_normalize_expert_weights"` // p of the p-norm by which weights are divided
}

// dbrx describes DBRX: LayerNorms without biases, clamped queries, keys and values, and experts in every layer. Its
// folders store all experts' matrices of one kind as one tensor.
func dbrx() Family {
	const experts = "ffn.experts.mlp."
	var f Family
	f.Name, f.HuggingFace = "dbrx", []string{"DbrxForCausalLM"}
	f.Rotation, f.LayerNorm, f.Clamped, f.Gated, f.Activation, f.FFNNorm = HalvesApart, true, true, true, compute.SiLU, "attn_output_norm"
	f.HeadsFillWidth, f.MaxContext = true, 32768
	f.Experts = &Experts{Normalised: true, MinSum: leastSum}
	f.Root, f.Layer = []string{"transformer."}, "blocks.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "wte.weight"},
		{Name: "output_norm.weight", Source: "norm_f.weight"},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "norm_attn_norm.norm_1.weight"},
		{Name: "attn_qkv.weight", Source: "norm_attn_norm.attn.Wqkv.weight"},
		{Name: "attn_output.weight", Source: "norm_attn_norm.attn.out_proj.weight"},
		{Name: "attn_output_norm.weight", Source: "norm_attn_norm.norm_2.weight"},
		{Name: "ffn_gate_inp.weight", Source: "ffn.router.layer.weight"},
		{Name: "ffn_gate_exps.weight", Source: experts + "w1", Change: Joined},
		{Name: "ffn_up_exps.weight", Source: experts + "v1", Change: Joined},
		{Name: "ffn_down_exps.weight", Source: experts + "w2", Change: JoinedColumns},
	}
	f.Read = readDBRX
	return f
}

func readDBRX(c *Config) error {
	a, e := c.MPT, c.DBRX
	switch {
	case a == nil:
		return c.Errorf("attn_config", "it is missing")
	case e == nil:
		return c.Errorf("ffn_config", "it is missing")
	case or(e.Norm, 1) != 1:
		return c.Errorf("ffn_config", "weights of experts that are divided by their %g-norm are not supported; those divided by their sum are", *e.Norm)
	}
	c.Hidden, c.Layers, c.Heads = cmp.Or(c.ModelWidth, c.Hidden), cmp.Or(c.MPTLayers, c.Layers), cmp.Or(c.MPTHeads, c.Heads)
	c.Context, c.FF, c.KVHeads = cmp.Or(c.MaxSeq, c.Context), e.Width, cmp.Or(a.KVHeads, c.KVHeads)
	c.RopeTheta = cmp.Or(a.Theta, c.RopeTheta)
	c.Mixture = Mixture{Count: e.Count, Used: e.Used, Width: e.Width}
	c.Clamp = or(a.Clamp, 0)
	c.epsilon("layer_norm_epsilon", 0, dbrxEpsilon)
	c.nonlinearity("ffn_config", e.Activation.Name, "silu")
	c.TiedHead = or(c.Tied, false)
	return nil
}
