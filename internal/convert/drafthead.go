package convert

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// folder returns the folder of the configuration.
func (c *config) folder() string { return filepath.Dir(c.Path) }

// targetWidth returns the width of the model that a draft head is for.
func (c *config) targetWidth() int {
	switch {
	case c.Target != 0:
		return c.Target
	case c.Head != nil && c.Head.Width != 0:
		return c.Head.Width
	case c.For != nil:
		return c.For.Hidden
	}
	return c.Hidden
}

// headKeys returns the keys of draft heads that read the model's hidden states.
func (c *config) headKeys(f lineage.Family) (keys []gguf.KV, err error) {
	h := c.Head
	if h == nil {
		return nil, nil
	}
	if h.Width < 0 || h.Width > maxWidth {
		return nil, c.Errorf("target_hidden_size", "%d is outside 1…%d", h.Width, maxWidth)
	}
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: f.Name + "." + key, Value: v}) }
	layers := make([]int32, len(h.Layers))
	for i, l := range h.Layers {
		layers[i] = int32(l)
	}
	add("target_layers", layers)
	if h.Block == 0 {
		add("target_hidden_size", uint32(h.Width))
		add("norm_before_residual", c.NormResidual)
		add("norm_before_fc", c.NormFC)
		return keys, nil
	}
	add("block_size", uint32(h.Block))
	keys = append(keys, gguf.KV{Key: "tokenizer.ggml.mask_token_id", Value: uint32(h.Mask)})
	if causal := cmp.Or(c.Causes, c.Causal); causal != nil {
		add("attention.causal", *causal)
	}
	if h.Scale != 0 {
		if !(h.Scale > 0 && h.Scale <= maxScale) {
			return nil, c.Errorf("input_embedding_scale", "%g is not a factor from 0 to %g", h.Scale, maxScale)
		}
		add("embedding_scale", float32(h.Scale))
	}
	if h.Turned {
		add("rope.dimension_sections", []int32{int32(c.HeadDim / 2), 0, 0, 0})
	}
	return keys, nil
}

// tokenMap plans output tensor name: for each drafted token its number in the model, from the differences of both in
// checkpoint tensor from.
func (p *plan) tokenMap(c *config, name, from string, dims []int) {
	seen := map[float64]bool{}
	p.readWhole(name, from, dims, asTokens, func(i int, v float64) (float64, string) {
		id := v + float64(i)
		if id != math.Trunc(id) || id < 0 || id >= float64(c.Vocab) || seen[id] {
			return 0, fmt.Sprintf("has row %d stand for token %g, which is none of %d or was named before; the head is damaged, or for another model", i, id, c.Vocab)
		}
		seen[id] = true
		return id, ""
	})
}
