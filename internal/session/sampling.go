package session

import (
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Sampling holds powerinfer.Sampling's fields, where they are described, for the packages below it; either type
// converts to the other.
type Sampling struct {
	Seed     uint64
	Samplers []string

	Temperature     float32
	DynamicRange    float32
	DynamicExponent float32

	TopK      int
	TopP      float32
	MinP      float32
	TopNSigma float32
	TypicalP  float32

	XTCProbability float32
	XTCThreshold   float32

	RepeatLastN      int
	RepeatPenalty    float32
	PresencePenalty  float32
	FrequencyPenalty float32

	DRYMultiplier    float32
	DRYBase          float32
	DRYAllowedLength int
	DRYLastN         int
	DRYBreakers      []string

	Mirostat    int
	MirostatTau float32
	MirostatEta float32

	AdaptiveTarget float32
	AdaptiveDecay  float32

	LogitBias map[int32]float32
}

// DefaultSampling returns llama.cpp's defaults.
func DefaultSampling() Sampling {
	o := sample.DefaultOptions()
	s := Sampling{
		Seed: o.Seed, Temperature: o.Temperature, DynamicRange: o.DynamicRange, DynamicExponent: o.DynamicExponent,
		TopK: o.TopK, TopP: o.TopP, MinP: o.MinP, TopNSigma: o.TopNSigma, TypicalP: o.TypicalP,
		XTCProbability: o.XTCProbability, XTCThreshold: o.XTCThreshold,
		RepeatLastN: o.RepeatLastN, RepeatPenalty: o.RepeatPenalty, PresencePenalty: o.PresencePenalty, FrequencyPenalty: o.FrequencyPenalty,
		DRYMultiplier: o.DRYMultiplier, DRYBase: o.DRYBase, DRYAllowedLength: o.DRYAllowedLength, DRYLastN: o.DRYLastN, DRYBreakers: sample.DefaultBreakers(),
		Mirostat: o.Mirostat, MirostatTau: o.MirostatTau, MirostatEta: o.MirostatEta,
		AdaptiveTarget: o.AdaptiveTarget, AdaptiveDecay: o.AdaptiveDecay, LogitBias: o.LogitBias,
	}
	for _, g := range o.Chain {
		s.Samplers = append(s.Samplers, g.String())
	}
	return s
}

// Options returns s as samplers take it. breakers makes DRY's sequence breakers of their texts, if s uses them; nil:
// they are left out, as where options are only validated.
func (s Sampling) Options(breakers func(texts []string) *sample.Breakers) (sample.Options, error) {
	o := sample.Options{
		Seed: s.Seed, Chain: []sample.Stage{}, Temperature: s.Temperature, DynamicRange: s.DynamicRange, DynamicExponent: s.DynamicExponent,
		TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, TopNSigma: s.TopNSigma, TypicalP: s.TypicalP,
		XTCProbability: s.XTCProbability, XTCThreshold: s.XTCThreshold,
		RepeatLastN: s.RepeatLastN, RepeatPenalty: s.RepeatPenalty, PresencePenalty: s.PresencePenalty, FrequencyPenalty: s.FrequencyPenalty,
		DRYMultiplier: s.DRYMultiplier, DRYBase: s.DRYBase, DRYAllowedLength: s.DRYAllowedLength, DRYLastN: s.DRYLastN,
		Mirostat: s.Mirostat, MirostatTau: s.MirostatTau, MirostatEta: s.MirostatEta,
		AdaptiveTarget: s.AdaptiveTarget, AdaptiveDecay: s.AdaptiveDecay, LogitBias: s.LogitBias,
	}
	for _, name := range s.Samplers {
		g, err := sample.ParseStage(name)
		if err != nil {
			return o, err
		}
		o.Chain = append(o.Chain, g)
	}
	if s.DRYMultiplier != 0 && breakers != nil {
		o.DRYBreakers = breakers(s.DRYBreakers)
	}
	return o, nil
}

// Breakers returns a function that makes DRY's sequence breakers for a model with so many outputs, of which the first
// are tok's tokens.
func Breakers(tok *tokenizer.Tokenizer, outputs int) func(texts []string) *sample.Breakers {
	return func(texts []string) *sample.Breakers {
		return sample.NewBreakers(texts, outputs, func(id int32) []byte {
			if int(id) >= tok.Size() {
				return nil // an output that stands for no token
			}
			return tok.Piece(id, true)
		})
	}
}
