package arch

import "cmp"

// gemma4Window is that of the small models; GGUF files say it.
const gemma4Window = 512

// gemma4 describes the text part of the dense models of Gemma 4: Gemma 3's block with heads of two sizes, keys that may
// be the values, too, a factor of each layer, and in the small models Gemma 3n's embeddings for each layer and shared
// keys and values.
func gemma4() Family {
	f := gemma3()
	f.Name, f.HuggingFace = "gemma4", []string{"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4UnifiedForConditionalGeneration"}
	f.ScoreScale, f.UsualWindow = 1, gemma4Window
	f.SharedKV, f.LayerInputs, f.WindowHeads = true, true, true
	f.Outer = append(llamaOuter(), layerInputs(true)...)
	f.Block = append(headNorms(bothNorms(llamaBlock(Same))), layerInput(true)...)
	f.Block = append(f.Block, Tensor{Name: "layer_output_scale.weight", Source: "layer_scalar", Optional: true})
	for i := range f.Block {
		f.Block[i].Optional = f.Block[i].Optional || f.Block[i].Name == "attn_v.weight"
	}
	f.Read = readGemma4
	return f
}

func readGemma4(c *Config) error {
	if c.Experts {
		return c.Errorf("enable_moe_block", "mixtures of experts are not supported; the dense models of the series are")
	}
	if c.GlobalHead == 0 {
		return c.Errorf("global_head_dim", "it is missing")
	}
	c.GlobalKV = cmp.Or(c.GlobalKV, c.KVHeads)
	c.QueryScalar = 0 // scores are not scaled
	return readGemma3(c)
}
