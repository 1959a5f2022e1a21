package lineage

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// encoder describes embedding models after BERT: every token sees all others, norms are LayerNorms of the residual
// after a part's output was added, and there is no head.
func encoder() Family {
	var f Family
	f.LayerNorm, f.NormSum, f.Later, f.Headless, f.Activation, f.HeadsFillWidth = true, true, true, true, compute.GELU, true
	f.Root, f.Buffers = []string{"bert.", "roberta.", "distilbert.", ""}, encoderBuffers()
	return f
}

// encoderBuffers are the ends of names of weights for the training's tasks, and of what a classification head is made
// from where the folder has none.
func encoderBuffers() []string {
	return []string{
		"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias",
		"cls.predictions.bias", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.predictions.transform.dense.weight",
		"cls.predictions.transform.dense.bias", "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias",
		"cls.seq_relationship.weight", "cls.seq_relationship.bias",
		"lm_head.bias", "lm_head.dense.weight", "lm_head.dense.bias", "lm_head.layer_norm.weight", "lm_head.layer_norm.bias",
		"lm_head.decoder.weight", "lm_head.decoder.bias",
		"vocab_transform.weight", "vocab_transform.bias", "vocab_layer_norm.weight", "vocab_layer_norm.bias", "vocab_projector.weight", "vocab_projector.bias",
	}
}

// bert describes BERT, RoBERTa, XLM-RoBERTa, CamemBERT and DistilBERT: learned positions. RoBERTa's folders have rows
// for padding before them.
func bert() Family {
	f := encoder()
	f.Name = "bert"
	f.HuggingFace = []string{
		"BertModel", "BertForMaskedLM", "BertForSequenceClassification", "RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification",
		"XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification", "CamembertModel", "CamembertForMaskedLM",
		"CamembertForSequenceClassification", "DistilBertModel", "DistilBertForMaskedLM",
	}
	f.Rotation, f.MaxContext = NotRotated, 512
	f.Layer, f.QKV = "encoder.layer.%d. encoder.layers.%d. transformer.layer.%d.", "mixer.Wqkv"
	f.Really = func(c *Config) string {
		if len(c.LoRAs) > 0 {
			return "jina-bert-v3"
		}
		return ""
	}
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embeddings.word_embeddings.weight"},
		{Name: "position_embd.weight", Source: "embeddings.position_embeddings.weight", Change: BehindPadding},
		{Name: "token_types.weight", Source: "embeddings.token_type_embeddings.weight", Optional: true},
		{Name: "token_embd_norm.weight", Source: "embeddings.LayerNorm.weight embeddings.LayerNorm.gamma emb_ln.weight"},
		{Name: "token_embd_norm.bias", Source: "embeddings.LayerNorm.bias embeddings.LayerNorm.beta emb_ln.bias"},
	}
	f.Block = []Tensor{
		{Name: "attn_q.weight", Source: "attention.self.query.weight attention.q_lin.weight mixer.Wqkv.weight"},
		{Name: "attn_k.weight", Source: "attention.self.key.weight attention.k_lin.weight mixer.Wqkv.weight"},
		{Name: "attn_v.weight", Source: "attention.self.value.weight attention.v_lin.weight mixer.Wqkv.weight"},
		{Name: "attn_q.bias", Source: "attention.self.query.bias attention.q_lin.bias mixer.Wqkv.bias"},
		{Name: "attn_k.bias", Source: "attention.self.key.bias attention.k_lin.bias mixer.Wqkv.bias"},
		{Name: "attn_v.bias", Source: "attention.self.value.bias attention.v_lin.bias mixer.Wqkv.bias"},
		{Name: "attn_output.weight", Source: "attention.output.dense.weight attention.out_lin.weight mixer.out_proj.weight"},
		{Name: "attn_output.bias", Source: "attention.output.dense.bias attention.out_lin.bias mixer.out_proj.bias"},
		{Name: "attn_output_norm.weight", Source: "attention.output.LayerNorm.weight attention.output.LayerNorm.gamma sa_layer_norm.weight norm1.weight"},
		{Name: "attn_output_norm.bias", Source: "attention.output.LayerNorm.bias attention.output.LayerNorm.beta sa_layer_norm.bias norm1.bias"},
		{Name: "ffn_up.weight", Source: "intermediate.dense.weight ffn.lin1.weight mlp.fc1.weight"},
		{Name: "ffn_up.bias", Source: "intermediate.dense.bias ffn.lin1.bias mlp.fc1.bias"},
		{Name: "ffn_down.weight", Source: "output.dense.weight ffn.lin2.weight mlp.fc2.weight"},
		{Name: "ffn_down.bias", Source: "output.dense.bias ffn.lin2.bias mlp.fc2.bias"},
		{Name: "layer_output_norm.weight", Source: "output.LayerNorm.weight output.LayerNorm.gamma output_layer_norm.weight norm2.weight"},
		{Name: "layer_output_norm.bias", Source: "output.LayerNorm.bias output.LayerNorm.beta output_layer_norm.bias norm2.bias"},
	}
	f.Classifier = bertClassifier()
	f.Read = readBERT
	return f
}

