package lineage

import "cmp"

// maincoder describes Maincoder: llama with a norm of each head of q and k, after the rotation. Checkpoints hold the
// pairs that are rotated as files do: neighbours.
func maincoder() Family {
	f := llama()
	f.Name, f.HuggingFace = "maincoder", []string{"MaincoderForCausalLM"}
	f.Block = headNorms(llamaBlock(Same))
	f.Read = func(c *Config) error {
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		return readLlama(c)
	}
	return f
}
