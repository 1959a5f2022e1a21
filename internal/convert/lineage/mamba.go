package lineage

import (
	"cmp"
	"encoding/json"
	"slices"
)

// mamba describes Mamba and Falcon-Mamba: every layer is a selective state space and nothing else.
func mamba() Family {
	f := mamba2()
	f.Name, f.HuggingFace = "mamba", []string{"MambaForCausalLM", "FalconMambaForCausalLM"}
	f.Block = append([]Tensor{{Name: "attn_norm.weight", Source: "norm.weight"}}, mambaBlock("mixer.")...)
	f.Read = readMamba
	return f
}

// jamba describes Jamba: layers with Mamba or with attention without rotation, each followed by a dense layer or
// experts.
func jamba() Family {
	f := llama()
	f.Name, f.HuggingFace = "jamba", []string{"JambaForCausalLM"}
	f.Rotation, f.StateSpace, f.MaxContext = NotRotated, true, 4096
	f.Experts = &Experts{Optional: true}
	f.Outer = with(f.Outer, Tensor{Name: "output_norm.weight", Source: "final_layernorm.weight"})
	f.Block = with(changed(f.Block, Same, "attn_q.weight", "attn_k.weight"), Tensor{Name: "ffn_norm.weight", Source: "pre_ff_layernorm.weight"})
	f.Block = with(f.Block, gatedLayer("feed_forward.")...)
	const each = "feed_forward.experts.%d."
	f.Block = withExperts(f.Block, "feed_forward.router.weight", each+"gate_proj.weight", each+"up_proj.weight", each+"down_proj.weight")
	f.Block = append(f.Block, mambaBlock("mamba.")...)
	for _, n := range []string{"dt", "b", "c"} {
		f.Block = append(f.Block, Tensor{Name: "ssm_" + n + "_norm.weight", Source: "mamba." + n + "_layernorm.weight"})
	}
	f.Read = readJamba
	return f
}

// mambaBlock returns the tensors of Mamba's layers; prefix is the mixer's name on Hugging Face.
func mambaBlock(prefix string) []Tensor {
	return []Tensor{
		{Name: "ssm_in.weight", Source: prefix + "in_proj.weight"},
		{Name: "ssm_conv1d.weight", Source: prefix + "conv1d.weight", Change: Taps},
		{Name: "ssm_conv1d.bias", Source: prefix + "conv1d.bias", Optional: true},
		{Name: "ssm_x.weight", Source: prefix + "x_proj.weight"},
		{Name: "ssm_dt.weight", Source: prefix + "dt_proj.weight"},
		{Name: "ssm_dt.bias", Source: prefix + "dt_proj.bias"},
		{Name: "ssm_a", Source: prefix + "A_log", Change: NegatedExp},
		{Name: "ssm_d", Source: prefix + "D"},
		{Name: "ssm_out.weight", Source: prefix + "out_proj.weight"},
	}
}

// Selective reports whether recurrent layers are Mamba's, with a state for each channel. StateSpace has the rank of
// their steps in StateHeads, and no groups.
func (f *Family) Selective() bool {
	_, ok := f.InBlock("ssm_x.weight")
	return ok
}

// Selection are the keys of Mamba's configurations, and of Jamba's, which others do not have.
type Selection struct {
	Rank        json.RawMessage `json:"time_step_rank"` // or "auto"
	JambaRank   json.RawMessage `json:"mamba_dt_rank"`
	JambaWiden  int             `json:"mamba_expand"`
	AttnEvery   int             `json:"attn_layer_period"`
	AttnFirst   int             `json:"attn_layer_offset"`
	ExpertEvery int             `json:"expert_layer_period"`
	ExpertFirst int             `json:"expert_layer_offset"`
	NormedSteps bool            `json:"-"` // steps, B and C have norms without weights
}

// rank returns the rank of steps, a sixteenth of the width where the configuration does not say it.
func (c *Config) rank(raw json.RawMessage) int {
	n := 0
	if json.Unmarshal(raw, &n) != nil || n == 0 {
		n = (c.Hidden + 15) / 16
	}
	return n
}

func readMamba(c *Config) error {
	m, n := &c.Mamba2, &c.NemotronH
	c.epsilon("layer_norm_epsilon", cmp.Or(c.LayerNormEps, c.RMSEps), 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead, c.Context = or(c.Tied, true), cmp.Or(c.Context, usualPositions)
	c.Layers, c.Hidden = cmp.Or(c.Layers, c.OldLayers, c.MPTLayers), cmp.Or(c.Hidden, c.ModelWidth)
	c.refuse(n.MambaBias, "use_bias", "biases of recurrent layers' products are not supported")
	inner := cmp.Or(c.FF, cmp.Or(m.Widened, 2)*c.Hidden)
	c.StateSpace = StateSpace{Inner: inner, StateSize: cmp.Or(m.State, 16), StateHeads: c.rank(c.Selection.Rank), Taps: cmp.Or(n.Taps, 4)}
	c.NormedSteps = slices.Contains(c.Architectures, "FalconMambaForCausalLM")
	return nil
}

func readJamba(c *Config) error {
	s := &c.Selection
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead = or(c.Tied, false)
	c.refuse(c.Mamba.Bias, "mamba_proj_bias", "biases of recurrent layers' products are not supported")
	if s.AttnEvery < 1 || s.AttnFirst < 0 || s.AttnFirst >= s.AttnEvery {
		return c.Errorf("attn_layer_period", "layers with attention every %d layers, from layer %d, are not supported", s.AttnEvery, s.AttnFirst)
	}
	for l := range c.Layers {
		part := Recurrent | FeedForward
		if l%s.AttnEvery == s.AttnFirst {
			part = Attention | FeedForward
		}
		c.LayerParts = append(c.LayerParts, part)
	}
	c.StateSpace = StateSpace{
		Inner: cmp.Or(s.JambaWiden, 2) * c.Hidden, StateSize: cmp.Or(c.Mamba.State, 16), StateHeads: c.rank(s.JambaRank), Taps: cmp.Or(c.Mamba.Taps, 4),
	}
	if c.NumExperts == 0 {
		c.NumExperts = c.LocalExperts
	}
	if c.NumExperts < 2 { // a dense layer, whatever its name is
		return nil
	}
	c.mixture(c.FF)
	c.Mixture.Every = 0
	for l := range c.Layers {
		if s.ExpertEvery > 0 && (l < s.ExpertFirst || (l-s.ExpertFirst)%s.ExpertEvery != 0) {
			c.Mixture.Dense = append(c.Mixture.Dense, l)
		}
	}
	return nil
}
