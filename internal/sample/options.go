package sample

import (
	"fmt"
	"math"
)

// RandomSeed asks for a seed nobody knows beforehand; llama.cpp's LLAMA_DEFAULT_SEED.
const RandomSeed uint64 = 0xFFFFFFFF

// Options set the stages of the chain. The zero value is not useful (its RepeatPenalty is invalid): start from DefaultOptions.
type Options struct {
	Seed uint64 // of the random numbers; RandomSeed draws one

	Temperature float32 // divides the logits; <= 0 takes the highest logit
	TopK        int     // keeps the K highest logits; <= 0 is off
	TopP        float32 // keeps the fewest tokens whose probabilities reach P, in [0, 1]; 1 is off
	MinP        float32 // keeps tokens of at least P times the highest probability, in [0, 1]; 0 is off

	RepeatLastN      int     // how many accepted tokens the penalties look back on; 0 is off
	RepeatPenalty    float32 // divides positive and multiplies other logits of seen tokens; 1 is off
	PresencePenalty  float32 // taken off the logit of every seen token; 0 is off
	FrequencyPenalty float32 // taken off the logit once per time seen; 0 is off

	// LogitBias is added to the logits before every stage: -Inf bans a token, which is what --ignore-eos means for the
	// ends of generation.
	LogitBias map[int32]float32
}

// DefaultOptions are llama.cpp's (common_params_sampling).
func DefaultOptions() Options {
	return Options{
		Seed:          RandomSeed,
		Temperature:   0.8,
		TopK:          40,
		TopP:          0.95,
		MinP:          0.05,
		RepeatLastN:   64,
		RepeatPenalty: 1,
	}
}

func (o Options) validate(nVocab int) error {
	if nVocab < 1 || nVocab > math.MaxInt32 {
		return fmt.Errorf("sample: a vocabulary of %d tokens is not in [1, %d]", nVocab, math.MaxInt32)
	}
	for _, f := range []struct {
		name  string
		value float32
	}{
		{"temp", o.Temperature},
		{"repeat-penalty", o.RepeatPenalty},
		{"presence-penalty", o.PresencePenalty},
		{"frequency-penalty", o.FrequencyPenalty},
	} {
		if v := float64(f.value); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("sample: %s %v is not a finite number", f.name, f.value)
		}
	}
	if !(o.TopP >= 0 && o.TopP <= 1) {
		return fmt.Errorf("sample: top-p %v is not in [0, 1]; 1 turns it off", o.TopP)
	}
	if !(o.MinP >= 0 && o.MinP <= 1) {
		return fmt.Errorf("sample: min-p %v is not in [0, 1]; 0 turns it off", o.MinP)
	}
	if o.RepeatLastN < 0 {
		return fmt.Errorf("sample: repeat-last-n %d is negative; 0 turns it off", o.RepeatLastN)
	}
	if o.RepeatPenalty <= 0 {
		return fmt.Errorf("sample: repeat-penalty %v is not positive; 1 turns it off", o.RepeatPenalty)
	}
	for id, b := range o.LogitBias {
		if id < 0 || int(id) >= nVocab {
			return fmt.Errorf("sample: logit bias for token %d, but the vocabulary has tokens 0 to %d", id, nVocab-1)
		}
		if math.IsNaN(float64(b)) {
			return fmt.Errorf("sample: logit bias of token %d is not a number", id)
		}
	}
	return nil
}

// penalises says whether any penalty changes anything.
func (o Options) penalises() bool {
	return o.RepeatLastN > 0 && (o.RepeatPenalty != 1 || o.PresencePenalty != 0 || o.FrequencyPenalty != 0)
}
