package powerinfer

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// RandomSeed is the Sampling.Seed that stands for a new random seed for each generation.
const RandomSeed = sample.RandomSeed

// Sampling says how tokens are chosen, in llama.cpp's terms and with its meaning: the samplers and their order, the
// temperature, penalties, DRY, Mirostat and biases. The zero value is not valid: start from Model.Sampling or
// DefaultSampling.
//
//   - Seed uint64: of the random numbers; RandomSeed draws one
//   - Samplers []string: by llama.cpp's names, in the order of application, after LogitBias; those that are off change
//     nothing
//   - Temperature float32: Temperature divides the logits; 0 or less takes the likeliest token. With a DynamicRange
//     above 0 it is between Temperature - DynamicRange, but at least 0, and Temperature + DynamicRange: the low end
//     plus the width times (entropy / highest possible entropy)^DynamicExponent.
//   - DynamicRange float32: 0: off
//   - DynamicExponent float32
//   - TopK int: keeps the K likeliest tokens; 0 or less: all
//   - TopP float32: keeps the likeliest tokens that make up this probability; 1: all
//   - MinP float32: keeps tokens of at least this share of the likeliest one's probability; 0: all
//   - TopNSigma float32: keeps logits at most this many standard deviations below the highest (arXiv:2411.07641); 0 or
//     less: all
//   - TypicalP float32: keeps the tokens nearest to the expected surprise that make up this probability
//     (arXiv:2202.00666); 1: all
//   - MinKeep int: tokens that TopP, MinP, TypicalP and XTC keep at least; 0 and 1 are the same
//   - XTC XTC
//   - RepeatLastN int: recent tokens that the next three penalties apply to; 0: off
//   - RepeatPenalty float32: divides the logits of recent tokens if they are positive and multiplies the others; 1: off
//   - PresencePenalty float32: subtracted from the logits of recent tokens; 0: off
//   - FrequencyPenalty float32: subtracted for every recent occurrence; 0: off
//   - DRY DRY
//   - Mirostat Mirostat
//   - Adaptive Adaptive
//   - LogitBias map[int32]float32: added to the logits of tokens before everything else; -Inf bans a token
type Sampling = sample.Options

// DefaultSampling returns llama.cpp's defaults, with a new random seed for each generation.
func DefaultSampling() Sampling { return sample.DefaultOptions() }

// Sampling returns the sampling of generations without one of their own: as the model's file advises
// (general.sampling.*), else as DefaultSampling.
func (m *Model) Sampling() Sampling { return m.session.Sampling() }

// sampler returns the sampler of one generation.
func (m *Model) sampler(s Sampling) (*sample.Sampler, error) {
	sampler, err := sample.New(s, m.info.Vocabulary)
	if err != nil {
		return nil, tell(err)
	}
	if s.DRY.Multiplier != 0 {
		sampler.BreakAt(m.sequenceBreakers(s.DRY.Breakers))
	}
	return sampler, nil
}

// sequenceBreakers returns DRY's sequence breakers of texts. Making them takes a pass over the vocabulary.
func (m *Model) sequenceBreakers(texts []string) *sample.Breakers {
	b, _ := m.breakers.of(strings.Join(texts, "\x00"), func() (*sample.Breakers, error) {
		return session.Breakers(m.session.Tokenizer(), m.info.Vocabulary)(texts), nil
	})
	return b
}
