package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// item is a tensor of the family to plan for one layer, or outside of layers.
type item struct {
	lineage.Tensor
	layer        int    // 0 outside of layers, too
	prefix, from string // prefixes of its names in the file and in the folder
}

// list finds the shapes of the items' tensors, as the family's program would bind them of a file with keys.
func (p *plan) list(c *config, keys []gguf.KV, items []item) {
	if p.err != nil {
		return
	}
	held := map[string]*gguf.Tensor{}
	for _, i := range items {
		held[i.prefix+i.Name] = &gguf.Tensor{Shape: p.untold(c, &i)}
	}
	keys = slices.Concat([]gguf.KV{{Key: "general.architecture", Value: p.family.Name}}, keys, p.keys)
	if p.further > 0 {
		keys = c.withFurther(keys, p.family, p.further)
	}
	k := &nn.Keys{File: gguf.Describe(c.Path, "GGUF", keys, nil), Arch: p.family.Name}
	b := nn.NewLister(k.File, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }}, func(name string) *gguf.Tensor { return held[name] })
	if p.family.Drafts {
		family.OpenDraft(k, b, &family.Target{Embd: c.targetWidth(), Vocab: c.Vocab, Layers: maxLayers})
		p.listed(k, b)
		return
	}
	program := family.Open(k, b)
	if mtp, ok := program.(family.MTP); ok && k.Err == nil {
		for l := range p.further {
			mtp.BindMTP(b.Layer(c.Layers+l), c.Layers+l)
		}
	}
	if p.listed(k, b); p.err == nil {
		_, output := program.Ends()
		p.ranking = output.Ranking
	}
}

// listed takes the shapes of the tensors that b lists.
func (p *plan) listed(k *nn.Keys, b *nn.Binder) {
	p.err, p.shapes = cmp.Or(k.Err, b.Err), map[string][]int{}
	for _, t := range b.Listed() {
		slices.Reverse(t.Shape)
		p.shapes[t.Name] = t.Shape
	}
}

// untold returns the shape of a tensor that no key states, row length first; nil: keys state it.
func (p *plan) untold(c *config, i *item) []int {
	s := c.sizes(i.layer)
	ranks := map[string]int{"w": s.Ranks.Decay, "a": s.Ranks.Rate, "v": s.Ranks.Value, "g": s.Ranks.Gate}
	switch name, _, _ := strings.Cut(i.Name, "."); name {
	case "d2t":
		return []int{c.DraftVocab}
	case "token_embd":
		return []int{c.Hidden, c.Vocab}
	case "per_layer_token_embd":
		return p.gramShape
	case "token_types":
		return []int{c.Hidden, c.TokenTypes}
	case "position_embd":
		return []int{c.Hidden, c.Context + p.family.LearnedOffset}
	case "laurel_l":
		return []int{c.Hidden, c.LowRank}
	case "attn_gate":
		if p.family.HeadGate && !c.ElementGate {
			return []int{c.Hidden, s.Heads}
		}
	case "time_mix_w1", "time_mix_a1", "time_mix_v1", "time_mix_g1":
		return []int{c.Hidden, ranks[name[len("time_mix_"):len(name)-1]]}
	}
	return nil
}

// shape returns the shape of an item's tensor, outermost dimension first.
func (p *plan) shape(i *item) []int {
	shape := p.shapes[i.prefix+i.Name]
	if shape == nil && p.err == nil {
		p.err = fmt.Errorf("%s: models of %s with its keys have no tensor %q, which %q would be", p.source.Path, p.family.Name, i.prefix+i.Name, i.from+i.Source)
	}
	return slices.Clone(shape)
}

// sizes are a layer's sizes.
type sizes struct {
	FF                 int
	Heads, KVHeads     int
	Key, Value         int // elements of a head's key and of its value
	Latent, Rotated    int // latent attention: width of the latent vector of keys and values, and rotated elements of a head
	lineage.StateSpace     // recurrent layers
}

// sizes returns layer l's sizes.
func (c *config) sizes(l int) sizes {
	s := sizes{FF: c.neurons(l), Heads: c.Heads, KVHeads: c.KVHeads, Key: c.HeadDim, Value: c.value(), Latent: c.Latent, Rotated: c.Turned, StateSpace: c.StateSpace}
	if c.LayerParts != nil && c.LayerParts[l]&lineage.Attention == 0 {
		s.KVHeads = 0
	}
	if n := len(c.LayerHeads); n > 0 { // layers after the last have the last layer's
		s.Heads = c.LayerHeads[min(l, n-1)]
	}
	if n := len(c.LayerKV); n > 0 {
		s.KVHeads = c.LayerKV[min(l, n-1)]
	}
	if l == 0 { // see lineage.Family.InLayer
		s.Ranks.Value = s.Ranks.Rate
	}
	if c.GlobalHead > 0 && l < len(c.LayerTypes) && c.LayerTypes[l] == "full_attention" {
		s.KVHeads, s.Key, s.Value = c.GlobalKV, c.GlobalHead, c.GlobalHead
	}
	if w := c.WindowLatent; w != nil && c.LayerTypes[min(l, c.Layers-1)] == "sliding_attention" {
		s.Latent, s.Key, s.Value = w.Latent, w.Key, w.Value
	}
	return s
}

// neurons returns the number of neurons of layer l.
func (c *config) neurons(l int) int {
	n := c.FF
	if c.LayerParts != nil {
		switch {
		case c.LayerParts[l]&lineage.FeedForward == 0:
			return 0
		case c.Mixture.Count > 0 && c.LayerParts[l] == lineage.FeedForward:
			return c.Mixture.Width
		}
	}
	if len(c.Widths) == c.Layers {
		n = c.Widths[min(l, c.Layers-1)]
	}
	if c.Wider && l >= c.Layers-c.Shares() {
		n *= 2
	}
	return n
}