// bertClassifier returns the classification head. Its first product is BERT's pooler.
func bertClassifier() []Tensor {
	return []Tensor{
		{Name: "cls.weight", Source: "classifier.dense.weight bert.pooler.dense.weight"},
		{Name: "cls.bias", Source: "classifier.dense.bias bert.pooler.dense.bias"},
		{Name: "cls.output.weight", Source: "classifier.out_proj.weight classifier.weight"},
		{Name: "cls.output.bias", Source: "classifier.out_proj.bias classifier.bias"},
	}
}

func readBERT(c *Config) error {
	if c.Kind == "distilbert" {
		c.refuse(c.Sinusoidal, "sinusoidal_pos_embds", "computed positions are not supported in DistilBERT; learned ones are")
		c.Hidden, c.FF = cmp.Or(c.Hidden, c.DistilWidth), cmp.Or(c.FF, c.DistilFF)
		c.Layers, c.Heads, c.TokenTypes = cmp.Or(c.Layers, c.MPTLayers), cmp.Or(c.Heads, c.MPTHeads), 1
		c.Act = cmp.Or(c.Act, c.FalconAct)
	}
	c.refuse(c.PositionType != "" && c.PositionType != "absolute", "position_embedding_type", "%q is not supported in BERT; absolute is", c.PositionType)
	if slices.Contains([]string{"roberta", "xlm-roberta", "camembert"}, c.Kind) {
		if err := c.skipPadding(); err != nil {
			return err
		}
	}
	return readEncoder(c)
}

// readEncoder reads what encoders' configurations share.
func readEncoder(c *Config) error {
	if c.TokenTypes < 1 || c.TokenTypes > 1<<16 {
		return c.Errorf("type_vocab_size", "%d is outside 1…%d", c.TokenTypes, 1<<16)
	}
	c.epsilon("layer_norm_eps", c.OldLayerNormEps, 1e-12)
	c.nonlinearity("hidden_act", c.Act, "gelu")
	return nil
}

// skipPadding takes the positions of padding, which are those up to the padding token's number, from the context.
func (c *Config) skipPadding() error {
	pad := 1 // as RoBERTa has it
	if len(c.Padding) > 0 && string(c.Padding) != "null" {
		if err := json.Unmarshal(c.Padding, &pad); err != nil || pad < 0 || pad > 1<<10 {
			return c.Errorf("pad_token_id", "%.40s is not a token's number up to %d, behind which positions begin", c.Padding, 1<<10)
		}
	}
	if c.PaddingRows = pad + 1; c.Context <= c.PaddingRows {
		return c.Errorf("max_position_embeddings", "%d leaves no position behind the padding's %d", c.Context, c.PaddingRows)
	}
	c.Context -= c.PaddingRows
	return nil
}

// BERTKeys are BERT's keys.
type BERTKeys struct {
	PositionType string          `json:"position_embedding_type"`
	TokenTypes   int             `json:"type_vocab_size"`
	Padding      json.RawMessage `json:"pad_token_id"`
	Labels       json.RawMessage `json:"id2label"` // names of a classification head's outputs
	Sinusoidal   bool            `json:"sinusoidal_pos_embds"`
	DistilWidth  int             `json:"dim"`
	DistilFF     int             `json:"hidden_dim"`
}
