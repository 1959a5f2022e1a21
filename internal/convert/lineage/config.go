package lineage

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Config is the content of a Hugging Face folder's config.json. Zero is absent; null too. After Family.Read the fields
// that all families share are filled in, and Epsilon, Nonlinearity and TiedHead.
type Config struct {
	Path string `json:"-"` // of the file, for errors

	Architectures []string `json:"architectures"`
	Kind          string   `json:"model_type"`

	Hidden   int      `json:"hidden_size"`
	Layers   int      `json:"num_hidden_layers"`
	Heads    int      `json:"num_attention_heads"`
	KVHeads  int      `json:"num_key_value_heads"`
	HeadDim  int      `json:"head_dim"`
	FF       int      `json:"-"` // the largest of Widths
	Context  int      `json:"max_position_embeddings"`
	Vocab    int      `json:"vocab_size"`
	RMSEps   float64  `json:"rms_norm_eps"`
	Tied     *bool    `json:"tie_word_embeddings"`
	Act      string   `json:"hidden_act"`
	ActParam *float64 `json:"hidden_act_param"` // FATReLU's threshold, as ProSparse names it

	Rotary    float64      `json:"partial_rotary_factor"`
	RopeTheta float64      `json:"rope_theta"`
	RopeScale *RopeScaling `json:"rope_scaling"`
	Rope      *RopeScaling `json:"rope_parameters"` // newer folders: theta and scaling together

	Window    int   `json:"sliding_window"`
	UseWindow *bool `json:"use_sliding_window"`

	// Experts.
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

	// DeepSeek.
	RoutedExperts int     `json:"n_routed_experts"`
	SharedExperts int     `json:"n_shared_experts"` // each as wide as a routed one
	FirstDense    int     `json:"first_k_dense_replace"`
	ExpertEvery   Counts  `json:"moe_layer_freq"` // every so manyth layer has experts, or for each layer whether it has
	ExpertScale   float64 `json:"routed_scaling_factor"`
	TopKMethod    string  `json:"topk_method"`
	ExpertGroups  int     `json:"n_group"`
	GroupsUsed    int     `json:"topk_group"`
	Further       int     `json:"num_nextn_predict_layers"` // layers behind the last, which predict further tokens

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

	// Falcon, with its older names.
	FalconAct    string  `json:"activation"`
	FalconKV     Counts  `json:"num_kv_heads"` // of OpenELM in each layer
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

	NormEps  float64 `json:"norm_eps"`                         // Nemotron
	Original int     `json:"original_max_position_embeddings"` // Phi-3

	// Granite.
	EmbeddingScale float64 `json:"embedding_multiplier"`
	AttentionScale float64 `json:"attention_multiplier"`
	ResidualScale  float64 `json:"residual_multiplier"`
	LogitScale     float64 `json:"logits_scaling"` // logits are divided by it

	LayerTypes []string        `json:"layer_types"`            // full_attention or sliding_attention
	Pattern    json.RawMessage `json:"sliding_window_pattern"` // a number: every so manyth layer has no window; a text such as LLLG: L has one
	OldPattern json.RawMessage `json:"_sliding_window_pattern"`

	// Gemma.
	GemmaAct      string   `json:"hidden_activation"`
	QueryScalar   float64  `json:"query_pre_attn_scalar"` // scores are divided by its root
	ScoreCap      *float64 `json:"attn_logit_softcapping"`
	LogitCap      *float64 `json:"final_logit_softcapping"`
	WindowTheta   float64  `json:"rope_local_base_freq"`
	Bidirectional bool     `json:"use_bidirectional_attention"`

	// Command R.
	LogitFactor float64 `json:"logit_scale"`      // logits are multiplied by it
	LongContext int     `json:"model_max_length"` // where max_position_embeddings is less than the model was trained for
	QueryNorm   bool    `json:"use_qk_norm"`

	// StarCoder2.
	NormEpsilon float64 `json:"norm_epsilon"`

	// Of folders that hold a model of pictures, too.
	Vision *Vision `json:"vision_config"`

	// Gemma 3n and 4.
	Widths           Counts          `json:"intermediate_size"` // of each layer, or of all; FF is the largest
	Streams          int             `json:"altup_num_inputs"`
	ActiveStream     int             `json:"altup_active_idx"`
	ScaledCorrection *bool           `json:"altup_correct_scale"`
	LowRank          int             `json:"laurel_rank"`
	Input            int             `json:"hidden_size_per_layer_input"`
	InputVocab       int             `json:"vocab_size_per_layer_input"` // rows of the table of layers' embeddings, where they are fewer than all
	SharedKV         *int            `json:"num_kv_shared_layers"`
	GateSparsity     json.RawMessage `json:"activation_sparsity_pattern"` // share of gates that are zero: a number, or one for each layer
	GlobalHead       int             `json:"global_head_dim"`             // of layers without a window
	GlobalKV         int             `json:"num_global_key_value_heads"`
	Wider            bool            `json:"use_double_wide_mlp"` // layers that share keys and values have twice as many neurons
	Experts          bool            `json:"enable_moe_block"`
	TopExperts       int             `json:"top_k_experts"` // that a token uses

	// SmolLM3.
	NoRope      []int `json:"no_rope_layers"` // 0 of layers that are not rotated, despite the name
	NoRopeEvery int   `json:"no_rope_layer_interval"`

	// Spark and Maple.
	HeadGates    *bool  `json:"headwise_attn_output_gate"`
	GateAct      string `json:"gate_attn_act_mode"`
	GlobalTurned *bool  `json:"nope_on_global_attention"` // false: heads of layers without a window are rotated

	// PLaMo 3.
	PLaMoWindow    int     `json:"window_size"`
	RopeLocalTheta float64 `json:"rope_local_theta"`

	// StableLM.
	OldLayerNormEps float64 `json:"layer_norm_eps"`
	OldRotary       float64 `json:"rope_pct"` // share of a head that is rotated
	ParallelParts   *bool   `json:"use_parallel_residual"`
	HeadNorm        bool    `json:"qk_layernorm"`

	// GPT-NeoX.
	RotaryBase  float64 `json:"rotary_emb_base"`
	RotaryShare float64 `json:"rotary_pct"`

	// GPT-2.
	OldHidden    int  `json:"n_embd"`
	Positions    int  `json:"n_positions"`
	OldContext   int  `json:"n_ctx"`
	Inner        int  `json:"n_inner"`
	ScaleByLayer bool `json:"scale_attn_by_inverse_layer_idx"`
	CrossRead    bool `json:"add_cross_attention"`

	// BERT.
	PositionType string          `json:"position_embedding_type"`
	TokenTypes   int             `json:"type_vocab_size"`
	Padding      json.RawMessage `json:"pad_token_id"`
	Labels       json.RawMessage `json:"id2label"` // of a classification head's numbers
	Sinusoidal   bool            `json:"sinusoidal_pos_embds"`
	DistilWidth  int             `json:"dim"`
	DistilFF     int             `json:"hidden_dim"`

	// Jina's embeddings.
	FeedForward string   `json:"feed_forward_type"`
	LoRAs       []string `json:"lora_adaptations"` // tasks that adapters in the checkpoint are for

	// Nomic's embeddings.
	RotaryFraction float64 `json:"rotary_emb_fraction"`
	TurnNeighbours bool    `json:"rotary_emb_interleaved"`
	QKVBias        bool    `json:"qkv_proj_bias"`
	FirstBias      bool    `json:"mlp_fc1_bias"`
	SecondBias     bool    `json:"mlp_fc2_bias"`
	PreNorm        bool    `json:"prenorm"`
	Trained        int     `json:"max_trained_positions"`
	ExpertsEvery   int     `json:"moe_every_n_layers"`
	NomicUsed      int     `json:"moe_top_k"`
	NormalisedMoE  bool    `json:"moe_normalize_expert_weights"`

	// ModernBERT.
	LocalAttention    int     `json:"local_attention"`
	GlobalEvery       int     `json:"global_attn_every_n_layers"`
	GlobalTheta       float64 `json:"global_rope_theta"`
	LocalTheta        float64 `json:"local_rope_theta"`
	NormBias          bool    `json:"norm_bias"`
	MLPBias           bool    `json:"mlp_bias"`
	ClassifierPooling string  `json:"classifier_pooling"`

	// MPT and DBRX.
	ModelWidth int           `json:"d_model"`
	MPTHeads   int           `json:"n_heads"`
	MPTLayers  int           `json:"n_layers"`
	MaxSeq     int           `json:"max_seq_len"`
	Expansion  float64       `json:"expansion_ratio"` // neurons by width
	MPT        *MPTAttention `json:"attn_config"`
	DBRX       *DBRXExperts  `json:"ffn_config"`

	OldWidth int `json:"n_embed"` // BLOOM

	ZLoss *float64 `json:"z_loss_weight"` // Baichuan 2

	// Llama 4.
	DenseWidth   int      `json:"intermediate_size_mlp"` // of layers without experts
	ChunkSize    int      `json:"attention_chunk_size"`
	MixedEvery   int      `json:"interleave_moe_layer_step"`
	MixedLayers  []int    `json:"moe_layers"`
	Temperatures any      `json:"attn_temperature_tuning"` // a number or a bool
	TempFloor    *float64 `json:"floor_scale"`
	TempScale    *float64 `json:"attn_scale"`

	// Latent attention.
	Latent        int   `json:"kv_lora_rank"`
	QueryLatent   int   `json:"q_lora_rank"`
	NotTurned     int   `json:"qk_nope_head_dim"`
	Turned        int   `json:"qk_rope_head_dim"`
	ValueDim      int   `json:"v_head_dim"`
	AttentionBias bool  `json:"attention_bias"`
	Interleaved   *bool `json:"rope_interleave"` // the pairs that are rotated are neighbours

	// MiniCPM.
	EmbeddingFactor float64 `json:"scale_emb"`
	DepthFactor     float64 `json:"scale_depth"`    // what parts add to the residual is multiplied by it and divided by the root of the number of layers
	BaseWidth       int     `json:"dim_model_base"` // logits are divided by how often it goes into the width

	// ChatGLM.
	NumLayers    int     `json:"num_layers"`
	PaddedVocab  int     `json:"padded_vocab_size"`
	SeqLength    int     `json:"seq_length"`
	KVChannels   int     `json:"kv_channels"` // elements of a head
	Groups       int     `json:"multi_query_group_num"`
	Grouped      bool    `json:"multi_query_attention"`
	NormEpsGLM   float64 `json:"layernorm_epsilon"`
	RopeRatio    float64 `json:"rope_ratio"` // by which RoPE's base is multiplied
	LinearBias   bool    `json:"add_bias_linear"`
	ResidualNorm bool    `json:"apply_residual_connection_post_layernorm"`

	// OPT.
	OPTAct     string `json:"activation_function"`
	OPTFF      int    `json:"ffn_dim"`
	Projection int    `json:"word_embed_proj_dim"`
	NormFirst  *bool  `json:"do_layer_norm_before"`
	EnableBias *bool  `json:"enable_bias"`
	NormAffine *bool  `json:"layer_norm_elementwise_affine"`

	Mixture      Mixture              `json:"-"`
	Epsilon      Setting[float64]     `json:"-"` // of the norms
	Nonlinearity Setting[string]      `json:"-"` // as Hugging Face names it
	TiedHead     bool                 `json:"-"` // the head is the embedding
	SplitHead    bool                 `json:"-"` // but with another factor, so that files hold both
	PaddingRows  int                  `json:"-"` // of the table of positions, before the first position's
	FullEvery    int                  `json:"-"` // every FullEvery-th layer sees all positions and has no window, beginning with the first; 0: as the family has it
	UnitHead     bool                 `json:"-"` // the head's rows are brought to a length of 1
	UnitColumns  bool                 `json:"-"` // its columns are
	MaxAlibi     *float64             `json:"-"` // the largest exponent of ALiBi's slopes, where files say it
	LayerHeads   []int                `json:"-"` // heads of each layer, where they differ
	LayerKV      []int                `json:"-"` // KV heads of each layer, where they differ
	WindowRotary float64              `json:"-"` // share of a head that is rotated in layers with windows, where it differs; 0: it does not
	Clamp        float64              `json:"-"` // limit of queries, keys and values; 0: none
	ScoreScale   float64              `json:"-"` // of the products q·k; 0: 1/√key
	StateSpace   StateSpace           `json:"-"` // of recurrent layers
	Unrotated    bool                 `json:"-"` // no head is rotated, in families whose models may be
	Given        map[string][]float32 `json:"-"` // elements of tensors of every block that follow from the configuration
	LayerParts   []Part               `json:"-"` // of each layer, in families whose layers are one part; nil: all have all
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
	DeepStack []int `json:"deepstack_visual_indexes"` // its layers whose output is added to the text model's first layers
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
	Alpha     float64 `json:"alpha"` // Hunyuan: the base grows by a power of it
	Partial   float64 `json:"partial_rotary_factor"`
	ShortM    float64 `json:"short_mscale"` // Phi-3.5 MoE: the magnitude of longrope
	LongM     float64 `json:"long_mscale"`
	Truncate  *bool   `json:"truncate"` // of YaRN: the pairs between which it passes are whole numbers

	Temperature float64 `json:"llama_4_scaling_beta"` // by which queries grow with the logarithm of how many original contexts lie before them

	Sections []int `json:"mrope_section"` // pairs of a head that turn by time, height and width

	Full    *RopeScaling `json:"full_attention"`    // of layers without a window, where kinds of layers differ
	Sliding *RopeScaling `json:"sliding_attention"` // of layers with one

	// Of longrope, divisors of frequencies [rotated/2]: Short up to the original context, Long beyond.
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
