package lineage

// qwen2VL describes the text part of Qwen2-VL and Qwen2.5-VL: Qwen2 with positions of pictures.
func qwen2VL() Family {
	f := qwen2()
	f.Name, f.HuggingFace = "qwen2vl", []string{"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"}
	f.Sections, f.Root = true, textRoots()
	return f
}

// qwen3VL describes the text part of Qwen3-VL: Qwen3 with positions of pictures. The vision model computes what
// pictures add to the first layers.
func qwen3VL() Family {
	f := qwen3()
	f.Name, f.HuggingFace = "qwen3vl", []string{"Qwen3VLForConditionalGeneration"}
	f.Sections, f.Root = true, textRoots()
	return f
}

// qwen3VLMoE describes the text part of Qwen3-VL's models with experts, in the form of Qwen 3's. Folders store experts
// as matrices of inputs by outputs.
func qwen3VLMoE() Family {
	f := qwen3MoE()
	f.Name, f.HuggingFace = "qwen3vlmoe", []string{"Qwen3VLMoeForConditionalGeneration"}
	f.Sections, f.Root = true, textRoots()
	f.Block = with(f.Block,
		Tensor{Name: "ffn_gate_exps.weight", Source: "mlp.experts.gate_up_proj", Change: FirstOutputs},
		Tensor{Name: "ffn_up_exps.weight", Source: "mlp.experts.gate_up_proj", Change: SecondOutputs},
		Tensor{Name: "ffn_down_exps.weight", Source: "mlp.experts.down_proj", Change: Outputs})
	return f
}
