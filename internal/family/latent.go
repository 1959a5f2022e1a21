package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// readLatent reads the sizes of latent attention, which are the same in all layers, and the rotation of queries, which
// covers their last elements. In files with key_length_mla and value_length_mla, these are the sizes of heads, and
// key_length and value_length those of a row of the cache; in others the latter are the sizes of heads.
func readLatent(k *nn.Keys, s *sizes, style compute.RopeStyle) (nn.LatentShape, nn.RopeSpec) {
	heads := max(1, s.heads()) // layers of other kinds have none
	size := func(name string, usual int) int {
		return k.Counts(name, len(s.layers), func(int) int { return usual })[0]
	}
	usual := max(1, s.embd/heads)
	shape := nn.LatentShape{
		Heads: heads,
		Key:   size(".attention.key_length_mla", size(".attention.key_length", usual)),
		Value: size(".attention.value_length_mla", size(".attention.value_length", usual)),
	}
	rope := k.Rope(nn.RopeSpec{Style: style, Dims: shape.Key, Trained: s.context})
	rope.First = shape.Key - rope.Dims
	shape.Latent, shape.Rotated = k.RequiredCount(".attention.kv_lora_rank", nn.MaxWidth), rope.Dims
	shape.Query = k.Optional(".attention.q_lora_rank", nn.MaxWidth)
	return shape, rope
}
