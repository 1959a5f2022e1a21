package powerinfer

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// RandomSeed is the Sampling.Seed that stands for one drawn anew for each generation.
const RandomSeed = sample.RandomSeed

// Sampling says how tokens are chosen, in llama.cpp's terms and with its meaning: the samplers and their order, the
// temperature, penalties, DRY, Mirostat and biases. The zero value is not valid: start from Model.Sampling or
// DefaultSampling.
type Sampling = sample.Options

// DefaultSampling returns llama.cpp's defaults, with a seed that is drawn anew for each generation.
func DefaultSampling() Sampling { return sample.DefaultOptions() }

// Sampling returns how the model's tokens are chosen where Generation.Sampling is nil: as its file advises
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

// sequenceBreakers returns DRY's sequence breakers of texts, which take a pass over the vocabulary.
func (m *Model) sequenceBreakers(texts []string) *sample.Breakers {
	b, _ := m.breakers.of(strings.Join(texts, "\x00"), func() (*sample.Breakers, error) {
		return session.Breakers(m.session.Tokenizer(), m.info.Vocabulary)(texts), nil
	})
	return b
}
