package arch

import "github.com/powerinfer-go/powerinfer/internal/compute"

// bert describes BERT as a model of embeddings: every token sees all others, norms are of the residual with what a part has added, and there is no
// head. All tokens are of the first type.
func bert() Family {
	return Family{
		Name: "bert", HuggingFace: []string{"BertModel", "BertForMaskedLM"},
		Rotation: NotRotated, LayerNorm: true, NormSum: true, Later: true, Headless: true, Activation: compute.GELU, HeadsFillWidth: true, MaxContext: 512,
		Root: []string{"bert.", ""}, Layer: "encoder.layer.%d.",
		Buffers: []string{
			"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias",
			"cls.predictions.bias", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.predictions.transform.dense.weight",
			"cls.predictions.transform.dense.bias", "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias",
			"cls.seq_relationship.weight", "cls.seq_relationship.bias",
		},
		Outer: []Tensor{
			{Name: "token_embd.weight", Source: "embeddings.word_embeddings.weight"},
			{Name: "position_embd.weight", Source: "embeddings.position_embeddings.weight"},
			{Name: "token_types.weight", Source: "embeddings.token_type_embeddings.weight"},
			{Name: "token_embd_norm.weight", Source: "embeddings.LayerNorm.weight embeddings.LayerNorm.gamma"},
			{Name: "token_embd_norm.bias", Source: "embeddings.LayerNorm.bias embeddings.LayerNorm.beta"},
		},
		Block: []Tensor{
			{Name: "attn_q.weight", Source: "attention.self.query.weight"},
			{Name: "attn_k.weight", Source: "attention.self.key.weight"},
			{Name: "attn_v.weight", Source: "attention.self.value.weight"},
			{Name: "attn_q.bias", Source: "attention.self.query.bias"},
			{Name: "attn_k.bias", Source: "attention.self.key.bias"},
			{Name: "attn_v.bias", Source: "attention.self.value.bias"},
			{Name: "attn_output.weight", Source: "attention.output.dense.weight"},
			{Name: "attn_output.bias", Source: "attention.output.dense.bias"},
			{Name: "attn_output_norm.weight", Source: "attention.output.LayerNorm.weight attention.output.LayerNorm.gamma"},
			{Name: "attn_output_norm.bias", Source: "attention.output.LayerNorm.bias attention.output.LayerNorm.beta"},
			{Name: "ffn_up.weight", Source: "intermediate.dense.weight"},
			{Name: "ffn_up.bias", Source: "intermediate.dense.bias"},
			{Name: "ffn_down.weight", Source: "output.dense.weight"},
			{Name: "ffn_down.bias", Source: "output.dense.bias"},
			{Name: "layer_output_norm.weight", Source: "output.LayerNorm.weight output.LayerNorm.gamma"},
			{Name: "layer_output_norm.bias", Source: "output.LayerNorm.bias output.LayerNorm.beta"},
		},
		Read: readBERT,
	}
}

func readBERT(c *Config) error {
	if c.PositionType != "" && c.PositionType != "absolute" {
		return c.Errorf("position_embedding_type", "%q is not supported in BERT; absolute is", c.PositionType)
	}
	if c.TokenTypes < 1 || c.TokenTypes > 1<<16 {
		return c.Errorf("type_vocab_size", "%d is outside 1…%d", c.TokenTypes, 1<<16)
	}
	c.epsilon("layer_norm_eps", c.OldLayerNormEps, 1e-12)
	c.nonlinearity("hidden_act", c.Act, "gelu")
	return nil
}
