package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// readLatent reads the sizes of latent attention, which are the same in all layers, and how queries are rotated: their
// last elements. Files that are byHead have the sizes of heads in keys of their own, and in the usual ones those of the
// cache.
func readLatent(k *nn.Keys, s *sizes, style compute.RopeStyle, byHead bool) (nn.LatentShape, nn.RopeSpec) {
	heads := max(1, s.heads()) // layers of other kinds have none
	size := func(name string, usual int) int {
		return k.Counts(name, len(s.layers), func(int) int { return usual })[0]
	}
	shape := nn.LatentShape{Heads: heads, Key: size(".attention.key_length", max(1, s.embd/heads)), Value: size(".attention.value_length", max(1, s.embd/heads))}
	if byHead {
		shape.Key, shape.Value = size(".attention.key_length_mla", shape.Key), size(".attention.value_length_mla", shape.Value)
	}
	rope := k.Rope(nn.RopeSpec{Style: style, Dims: shape.Key, Trained: s.context})
	rope.First = shape.Key - rope.Dims
	shape.Latent, shape.Rotated = k.RequiredCount(".attention.kv_lora_rank", nn.MaxWidth), rope.Dims
	shape.Query = k.Optional(".attention.q_lora_rank", nn.MaxWidth)
	return shape, rope
}
