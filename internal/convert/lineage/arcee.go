package lineage

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// arcee describes Arcee's AFM: llama with squared ReLU in place of a gate, so that many neurons are zero.
func arcee() Family {
	f := llama()
	f.Name, f.HuggingFace = "arcee", []string{"ArceeForCausalLM"}
	f.Gated, f.Activation = false, compute.ReLU2
	f.Block = ungated(f.Block)
	f.Read = func(c *Config) error {
		if c.Act == "" {
			c.Act = "relu2"
		}
		return readLlama(c)
	}
	return f
}

// ungated returns block without its gate, with the biases that such layers may have.
func ungated(block []Tensor) []Tensor {
	return append(without(block, "ffn_gate.*"),
		Tensor{Name: "ffn_up.bias", Source: "mlp.up_proj.bias", Optional: true},
		Tensor{Name: "ffn_down.bias", Source: "mlp.down_proj.bias", Optional: true})
}
