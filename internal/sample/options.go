package sample

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// RandomSeed asks for a seed nobody knows beforehand; llama.cpp's LLAMA_DEFAULT_SEED.
const RandomSeed uint64 = 0xFFFFFFFF

// Options say how tokens are chosen, in llama.cpp's terms and with its meaning: Numbers has the names, defaults and
// bounds of the numbers. The zero value is not valid (its RepeatPenalty is 0): start from DefaultOptions.
type Options struct {
	Seed     uint64   // of the random numbers; RandomSeed draws one
	Samplers []string // by llama.cpp's names, in the order of application, after LogitBias; those that are off change nothing

	// Temperature divides the logits; 0 or less takes the likeliest token. With a DynamicRange above 0 it is between
	// Temperature - DynamicRange, but at least 0, and Temperature + DynamicRange: the low end plus the width times
	// (entropy / highest possible entropy)^DynamicExponent.
	Temperature     float32
	DynamicRange    float32 // 0: off
	DynamicExponent float32

	TopK      int     // keeps the K likeliest tokens; 0 or less: all
	TopP      float32 // keeps the likeliest tokens that make up this probability; 1: all
	MinP      float32 // keeps tokens of at least this share of the likeliest one's probability; 0: all
	TopNSigma float32 // keeps logits at most this many standard deviations below the highest (arXiv:2411.07641); 0 or less: all
	TypicalP  float32 // keeps the tokens nearest to the expected surprise that make up this probability (arXiv:2202.00666); 1: all
	MinKeep   int     // tokens that TopP, MinP, TypicalP and XTC keep at least; 0 and 1 are the same
	XTC       XTC

	RepeatLastN      int     // recent tokens that the next three penalties apply to; 0: off
	RepeatPenalty    float32 // divides the logits of recent tokens if they are positive and multiplies the others; 1: off
	PresencePenalty  float32 // subtracted from the logits of recent tokens; 0: off
	FrequencyPenalty float32 // subtracted for every recent occurrence; 0: off

	DRY      DRY
	Mirostat Mirostat
	Adaptive Adaptive

	LogitBias map[int32]float32 // added to the logits of tokens before everything else; -Inf bans a token
}

// XTC excludes top choices (text-generation-webui pull request 6335): with a Probability it leaves out all tokens of at
// least Threshold's probability but the least likely of them.
type XTC struct {
	Probability float32 // 0: off
	Threshold   float32 // above 0.5, which no two tokens reach: off
}

// DRY penalises repetition ("don't repeat yourself", text-generation-webui pull request 5677): a token that would repeat
// a sequence of n + 1 tokens, n at least AllowedLength, loses Multiplier·Base^(n - AllowedLength).
type DRY struct {
	Multiplier    float32 // 0: off
	Base          float32 // at least 1
	AllowedLength int
	LastN         int      // recent tokens that are searched for the sequence; 0: off
	Breakers      []string // texts at which sequences end
}

// Mirostat (arXiv:2007.14966) replaces the samplers that drop tokens. It keeps the surprise of the text near Tau, in
// bits, by feedback at the rate Eta.
type Mirostat struct {
	Version  int // 1 or 2; 0: off
	Tau, Eta float32
}

// Adaptive sets the sampler adaptive_p (llama.cpp pull request 17927), which favours tokens of a probability near
// Target, less what the last tokens were above it.
type Adaptive struct {
	Target float32 // negative: off
	Decay  float32 // how much it remembers of earlier tokens, from 0 to 0.99
}

// DefaultOptions returns llama.cpp's (common_params_sampling), with a random seed for each text.
func DefaultOptions() Options {
	o := Options{Seed: RandomSeed, Samplers: names(defaultChain), DRY: DRY{Breakers: []string{"\n", ":", `"`, "*"}}}
	for _, n := range Numbers() {
		n.Set(&o, n.Default, 0)
	}
	return o
}

// Validate returns an error that names an option out of its range. vocabulary is the number of tokens.
func (o *Options) Validate(vocabulary int) error {
	return setting.For(setting.Fields, o.Check(vocabulary))
}

// Check is Validate with errors that name flags.
func (o *Options) Check(vocabulary int) error {
	if vocabulary < 1 || vocabulary > math.MaxInt32 {
		return fmt.Errorf("sample: a vocabulary of %d tokens is not in [1, %d]", vocabulary, math.MaxInt32)
	}
	if _, err := o.chain(); err != nil {
		return err
	}
	for _, n := range Numbers() {
		if err := n.validate(o); err != nil {
			return err
		}
	}
	if o.RepeatPenalty <= 0 {
		return setting.Errorf("%s %v is not positive; 1 turns it off", setting.Setting("repeat-penalty|Sampling.RepeatPenalty"), o.RepeatPenalty)
	}
	if v := o.Mirostat.Version; v < 0 || v > 2 {
		return setting.Errorf("%s %d is not 1 or 2, its versions, or 0, which turns it off", setting.Setting("mirostat|Sampling.Mirostat.Version"), v)
	}
	for id, b := range o.LogitBias {
		if id < 0 || int(id) >= vocabulary {
			return fmt.Errorf("logit bias for token %d, but the vocabulary has tokens 0 to %d", id, vocabulary-1)
		}
		if math.IsNaN(float64(b)) {
			return fmt.Errorf("logit bias of token %d is not a number", id)
		}
	}
	return nil
}

// chain returns the stages that Samplers name.
func (o *Options) chain() ([]Stage, error) {
	var chain []Stage
	for _, name := range o.Samplers {
		g, err := parseStage(name)
		if err != nil {
			return nil, err
		}
		chain = append(chain, g)
	}
	return chain, nil
}

// penalises reports whether any penalty changes anything.
func (o *Options) penalises() bool {
	return o.RepeatLastN > 0 && (o.RepeatPenalty != 1 || o.PresencePenalty != 0 || o.FrequencyPenalty != 0)
}
