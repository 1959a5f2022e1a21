package lineage

import "slices"

// qwen2VL describes the text part of Qwen2-VL and Qwen2.5-VL, which is Qwen2's but for the positions of pictures.
func qwen2VL() Family {
	f := qwen2()
	f.Name, f.HuggingFace = "qwen2vl", []string{"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"}
	f.Sections, f.Root = true, textRoots()
	return f
}

// qwen3VL describes the text part of Qwen3-VL, which is Qwen3's but for the positions of pictures. What pictures add to
// the first layers is the vision model's.
func qwen3VL() Family {
	f := qwen3()
	f.Name, f.HuggingFace = "qwen3vl", []string{"Qwen3VLForConditionalGeneration"}
	f.Sections, f.Root = true, textRoots()
	return f
}

// qwen3VLMoE describes the text part of Qwen3-VL's models with experts, likewise of Qwen 3's. Folders hold experts as
// matrices of inputs by outputs.
func qwen3VLMoE() Family {
	f := qwen3MoE()
	f.Name, f.HuggingFace = "qwen3vlmoe", []string{"Qwen3VLMoeForConditionalGeneration"}
	f.Sections, f.Root, f.Block = true, textRoots(), slices.Clone(f.Block)
	for i := range f.Block {
		switch t := &f.Block[i]; t.Name {
		case "ffn_gate_exps.weight":
			t.Source, t.Change = "mlp.experts.gate_up_proj", FirstOutputs
		case "ffn_up_exps.weight":
			t.Source, t.Change = "mlp.experts.gate_up_proj", SecondOutputs
		case "ffn_down_exps.weight":
			t.Source, t.Change = "mlp.experts.down_proj", Outputs
		}
	}
	return f
}
