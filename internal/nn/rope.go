package nn

import (
	"cmp"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// RopeSpec is a file's description of rotary position embedding.
type RopeSpec struct {
	Style      compute.RopeStyle
	First      int     // the first rotated element of a head
	Dims       int     // rotated elements of a head
	Base       float64 // θ
	Scaling    string  // none, linear, yarn, longrope, dynamic
	Factor     float64 // context extension of linear, yarn and dynamic
	Context    int     // positions before extension (yarn, longrope, dynamic)
	Trained    int     // positions that the model was trained for, with its extension
	Positions  int     // that a sequence may have, which decide dynamic's base; 0: no more than Context
	ExtFactor  float64 // yarn: share of extrapolation; 1
	AttnFactor float64 // extra magnitude; 1
	Magnitude  float64 // yarn: in place of 1 + 0.1·ln(Factor); 0: not said
	BetaFast   float64 // yarn: rotations above which a dimension is unchanged
	BetaSlow   float64 // yarn: rotations below which it is interpolated
	Exact      bool    // yarn: the ends of the range between which it passes are not rounded to whole pairs
	LogMul     float64 // yarn: what the magnitude is divided by grows with it as the magnitude does with 1; 0: it is not divided
	InScores   bool    // yarn: with a LogMul scores grow with it instead, and rotated vectors keep their length
	InBoth     bool    // yarn: rotated vectors are magnified as without InScores, and scores grow, too
	Sections   []int   // [Axes] pairs that each axis of positions rotates (M-RoPE); nil: there is one axis
	Mixed      bool    // pairs of the axes take turns as long as each has some left; otherwise they follow each other
}

// Limits on numbers from outside: beyond them frequencies stop being numbers.
const (
	leastBase = 1
	leastBeta = 1e-3
	maxRope   = 1e30
)

// Rope reads how heads are rotated. usual has the style, and what files that do not say it mean: the rotated elements,
// the base (0: 10000), the positions of the model and YaRN's BetaFast (0: 32).
func (k *Keys) Rope(usual RopeSpec) RopeSpec {
	const in = ".rope."
	return RopeSpec{
		Style: usual.Style,
		Dims:  k.Count(in+"dimension_count", usual.Dims, MaxWidth),
		Base:  k.Within(in+"freq_base", cmp.Or(usual.Base, 10000), leastBase, maxRope),
		// A factor without a type is linear's, as files from before YaRN have it; with type none it is not applied.
		Scaling: k.Text(in+"scaling.type", "linear"),
		// rope.scale_linear is the older name of linear's factor.
		Factor:     cmp.Or(k.Within(in+"scaling.factor", k.Within(in+"scale_linear", 1, 0, maxRope), 0, maxRope), 1),
		Context:    k.Count(in+"scaling.original_context_length", usual.Trained, 1<<30),
		Trained:    usual.Trained,
		ExtFactor:  k.Within(in+"scaling.yarn_ext_factor", 1, 0, 1),
		AttnFactor: cmp.Or(k.Within(in+"scaling.attn_factor", 1, 0, maxRope), 1),
		// llama.cpp's converter writes Hugging Face's attention_factor here, which is the whole magnitude.
		Magnitude: k.Within(in+"scaling.yarn_attn_factor", 0, 0, maxRope),
		BetaFast:  k.Within(in+"scaling.yarn_beta_fast", cmp.Or(usual.BetaFast, 32), leastBeta, maxRope),
		BetaSlow:  k.Within(in+"scaling.yarn_beta_slow", 1, leastBeta, maxRope),
		Exact:     !k.Flag(in+"scaling.yarn_truncate", true),
		Sections:  k.sections(in + "dimension_sections"),
		Mixed:     usual.Mixed,
		LogMul:    k.Within(in+"scaling.yarn_log_multiplier", 0, 0, maxRope),
	}
}

// sections reads how many pairs are rotated by time, by height and by width; nil: the file does not say it, or has no
// pictures.
func (k *Keys) sections(key string) []int {
	list, _, err := k.File.Int32s(k.name(key))
	if err != nil {
		k.Err = cmp.Or(k.Err, err)
	}
	sections := make([]int, Axes)
	sum := 0
	for i, n := range list {
		if n < 0 || n > MaxWidth || i >= Axes && n != 0 {
			k.Fail("key %q: %v are not pairs of %d axes", k.name(key), list, Axes)
			return nil
		}
		if i < Axes {
			sections[i] = int(n)
			sum += int(n)
		}
	}
	if sum == 0 {
		return nil
	}
	return sections
}

// Axes is the number of axes of positions in text models that tell them apart (M-RoPE): time, height and width.
const Axes = 3

// pairAxes returns the axis of each of that many pairs. Pairs outside all sections have the time axis.
//
// Sources: Wang et al. 2024, arXiv:2409.12191, section 2.1 (M-RoPE, in order); Bai et al. 2025, Qwen3-VL Technical
// Report (interleaved M-RoPE, Mixed).
func (r RopeSpec) pairAxes(pairs int) []uint8 {
	if r.Sections == nil {
		return nil
	}
	out := make([]uint8, pairs)
	next := 0
	for axis, n := range r.Sections {
		for i := range n {
			at := next
			if r.Mixed {
				at = Axes*i + axis
			}
			if next++; at < pairs {
				out[at] = uint8(axis)
			}
		}
	}
	return out
}

// RopeFits fails unless heads of that many elements have the rotated ones, which key says.
func (k *Keys) RopeFits(r RopeSpec, key string, head int) {
	if r.Dims > head || r.Dims%2 != 0 {
		k.Fail("key %q: %d rotated elements do not fit a head of %d", k.name(key), r.Dims, head)
	}
}

// WindowRope returns r with the base of sliding-window layers, if the file says one. usual is for files that do not; 0:
// r's base.
func (k *Keys) WindowRope(r RopeSpec, usual float64) RopeSpec {
	r.Base = k.Within(".rope.freq_base_swa", cmp.Or(usual, r.Base), leastBase, maxRope)
	return r
}

// Unscaled returns r without the scaling for long contexts.
func (r RopeSpec) Unscaled() RopeSpec {
	r.Scaling, r.AttnFactor = "none", 1
	return r
}

// Whole returns r for a vector of only the rotated elements.
func (r RopeSpec) Whole() RopeSpec {
	r.First = 0
	return r
}

// RopeFactors returns the file's factors of frequencies, if any. There may be a list for short and one for long
// contexts; the possible positions of a sequence decide which.
func (b *Binder) RopeFactors(r RopeSpec) []float32 {
	chosen, other := "rope_factors_short.weight", "rope_factors_long.weight"
	if cmp.Or(b.model.Context, r.Trained) > r.Context {
		chosen, other = other, chosen
	}
	if b.Has("rope_freqs.weight") {
		chosen = "rope_freqs.weight"
	} else {
		b.Ignore(other)
	}
	if !b.Has(chosen) {
		return nil
	}
	return b.Floats(chosen, r.Dims/2)
}

// Rope builds the frequencies, which the file's factors divide.
func (b *Binder) Rope(r RopeSpec) *compute.Rope { return b.RopeWith(r, b.RopeFactors(r)) }

// RopeWith builds the frequencies, which factors divide; see RopeFactors. nil: none do.
func (b *Binder) RopeWith(r RopeSpec, factors []float32) *compute.Rope {
	r.Positions = b.model.Context
	rope, err := r.Rope(factors)
	if err != nil {
		b.Fail("%w", err)
	}
	return rope
}

// Rope builds the frequencies. factors [Dims/2] divide them (scaling by frequency, longrope); nil: none do.
//
// Sources: Su et al. 2021 (RoPE), Chen et al. 2023 (linear), Peng et al. 2023 (YaRN, and dynamic NTK as its section 3
// tells it), Ding et al. 2024 (longrope).
func (r RopeSpec) Rope(factors []float32) (*compute.Rope, error) {
	out := &compute.Rope{Style: r.Style, First: r.First, Dims: r.Dims, Freqs: make([]float64, r.Dims/2), Scale: cmp.Or(r.AttnFactor, 1), Axes: r.pairAxes(r.Dims / 2)}
	if factors != nil && len(factors) != r.Dims/2 {
		return nil, fmt.Errorf("there are %d factors of frequencies, not %d", len(factors), r.Dims/2)
	}
	scale := 1.0
	if r.Scaling == "linear" || r.Scaling == "yarn" {
		scale = 1 / r.Factor
	}
	if r.Scaling == "dynamic" {
		r.Base = r.dynamicBase()
	}
	low, high := r.yarnRange()
	for i := range out.Freqs {
		f := math.Pow(r.Base, -2*float64(i)/float64(r.Dims))
		if factors != nil {
			if !(factors[i] > 0) {
				return nil, fmt.Errorf("factor %d of the frequencies is %g, not positive", i, factors[i])
			}
			f /= float64(factors[i])
		}
		interpolated := f * scale
		if r.Scaling == "yarn" {
			ramp := (float64(i) - low) / math.Max(0.001, high-low)
			keep := (1 - math.Min(1, math.Max(0, ramp))) * r.ExtFactor
			interpolated = interpolated*(1-keep) + f*keep
		}
		out.Freqs[i] = interpolated
	}
	if r.Scaling == "yarn" {
		switch {
		case r.InScores && r.LogMul > 0 && !r.InBoth:
		case r.Magnitude > 0:
			out.Scale *= r.Magnitude
		case r.ExtFactor != 0:
			out.Scale *= (1 + 0.1*math.Log(r.Factor)) / (1 + 0.1*r.LogMul*math.Log(r.Factor))
		}
	}
	return out, nil
}

// ScoreScale returns an extra factor of the scores. Without it, scores of distant positions would be too similar.
func (r RopeSpec) ScoreScale() float64 {
	if r.Scaling != "yarn" || !r.InScores {
		return 1
	}
	one := 1 + 0.1*r.LogMul*math.Log(r.Factor)
	if r.InBoth { // the divisor of the magnitude cancels
		one = 1 + 0.1*math.Log(r.Factor)
	}
	return one * one
}

// dynamicBase returns the base of dynamic NTK scaling for sequences of Positions positions. Up to the original context
// nothing changes; beyond it the slowest pairs rotate more slowly. Published implementations raise the base as a text
// grows. Here it is fixed when the model is loaded, by the longest possible text, because keys are rotated once.
func (r RopeSpec) dynamicBase() float64 {
	if r.Positions <= r.Context || r.Dims <= 2 {
		return r.Base
	}
	grown := r.Factor*float64(r.Positions)/float64(r.Context) - (r.Factor - 1)
	return r.Base * math.Pow(grown, float64(r.Dims)/float64(r.Dims-2))
}

// yarnRange returns the range of pair indices over which YaRN passes from extrapolation to interpolation:
// pairs that turn more than BetaFast times within the original context are left alone.
func (r RopeSpec) yarnRange() (low, high float64) {
	pair := func(rotations float64) float64 {
		return float64(r.Dims) * math.Log(float64(r.Context)/(rotations*2*math.Pi)) / (2 * math.Log(r.Base))
	}
	low, high = pair(r.BetaFast), pair(r.BetaSlow)
	if !r.Exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	return math.Max(0, low), math.Min(float64(r.Dims-1), high)
}
