package lineage

// jinaMaxAlibi is the largest exponent of the slopes of Jina's version 2.
const jinaMaxAlibi = 8

// jinaBERTV2 describes version 2 of Jina's embeddings: scores fall with the distance to earlier and to later positions,
// and feed-forward layers have a gate. One tensor has the gate's rows and then the up rows; older files have two
// tensors.
func jinaBERTV2() Family {
	f := encoder()
	f.Name, f.HuggingFace = "jina-bert-v2", []string{"JinaBertModel", "JinaBertForMaskedLM", "JinaBertForSequenceClassification"}
	f.Rotation, f.Gated, f.FusedGate, f.MaxContext = NotRotated, true, true, 8192
	f.Layer = "encoder.layer.%d."
	f.Outer = typedEmbedding()
	f.Block = append(bertAttention(),
		Tensor{Name: "ffn_up.weight", Source: "mlp.gated_layers.weight"},
		Tensor{Name: "ffn_down.weight", Source: "mlp.wo.weight"},
		Tensor{Name: "ffn_down.bias", Source: "mlp.wo.bias"},
		Tensor{Name: "layer_output_norm.weight", Source: "mlp.layernorm.weight"},
		Tensor{Name: "layer_output_norm.bias", Source: "mlp.layernorm.bias"})
	f.Classifier = bertClassifier()
	f.Read = func(c *Config) error {
		c.refuse(c.FeedForward != "geglu", "feed_forward_type", "%q is not supported in Jina's version 2; geglu is", c.FeedForward)
		c.refuse(c.PositionType != "alibi", "position_embedding_type", "%q is not supported in Jina's version 2; alibi is", c.PositionType)
		exponent := float64(jinaMaxAlibi)
		c.MaxAlibi = &exponent
		return readEncoder(c)
	}
	return f
}

// jinaBERTV3 describes version 3, which is XLM-RoBERTa with rotated heads, without its adapters for tasks.
func jinaBERTV3() Family {
	f := encoder()
	f.Name = "jina-bert-v3"
	f.Rotation, f.MaxContext = HalvesApart, 8192
	f.Layer = "encoder.layers.%d."
	f.Buffers = append(f.Buffers, ".lora_A", ".lora_B", "pooler.dense.parametrizations.weight.original")
	const adapted = ".parametrizations.weight.original "
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embeddings.word_embeddings" + adapted + "embeddings.word_embeddings.weight"},
		{Name: "token_types.weight", Source: "embeddings.token_type_embeddings" + adapted + "embeddings.token_type_embeddings.weight", Optional: true},
		{Name: "token_embd_norm.weight", Source: "emb_ln.weight"},
		{Name: "token_embd_norm.bias", Source: "emb_ln.bias"},
	}
	f.Block = []Tensor{
		{Name: "attn_qkv.weight", Source: "mixer.Wqkv" + adapted + "mixer.Wqkv.weight"},
		{Name: "attn_qkv.bias", Source: "mixer.Wqkv.bias"},
		{Name: "attn_output.weight", Source: "mixer.out_proj" + adapted + "mixer.out_proj.weight"},
		{Name: "attn_output.bias", Source: "mixer.out_proj.bias"},
		{Name: "attn_output_norm.weight", Source: "norm1.weight"},
		{Name: "attn_output_norm.bias", Source: "norm1.bias"},
		{Name: "ffn_up.weight", Source: "mlp.fc1" + adapted + "mlp.fc1.weight"},
		{Name: "ffn_up.bias", Source: "mlp.fc1.bias"},
		{Name: "ffn_down.weight", Source: "mlp.fc2" + adapted + "mlp.fc2.weight"},
		{Name: "ffn_down.bias", Source: "mlp.fc2.bias"},
		{Name: "layer_output_norm.weight", Source: "norm2.weight"},
		{Name: "layer_output_norm.bias", Source: "norm2.bias"},
	}
	f.Read = func(c *Config) error {
		c.refuse(c.PositionType != "rotary", "position_embedding_type", "%q is not supported in Jina's version 3; rotary is", c.PositionType)
		if c.RotaryBase != 0 {
			c.RopeTheta = c.RotaryBase
		}
		if err := c.skipPadding(); err != nil {
			return err
		}
		return readEncoder(c)
	}
	return f
}

// typedEmbedding returns BERT's embedding without learned positions.
func typedEmbedding() []Tensor {
	return []Tensor{
		{Name: "token_embd.weight", Source: "embeddings.word_embeddings.weight"},
		{Name: "token_types.weight", Source: "embeddings.token_type_embeddings.weight", Optional: true},
		{Name: "token_embd_norm.weight", Source: "embeddings.LayerNorm.weight emb_ln.weight"},
		{Name: "token_embd_norm.bias", Source: "embeddings.LayerNorm.bias emb_ln.bias"},
	}
}

// bertAttention returns the tensors of BERT's attention, and of the norm after it.
func bertAttention() []Tensor {
	var out []Tensor
	for _, t := range bert().Block {
		if t.Name == "ffn_up.weight" {
			break
		}
		out = append(out, t)
	}
	return out
}

// JinaKeys are the keys of Jina's embeddings.
type JinaKeys struct {
	FeedForward string   `json:"feed_forward_type"`
	LoRAs       []string `json:"lora_adaptations"` // tasks that adapters in the checkpoint are for
}
