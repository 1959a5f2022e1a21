package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// spark25 describes Spark X2.5: GeGLU, a gate of each head's output, and sliding windows in most layers, with another
// rotation there.
func spark25() Family {
	f := llama()
	f.Name, f.HuggingFace = "spark2_5", []string{"Spark2_5ForCausalLM"}
	f.Rotation, f.PartialRotary, f.Activation, f.HeadGate = HalvesApart, true, compute.GELU, true
	f.Window, f.FullEvery, f.WindowList, f.WindowBase = true, 4, true, 10000
	f.Outer = f.Outer[:2]
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "input_layernorm.weight"},
		{Name: "attn_qkv.weight", Source: "self_attn.q_k_v_proj.weight"},
		{Name: "attn_gate.weight", Source: "self_attn.g_proj.weight"},
		{Name: "attn_output.weight", Source: "self_attn.o_proj.weight"},
		{Name: "ffn_norm.weight", Source: "post_attention_layernorm.weight"},
		{Name: "ffn_gate.weight", Source: "mlp.gate_proj.weight"},
		{Name: "ffn_up.weight", Source: "mlp.up_proj.weight"},
		{Name: "ffn_down.weight", Source: "mlp.down_proj.weight"},
	}
	f.Read = func(c *Config) error {
		if c.HeadGates != nil && !*c.HeadGates || c.GateAct != "" && c.GateAct != "sigmoid" {
			return c.Errorf("headwise_attn_output_gate", "other gates than sigmoids of heads are not supported")
		}
		c.ropeByKind()
		if c.WindowTheta == 0 && c.Rope != nil {
			c.WindowTheta = c.Rope.Theta
		}
		c.WindowTheta = cmp.Or(c.WindowTheta, c.RopeTheta, 10000)
		c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
		c.nonlinearity("hidden_act", c.Act, "gelu")
		c.TiedHead = or(c.Tied, false)
		return nil
	}
	return f
}

// SparkKeys are the keys of Spark and Maple.
type SparkKeys struct {
	HeadGates    *bool  `json:"headwise_attn_output_gate"`
	GateAct      string `json:"gate_attn_act_mode"`
	GlobalTurned *bool  `json:"nope_on_global_attention"` // false: heads of layers without a window are rotated
}
