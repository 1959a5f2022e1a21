package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// mamba2 describes Mamba-2 and Mamba-Codestral: every layer is a selective state space and nothing else.
func mamba2() Family {
	var f Family
	f.Name, f.HuggingFace = "mamba2", []string{"Mamba2ForCausalLM"}
	f.Activation, f.MaxContext, f.StateSpace, f.AllLayers = compute.SiLU, 4096, true, Recurrent
	f.Root, f.Layer, f.Head = []string{"backbone.", "model.backbone."}, "layers.%d.", "lm_head model.lm_head"
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embeddings.weight embedding.weight"},
		{Name: "output_norm.weight", Source: "norm_f.weight"},
	}
	f.Block = append([]Tensor{{Name: "attn_norm.weight", Source: "norm.weight"}}, stateSpaceBlock("mixer.")...)
	f.Read = readMamba2
	return f
}

// Mamba2 are the keys of that family's configuration which others do not have.
type Mamba2 struct {
	Heads   int   `json:"num_heads"`
	State   int   `json:"state_size"`
	Widened int   `json:"expand"`
	Normed  *bool `json:"rms_norm"`
}

// usualPositions is the context of a model that does not say it. The size of a state does not depend on the number of
// positions.
const usualPositions = 1 << 20

func readMamba2(c *Config) error {
	m, n := &c.Mamba2, &c.NemotronH
	c.epsilon("layer_norm_epsilon", cmp.Or(c.LayerNormEps, c.RMSEps), 1e-5)
	c.nonlinearity("hidden_act", c.Act, "silu")
	c.TiedHead, c.Context = or(c.Tied, false), cmp.Or(c.Context, usualPositions)
	c.Layers, c.Hidden = cmp.Or(c.Layers, c.OldLayers, c.MPTLayers), cmp.Or(c.Hidden, c.ModelWidth)
	c.refuse(n.MambaBias, "use_bias", "biases of recurrent layers' products are not supported")
	switch {
	case !or(m.Normed, true):
		return c.Errorf("rms_norm", "recurrent layers without a norm are not supported")
	case n.limited():
		return c.Errorf("time_step_limit", "limits of steps are not supported")
	}
	dim := cmp.Or(c.HeadDim, 64)
	inner := cmp.Or(m.Widened, 2) * c.Hidden
	heads := cmp.Or(m.Heads, inner/dim)
	if heads*dim != inner {
		return c.Errorf("num_heads", "%d heads of %d elements are not %d times as wide as the model", heads, dim, cmp.Or(m.Widened, 2))
	}
	c.StateSpace = StateSpace{Inner: inner, StateSize: cmp.Or(m.State, 128), StateHeads: heads, Groups: cmp.Or(n.Groups, 1), Taps: cmp.Or(n.Taps, 4)}
	return nil
}

// limited reports whether steps are clamped.
func (n *NemotronH) limited() bool {
	return len(n.StepLimit) == 2 && (or(n.StepLimit[0], 0) > 0 || n.StepLimit[1] != nil)
}
