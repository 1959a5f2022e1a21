package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
)

// Limits of hyperparameters: above them a folder counts as damaged.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
	maxVocab  = 1 << 22
	maxScale  = 1e6 // bound of activations' scales

	maxExponent = 64 // bound of the exponents of ALiBi's slopes
	maxTaps     = 16 // positions of a short convolution
	maxLoops    = 64 // times that tokens go through the layers
	maxFurther  = 64 // MTP layers
)

// prosparseThreshold is FATReLU's threshold in the published ProSparse configuration.
const prosparseThreshold = 0.01

// config is the content of config.json. Zero is absent; null too.
type config struct {
	lineage.Config
	beside
	target *config  // the config of a draft head's model; nil: not given
	embeds bool     // the folder is a Sentence Transformers model, for embeddings
	part   []string // the text model's architectures, if it is a part of the model and names them
	halved int      // elements of a head that are rotated in neighbouring pairs in the folder, and in pairs of halves in the file; 0: none
	parts  bool     // the folder holds models of pictures or sound in addition to the text model
}

// beside is the content of config.json other than the hyperparameters.
type beside struct {
	Source     string      `json:"_name_or_path"`
	Quantizing *quantizing `json:"quantization_config"`

	BOS json.RawMessage `json:"bos_token_id"`
	EOS json.RawMessage `json:"eos_token_id"`

	outerEOS json.RawMessage // eos_token_id outside of the text model, if that is a part
}

func readConfig(dir string) (*config, error) {
	path, data, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	c := &config{Config: lineage.Config{Path: path}}
	if err := c.decode(c.Path, data); err != nil {
		return nil, err
	}
	var whole map[string]json.RawMessage
	if err := checkpoint.DecodeJSON(c.Path, data, &whole); err != nil {
		return nil, err
	}
	key, text := "", json.RawMessage(nil)
	for _, key = range []string{"text_config", "llm_config", "language_config", "transformer_layer_config"} { // the others: InternVL, DeepSeek-OCR, draft heads of speculators
		if text = whole[key]; len(text) > 0 {
			break
		}
	}
	c.parts = len(text) > 0 || c.Vision != nil
	if len(text) > 0 { // the text model's own keys take precedence
		architectures := c.Architectures
		c.outerEOS, c.Architectures = c.EOS, nil
		if err := c.decode(fmt.Sprintf("%s: key %q", c.Path, key), text); err != nil {
			return nil, err
		}
		c.Architectures, c.part = architectures, c.Architectures
	}
	c.embeds = checkpoint.Exists(filepath.Join(dir, "modules.json"))
	if c.Quantizing == nil || c.Quantizing.Method == "modelopt" && c.Quantizing.Algo == "" {
		if c.Quantizing, err = readQuantizing(dir); err != nil {
			return nil, err
		}
	}
	if c.Quantizing.packing() == nil && !c.Quantizing.nvfp4() {
		return nil, c.Errorf("quantization_config", "weights quantised by %q are not read; convert the model they were made from", strings.TrimSpace(c.Quantizing.Method+" "+c.Quantizing.Format))
	}
	return c, nil
}

// decode decodes data into c and keeps values that data lacks; path is for errors.
func (c *config) decode(path string, data []byte) error {
	for _, part := range []any{&c.Config, &c.beside} { // separately, for errors with the key's name in the file
		if err := checkpoint.DecodeJSON(path, data, part); err != nil {
			return err
		}
	}
	if len(c.Widths) > 0 {
		c.FF = slices.Max(c.Widths)
	}
	if len(c.RopeThetas) > 0 {
		c.RopeTheta = c.RopeThetas[0]
	}
	if len(c.ExpertWidths) > 0 {
		c.ExpertWidth = c.ExpertWidths[0]
	}
	return nil
}

// family finds the architecture's description, and lets it read the hyperparameters that it names differently.
func (c *config) family() (lineage.Family, error) {
	if len(c.Architectures) != 1 {
		return lineage.Family{}, c.Errorf("architectures", "%d names instead of one", len(c.Architectures))
	}
	f, ok := lineage.Converted(c.Architectures[0])
	if !ok && c.parts {
		f, ok = c.familyOfPart()
	}
	if !ok {
		return f, c.Errorf("architectures", "%q is not supported; supported are %s", c.Architectures[0], lineage.Sources())
	}
	if f.Really != nil {
		if name := f.Really(&c.Config); name != "" {
			f, _ = lineage.Named(name)
		}
	}
	if err := f.Read(&c.Config); c.Refused != nil || err != nil {
		return f, cmp.Or(c.Refused, err)
	}
	if err := c.section(&f); err != nil {
		return f, err
	}
	if f.PerhapsBeside && or(c.ParallelParts, false) {
		f = f.Beside()
	}
	if err := c.checkSizes(f); err != nil {
		return f, err
	}
	if f.HeadsFillWidth && c.Heads*c.HeadDim != c.Hidden {
		return f, c.Errorf("num_attention_heads", "%d heads of %d do not make up a width of %d", c.Heads, c.HeadDim, c.Hidden)
	}
	return f, nil
}

