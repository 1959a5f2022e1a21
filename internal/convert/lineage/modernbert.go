package lineage

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// ModernBERT's windows and bases, which GGUF files and folders need not say.
const (
	modernFullEvery = 3
	modernWindow    = 128
	modernFullBase  = 160000
	modernBase      = 10000 // RoPE base of sliding-window layers
)

// modernBERT describes ModernBERT: norms before all parts except the first layer's attention, no biases, rotated heads,
// gates, and in two of three layers a window around each token, with another RoPE base.
func modernBERT() Family {
	var f Family
	f.Name, f.HuggingFace = "modern-bert", []string{"ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification"}
	f.Rotation, f.LayerNorm, f.Later, f.Headless, f.Gated, f.FusedGate, f.Activation, f.HeadsFillWidth = HalvesApart, true, true, true, true, true, compute.GELU, true
	f.Window, f.FullEvery, f.FullFirst, f.WindowBase, f.MaxContext = true, modernFullEvery, true, modernBase, 8192
	f.Root, f.Layer = []string{"model.", ""}, "layers.%d."
	f.Buffers = []string{"head.dense.weight", "head.norm.weight", "decoder.weight", "decoder.bias"}
	f.Outer = []Tensor{
		{Name: "token_embd.weight", Source: "embeddings.tok_embeddings.weight"},
		{Name: "token_embd_norm.weight", Source: "embeddings.norm.weight"},
		{Name: "output_norm.weight", Source: "final_norm.weight"},
	}
	f.Block = []Tensor{
		{Name: "attn_norm.weight", Source: "attn_norm.weight", Optional: true},
		{Name: "attn_qkv.weight", Source: "attn.Wqkv.weight"},
		{Name: "attn_output.weight", Source: "attn.Wo.weight"},
		{Name: "ffn_norm.weight", Source: "mlp_norm.weight"},
		{Name: "ffn_up.weight", Source: "mlp.Wi.weight"},
		{Name: "ffn_down.weight", Source: "mlp.Wo.weight"},
	}
	f.Classifier = []Tensor{
		{Name: "cls.weight", Source: "head.dense.weight"},
		{Name: "cls.bias", Source: "head.dense.bias", Optional: true},
		{Name: "cls.norm.weight", Source: "head.norm.weight"},
		{Name: "cls.output.weight", Source: "classifier.weight"},
		{Name: "cls.output.bias", Source: "classifier.bias"},
	}
	f.Read = readModernBERT
	return f
}

func readModernBERT(c *Config) error {
	c.refuse(c.AttentionBias || c.NormBias || c.MLPBias, "attention_bias", "attention_bias, norm_bias and mlp_bias must be false in ModernBERT")
	c.epsilon("norm_eps", c.NormEps, 1e-5)
	c.nonlinearity("hidden_activation", cmp.Or(c.GemmaAct, c.Act), "gelu")
	c.Window = cmp.Or(c.LocalAttention, c.Window, modernWindow)
	c.FullEvery = cmp.Or(c.GlobalEvery, modernFullEvery)
	if c.FullEvery < 1 {
		return c.Errorf("global_attn_every_n_layers", "%d is not a number of layers", c.FullEvery)
	}
	c.ropeByKind()
	if c.Rope == nil || c.Rope.Theta == 0 {
		c.RopeTheta = cmp.Or(c.GlobalTheta, c.RopeTheta, modernFullBase)
	}
	c.WindowTheta = cmp.Or(c.WindowTheta, c.LocalTheta, modernBase)
	return nil
}

// euroBERT describes EuroBERT: llama with halves that are rotated, in which every token sees all others.
func euroBERT() Family {
	f := llama()
	f.Name, f.HuggingFace = "eurobert", []string{"EuroBertModel", "EuroBertForMaskedLM"}
	f.Rotation, f.Later, f.Headless, f.MaxContext = HalvesApart, true, true, 8192
	f.Root, f.Block = []string{"model.", ""}, llamaBlock(Same)
	f.Buffers = []string{"lm_head.weight"}
	return f
}

// llamaEmbed describes embeddings made of Llama, such as Llama-Embed-Nemotron: bidirectional llama.
func llamaEmbed() Family {
	f := euroBERT()
	f.Name, f.HuggingFace, f.Rotation = "llama-embed", []string{"LlamaBidirectionalModel"}, Neighbours
	f.Block = llamaBlock(Pairs)
	return f
}

// gemmaEmbedding describes EmbeddingGemma: bidirectional Gemma 3 with windows around each token.
func gemmaEmbedding() Family {
	f := gemma3()
	f.Name, f.HuggingFace = "gemma-embedding", []string{"Gemma3TextModel"}
	f.Later, f.Headless, f.AlwaysTied, f.MaxContext = true, true, true, 2048
	f.Root = []string{"model.", ""}
	f.Read = func(c *Config) error {
		c.refuse(!c.Bidirectional, "use_bidirectional_attention", "Gemma3TextModel is read as EmbeddingGemma, which has true there; convert a folder of Gemma3ForCausalLM")
		return readGemma3Blocks(c)
	}
	return f
}

// ModernBERTKeys are ModernBERT's keys.
type ModernBERTKeys struct {
	LocalAttention    int     `json:"local_attention"`
	GlobalEvery       int     `json:"global_attn_every_n_layers"`
	GlobalTheta       float64 `json:"global_rope_theta"`
	LocalTheta        float64 `json:"local_rope_theta"`
	NormBias          bool    `json:"norm_bias"`
	MLPBias           bool    `json:"mlp_bias"`
	ClassifierPooling string  `json:"classifier_pooling"`
}
