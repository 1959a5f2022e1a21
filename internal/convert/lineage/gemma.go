package lineage

import (
	"cmp"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Gemma's windows, caps and bases, which GGUF files need not say.
const (
	gemma2Window    = 4096
	gemma2FullEvery = 2 // layers
	gemma3FullEvery = 6
	gemma3Base      = 10000   // RoPE base of sliding-window layers
	gemma3FullBase  = 1000000 // RoPE base of the other layers
	gemmaEps        = 1e-6
)

// gemma describes Gemma 1: embeddings scaled by the width, checkpoints that store norms' weights less 1, and GELU of
// the gate.
func gemma() Family {
	f := llama()
	f.Name, f.HuggingFace = "gemma", []string{"GemmaForCausalLM"}
	f.Rotation, f.ScaledInput, f.AlwaysTied, f.Activation = HalvesApart, true, true, compute.GELU
	f.MaxContext = 8192
	f.Outer, f.Block = plusOne(f.Outer), plusOne(llamaBlock(Same))
	f.Read = readGemma
	return f
}

// gemma2 describes Gemma 2: norms before and after attention and the feed-forward layer, a sliding window in every
// second layer, and soft caps of scores and logits.
func gemma2() Family {
	f := gemma()
	f.Name, f.HuggingFace = "gemma2", []string{"Gemma2ForCausalLM"}
	f.Window, f.UsualWindow, f.FullEvery = true, gemma2Window, gemma2FullEvery
	f.Block = plusOne(bothNorms(llamaBlock(Same)))
	f.Read = func(c *Config) error {
		if err := readGemma(c); err != nil {
			return err
		}
		c.Window = cmp.Or(c.Window, gemma2Window)
		return nil
	}
	return f
}

// gemma3 describes Gemma 3 and the text part of its folders with pictures: norms of q and k instead of the caps, and
// sliding windows in five of six layers, with another RoPE base that is not scaled.
func gemma3() Family {
	f := gemma()
	f.Name, f.HuggingFace = "gemma3", []string{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"}
	f.AlwaysTied, f.Window, f.FullEvery, f.WindowBase = false, true, gemma3FullEvery, gemma3Base
	f.Root = textRoots()
	f.Block = plusOne(headNorms(bothNorms(llamaBlock(Same))))
	f.Read = readGemma3
	return f
}

func readGemma(c *Config) error {
	c.epsilon("rms_norm_eps", c.RMSEps, gemmaEps)
	c.nonlinearity("hidden_activation", cmp.Or(c.GemmaAct, c.Act), "gelu_pytorch_tanh")
	c.TiedHead = or(c.Tied, true)
	c.HeadDim = cmp.Or(c.HeadDim, 256)
	if c.QueryScalar < 0 {
		return c.Errorf("query_pre_attn_scalar", "%g is not positive", c.QueryScalar)
	}
	if c.QueryScalar > 0 {
		c.ScoreScale = 1 / math.Sqrt(c.QueryScalar)
	}
	return nil
}

func readGemma3(c *Config) error {
	if c.Architectures[0] == "Gemma3ForConditionalGeneration" { // its text_config leaves out the defaults
		c.Heads, c.KVHeads, c.QueryScalar = cmp.Or(c.Heads, 8), cmp.Or(c.KVHeads, 4), cmp.Or(c.QueryScalar, 256)
		c.Context, c.Vocab = cmp.Or(c.Context, 131072), cmp.Or(c.Vocab, 262208)
		c.Window = cmp.Or(c.Window, 4096)
	}
	c.refuse(c.Bidirectional, "use_bidirectional_attention", "attention to later positions is supported in Gemma3TextModel only, which is EmbeddingGemma")
	return readGemma3Blocks(c)
}

// readGemma3Blocks reads what EmbeddingGemma shares.
func readGemma3Blocks(c *Config) error {
	if err := readGemma(c); err != nil {
		return err
	}
	c.ropeByKind()
	if c.RopeTheta == 0 && (c.Rope == nil || c.Rope.Theta == 0) {
		c.RopeTheta = gemma3FullBase
	}
	c.WindowTheta = cmp.Or(c.WindowTheta, gemma3Base)
	return nil
}

// bothNorms returns llama's block with additional norms after attention and the feed-forward layer, by the names that
// Gemma gives the four.
func bothNorms(block []Tensor) []Tensor {
	block = replaced(block, "ffn_norm.weight",
		Tensor{Name: "post_attention_norm.weight", Source: "post_attention_layernorm.weight"},
		Tensor{Name: "ffn_norm.weight", Source: "pre_feedforward_layernorm.weight"})
	return append(block, Tensor{Name: "post_ffw_norm.weight", Source: "post_feedforward_layernorm.weight"})
}

// plusOne returns tensors with all norms' weights stored less 1.
func plusOne(tensors []Tensor) []Tensor {
	return changed(tensors, PlusOne, "*norm.weight")
}

// GemmaKeys are Gemma's keys.
type GemmaKeys struct {
	GemmaAct      string   `json:"hidden_activation"`
	QueryScalar   float64  `json:"query_pre_attn_scalar"` // scores are divided by its root
	ScoreCap      *float64 `json:"attn_logit_softcapping"`
	LogitCap      *float64 `json:"final_logit_softcapping"`
	WindowTheta   float64  `json:"rope_local_base_freq"`
	Bidirectional bool     `json:"use_bidirectional_attention"`
}
