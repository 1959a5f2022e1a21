package lineage

import "github.com/powerinfer-go/powerinfer/internal/compute"

// bamboo describes Bamboo: Mistral with dReLU, whatever its configuration calls the activation.
func bamboo() Family {
	f := llama()
	f.Name, f.HuggingFace = "bamboo", []string{"BambooForCausalLM"}
	f.Activation = compute.DReLU
	f.Read = func(c *Config) error {
		c.Act = "drelu"
		return readLlama(c)
	}
	return f
}
