package nn

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Scores are the hyperparameters of attention's scores.
type Scores struct {
	Scale   float64 // factor of the scores q·k; 0: YaRN/√key
	YaRN    float64 // YaRN's magnitude squared, where scores are scaled by it, see RopeSpec.ScoreScale; 0: 1
	SoftCap float64 // see compute.Attention
	Alibi   float64 // the largest exponent of ALiBi's slopes; 0: scores do not fall with distance
	Later   bool    // tokens see later positions, too
}

// maxExponent bounds ALiBi's exponents. The slopes are powers of 1/2.
const maxExponent = 64

// Scores reads what files of any family may say. What they do not say is as usual has it.
func (k *Keys) Scores(usual Scores) Scores {
	return Scores{
		Scale:   cmp.Or(k.Within(".attention.scale", usual.Scale, 0, MaxScale), usual.Scale),
		SoftCap: k.Within(".attn_logit_softcapping", usual.SoftCap, 0, MaxScale),
		Alibi:   k.Within(".attention.max_alibi_bias", usual.Alibi, 0, maxExponent),
		Later:   !k.Flag(".attention.causal", !usual.Later),
	}
}

// Temperature reads how queries grow with their position. The key called length has the positions after which they do;
// files that do not say it mean the positions that the model was trained for.
func (k *Keys) Temperature(length string) compute.Temperature {
	return compute.Temperature{
		Scale:  float32(k.Within(".attention.temperature_scale", 0, 0, MaxScale)),
		Length: k.Count(length, k.Context(), 1<<30),
	}
}

// LogitCap reads the soft cap of logits, which files of any family may have; 0: none.
func (k *Keys) LogitCap(usual float64) float32 {
	return float32(k.Within(".final_logit_softcapping", usual, 0, MaxScale))
}

// Scores returns how heads of that shape attend.
func (b *Binder) Scores(s Scores, h HeadShape) compute.Attention {
	scale := cmp.Or(float32(s.Scale), float32(cmp.Or(s.YaRN, 1)/math.Sqrt(float64(h.Key))))
	how := compute.Attention{Scale: scale, SoftCap: float32(s.SoftCap), Later: s.Later}
	if s.Alibi > 0 {
		how.Slopes = b.numbers("ALiBi's slopes", slopes(h.Heads, s.Alibi))
	}
	return how
}

// slopes returns ALiBi's slopes for that many heads: powers of 2, and between them those of the next power of two
// heads.
//
// Source: Press et al. 2022, Train Short, Test Long.
func slopes(heads int, most float64) []float32 {
	out := make([]float32, heads)
	whole := 1 << (bits.Len(uint(heads)) - 1)
	for h := range out {
		step, n := most/float64(whole), float64(h+1)
		if h >= whole {
			step, n = step/2, float64(2*(h-whole)+1)
		}
		out[h] = float32(math.Exp2(-step * n))
	}
	return out
}

// WindowSpec says which layers have a sliding window, for files that do not say it.
type WindowSpec struct {
	Window    int  // positions that a token sees, its own being the last; 0: all
	FullEvery int  // one of each FullEvery layers sees all positions instead; 0: none does
	FullFirst bool // it is the first of each FullEvery layers, not the last
}

// Windows reads how many positions a token of a layer with a window sees, 0 being all, and which of n layers have one,
// in a model of context positions. Where layers differ, files give an array, or the period at which a layer without a
// window follows.
func (k *Keys) Windows(usual WindowSpec, n, context int) (window int, windowed []bool) {
	windowed = make([]bool, n)
	v, ok, err := k.File.Uint(k.name(".attention.sliding_window"))
	if !ok {
		v = uint64(usual.Window)
	}
	if err != nil || v == 0 {
		return 0, windowed
	}
	if v < uint64(context) {
		window = int(v)
	}
	const key = ".attention.sliding_window_pattern"
	every := uint64(usual.FullEvery)
	switch each, said := k.PerLayer(key, n); {
	case said:
		return window, each
	case k.Err != nil:
		return 0, windowed
	}
	if v, ok, err := k.File.Uint(k.name(key)); err != nil {
		k.Err = cmp.Or(k.Err, err)
	} else if ok {
		every = v
	}
	for l := range windowed {
		windowed[l] = every == 0 || !usual.FullFirst && uint64(l)%every < every-1 || usual.FullFirst && uint64(l)%every > 0
	}
	return window, windowed
}