// usualArchitectures are the architectures of text models that are parts and name only their model_type.
var usualArchitectures = map[string]string{
	"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
	"deepseek_v2": "DeepseekV2ForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM", "kimi_k2": "DeepseekV3ForCausalLM", "glm_moe_dsa": "GlmMoeDsaForCausalLM",
}

// familyOfPart finds the architecture of a text model that is a part of one that no family knows.
func (c *config) familyOfPart() (lineage.Family, bool) {
	name := usualArchitectures[c.Kind]
	if len(c.part) == 1 {
		name = c.part[0]
	}
	f, ok := lineage.Converted(name)
	if !ok {
		return f, false
	}
	c.Architectures = []string{name}
	for _, root := range f.Root {
		f.Root = append(f.Root[:len(f.Root):len(f.Root)], "language_model."+root, "model.language_model."+strings.TrimPrefix(root, "model."), "model.text_model."+strings.TrimPrefix(root, "model."))
	}
	for _, head := range strings.Fields(f.Head) {
		f.Head += " language_model." + head
	}
	return f, true
}

// size is one hyperparameter and its largest value.
type size struct {
	key   string
	value int
	max   int
}

// checkSizes checks the hyperparameters that every family has, after the family has read its own names and set
// defaults.
func (c *config) checkSizes(f lineage.Family) error {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	sizes := []size{
		{"hidden_size", c.Hidden, maxWidth},
		{"num_hidden_layers", c.Layers, maxLayers},
		{"max_position_embeddings", c.Context, 1 << 30},
		{"vocab_size", c.Vocab, maxVocab},
	}
	if !f.OnlyRecurrent() {
		sizes = append(sizes, size{"num_attention_heads", c.Heads, maxWidth}, size{"num_key_value_heads", c.KVHeads, maxWidth}, size{"intermediate_size", c.FF, maxWidth})
	}
	if c.Further < 0 || c.Further > maxFurther {
		return c.Errorf("num_nextn_predict_layers", "%d is outside 0…%d", c.Further, maxFurther)
	}
	for _, s := range sizes {
		if s.value == 0 {
			return c.Errorf(s.key, "it is missing")
		}
		if s.value < 1 || s.value > s.max {
			return c.Errorf(s.key, "%d is outside 1…%d", s.value, s.max)
		}
	}
	if f.OnlyRecurrent() {
		c.Heads, c.KVHeads, c.HeadDim, c.FF = 0, 0, 0, 0 // values in files are meaningless
		return nil
	}
	if c.HeadDim == 0 {
		c.HeadDim = c.Hidden / c.Heads
		if c.Hidden%c.Heads != 0 {
			return c.Errorf("num_attention_heads", "%d heads do not share a width of %d evenly", c.Heads, c.Hidden)
		}
	}
	if c.HeadDim < 2 || c.HeadDim > maxWidth || c.HeadDim%2 != 0 || c.HeadDim > maxWidth/c.Heads {
		return c.Errorf("head_dim", "heads of %d elements are not supported", c.HeadDim)
	}
	if c.Heads%c.KVHeads != 0 {
		return c.Errorf("num_key_value_heads", "%d heads do not share %d KV heads evenly", c.Heads, c.KVHeads)
	}
	return nil
}

// or is v, or def where v is absent.
func or[T any](v *T, def T) T {
	if v == nil {
		return def
	}
	return *v
}

// activation translates a Hugging Face activation name; threshold is FATReLU's.
func (c *config) activation(key, name string) (kind string, threshold float64, err error) {
	switch strings.ToLower(name) {
	case "silu", "swish":
		return "silu", 0, nil
	case "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh":
		return "gelu", 0, nil
	case "relu":
		return "relu", 0, nil
	case "drelu":
		return "drelu", 0, nil
	case "relu2", "squared_relu", "relu_squared":
		return "relu2", 0, nil
	case lineage.ClampedSwiGLU(), "situ", "xielu": // the first as gpt-oss has silu
		return strings.ToLower(name), 0, nil
	case "fatrelu":
		threshold := or(c.ActParam, prosparseThreshold)
		if !(threshold >= 0) {
			return "", 0, c.Errorf("hidden_act_param", "%g is not a threshold", threshold)
		}
		return "fatrelu", threshold, nil
	}
	return "", 0, c.Errorf(key, "activation %q is not supported; supported are silu, gelu, relu, fatrelu, drelu, relu2", name)
}
