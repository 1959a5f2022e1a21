package lineage

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Config is the content of a Hugging Face folder's config.json. Zero is absent; null too. After Family.Read the fields
// that all families share are filled in, and Epsilon, Nonlinearity and TiedHead.
type Config struct {
	Path          string   `json:"-"` // path of the file, for errors
	Architectures []string `json:"architectures"`
	Kind          string   `json:"model_type"`

	Hidden    int      `json:"hidden_size"`
	Layers    int      `json:"num_hidden_layers"`
	Heads     int      `json:"num_attention_heads"`
	KVHeads   int      `json:"num_key_value_heads"`
	HeadDim   int      `json:"head_dim"`
	FF        int      `json:"-"` // the largest of Widths
	Context   int      `json:"max_position_embeddings"`
	Vocab     int      `json:"vocab_size"`
	RMSEps    float64  `json:"rms_norm_eps"`
	Tied      *bool    `json:"tie_word_embeddings"`
	Act       string   `json:"hidden_act"`
	ActParam  *float64 `json:"hidden_act_param"` // FATReLU's threshold, as ProSparse names it
	Window    int      `json:"sliding_window"`
	UseWindow *bool    `json:"use_sliding_window"`

	RotationKeys
	ExpertKeys
	LayerKeys
	Lineages
	Encoders
	Meaning
}

// RotationKeys say how heads are rotated.
type RotationKeys struct {
	Rotary     float64      `json:"partial_rotary_factor"`
	RopeThetas Bases        `json:"rope_theta"` // for each layer, or one
	RopeTheta  float64      `json:"-"`          // the first of RopeThetas
	RopeScale  *RopeScaling `json:"rope_scaling"`
	Rope       *RopeScaling `json:"rope_parameters"` // newer folders: theta and scaling together
}

// ExpertKeys are the keys of models with experts.
type ExpertKeys struct {
	NumExperts      int      `json:"num_experts"`
	LocalExperts    int      `json:"num_local_experts"`
	ExpertsPerToken int      `json:"num_experts_per_tok"`
	ExpertWidths    Counts   `json:"moe_intermediate_size"`
	ExpertWidth     int      `json:"-"` // the first of ExpertWidths
	SharedWidth     int      `json:"shared_expert_intermediate_size"`
	SharedMLP       int      `json:"shared_intermediate_size"` // Granite
	NormTopK        *bool    `json:"norm_topk_prob"`
	SparseStep      int      `json:"decoder_sparse_step"`
	DenseLayers     []int    `json:"mlp_only_layers"`
	ClipQKV         *float64 `json:"clip_qkv"`
	GateLimit       *float64 `json:"swiglu_limit"`
	Scoring         string   `json:"scoring_func"`
	RotaryDim       int      `json:"rotary_dim"` // rotated elements of a head
	ErnieExperts    int      `json:"moe_num_experts"`
	ErnieUsed       int      `json:"moe_k"`
	ErnieShared     int      `json:"moe_num_shared_experts"`
	ErnieFirst      int      `json:"moe_layer_start_index"`
	ErnieLast       int      `json:"moe_layer_end_index"`
	ErnieEvery      int      `json:"moe_layer_interval"`
}

// LayerKeys tell which layers are what, and others that several lineages have.
type LayerKeys struct {
	LayerTypes  []string        `json:"layer_types"`            // full_attention or sliding_attention
	Pattern     json.RawMessage `json:"sliding_window_pattern"` // a number n: every n-th layer has no window; a text such as LLLG: L has one
	OldPattern  json.RawMessage `json:"_sliding_window_pattern"`
	NormEps     float64         `json:"norm_eps"`                         // Nemotron
	Original    int             `json:"original_max_position_embeddings"` // Phi-3
	NormEpsilon float64         `json:"norm_epsilon"`
	Vision      *Vision         `json:"vision_config"`
	OldWidth    int             `json:"n_embed"`       // BLOOM
	ZLoss       *float64        `json:"z_loss_weight"` // Baichuan 2
}

// Lineages are the keys of single lineages.
type Lineages struct {
	FalconKeys
	GraniteKeys
	GemmaKeys
	CommandRKeys
	Gemma3nKeys
	AssistantKeys
	HeadKeys
	SmolLM3Keys
	SparkKeys
	PLaMo3Keys
	StableLMKeys
	GPTNeoXKeys
	GPT2Keys
	MPTKeys
	Llama4Keys
	LatentAttentionKeys
	MiniCPMKeys
	ChatGLMKeys
	OPTKeys
	DeepSeekKeys

	Newer
}

