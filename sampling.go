package powerinfer

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// RandomSeed is the Sampling.Seed that stands for one drawn anew for each generation.
const RandomSeed = sample.RandomSeed

// Sampling says how tokens are chosen, in llama.cpp's terms and with its meaning. The zero value is not valid: start
// from Model.Sampling or DefaultSampling.
type Sampling struct {
	Seed     uint64   // of the random numbers; RandomSeed draws one
	Samplers []string // by llama.cpp's names, in the order in which they are applied; those that are off change nothing

	// Temperature divides the logits; 0 takes the likeliest token. With a DynamicRange above 0 it is between
	// Temperature - DynamicRange, but at least 0, and Temperature + DynamicRange: the low end plus the width times
	// (entropy / highest possible entropy)^DynamicExponent.
	Temperature     float32
	DynamicRange    float32 // 0: off
	DynamicExponent float32

	TopK      int     // keeps the K likeliest tokens; 0: all
	TopP      float32 // keeps the likeliest tokens that make up this probability; 1: all
	MinP      float32 // keeps tokens of at least this share of the likeliest one's probability; 0: all
	TopNSigma float32 // keeps logits at most so many standard deviations below the highest; 0 or less: all
	TypicalP  float32 // keeps the tokens nearest to the expected surprise that make up this probability; 1: all

	XTCProbability float32 // with which the likeliest tokens are left out; 0: off
	XTCThreshold   float32 // leaves out tokens of at least this probability but the least likely of them; above 0.5: off

	RepeatLastN      int     // tokens that the next three look back on; 0: off
	RepeatPenalty    float32 // divides the logits of recent tokens if they are positive and multiplies the others; 1: off
	PresencePenalty  float32 // subtracted from the logits of recent tokens; 0: off
	FrequencyPenalty float32 // subtracted for every recent occurrence; 0: off

	// A token that would repeat a sequence of n + 1 tokens, n at least DRYAllowedLength, loses DRYMultiplier·DRYBase^(n
	// - DRYAllowedLength).
	DRYMultiplier    float32 // 0: off
	DRYBase          float32 // at least 1
	DRYAllowedLength int
	DRYLastN         int      // tokens searched for the sequence; 0: off
	DRYBreakers      []string // texts at which sequences end

	// Mirostat 1 or 2 takes the place of the samplers that drop tokens and keeps the surprise of the text near
	// MirostatTau, in bits, by feedback at the rate MirostatEta; 0: off.
	Mirostat    int
	MirostatTau float32
	MirostatEta float32

	AdaptiveTarget float32 // probability near which the sampler adaptive_p favours tokens; negative: off
	AdaptiveDecay  float32 // how much adaptive_p remembers of earlier tokens, from 0 to 0.99

	LogitBias map[int32]float32 // added to the logits of tokens before everything else; -Inf bans a token
}

// DefaultSampling returns llama.cpp's defaults, with a seed that is drawn anew for each generation.
func DefaultSampling() Sampling { return Sampling(session.DefaultSampling()) }

// Sampling returns how the model's tokens are chosen where Generation.Sampling is nil: as its file advises
// (general.sampling.*), else as DefaultSampling.
func (m *Model) Sampling() Sampling { return Sampling(m.session.Sampling()) }

// Validate returns an error that names a field out of its range, for a vocabulary of so many tokens.
func (s Sampling) Validate(vocabulary int) error {
	o, err := session.Sampling(s).Options(nil)
	if err != nil {
		return err
	}
	return tell(o.Validate(vocabulary))
}

// sampler returns the sampler of one generation.
func (m *Model) sampler(s Sampling) (*sample.Sampler, error) {
	o, err := session.Sampling(s).Options(m.sequenceBreakers)
	if err != nil {
		return nil, err
	}
	sampler, err := sample.New(o, m.info.Vocabulary)
	return sampler, tell(err)
}

// sequenceBreakers returns DRY's sequence breakers of texts, which take a pass over the vocabulary.
func (m *Model) sequenceBreakers(texts []string) *sample.Breakers {
	b, _ := m.breakers.of(strings.Join(texts, "\x00"), func() (*sample.Breakers, error) {
		return session.Breakers(m.session.Tokenizer(), m.info.Vocabulary)(texts), nil
	})
	return b
}
