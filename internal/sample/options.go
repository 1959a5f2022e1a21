package sample

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// RandomSeed asks for a seed nobody knows beforehand; llama.cpp's LLAMA_DEFAULT_SEED.
const RandomSeed uint64 = 0xFFFFFFFF

// Options set the stages of the chain. The zero value is not useful (its RepeatPenalty is invalid): start from
// DefaultOptions.
type Options struct {
	Seed  uint64  // of the random numbers; RandomSeed draws one
	Chain []Stage // in this order, after the logit bias; those that are off change nothing

	// Temperature divides the logits; <= 0 takes the highest. With a DynamicRange above 0 it is between Temperature -
	// DynamicRange, but at least 0, and Temperature + DynamicRange: the low end plus the width times (entropy / highest
	// possible entropy)^DynamicExponent.
	Temperature     float32
	DynamicRange    float32 // 0 is off
	DynamicExponent float32

	TopK      int     // keeps the K highest logits; <= 0 is off
	TopP      float32 // keeps the fewest tokens whose probabilities reach P, in [0, 1]; 1 is off
	MinP      float32 // keeps tokens of at least P times the highest probability, in [0, 1]; 0 is off
	TopNSigma float32 // keeps logits at most N standard deviations below the highest (arXiv:2411.07641); <= 0 is off
	TypicalP  float32 // keeps the fewest tokens nearest to the expected surprise that reach P, in [0, 1] (arXiv:2202.00666); 1 is off

	MinKeep int // tokens that TopP, MinP, TypicalP and XTC leave at least; 0 and 1 are the same

	// With this probability, in [0, 1], all tokens of at least the threshold but the least likely of them are left out
	// ("exclude top choices", text-generation-webui pull request 6335). A threshold above 0.5, which no two tokens
	// reach, is off.
	XTCProbability float32
	XTCThreshold   float32

	RepeatLastN      int     // how many accepted tokens the penalties look back on; 0 is off
	RepeatPenalty    float32 // divides positive and multiplies other logits of seen tokens; 1 is off
	PresencePenalty  float32 // taken off the logit of every seen token; 0 is off
	FrequencyPenalty float32 // taken off the logit once per time seen; 0 is off

	// A token that would repeat a sequence of n + 1 accepted tokens, n at least DRYAllowedLength, loses DRYMultiplier *
	// DRYBase^(n - DRYAllowedLength) ("don't repeat yourself", text-generation-webui pull request 5677).
	DRYMultiplier    float32 // 0 is off
	DRYBase          float32 // at least 1
	DRYAllowedLength int
	DRYLastN         int       // how many accepted tokens it looks back on; 0 is off
	DRYBreakers      *Breakers // texts across which no sequence goes on; nil: none

	// Mirostat 1 and 2 (arXiv:2007.14966) take the place of the stages that drop tokens: they leave so many that the
	// surprise of the chosen ones, in bits, comes to be MirostatTau, by feedback at the rate MirostatEta. 0 is off.
	Mirostat    int
	MirostatTau float32
	MirostatEta float32

	// The stage AdaptiveP favours tokens whose probability is near AdaptiveTarget, in [0, 1], less what the last tokens
	// were above it, by an average that forgets at the rate AdaptiveDecay, in [0, 0.99] (llama.cpp pull request 17927).
	// A negative target is off.
	AdaptiveTarget float32
	AdaptiveDecay  float32

	// LogitBias is added to the logits before every stage: -Inf bans a token, which is what --ignore-eos means for the
	// ends of generation.
	LogitBias map[int32]float32
}

// DefaultOptions returns llama.cpp's (common_params_sampling), but for DRY's sequence breakers, which depend on a
// vocabulary.
func DefaultOptions() Options {
	return Options{
		Seed:             RandomSeed,
		Chain:            DefaultChain(),
		Temperature:      0.8,
		DynamicExponent:  1,
		TopK:             40,
		TopP:             0.95,
		MinP:             0.05,
		TopNSigma:        -1,
		TypicalP:         1,
		XTCThreshold:     0.1,
		RepeatLastN:      64,
		RepeatPenalty:    1,
		DRYBase:          1.75,
		DRYAllowedLength: 2,
		DRYLastN:         64,
		MirostatTau:      5,
		MirostatEta:      0.1,
		AdaptiveTarget:   -1,
		AdaptiveDecay:    0.9,
	}
}

