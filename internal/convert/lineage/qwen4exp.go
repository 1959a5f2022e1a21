package lineage

// qwen4Exp describes the text part of Qwen3.8-Flash-Next: Qwen3.5's delta nets, attention and experts with a residual
// of several streams, which hyper-connections read and write in place of norms, an indexer for attention, and a table
// of n-grams that one layer reads.
func qwen4Exp() Family {
	f := qwen35MoE()
	f.Name, f.HuggingFace = "qwen4exp", []string{"Qwen4ExpForConditionalGeneration", "Qwen4ExpForCausalLM"}
	f.Further, f.GatedStreams, f.Read = false, true, readQwen4Exp
	f.Outer = without(f.Outer, "output_norm.weight")
	f.Outer = append(f.Outer, connection("output_hc", "hyper_connection_mixer.", false)...)
	f.Outer = append(f.Outer, Tensor{Name: "per_layer_token_embd.weight", Source: ".ngram_embedding.shard_", Optional: true, Change: Shards})
	f.Block = without(f.Block, "attn_norm.weight", "post_attention_norm.weight")
	f.Block = append(append(f.Block, connection("hc_attn", "attn_hyper_connection.", true)...), connection("hc_ffn", "mlp_hyper_connection.", true)...)
	const indexer, grams = "self_attn.indexer.", "ple."
	f.Block = append(f.Block,
		Tensor{Name: "indexer.q_proj.weight", Source: indexer + "index_qk_proj.weight", Change: IndexQueries},
		Tensor{Name: "indexer.k_proj.weight", Source: indexer + "index_qk_proj.weight", Change: IndexKeys},
		Tensor{Name: "indexer.q_norm.weight", Source: indexer + "q_layernorm.weight", Change: PlusOne},
		Tensor{Name: "indexer.k_norm.weight", Source: indexer + "k_layernorm.weight", Change: PlusOne},
		Tensor{Name: "ple_key.weight", Source: grams + "key_proj.weight", Optional: true},
		Tensor{Name: "ple_value.weight", Source: grams + "value_proj.weight", Optional: true},
		Tensor{Name: "ple_norm_key.weight", Source: grams + "norm_key.weight", Optional: true, Change: PlusOne},
		Tensor{Name: "ple_norm_query.weight", Source: grams + "norm_query.weight", Optional: true, Change: PlusOne},
		Tensor{Name: "ple_norm_conv.weight", Source: grams + "norm_conv.weight", Optional: true, Change: PlusOne},
		Tensor{Name: "ple_conv1d.weight", Source: grams + "conv1d.weight", Optional: true, Change: Taps})
	return f
}

// connection returns the tensors of a hyper-connection of low rank. inject says that what a part gives is added by it.
func connection(name, source string, inject bool) []Tensor {
	list := []Tensor{
		{Name: name + "_norm.weight", Source: source + "hc_norm.weight", Change: PlusOne},
		{Name: name + "_down.weight", Source: source + "input_mix_weight_down.weight"},
		{Name: name + "_up.weight", Source: source + "input_mix_weight_up.weight"},
	}
	if inject {
		list = append(list, Tensor{Name: name + "_inject.weight", Source: source + "block_inject_weight.weight"})
	}
	return list
}

// Qwen4Exp are the keys of that family's configuration.
type Qwen4Exp struct {
	HyperStreams int   `json:"hc_count"`
	HyperRank    int   `json:"hc_lowrank"`
	MeanHeads    int   `json:"indexer_n_heads"`
	MeanDim      int   `json:"indexer_head_dim"`
	MeanTop      int   `json:"indexer_budget"`
	MeanBlock    int   `json:"indexer_compress_ratio"`
	GramLayers   []int `json:"ple_layer_ids"` // from 1
	GramSize     int   `json:"ngram_size"`
	GramHeads    int   `json:"heads_per_ngram"`
	GramTaps     int   `json:"ple_conv_kernel_size"`
	GramParts    int   `json:"split_ngram_parts"`
}

// GramLayer returns the layer that reads the table of n-grams; -1: none does.
func (c *Config) GramLayer() int {
	if len(c.GramLayers) == 0 {
		return -1
	}
	return c.GramLayers[0] - 1
}

func readQwen4Exp(c *Config) error {
	q := &c.Qwen4Exp
	switch l := c.GramLayer(); {
	case q.HyperStreams < 2 || q.HyperRank < 1:
		return c.Errorf("hc_count", "%d streams and a rank of %d are not supported", q.HyperStreams, q.HyperRank)
	case q.MeanHeads < 1 || q.MeanDim < 1 || q.MeanBlock < 1 || q.MeanTop < q.MeanBlock:
		return c.Errorf("indexer_budget", "%d positions in blocks of %d, by %d heads of %d elements, are not supported", q.MeanTop, q.MeanBlock, q.MeanHeads, q.MeanDim)
	case len(q.GramLayers) > 1 || l < -1 || l >= c.Layers:
		return c.Errorf("ple_layer_ids", "%v is not supported; one layer of %d is", q.GramLayers, c.Layers)
	case l >= 0 && (q.GramSize < 2 || q.GramHeads < 1 || q.GramTaps < 2 || q.GramParts < 1):
		return c.Errorf("ngram_size", "n-grams of %d tokens in %d heads and %d parts, convolved over %d, are not supported", q.GramSize, q.GramHeads, q.GramParts, q.GramTaps)
	}
	return readQwen35(c)
}
