package lineage

import "github.com/powerinfer-go/powerinfer/internal/compute"

// jais2 describes Jais 2: llama with LayerNorms, biases everywhere, and no gate: squared ReLU leaves neurons at zero.
func jais2() Family {
	f := llama()
	f.Name, f.HuggingFace = "jais2", []string{"Jais2ForCausalLM"}
	f.Rotation, f.LayerNorm, f.Gated, f.Activation, f.MaxContext = HalvesApart, true, false, compute.ReLU2, 8192
	f.Outer = append(f.Outer, Tensor{Name: "output_norm.bias", Source: "norm.bias"})
	f.Block = required(normBiases(ungated(llamaBlock(Same)), Same), "*")
	f.Read = func(c *Config) error {
		c.epsilon("layer_norm_eps", c.OldLayerNormEps, 1e-5)
		c.nonlinearity("hidden_act", c.Act, "relu2")
		c.TiedHead = or(c.Tied, false)
		return nil
	}
	return f
}
