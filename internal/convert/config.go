package convert

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// Limits on hyperparameters: beyond them a folder is taken for damaged.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
	maxVocab  = 1 << 22
)

// prosparseThreshold is FATReLU's threshold in the published ProSparse configuration.
const prosparseThreshold = 0.01

// config is what config.json says of a model. Zero is absent; null too.
type config struct {
	path string

	Architectures []string `json:"architectures"`
	Source        string   `json:"_name_or_path"`

	Hidden   int      `json:"hidden_size"`
	Layers   int      `json:"num_hidden_layers"`
	Heads    int      `json:"num_attention_heads"`
	KVHeads  int      `json:"num_key_value_heads"`
	HeadDim  int      `json:"head_dim"`
	FF       int      `json:"intermediate_size"`
	Context  int      `json:"max_position_embeddings"`
	Vocab    int      `json:"vocab_size"`
	RMSEps   float64  `json:"rms_norm_eps"`
	Tied     *bool    `json:"tie_word_embeddings"`
	Act      string   `json:"hidden_act"`
	ActParam *float64 `json:"hidden_act_param"` // FATReLU's threshold, as ProSparse names it

	Rotary     float64      `json:"partial_rotary_factor"`
	RopeTheta  float64      `json:"rope_theta"`
	RopeScale  *ropeScaling `json:"rope_scaling"`
	Rope       *ropeScaling `json:"rope_parameters"` // newer folders: theta and scaling together
	Window     int          `json:"sliding_window"`
	UseWindow  *bool        `json:"use_sliding_window"`
	Quantizing *struct {
		Method string `json:"quant_method"`
	} `json:"quantization_config"`

	// Falcon, with its older names.
	FalconAct    string  `json:"activation"`
	FalconKV     int     `json:"num_kv_heads"`
	OldLayers    int     `json:"n_layer"`
	OldHeads     int     `json:"n_head"`
	OldKVHeads   int     `json:"n_head_kv"`
	FalconFF     int     `json:"ffn_hidden_size"`
	LayerNormEps float64 `json:"layer_norm_epsilon"`
	MultiQuery   *bool   `json:"multi_query"`
	NewDecoder   bool    `json:"new_decoder_architecture"`
	Parallel     *bool   `json:"parallel_attn"`
	Alibi        bool    `json:"alibi"`
	Bias         bool    `json:"bias"`

	// OPT.
	OPTAct     string `json:"activation_function"`
	OPTFF      int    `json:"ffn_dim"`
	Projection int    `json:"word_embed_proj_dim"`
	NormFirst  *bool  `json:"do_layer_norm_before"`
	EnableBias *bool  `json:"enable_bias"`
	NormAffine *bool  `json:"layer_norm_elementwise_affine"`

	BOS json.RawMessage `json:"bos_token_id"`
	EOS json.RawMessage `json:"eos_token_id"`
	PAD json.RawMessage `json:"pad_token_id"`
}

func readConfig(dir string) (*config, error) {
	c := &config{path: filepath.Join(dir, "config.json")}
	if err := readJSON(c.path, c); err != nil {
		return nil, err
	}
	if c.Quantizing != nil {
		return nil, c.errorf("quantization_config", "weights quantised by %q are not read; convert the model they were made from", c.Quantizing.Method)
	}
	return c, nil
}

func (c *config) errorf(key, format string, args ...any) error {
	return fmt.Errorf("%s: key %q: %s", c.path, key, fmt.Sprintf(format, args...))
}

// family finds the architecture's converter.
func (c *config) family() (family, error) {
	if len(c.Architectures) != 1 {
		return family{}, c.errorf("architectures", "%d names instead of one", len(c.Architectures))
	}
	all := families()
	f, ok := all[c.Architectures[0]]
	if !ok {
		return f, c.errorf("architectures", "%q is not supported; supported are %s", c.Architectures[0], strings.Join(sortedKeys(all), ", "))
	}
	return f, nil
}

// size is one hyperparameter and the range it must lie in.
type size struct {
	key   string
	value int
	max   int
}

// checkSizes checks what every family has, after the family has filled in its own names and defaults.
func (c *config) checkSizes() error {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	for _, s := range []size{
		{"hidden_size", c.Hidden, maxWidth},
		{"num_hidden_layers", c.Layers, maxLayers},
		{"num_attention_heads", c.Heads, maxWidth},
		{"num_key_value_heads", c.KVHeads, maxWidth},
		{"intermediate_size", c.FF, maxWidth},
		{"max_position_embeddings", c.Context, 1 << 30},
		{"vocab_size", c.Vocab, maxVocab},
	} {
		if s.value == 0 {
			return c.errorf(s.key, "it is missing")
		}
		if s.value < 1 || s.value > s.max {
			return c.errorf(s.key, "%d is outside 1…%d", s.value, s.max)
		}
	}
	if c.HeadDim == 0 {
		c.HeadDim = c.Hidden / c.Heads
		if c.Hidden%c.Heads != 0 {
			return c.errorf("num_attention_heads", "%d heads do not share a width of %d evenly", c.Heads, c.Hidden)
		}
	}
	if c.HeadDim < 2 || c.HeadDim > maxWidth || c.HeadDim%2 != 0 || c.HeadDim > maxWidth/c.Heads {
		return c.errorf("head_dim", "heads of %d elements are not supported", c.HeadDim)
	}
	if c.Heads%c.KVHeads != 0 {
		return c.errorf("num_key_value_heads", "%d heads do not share %d KV heads evenly", c.Heads, c.KVHeads)
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

// firstPositive is the first of the values that is present.
func firstPositive(values ...int) int {
	for _, v := range values {
		if v != 0 {
			return v
		}
	}
	return 0
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
	case "fatrelu":
		threshold := or(c.ActParam, prosparseThreshold)
		if !(threshold >= 0) {
			return "", 0, c.errorf("hidden_act_param", "%g is not a threshold", threshold)
		}
		return "fatrelu", threshold, nil
	}
	return "", 0, c.errorf(key, "activation %q is not supported; supported are silu, gelu, relu, fatrelu, drelu, relu2", name)
}

// tokenID reads a token id that may be a number, a list (its first counts) or null.
func tokenID(raw json.RawMessage) (int, bool) {
	var id int
	var ids []int
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &id) == nil && id >= 0:
		return id, true
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0 && ids[0] >= 0:
		return ids[0], true
	}
	return 0, false
}
