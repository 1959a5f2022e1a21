package lineage

// smollm3Unrotated is the period of SmolLM3's layers without a rotation; its GGUF files do not say it.
const smollm3Unrotated = 4

// smollm3 describes SmolLM3: llama without rotation in every fourth layer.
func smollm3() Family {
	f := llama()
	f.Name, f.HuggingFace = "smollm3", []string{"SmolLM3ForCausalLM"}
	f.Read = func(c *Config) error {
		for l, rotated := range c.NoRope {
			if (rotated == 0) != ((l+1)%smollm3Unrotated == 0) {
				return c.Errorf("no_rope_layers", "layer %d: only every %dth layer may be without a rotation, as GGUF files have it", l, smollm3Unrotated)
			}
		}
		if c.NoRopeEvery != 0 && c.NoRopeEvery != smollm3Unrotated && c.NoRope == nil {
			return c.Errorf("no_rope_layer_interval", "%d is not supported; %d is, as GGUF files have it", c.NoRopeEvery, smollm3Unrotated)
		}
		return readLlama(c)
	}
	return f
}

// SmolLM3Keys are SmolLM3's keys.
type SmolLM3Keys struct {
	NoRope      []int `json:"no_rope_layers"` // 0 of layers that are not rotated, despite the name
	NoRopeEvery int   `json:"no_rope_layer_interval"`
}