// Newer are the keys of lineages with names that other lineages use too. They take precedence.
type Newer struct {
	SmallThinker
	Mixtures
	Indexing
	Bailing
	Connected
	NemotronH
	DeltaNet
	Qwen4Exp
	Looped
	OpenELM
	Mamba
	Mamba2
	Selection
	RWKV
	FalconH1
	LFM2
	Kimi
	MiniMax01
	Grok
	Step
	Deci
	Dots
}

// Encoders are the keys of models of embeddings.
type Encoders struct {
	BERTKeys
	JinaKeys
	NomicKeys
	ModernBERTKeys
}

// Meaning holds the meaning of the keys, by whatever names the folder gives them. Family.Read fills it in.
type Meaning struct {
	Refused      error                `json:"-"` // the first reason why the folder is not supported, besides Family.Read's
	Mixture      Mixture              `json:"-"`
	Epsilon      Setting[float64]     `json:"-"` // epsilon of the norms
	Nonlinearity Setting[string]      `json:"-"` // as Hugging Face names it
	TiedHead     bool                 `json:"-"` // the head is the embedding
	SplitHead    bool                 `json:"-"` // but with another factor, so that files hold both
	PaddingRows  int                  `json:"-"` // rows of the table of positions before the first position's
	FullEvery    int                  `json:"-"` // every FullEvery-th layer sees all positions and has no window, beginning with the first; 0: as the family has it
	UnitHead     bool                 `json:"-"` // the head's rows are normalised to length 1
	UnitColumns  bool                 `json:"-"` // its columns are
	MaxAlibi     *float64             `json:"-"` // the largest exponent of ALiBi's slopes, where files say it
	LayerHeads   []int                `json:"-"` // heads of each layer, if they differ
	LayerKV      []int                `json:"-"` // KV heads of each layer, if they differ
	WindowRotary float64              `json:"-"` // share of a head that is rotated in layers with windows, if it differs; 0: it does not
	Clamp        float64              `json:"-"` // limit of queries, keys and values; 0: none
	ScoreScale   float64              `json:"-"` // factor of the scores q·k; 0: 1/√key
	StateSpace   StateSpace           `json:"-"` // sizes of recurrent layers
	Unrotated    bool                 `json:"-"` // no head is rotated, in families with both kinds of models
	Given        map[string][]float32 `json:"-"` // elements of tensors of every block that follow from the configuration
	LayerParts   []Part               `json:"-"` // [layers] in families with layers of one part; nil: every layer has all parts
	// Absent says which of the block's tensors, by their names in GGUF after "blk.N.", a layer lacks; nil: none.
	Absent       func(l int, name string) bool `json:"-"`
	WindowLatent *LatentShape                  `json:"-"` // for sliding-window layers; nil: the shape of all layers
	HalfTurned   bool                          `json:"-"` // layers without windows rotate half of what the others do
	// FurtherWindows says which MTP layers have a sliding window, unless the pattern of the other layers says it (nil).
	// MTP layers beyond the list are like its last one.
	FurtherWindows []bool `json:"-"`
}

// SmallThinker are the keys of that family's configuration.
type SmallThinker struct {
	Experts    int   `json:"moe_num_primary_experts"`
	Used       int   `json:"moe_num_active_primary_experts"`
	Width      int   `json:"moe_ffn_hidden_size"`
	Shared     int   `json:"moe_shared_primary_experts"`
	Secondary  bool  `json:"moe_enable_secondary_experts"`
	Softmax    bool  `json:"moe_primary_router_apply_softmax"`
	Early      *bool `json:"moe_enable_early_router"`
	Mixed      []int `json:"moe_layer_layout"` // 0 of layers without experts
	Rotated    []int `json:"rope_layout"`      // 0 of layers that are not rotated
	Windows    []int `json:"sliding_window_layout"`
	WindowSize int   `json:"sliding_window_size"`
}

// Vision is the part of config.json about a model of pictures that a text model's files tell, too.
type Vision struct {
	DeepStack []int `json:"deepstack_visual_indexes"` // the layers with outputs that are added to the text model's first layers
}

