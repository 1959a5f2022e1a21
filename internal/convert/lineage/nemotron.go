package lineage

import "github.com/powerinfer-go/powerinfer/internal/compute"

// nemotron describes Nemotron 3 and 4 and Minitron: LayerNorms, stored as the weight less 1 in checkpoints, half of
// each head rotated, and squared ReLU without a gate, so that many neurons are zero.
func nemotron() Family {
	var f Family
	f.Name, f.HuggingFace = "nemotron", []string{"NemotronForCausalLM"}
	f.Rotation, f.PartialRotary, f.LayerNorm, f.Activation, f.MaxContext = HalvesApart, true, true, compute.ReLU2, 4096
	f.Root, f.Layer = []string{"model."}, "layers.%d."
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embed_tokens.weight"},
		{Name: "output_norm.weight", Source: "norm.weight", Change: PlusOne},
		{Name: "output_norm.bias", Source: "norm.bias"},
	}
	f.Block, f.Read = normBiases(ungated(llamaBlock(Same)), PlusOne), readNemotron
	return f
}

func readNemotron(c *Config) error {
	c.epsilon("norm_eps", c.NormEps, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "relu2")
	c.TiedHead = or(c.Tied, false)
	c.rotates(0.5)
	return nil
}
