package lineage

import "cmp"

// exaone4FullEvery is the period of EXAONE 4's layers that see all positions, of models with a window.
const exaone4FullEvery = 4

// exaone4 describes EXAONE 4: norms after attention and the feed-forward layer instead of before them, and norms of
// each head of q and k. The 32B has sliding windows in three of four layers; the others are not rotated.
func exaone4() Family {
	f := olmo2()
	f.Name, f.HuggingFace = "exaone4", []string{"Exaone4ForCausalLM", "Exaone4_5_ForConditionalGeneration"}
	f.Window, f.FullEvery = true, exaone4FullEvery
	f.Root = textRoots()
	f.Read = func(c *Config) error {
		c.RMSEps = cmp.Or(c.RMSEps, 1e-5)
		return readLlama(c)
	}
	return f
}