// RopeScaling is config.json's rope_scaling or rope_parameters.
type RopeScaling struct {
	Type      string  `json:"rope_type"`
	OldType   string  `json:"type"`
	Theta     float64 `json:"rope_theta"`
	Factor    float64 `json:"factor"`
	Original  int     `json:"original_max_position_embeddings"`
	Low       float64 `json:"low_freq_factor"`
	High      float64 `json:"high_freq_factor"`
	BetaFast  float64 `json:"beta_fast"`
	BetaSlow  float64 `json:"beta_slow"`
	Attention float64 `json:"attention_factor"`
	MScale    float64 `json:"mscale"`
	MScaleAll float64 `json:"mscale_all_dim"`
	Alpha     float64 `json:"alpha"` // Hunyuan: the RoPE base is multiplied by a power of it
	Partial   float64 `json:"partial_rotary_factor"`
	ShortM    float64 `json:"short_mscale"` // Phi-3.5 MoE: the magnitude of longrope
	LongM     float64 `json:"long_mscale"`
	Truncate  *bool   `json:"truncate"` // YaRN: the bounds of its ramp are rounded to whole pairs

	Temperature float64 `json:"llama_4_scaling_beta"` // queries grow with the logarithm of the number of original contexts before their position, times this

	Sections []int `json:"mrope_section"` // pairs of a head that are rotated by time, height and width

	Full    *RopeScaling `json:"full_attention"`    // for layers without a window, if kinds of layers differ
	Sliding *RopeScaling `json:"sliding_attention"` // for sliding-window layers

	// longrope's divisors of frequencies [rotated/2]: Short up to the original context, Long beyond it.
	Long  []float32 `json:"long_factor"`
	Short []float32 `json:"short_factor"`
}

// Setting is a value and the key of config.json that it is from.
type Setting[T any] struct {
	Key   string
	Value T
}

// Counts are numbers of config.json that may be one for all layers.
type Counts []int

// Bases are bases of rotations that may be one for all layers.
type Bases []float64

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bases) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]float64)(b))
	}
	var one float64
	err := json.Unmarshal(data, &one)
	*b = Bases{one}
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Counts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]int)(c))
	}
	var n int
	err := json.Unmarshal(data, &n)
	*c = nil
	if n != 0 {
		*c = Counts{n}
	}
	return err
}

// Shares returns how many layers at the end read keys and values of others.
func (c *Config) Shares() int { return or(c.SharedKV, 0) }

// Errorf returns an error about a key of config.json.
func (c *Config) Errorf(key, format string, args ...any) error {
	return fmt.Errorf("%s: key %q: %s", c.Path, key, fmt.Sprintf(format, args...))
}

// refuse records that the folder's value of a key is unsupported, if so. Code that runs afterwards must not depend on
// the key.
func (c *Config) refuse(unsupported bool, key, format string, args ...any) {
	if unsupported && c.Refused == nil {
		c.Refused = c.Errorf(key, format, args...)
	}
}

// ropeByKind takes the rotations of newer folders, which tell them for each kind of layer.
func (c *Config) ropeByKind() {
	if c.Rope == nil || c.Rope.Full == nil {
		return
	}
	if c.Rope.Sliding != nil {
		c.WindowTheta = cmp.Or(c.Rope.Sliding.Theta, c.WindowTheta)
		c.WindowRotary = c.Rope.Sliding.Partial
	}
	c.Rope = c.Rope.Full
}

// rotates notes the share of a head that is rotated, the first of usual that is not 0 where the folder does not say it.
func (c *Config) rotates(usual ...float64) {
	if c.Rope == nil || c.Rope.Partial == 0 {
		c.Rotary = cmp.Or(append([]float64{c.Rotary}, usual...)...)
	}
}

// rotatesDims notes the same where the folder gives elements.
func (c *Config) rotatesDims() {
	if c.RotaryDim > 0 && c.HeadDim > 0 {
		c.Rotary = cmp.Or(c.Rotary, float64(c.RotaryDim)/float64(c.HeadDim))
	}
}

// epsilon notes the norms' epsilon, def where the value is absent.
func (c *Config) epsilon(key string, value, def float64) {
	c.Epsilon = Setting[float64]{key, cmp.Or(value, def)}
}

// nonlinearity notes the activation, def where the name is absent.
func (c *Config) nonlinearity(key, name, def string) {
	c.Nonlinearity = Setting[string]{key, cmp.Or(name, def)}
}

// or returns v, or def where v is absent.
func or[T any](v *T, def T) T {
	if v == nil {
		return def
	}
	return *v
}
