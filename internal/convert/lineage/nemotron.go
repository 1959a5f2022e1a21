package lineage

import "github.com/powerinfer-go/powerinfer/internal/compute"

// nemotron describes Nemotron 3 and 4 and Minitron: LayerNorms whose checkpoints store the weight less 1, half of each
// head rotated, and no gate: squared ReLU leaves neurons at zero.
func nemotron() Family {
	return Family{
		Name: "nemotron", HuggingFace: []string{"NemotronForCausalLM"},
		Rotation: HalvesApart, PartialRotary: true, LayerNorm: true, Activation: compute.ReLU2, MaxContext: 4096,
		Root: []string{"model."}, Layer: "layers.%d.",
		Outer: []Tensor{
			{Name: "token_embd.weight", Source: "embed_tokens.weight"},
			{Name: "output_norm.weight", Source: "norm.weight", Change: PlusOne},
			{Name: "output_norm.bias", Source: "norm.bias"},
		},
		Block: normBiases(ungated(llamaBlock(Same)), PlusOne), Read: readNemotron,
	}
}

func readNemotron(c *Config) error {
	c.epsilon("norm_eps", c.NormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "relu2")
	c.TiedHead = or(c.Tied, false)
	if c.Rotary == 0 && (c.Rope == nil || c.Rope.Partial == 0) {
		c.Rotary = 0.5
	}
	return nil
}
