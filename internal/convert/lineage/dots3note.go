package lineage

import (
	"cmp"
	"math"
	"strings"
)

// dots3Note describes dots.3 Note: latent attention of two shapes, which layers have by whether they have a window, a
// norm of the part of keys that heads share, gates of heads, and indexers in layers without windows.
func dots3Note() Family {
	f := deepseek32()
	f.Name, f.HuggingFace, f.Window, f.YarnScores, f.Further, f.HeadGate = "dots3note", []string{"Dots3NoteForCausalLM", "Dots3NoteForConditionalGeneration", "Dots3NoteTextForCausalLM"}, true, false, false, true
	f.FullEvery, f.WindowList, f.WindowBase, f.Root = 4, true, 10000, textRoots()
	f.Block = before(f.Block, "attn_output.weight",
		Tensor{Name: "attn_k_norm.weight", Source: "self_attn.k_rope_only_layernorm.weight"},
		Tensor{Name: "attn_gate.weight", Source: "self_attn.gate_proj.weight self_attn.g_proj.weight"})
	f.Read = readDots3Note
	f.Multiplied = func(c *Config, layer int, name string) []Multiplied {
		of := map[string]int{"attn_q_a_norm.weight": c.QueryLatent, "attn_kv_a_norm.weight": c.Latent}[name]
		if w := c.WindowLatent; name == "attn_kv_a_norm.weight" && w != nil && c.LayerTypes[layer] == "sliding_attention" {
			of = w.Latent
		}
		if of == 0 || !c.Rescaled {
			return nil
		}
		return []Multiplied{{By: math.Sqrt(float64(c.Hidden) / float64(of))}}
	}
	return f
}

// Dots are the keys of dots.3 Note's configuration.
type Dots struct {
	WindowHeads       int    `json:"swa_num_attention_heads"`
	WindowRank        int    `json:"swa_kv_lora_rank"`
	WindowQueryRank   int    `json:"swa_q_lora_rank"`
	WindowNotTurned   int    `json:"swa_qk_nope_head_dim"`
	WindowTurned      int    `json:"swa_qk_rope_head_dim"`
	WindowValue       int    `json:"swa_v_head_dim"`
	Rescaled          bool   `json:"apply_mla_qkv_lora_rescale"` // what norms of latent vectors give is multiplied
	Sparse            *bool  `json:"use_dsa"`
	KeyNorm           *bool  `json:"k_rope_only_layernorm"`
	GateKind          string `json:"attention_gate_type"`
	WindowGate        string `json:"swa_attention_gate_type"`
	DynamicScale      bool   `json:"use_dynamic_rsf"`
	Normalization     string `json:"normalization"`
	LastNormalization string `json:"final_norm"`
}

// LatentShape is the shape of latent attention in some layers.
type LatentShape struct {
	Latent     int // elements that keys and values follow from
	Key, Value int // elements of a head's key and of its value
}

func readDots3Note(c *Config) error {
	d := &c.Dots
	const most = 1 << 16
	switch {
	case c.Layers < 1 || c.Layers > 1<<12 || len(c.LayerTypes) < c.Layers:
		return c.Errorf("layer_types", "%d for %d layers", len(c.LayerTypes), c.Layers)
	case !or(d.Sparse, true) || !or(d.KeyNorm, true):
		return c.Errorf("use_dsa", "models without indexers or without a norm of the rotated part of keys are not supported")
	case cmp.Or(d.GateKind, "headwise") != "headwise" || cmp.Or(d.WindowGate, "headwise") != "headwise":
		return c.Errorf("attention_gate_type", "%q and %q are not supported; headwise is", d.GateKind, d.WindowGate)
	case d.DynamicScale:
		return c.Errorf("use_dynamic_rsf", "factors of experts that follow from the token are not supported")
	case cmp.Or(d.Normalization, "RMSNorm") != "RMSNorm" || cmp.Or(d.LastNormalization, "RMSNorm") != "RMSNorm":
		return c.Errorf("normalization", "%q and %q are not supported; RMSNorm is", d.Normalization, d.LastNormalization)
	case d.WindowTurned != c.Turned || d.WindowQueryRank != c.QueryLatent:
		return c.Errorf("swa_qk_rope_head_dim", "%d rotated elements and queries of %d beside %d and %d are not supported", d.WindowTurned, d.WindowQueryRank, c.Turned, c.QueryLatent)
	case d.WindowHeads < 1 || d.WindowRank < 1 || d.WindowNotTurned < 1 || d.WindowValue < 1 || max(d.WindowHeads, d.WindowRank, d.WindowNotTurned, d.WindowValue) > most:
		return c.Errorf("swa_kv_lora_rank", "%d heads of %d elements that follow from %d are not supported", d.WindowHeads, d.WindowNotTurned, d.WindowRank)
	}
	c.KVHeads, c.Window, c.LayerTypes = 0, cmp.Or(c.WindowSize, c.Window), c.LayerTypes[:c.Layers]
	c.WindowLatent = &LatentShape{d.WindowRank, d.WindowNotTurned + d.WindowTurned, d.WindowValue}
	c.IndexerTypes = nil
	for _, kind := range c.LayerTypes {
		heads, index := c.Heads, "full"
		if kind == "sliding_attention" {
			heads, index = d.WindowHeads, "none"
		}
		c.LayerHeads, c.IndexerTypes = append(c.LayerHeads, heads), append(c.IndexerTypes, index)
	}
	c.Absent = func(l int, name string) bool {
		return strings.HasPrefix(name, "indexer.") && c.IndexerTypes[l] == "none"
	}
	c.ropeByKind()
	c.WindowTheta = cmp.Or(c.WindowTheta, c.WindowBase, c.RopeTheta, 10000)
	c.Further = max(c.Further, 1) // which the configuration does not say
	c.Scoring, c.TopKMethod = cmp.Or(c.Scoring, "sigmoid"), cmp.Or(c.TopKMethod, "noaux_tc")
	return readDeepSeek32(c)
}
