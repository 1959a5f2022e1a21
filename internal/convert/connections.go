package convert

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// connectionKeys returns the keys of hyper-connections, of limits of activations that come with them, and of compressed
// attention.
func (c *config) connectionKeys(f lineage.Family) (keys []gguf.KV, err error) {
	if !f.HyperConnected() {
		return nil, nil
	}
	add := func(name string, v any) { keys = append(keys, gguf.KV{Key: f.Name + "." + name, Value: v}) }
	add("hyper_connection.count", uint32(c.ResidualStreams))
	add("hyper_connection.epsilon", float32(c.HyperEps))
	limit := or(c.GateLimit, 0)
	if !(limit >= 0) || math.IsInf(limit, 0) {
		return nil, c.Errorf("swiglu_limit", "%g is not a limit", limit)
	}
	limits := make([]float32, c.Layers)
	for l := range limits {
		limits[l] = float32(limit)
	}
	add("swiglu_clamp_exp", limits)
	if or(c.Mixture.Normalised, true) { // llama.cpp requires the key for the family's default, too
		add("expert_weights_norm", true)
	}
	if !f.Compresses() {
		if !(c.HyperMagnitude > 0 && c.HyperMagnitude <= maxScale) {
			return nil, c.Errorf("hc_magnitude", "%g is not a factor from 0 to %g", c.HyperMagnitude, maxScale)
		}
		add("hyper_connection.magnitude", float32(c.HyperMagnitude))
		return keys, nil
	}
	if c.HyperRounds < 1 || c.HyperRounds > 1<<10 {
		return nil, c.Errorf("hc_sinkhorn_iters", "%d is outside 1…%d", c.HyperRounds, 1<<10)
	}
	if !(c.CompressTheta >= 1) || math.IsInf(c.CompressTheta, 0) {
		return nil, c.Errorf("compress_rope_theta", "%g is not a number of at least 1", c.CompressTheta)
	}
	add("swiglu_clamp_shexp", limits)
	add("hyper_connection.sinkhorn_iterations", uint32(c.HyperRounds))
	add("hash_layer_count", uint32(c.HashLayers))
	ratios := make([]uint32, len(c.Ratios))
	for l, r := range c.Ratios {
		ratios[l] = uint32(r)
	}
	add("attention.compress_ratios", ratios)
	add("attention.compress_rope_freq_base", float32(c.CompressTheta))
	add("attention.output_group_count", uint32(c.OutputGroups))
	add("attention.output_lora_rank", uint32(c.OutputLow))
	add("attention.q_lora_rank", uint32(c.QueryLatent))
	add("embedding_length_out", uint32(c.ResidualStreams*c.Hidden))
	return keys, nil
}
