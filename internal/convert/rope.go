package convert

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// ropeScaling is config.json's rope_scaling or rope_parameters.
type ropeScaling struct {
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
	Partial   float64 `json:"partial_rotary_factor"`
}

// rope writes the keys of rotary embedding below arch. factors are rope_freqs.weight [head_dim/2], by which
// frequencies are divided (llama3 scaling), or nil.
func (c *config) rope(arch string) (keys []gguf.KV, factors []float32, err error) {
	s, where := c.RopeScale, "rope_scaling"
	if s == nil {
		s, where = c.Rope, "rope_parameters"
	}
	if s == nil {
		s = &ropeScaling{}
	}
	base := c.RopeTheta
	if base == 0 && c.Rope != nil {
		base = c.Rope.Theta
	}
	if base == 0 {
		base = 10000
	}
	if !(base > 0) || math.IsInf(base, 0) {
		return nil, nil, c.errorf("rope_theta", "%g is not a positive number", base)
	}
	if (c.Rotary != 0 && c.Rotary != 1) || (s.Partial != 0 && s.Partial != 1) {
		return nil, nil, c.errorf("partial_rotary_factor", "heads rotated in part are not supported")
	}
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: arch + ".rope." + key, Value: v}) }
	add("dimension_count", uint32(c.HeadDim))
	add("freq_base", float32(base))
	kind := s.Type
	if kind == "" {
		kind = s.OldType
	}
	original := firstPositive(s.Original, c.Context)
	if kind != "" && kind != "default" && (!(s.Factor >= 1) || math.IsInf(s.Factor, 0)) {
		return nil, nil, c.errorf(where, "factor %g is not a number of at least 1", s.Factor)
	}
	if original < 1 {
		return nil, nil, c.errorf(where, "original_max_position_embeddings %d is not positive", original)
	}
	switch kind {
	case "", "default":
	case "linear":
		add("scaling.type", "linear")
		add("scaling.factor", float32(s.Factor))
	case "yarn":
		if s.MScale != 0 || s.MScaleAll != 0 {
			return nil, nil, c.errorf(where, "mscale is not supported")
		}
		add("scaling.type", "yarn")
		add("scaling.factor", float32(s.Factor))
		add("scaling.original_context_length", uint32(original))
		if s.BetaFast != 0 {
			add("scaling.yarn_beta_fast", float32(s.BetaFast))
		}
		if s.BetaSlow != 0 {
			add("scaling.yarn_beta_slow", float32(s.BetaSlow))
		}
		if s.Attention != 0 {
			// GGUF's factor multiplies YaRN's own magnitude, Hugging Face's replaces it.
			add("scaling.attn_factor", float32(s.Attention/(1+0.1*math.Log(s.Factor))))
		}
	case "llama3":
		if !(s.Low > 0) || !(s.High > s.Low) {
			return nil, nil, c.errorf(where, "low_freq_factor %g and high_freq_factor %g are not a range", s.Low, s.High)
		}
		factors = llama3Factors(base, c.HeadDim, s.Factor, s.Low, s.High, float64(original))
	default:
		return nil, nil, c.errorf(where, "type %q is not supported; supported are linear, yarn, llama3", kind)
	}
	return keys, factors, nil
}

// llama3Factors are the divisors of Llama 3.1's context extension: short waves keep their frequency, waves longer
// than original/low are slowed by factor, those between are blended.
//
// Source: Llama 3.1's reference code, apply_scaling.
func llama3Factors(base float64, dims int, factor, low, high, original float64) []float32 {
	out := make([]float32, dims/2)
	for i := range out {
		wave := 2 * math.Pi * math.Pow(base, 2*float64(i)/float64(dims))
		switch {
		case wave < original/high:
			out[i] = 1
		case wave > original/low:
			out[i] = float32(factor)
		default:
			blend := (original/wave - low) / (high - low)
			out[i] = float32(1 / ((1-blend)/factor + blend))
		}
	}
	return out
}
