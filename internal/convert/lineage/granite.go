package lineage

import "cmp"

// granite describes Granite 3 and the dense Granite 4: llama with factors of embeddings, scores, what each part adds to
// the residual, and logits.
func granite() Family {
	f := llama()
	f.Name, f.HuggingFace = "granite", []string{"GraniteForCausalLM"}
	f.Multipliers = true
	f.Read = func(c *Config) error {
		c.LogitScale = cmp.Or(c.LogitScale, 1) // llama.cpp reads no file without it
		// The configuration's default; a GGUF file without the key has 1/√key.
		c.AttentionScale = cmp.Or(c.AttentionScale, 1)
		return readLlama(c)
	}
	return f
}

// GraniteKeys are Granite's keys.
type GraniteKeys struct {
	EmbeddingScale float64 `json:"embedding_multiplier"`
	AttentionScale float64 `json:"attention_multiplier"`
	ResidualScale  float64 `json:"residual_multiplier"`
	LogitScale     float64 `json:"logits_scaling"` // logits are divided by it
}