// Validate returns an error that names an option out of its range, for a vocabulary of nVocab tokens.
func (o *Options) Validate(nVocab int) error {
	if nVocab < 1 || nVocab > math.MaxInt32 {
		return fmt.Errorf("sample: a vocabulary of %d tokens is not in [1, %d]", nVocab, math.MaxInt32)
	}
	if err := o.validateNumbers(); err != nil {
		return err
	}
	if o.MinKeep < 0 {
		return fmt.Errorf("sample: min-keep %d is negative", o.MinKeep)
	}
	if o.RepeatLastN < 0 {
		return setting.Errorf("sample: %s %d is negative; 0 turns it off", setting.Setting("repeat-last-n|Sampling.RepeatLastN"), o.RepeatLastN)
	}
	if o.RepeatPenalty <= 0 {
		return setting.Errorf("sample: %s %v is not positive; 1 turns it off", setting.Setting("repeat-penalty|Sampling.RepeatPenalty"), o.RepeatPenalty)
	}
	if o.DRYAllowedLength < 0 {
		return setting.Errorf("sample: %s %d is negative", setting.Setting("dry-allowed-length|Sampling.DRYAllowedLength"), o.DRYAllowedLength)
	}
	if o.DRYLastN < 0 {
		return setting.Errorf("sample: %s %d is negative; 0 turns it off", setting.Setting("dry-penalty-last-n|Sampling.DRYLastN"), o.DRYLastN)
	}
	if o.Mirostat < 0 || o.Mirostat > 2 {
		return setting.Errorf("sample: %s %d is not 1 or 2, its versions, or 0, which turns it off", setting.Setting("mirostat|Sampling.Mirostat"), o.Mirostat)
	}
	for _, g := range o.Chain {
		if int(g) >= len(stageNames) {
			return fmt.Errorf("sample: there is no %s", g)
		}
	}
	for id, b := range o.LogitBias {
		if id < 0 || int(id) >= nVocab {
			return fmt.Errorf("sample: logit bias for token %d, but the vocabulary has tokens 0 to %d", id, nVocab-1)
		}
		if math.IsNaN(float64(b)) {
			return fmt.Errorf("sample: logit bias of token %d is not a number", id)
		}
	}
	if b := o.DRYBreakers; b != nil && b.size() != nVocab {
		return fmt.Errorf("sample: sequence breakers for a vocabulary of %d tokens, not %d", b.size(), nVocab)
	}
	return nil
}

func (o *Options) validateNumbers() error {
	inf := float32(math.Inf(1))
	for _, f := range []struct {
		name    setting.Setting
		value   float32
		lo, hi  float32
		because string
	}{
		{"temp|Sampling.Temperature", o.Temperature, -inf, inf, ""},
		{"dynatemp-range|Sampling.DynamicRange", o.DynamicRange, 0, inf, "0 turns it off"},
		{"dynatemp-exp|Sampling.DynamicExponent", o.DynamicExponent, 0, inf, ""},
		{"top-p|Sampling.TopP", o.TopP, 0, 1, "1 turns it off"},
		{"min-p|Sampling.MinP", o.MinP, 0, 1, "0 turns it off"},
		{"top-n-sigma|Sampling.TopNSigma", o.TopNSigma, -inf, inf, ""},
		{"typical|Sampling.TypicalP", o.TypicalP, 0, 1, "1 turns it off"},
		{"xtc-probability|Sampling.XTCProbability", o.XTCProbability, 0, 1, "0 turns it off"},
		{"xtc-threshold|Sampling.XTCThreshold", o.XTCThreshold, 0, 1, "more than 0.5 turns it off"},
		{"repeat-penalty|Sampling.RepeatPenalty", o.RepeatPenalty, -inf, inf, ""},
		{"presence-penalty|Sampling.PresencePenalty", o.PresencePenalty, -inf, inf, ""},
		{"frequency-penalty|Sampling.FrequencyPenalty", o.FrequencyPenalty, -inf, inf, ""},
		{"dry-multiplier|Sampling.DRYMultiplier", o.DRYMultiplier, 0, inf, "0 turns it off"},
		{"dry-base|Sampling.DRYBase", o.DRYBase, 1, inf, ""},
		{"mirostat-ent|Sampling.MirostatTau", o.MirostatTau, 0, inf, ""},
		{"mirostat-lr|Sampling.MirostatEta", o.MirostatEta, 0, inf, ""},
		{"adaptive-target|Sampling.AdaptiveTarget", o.AdaptiveTarget, -inf, 1, "a negative one turns it off"},
		{"adaptive-decay|Sampling.AdaptiveDecay", o.AdaptiveDecay, 0, 0.99, ""},
	} {
		if f.value >= f.lo && f.value <= f.hi && !math.IsInf(float64(f.value), 0) {
			continue
		}
		if f.because != "" {
			f.because = "; " + f.because
		}
		switch {
		case f.hi < inf && f.lo > -inf:
			return setting.Errorf("sample: %s %v is not in [%v, %v]%s", f.name, f.value, f.lo, f.hi, f.because)
		case f.hi < inf:
			return setting.Errorf("sample: %s %v is not a number up to %v%s", f.name, f.value, f.hi, f.because)
		case f.lo > -inf:
			return setting.Errorf("sample: %s %v is not a finite number from %v%s", f.name, f.value, f.lo, f.because)
		}
		return setting.Errorf("sample: %s %v is not a finite number", f.name, f.value)
	}
	return nil
}

// penalises reports whether any penalty changes anything.
func (o *Options) penalises() bool {
	return o.RepeatLastN > 0 && (o.RepeatPenalty != 1 || o.PresencePenalty != 0 || o.FrequencyPenalty != 0)
}
