package lineage

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// starcoder2 describes StarCoder2 and Granite Code's larger models of the same form: LayerNorms, biases everywhere,
// GELU without a gate, and a window in every layer.
func starcoder2() Family {
	f := llama()
	f.Name, f.HuggingFace = "starcoder2", []string{"Starcoder2ForCausalLM"}
	f.Rotation, f.LayerNorm, f.Window = HalvesApart, true, true
	f.Gated, f.Activation, f.MaxContext = false, compute.GELU, 16384
	f.Outer = append(f.Outer, Tensor{Name: "output_norm.bias", Source: "norm.bias"})
	f.Block = each(normBiases(ungated(llamaBlock(Same)), Same), func(t *Tensor) {
		t.Optional, t.Source = false, strings.NewReplacer("up_proj", "c_fc", "down_proj", "c_proj").Replace(t.Source)
	}, "*")
	f.Read = readStarCoder2
	return f
}

func readStarCoder2(c *Config) error {
	c.epsilon("norm_epsilon", c.NormEpsilon, 1e-5)
	c.nonlinearity("hidden_act", c.Act, "gelu_pytorch_tanh")
	c.TiedHead = or(c.Tied, true)
	return nil
}
