package lineage

import (
	"cmp"
	"slices"
)

// eagle3 describes EAGLE-3 heads: one block of Llama with attention that reads the token's embedding next to fc's
// product of the model's hidden states. Folders of SpecForge and NVIDIA call the block midlayer, those of speculators
// layer 0. For each drafted token, d2t is its number in the model minus its own; t2d says the same in the other
// direction.
func eagle3() Family {
	f := llama()
	f.Name, f.HuggingFace = "eagle3", []string{"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Speculator", "Eagle3DraftModel"}
	f.Drafts, f.Buffers = true, []string{"t2d"}
	f.Root, f.Layer = []string{"", "model."}, "midlayer%.0d. layers.%d." // %.0d of 0 is nothing
	f.Outer = append(headOuter(), Tensor{Name: "enc.output_norm.weight", Source: "input_norm.weight", Optional: true})
	f.Block = append(f.Block, Tensor{Name: "attn_norm_2.weight", Source: "hidden_norm.weight"})
	f.Read = readEagle3
	return f
}

// dflash describes DFlash heads: Qwen 3's blocks, which read fc's product of the model's hidden states after a norm.
func dflash() Family {
	f := qwen3()
	f.Name, f.HuggingFace = "dflash", []string{"DFlashDraftModel"}
	f.Drafts, f.Buffers = true, []string{"t2d"}
	f.Root = []string{"", "model."}
	f.Window, f.WindowList, f.FullEvery = true, true, 1
	f.Outer = append(headOuter(), Tensor{Name: "enc.output_norm.weight", Source: "hidden_norm.weight"})
	f.Block = append(f.Block, Tensor{Name: "attn_sinks.weight", Source: "self_attn.sinks", Optional: true})
	f.Read = readDFlash
	return f
}

// headOuter returns what both have outside of blocks. The table of tokens and the matrix of logits may be the model's.
func headOuter() []Tensor {
	return []Tensor{
		{Name: "output_norm.weight", Source: "norm.weight"},
		{Name: "token_embd.weight", Source: "embed_tokens.weight", Optional: true},
		{Name: "rope_freqs.weight", Optional: true, Change: Computed},
		{Name: "fc.weight", Source: "fc.weight"},
		{Name: "output.weight", Source: "lm_head.weight", Optional: true},
		{Name: "d2t", Source: "d2t", Optional: true, Change: TokenMap},
	}
}

// HeadKeys are the keys of draft heads.
type HeadKeys struct {
	DraftVocab   int  `json:"draft_vocab_size"`
	TargetWidth  int  `json:"target_hidden_size"`
	NormResidual bool `json:"norm_before_residual"`
	NormFC       bool `json:"norm_before_fc"`
	StateLayers
	Eagle *StateLayers `json:"eagle_config"`

	DFlash *DFlashKeys `json:"dflash_config"`
	DFlashKeys
	Causes *bool `json:"is_causal"`
	NeoX   *bool `json:"rope_is_neox_style"`

	For  *Config `json:"-"` // the target's config.json; nil: its folder is not known
	Head *Head   `json:"-"` // what files say of the head; Read fills it in
}

// StateLayers names the model's layers with inputs that an EAGLE-3 head reads.
type StateLayers struct {
	Aux []int `json:"eagle_aux_hidden_state_layer_ids"`
}

// DFlashKeys may be in an object of their own in config.json.
type DFlashKeys struct {
	Block      int     `json:"block_size"`
	Gives      []int   `json:"target_layer_ids"` // the model's layers with outputs that the head reads
	Mask       *int    `json:"mask_token_id"`
	Causal     *bool   `json:"causal"`
	Kernel     int     `json:"conv_kernel_size"` // DFlash 2
	AllSliding bool    `json:"use_swa"`          // in all layers
	Size       int     `json:"swa_window_size"`
	Scale      float64 `json:"input_embedding_scale"`
}

