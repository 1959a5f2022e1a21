package convert

import (
	"cmp"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// rope returns the keys of rotary embedding. factors are tensors by which frequencies are divided
// [rotated/2]: rope_freqs.weight of llama3 scaling, rope_factors_long.weight and _short of longrope.
func (c *config) rope(f lineage.Family) (keys []gguf.KV, factors map[string][]float32, err error) {
	s, where := c.RopeScale, "rope_scaling"
	if s == nil {
		s, where = c.Rope, "rope_parameters"
	}
	if s == nil {
		s = &lineage.RopeScaling{}
	}
	base := c.RopeTheta
	if base == 0 && c.Rope != nil {
		base = c.Rope.Theta
	}
	if base == 0 {
		base = 10000
	}
	if !(base > 0) || math.IsInf(base, 0) {
		return nil, nil, c.Errorf("rope_theta", "%g is not a positive number", base)
	}
	share := cmp.Or(s.Partial, c.Rotary, 1)
	if s.Type == "proportional" { // the others have no frequency
		share = 1
	}
	dims, err := c.rotated(f, share)
	if err != nil {
		return nil, nil, err
	}
	add := func(key string, v any) { keys = append(keys, gguf.KV{Key: f.Name + ".rope." + key, Value: v}) }
	if f.WindowHeads {
		add("dimension_count_swa", uint32(dims))
		dims = c.GlobalHead
	}
	add("dimension_count", uint32(dims))
	add("freq_base", float32(base))
	if c.WindowRotary > 0 && c.WindowRotary != share {
		add("dimension_count_swa", uint32(c.WindowRotary*float64(c.HeadDim)))
	}
	if f.WindowBase > 0 && (c.Window > 0 || c.WindowTheta > 0) {
		if !(c.WindowTheta >= 1) || math.IsInf(c.WindowTheta, 0) {
			return nil, nil, c.Errorf("rope_local_base_freq", "%g is not a number of at least 1", c.WindowTheta)
		}
		add("freq_base_swa", float32(c.WindowTheta))
	}
	original := cmp.Or(s.Original, c.Context)
	if s.Temperature != 0 {
		if !f.Tempered || !(s.Temperature > 0 && s.Temperature <= maxScale) {
			return nil, nil, c.Errorf(where, "llama_4_scaling_beta %g is not supported in %s", s.Temperature, f.Name)
		}
		keys = append(keys, gguf.KV{Key: f.Name + ".attention.temperature_scale", Value: float32(s.Temperature)})
		if f.Latent { // such families' files state it in addition to YaRN's context
			keys = append(keys, gguf.KV{Key: f.Name + ".attention.temperature_length", Value: uint32(original)})
		}
		add("scaling.original_context_length", uint32(original))
	}
	kind := s.Type
	if kind == "" {
		kind = s.OldType
	}
	if f.Sections {
		sections, err := c.sections(s, where, dims)
		if err != nil {
			return nil, nil, err
		}
		add("dimension_sections", sections)
		if kind == "mrope" {
			kind = "default"
		}
	}
	if factored := []string{"linear", "dynamic", "yarn", "llama3"}; slices.Contains(factored, kind) && (!(s.Factor >= 1) || math.IsInf(s.Factor, 0)) {
		return nil, nil, c.Errorf(where, "factor %g is not a number of at least 1", s.Factor)
	}
	if original < 1 {
		return nil, nil, c.Errorf(where, "original_max_position_embeddings %d is not positive", original)
	}
	switch kind {
	case "", "default":
	case "proportional":
		if factors, err = c.proportional(f, s, where, dims); err != nil {
			return nil, nil, err
		}
	case "linear":
		add("scaling.type", "linear")
		add("scaling.factor", float32(s.Factor))
	case "dynamic":
		add("scaling.type", "dynamic")
		add("scaling.factor", float32(s.Factor))
		add("scaling.original_context_length", uint32(original))
	case "yarn":
		if err := c.yarn(f, s, where, original, add); err != nil {
			return nil, nil, err
		}
	case "llama3":
		if !(s.Low > 0) || !(s.High > s.Low) {
			return nil, nil, c.Errorf(where, "low_freq_factor %g and high_freq_factor %g are not a range", s.Low, s.High)
		}
		turned := dims
		if c.HalfTurned {
			turned /= 2
		}
		list := llama3Factors(base, turned, s.Factor, s.Low, s.High, float64(original))
		for len(list) < dims/2 { // layers that these factors do not apply to
			list = append(list, 1)
		}
		factors = map[string][]float32{"rope_freqs.weight": list}
	case "longrope", "su":
		if factors, err = c.longFactors(f, s, where, dims); err != nil {
			return nil, nil, err
		}
		add("scaling.original_context_length", uint32(original))
		add("scaling.attn_factor", float32(longMagnitude(s, float64(c.Context)/float64(original), float64(original))))
	default:
		return nil, nil, c.Errorf(where, "type %q is not supported; supported are linear, dynamic, yarn, llama3, longrope", kind)
	}
	return keys, factors, nil
}

// yarn adds the keys of YaRN for a model that was first trained on original positions.
func (c *config) yarn(f lineage.Family, s *lineage.RopeScaling, where string, original int, add func(key string, v any)) error {
	if s.MScale < 0 || s.MScaleAll < 0 {
		return c.Errorf(where, "mscale %g and mscale_all_dim %g are not positive", s.MScale, s.MScaleAll)
	}
	add("scaling.type", "yarn")
	add("scaling.factor", float32(s.Factor))
	if s.Temperature == 0 {
		add("scaling.original_context_length", uint32(original))
	}
	if s.BetaFast != 0 {
		add("scaling.yarn_beta_fast", float32(s.BetaFast))
	}
	if s.BetaSlow != 0 {
		add("scaling.yarn_beta_slow", float32(s.BetaSlow))
	}
	if !or(s.Truncate, true) {
		add("scaling.yarn_truncate", false)
	}
	if f.YarnScores {
		plain := s.MScaleAll == 0 && s.MScale == 1 // as if neither were there
		if s.MScale != s.MScaleAll && !plain || s.Attention != 0 {
			return c.Errorf(where, "attention_factor %g, and mscale %g other than mscale_all_dim %g, are not supported in %s", s.Attention, s.MScale, s.MScaleAll, f.Name)
		}
		if s.MScaleAll != 0 {
			add("scaling.yarn_log_multiplier", float32(0.1*s.MScaleAll))
		}
		return nil
	}
	magnitude := func(of float64) float64 { return 1 + 0.1*of*math.Log(s.Factor) }
	switch { // GGUF's factor multiplies YaRN's own magnitude, Hugging Face's replaces it
	case s.Attention != 0:
		add("scaling.attn_factor", float32(s.Attention/magnitude(1)))
	case s.MScale == 1 && s.MScaleAll != 0:
		add("scaling.yarn_log_multiplier", float32(s.MScaleAll))
	case s.MScale != 0 && s.MScaleAll != 0:
		add("scaling.attn_factor", float32(magnitude(s.MScale)/magnitude(s.MScaleAll)/magnitude(1)))
	}
	return nil
}

// noFrequency divides the frequencies of pairs that are not rotated.
const noFrequency = 1e30

// proportional returns the divisors of the frequencies of heads with only their first pairs rotated. A pair's elements
// are half a head apart.
func (c *config) proportional(f lineage.Family, s *lineage.RopeScaling, where string, dims int) (map[string][]float32, error) {
	share := cmp.Or(s.Partial, 1)
	if !f.WindowHeads || !(share > 0 && share <= 1) || dims%2 != 0 {
		return nil, c.Errorf(where, "type proportional with %g of heads of %d elements is not supported in %s", share, dims, f.Name)
	}
	out := make([]float32, dims/2)
	for i := range out {
		out[i] = 1
		if i >= int(float64(dims)*share/2) {
			out[i] = noFrequency
		}
	}
	return map[string][]float32{"rope_freqs.weight": out}, nil
}

// sections returns how many pairs of a head turn by each coordinate of a picture's part, in four numbers as files have
// them.
func (c *config) sections(s *lineage.RopeScaling, where string, dims int) ([]int32, error) {
	out, sum := make([]int32, 4), 0
	for i, n := range s.Sections {
		if n < 0 || n > dims || i >= len(out) {
			return nil, c.Errorf(where, "mrope_section %v is not a division of %d pairs into at most four sections", s.Sections, dims/2)
		}
		out[i] = int32(n)
		sum += n
	}
	if sum != dims/2 {
		return nil, c.Errorf(where, "mrope_section %v is not a division of %d pairs into at most four sections", s.Sections, dims/2)
	}
	return out, nil
}

// longFactors returns the tensors of longrope. The engine chooses the factors by the context.
func (c *config) longFactors(f lineage.Family, s *lineage.RopeScaling, where string, dims int) (map[string][]float32, error) {
	if !slices.ContainsFunc(f.Outer, func(t lineage.Tensor) bool { return t.Name == "rope_factors_long.weight" }) {
		return nil, c.Errorf(where, "type longrope of %s is not supported", f.Name)
	}
	for _, list := range [][]float32{s.Long, s.Short} {
		if len(list) != dims/2 {
			return nil, c.Errorf(where, "%d factors for %d rotated elements of a head, not half as many", len(list), dims)
		}
		for i, v := range list {
			if !(v > 0) || math.IsInf(float64(v), 0) {
				return nil, c.Errorf(where, "factor %d is %g, not positive", i, v)
			}
		}
	}
	return map[string][]float32{"rope_factors_long.weight": s.Long, "rope_factors_short.weight": s.Short}, nil
}

// longMagnitude returns the factor of rotated pairs in longrope, for a context extended by the given factor.
//
// Source: Ding et al. 2024, equation 4.
func longMagnitude(s *lineage.RopeScaling, extension, original float64) float64 {
	if s.Attention != 0 {
		return s.Attention
	}
	extension = cmp.Or(s.Factor, extension)
	if extension <= 1 {
		return 1
	}
	return math.Sqrt(1 + math.Log(extension)/math.Log(original))
}

// rotated returns how many elements of a head are rotated if the given share is.
func (c *config) rotated(f lineage.Family, share float64) (int, error) {
	dims := cmp.Or(c.Turned, int(share*float64(c.HeadDim)))
	switch {
	case share != 1 && !f.PartialRotary:
		return 0, c.Errorf("partial_rotary_factor", "heads rotated in part are not supported in %s", f.Name)
	case !(share > 0 && share <= 1) || dims < 2 || dims%2 != 0:
		return 0, c.Errorf("partial_rotary_factor", "%g of %d elements is not an even part of a head", share, c.HeadDim)
	}
	return dims, nil
}

// section finds out whether the file has sections. Then pairs of heads are halves in the file, and they may be
// neighbours in the folder.
func (c *config) section(f *lineage.Family) (err error) {
	s := cmp.Or(c.RopeScale, c.Rope)
	if !f.MaySection || s == nil || len(s.Sections) == 0 {
		return nil
	}
	f.Sections = true
	if f.Rotation == lineage.Neighbours {
		c.halved, err = c.rotated(*f, cmp.Or(s.Partial, c.Rotary, 1))
	}
	return err
}

// llama3Factors returns the divisors of Llama 3.1's context extension: short waves keep their frequency, waves longer
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
