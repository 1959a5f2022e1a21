package lineage

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// gpt-oss's windows and clamped SwiGLU, which GGUF files need not say.
const (
	gptOSSWindow    = 128
	gptOSSFullEvery = 2 // layers
	gptOSSSlope     = 1.702
	gptOSSLimit     = 7
)

// gptOSS describes gpt-oss: experts with biases and a clamped SwiGLU, a router with a softmax over the chosen experts,
// attention sinks, and sliding windows in every second layer. A sink is a score of a head that takes a share of the
// softmax and has no value. Its folders store experts in MXFP4, or as matrices [inputs, outputs] with the outputs of
// gate and up alternating.
func gptOSS() Family {
	f := llama()
	f.Name, f.HuggingFace = "gpt-oss", []string{"GptOssForCausalLM"}
	f.Rotation, f.Window, f.FullEvery, f.UsualWindow = HalvesApart, true, gptOSSFullEvery, gptOSSWindow
	f.FFNNorm, f.MaxContext = "post_attention_norm", 131072
	f.Activation = compute.ClampedSwiGLU
	f.Experts = &Experts{Score: compute.SoftmaxChosen}
	f.Block = replaced(required(llamaBlock(Same), "*.bias"), "ffn_norm.weight", Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"})
	const both, down = "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	f.Block = append(f.Block,
		Tensor{Name: "attn_sinks.weight", Source: "self_attn.sinks"},
		Tensor{Name: "ffn_gate_inp.weight", Source: "mlp.router.weight"},
		Tensor{Name: "ffn_gate_inp.bias", Source: "mlp.router.bias"},
		Tensor{Name: "ffn_gate_exps.weight", Source: both, Change: EvenOutputs},
		Tensor{Name: "ffn_gate_exps.bias", Source: both + "_bias", Change: EvenOutputs},
		Tensor{Name: "ffn_up_exps.weight", Source: both, Change: OddOutputs},
		Tensor{Name: "ffn_up_exps.bias", Source: both + "_bias", Change: OddOutputs},
		Tensor{Name: "ffn_down_exps.weight", Source: down, Change: Outputs},
		Tensor{Name: "ffn_down_exps.bias", Source: down + "_bias", Change: Outputs})
	f.Read = readGPTOSS
	return f
}

func readGPTOSS(c *Config) error {
	if err := readLlama(c); err != nil {
		return err
	}
	c.mixture(c.FF)
	c.refuse(c.Act != "" && c.Act != "silu", "hidden_act", "%q is not supported in gpt-oss; silu is", c.Act)
	if or(c.GateLimit, gptOSSLimit) != gptOSSLimit {
		return c.Errorf("swiglu_limit", "%g is not supported; %d is, as GGUF files have it", *c.GateLimit, gptOSSLimit)
	}
	c.Nonlinearity.Value = ClampedSwiGLU()
	if c.Window == 0 {
		c.Window = gptOSSWindow
	}
	return nil
}

// ClampedSwiGLU returns the name of gpt-oss's activation in Config.Nonlinearity, for which Hugging Face's configuration
// has none.
func ClampedSwiGLU() string { return compute.ClampedSwiGLU.String() }
