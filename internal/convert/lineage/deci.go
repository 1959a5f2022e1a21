package lineage

import (
	"slices"
	"strings"
)

// deci describes DeciLM and the Nemotrons that a search made from Llama (nemotron-nas): layers may have a product in
// place of attention, or neither, and different numbers of KV heads and neurons, or none.
func deci() Family {
	f := llama()
	f.Name, f.HuggingFace = "deci", []string{"DeciLMForCausalLM", "NemotronNasForCausalLM"}
	for i, t := range f.Block {
		if t.Name == "attn_output.weight" {
			f.Block[i].Source += " self_attn.linear_attn.weight"
		}
	}
	f.Read = readDeci
	return f
}

// Deci holds the keys of DeciLM's and nemotron-nas's configuration.
type Deci struct {
	KVByLayer []int `json:"num_key_value_heads_per_layer"`
	Blocks    []struct {
		Attention struct {
			None    bool `json:"no_op"`
			Product bool `json:"replace_with_linear"`
			Group   *int `json:"n_heads_in_group"` // query heads of a KV head
			Window  *int `json:"window_length"`
			Sinks   *int `json:"num_sink_tokens"`
		} `json:"attention"`
		FeedForward struct {
			None    bool     `json:"no_op"`
			Product bool     `json:"replace_with_linear"`
			Factor  *float64 `json:"ffn_mult"`
			Width   int      `json:"intermediate_size"`
		} `json:"ffn"`
	} `json:"block_configs"`
}

func readDeci(c *Config) error {
	if c.Layers < 1 || c.Layers > 1<<12 || c.Heads < 1 || c.Heads > 1<<16 || c.Hidden < 1 || c.Hidden > 1<<20 {
		return c.Errorf("num_hidden_layers", "%d layers of %d heads in a width of %d are not supported", c.Layers, c.Heads, c.Hidden)
	}
	if d := &c.Deci; d.Blocks == nil {
		if d.KVByLayer != nil && len(d.KVByLayer) != c.Layers {
			return c.Errorf("num_key_value_heads_per_layer", "%d numbers for %d layers", len(d.KVByLayer), c.Layers)
		}
		for _, n := range d.KVByLayer {
			if n < 1 || c.Heads%n != 0 {
				return c.Errorf("num_key_value_heads_per_layer", "%d heads do not share %d KV heads evenly", c.Heads, n)
			}
			c.KVHeads = max(c.KVHeads, n)
		}
		c.LayerKV = d.KVByLayer
		return readLlama(c)
	}
	if len(c.Blocks) != c.Layers {
		return c.Errorf("block_configs", "%d for %d layers", len(c.Blocks), c.Layers)
	}
	c.Widths, c.FF = nil, 0
	for l, b := range c.Blocks {
		a, ff := &b.Attention, &b.FeedForward
		heads, kv, width := c.Heads, 0, 0
		switch {
		case a.Window != nil || a.Sinks != nil:
			return c.Errorf("block_configs", "the window of layer %d is not supported", l)
		case a.Product:
		case a.None || a.Group == nil:
			heads = 0
		case *a.Group < 1 || c.Heads%*a.Group != 0:
			return c.Errorf("block_configs", "groups of %d of %d heads in layer %d are not supported", *a.Group, c.Heads, l)
		default:
			kv = c.Heads / *a.Group
		}
		switch {
		case ff.Product:
			return c.Errorf("block_configs", "the product in place of layer %d's feed-forward layer is not supported", l)
		case ff.None:
		case ff.Width > 0 && ff.Width <= 1<<20:
			width = ff.Width
		case ff.Factor != nil && *ff.Factor > 0 && *ff.Factor <= 1<<10:
			const multiple = 256
			width = (int(2**ff.Factor*float64(c.Hidden)/3) + multiple - 1) / multiple * multiple
		}
		if width == 0 && heads > 0 { // files with such a layer leave it out
			return c.Errorf("block_configs", "attention without a feed-forward layer, in layer %d, is not supported", l)
		}
		c.LayerHeads, c.LayerKV, c.Widths = append(c.LayerHeads, heads), append(c.LayerKV, kv), append(c.Widths, width)
	}
	c.KVHeads, c.FF = slices.Max(c.LayerKV), slices.Max(c.Widths)
	c.Absent = func(l int, name string) bool {
		stem, _, _ := strings.Cut(name, ".")
		switch {
		case strings.HasPrefix(stem, "ffn_"):
			return c.Widths[l] == 0
		case stem == "attn_norm" || stem == "attn_output":
			return c.LayerHeads[l] == 0
		}
		return c.LayerKV[l] == 0
	}
	return readLlama(c)
}