// Head is what files say of a draft head.
type Head struct {
	Layers []int   // the model's layers with inputs that the head reads
	Width  int     // the model's width; 0: files do not say it
	Block  int     // rows of a block; 0: not a DFlash head
	Mask   int     // the placeholder of each drafted token in a block
	Scale  float64 // factor of the embeddings; 0: 1
	Turned bool    // RoPE has sections, but only the first, time, has pairs
}

// forModel returns the configuration of the model that a head is for.
func (c *Config) forModel() (*Config, error) {
	switch of := c.For; {
	case of == nil:
		return nil, c.Errorf("architectures", "a draft head has no tokenizer of its own and does not say all of its model's sizes: name the folder of the model with --target-model-dir")
	case of.Vocab != c.Vocab:
		return nil, c.Errorf("vocab_size", "the head is for a model of %d tokens, and %s says %d: name the folder of its model", c.Vocab, of.Path, of.Vocab)
	case c.DraftVocab < 0 || c.DraftVocab > c.Vocab:
		return nil, c.Errorf("draft_vocab_size", "%d is outside 1…%d", c.DraftVocab, c.Vocab)
	}
	if c.DraftVocab == 0 {
		c.DraftVocab = c.Vocab
	}
	return c.For, nil
}

func readEagle3(c *Config) error {
	of, err := c.forModel()
	if err != nil {
		return err
	}
	if c.Layers != 1 {
		return c.Errorf("num_hidden_layers", "an EAGLE-3 head of %d layers is not supported; one has 1", c.Layers)
	}
	layers := c.Aux
	if layers == nil && c.Eagle != nil {
		layers = c.Eagle.Aux
	}
	if layers == nil {
		layers = []int{2, of.Layers / 2, of.Layers - 3}
	}
	if len(layers) != 3 || slices.Min(layers) < 0 || slices.Max(layers) > of.Layers {
		return c.Errorf("eagle_aux_hidden_state_layer_ids", "%v are not three layers of a model of %d", layers, of.Layers)
	}
	c.Head = &Head{Layers: layers, Width: cmp.Or(c.TargetWidth, of.Hidden)}
	return readLlama(c)
}

func readDFlash(c *Config) error {
	of, err := c.forModel()
	if err != nil {
		return err
	}
	d := c.DFlash
	if d == nil {
		d = &DFlashKeys{}
	}
	block, given, mask := cmp.Or(d.Block, c.DFlashKeys.Block, 16), d.Gives, d.Mask
	if given == nil {
		given = c.Gives
	}
	mask = cmp.Or(mask, c.Mask)
	switch {
	case cmp.Or(d.Kernel, c.Kernel) != 0:
		return c.Errorf("dflash_config", "heads with convolutions and a selector (DFlash 2) are not supported")
	case !or(c.NeoX, true):
		return c.Errorf("rope_is_neox_style", "heads that rotate neighbouring elements are not supported")
	case mask == nil || *mask < 0 || *mask >= c.Vocab:
		return c.Errorf("mask_token_id", "it is no token of %d", c.Vocab)
	case block < 2 || block > 256:
		return c.Errorf("block_size", "%d is outside 2…256", block)
	case len(given) == 0 || slices.Min(given) < 0 || slices.Max(given) >= of.Layers:
		return c.Errorf("target_layer_ids", "%v are not layers of a model of %d", given, of.Layers)
	}
	c.Head = &Head{Block: block, Mask: *mask, Scale: cmp.Or(d.Scale, c.Scale)}
	for _, l := range given {
		c.Head.Layers = append(c.Head.Layers, l+1) // its output is the next layer's input
	}
	if s := cmp.Or(of.RopeScale, of.Rope); s != nil {
		c.Head.Turned = len(s.Sections) > 0
	}
	switch c.LogitCap = nil; {
	case d.AllSliding || c.AllSliding:
		c.Window = cmp.Or(d.Size, c.Size, c.Window)
		c.LayerTypes = slices.Repeat([]string{"sliding_attention"}, c.Layers)
	case !or(c.UseWindow, false):
		c.Window = 0
	}
	return readLlama(c)
}
