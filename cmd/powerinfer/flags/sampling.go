package flags

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Sampling returns the flags that choose how the next token is drawn. Where a flag is not given, the model's file decides, else the default.
func Sampling() []cli.Flag {
	d := sample.DefaultOptions()
	return About(SamplingSubject, []cli.Flag{
		&cli.Int64Flag{Name: "seed", Aliases: []string{"s"}, Value: -1, Usage: "seed of the random choices; -1: a new one each time", Sources: Env("SEED")},
		&cli.StringFlag{Name: "samplers", Value: sample.ChainNames(d.Chain), Usage: "samplers to apply, in this `ORDER`, separated by ;"},
		&cli.StringFlag{Name: "sampler-seq", Aliases: []string{"sampling-seq"}, Value: sample.ChainLetters(d.Chain), Usage: "the same as `LETTERS`, one for each sampler; a stands for adaptive_p"},
		&cli.Float32Flag{Name: "temp", Aliases: []string{"temperature"}, Value: d.Temperature, Usage: "temperature; 0 always takes the likeliest token", Sources: Env("TEMPERATURE", "TEMP")},
		&cli.Float32Flag{Name: "dynatemp-range", Usage: "vary the temperature by up to this: lower where the model is sure, higher where it is not"},
		&cli.Float32Flag{Name: "dynatemp-exp", Value: d.DynamicExponent, Usage: "raise the entropy, as a share of the highest possible, to this power before it sets the temperature"},
		&cli.IntFlag{Name: "top-k", Value: d.TopK, Usage: "keep the k likeliest tokens; 0: all", Sources: Env("TOP_K")},
		&cli.Float32Flag{Name: "top-p", Value: d.TopP, Usage: "keep the likeliest tokens that make up this probability", Sources: Env("TOP_P")},
		&cli.Float32Flag{Name: "min-p", Value: d.MinP, Usage: "drop tokens less likely than this share of the likeliest", Sources: Env("MIN_P")},
		&cli.Float32Flag{Name: "top-n-sigma", Aliases: []string{"top-nsigma"}, Value: d.TopNSigma, Usage: "keep logits at most this many standard deviations below the highest; -1: all"},
		&cli.Float32Flag{Name: "typical", Aliases: []string{"typical-p"}, Value: d.TypicalP, Usage: "keep the tokens nearest to the expected surprise that make up this probability; 1: all"},
		&cli.Float32Flag{Name: "xtc-probability", Usage: "probability of leaving out the likeliest tokens, for less predictable texts"},
		&cli.Float32Flag{Name: "xtc-threshold", Value: d.XTCThreshold, Usage: "XTC leaves out tokens of at least this probability, but keeps the least likely of them"},
		&cli.IntFlag{Name: "repeat-last-n", Value: d.RepeatLastN, Usage: "tokens that penalties look back on; -1: the context"},
		&cli.Float32Flag{Name: "repeat-penalty", Value: d.RepeatPenalty, Usage: "divide the logits of recent tokens by this", Sources: Env("REPEAT_PENALTY")},
		&cli.Float32Flag{Name: "presence-penalty", Value: d.PresencePenalty, Usage: "subtract this from the logits of recent tokens", Sources: Env("PRESENCE_PENALTY")},
		&cli.Float32Flag{Name: "frequency-penalty", Value: d.FrequencyPenalty, Usage: "subtract this for every recent occurrence", Sources: Env("FREQUENCY_PENALTY")},
		&cli.Float32Flag{Name: "dry-multiplier", Usage: "penalty for a token that would repeat a sequence of tokens; 0: off"},
		&cli.Float32Flag{Name: "dry-base", Value: d.DRYBase, Usage: "the penalty grows by this factor with every token of the sequence"},
		&cli.IntFlag{Name: "dry-allowed-length", Value: d.DRYAllowedLength, Usage: "sequences shorter than this may be repeated"},
		&cli.IntFlag{Name: "dry-penalty-last-n", Value: d.DRYLastN, Usage: "tokens to search for the sequence; -1: the context"},
		&cli.StringSliceFlag{Name: "dry-sequence-breaker", Usage: "sequences end at this `TEXT`; may be repeated, none: no such text; default: newline, colon, quotation mark and asterisk"},
		&cli.IntFlag{Name: "mirostat", Usage: "use `VERSION` 1 or 2 of Mirostat, which keeps the text's surprise constant, instead of the samplers that drop tokens; 0: off"},
		&cli.Float32Flag{Name: "mirostat-ent", Value: d.MirostatTau, Usage: "the surprise of a token that Mirostat aims at, in bits"},
		&cli.Float32Flag{Name: "mirostat-lr", Value: d.MirostatEta, Usage: "how fast Mirostat corrects itself"},
		&cli.Float32Flag{Name: "adaptive-target", Value: d.AdaptiveTarget, Usage: "favour tokens near this probability, where --samplers names adaptive_p; -1: off"},
		&cli.Float32Flag{Name: "adaptive-decay", Value: d.AdaptiveDecay, Usage: "how much adaptive_p remembers of earlier tokens, from 0 to 0.99"},
		&cli.StringSliceFlag{Name: "logit-bias", Aliases: []string{"l"}, Usage: "add to a token's logit: `ID+BIAS` or ID-BIAS, where ID-inf bans it; may be repeated"},
		&cli.BoolFlag{Name: "ignore-eos", Usage: "go on where the model would end the text"},
	})
}

// CheckGeneration refuses values that make no sense, as far as no model is needed for that.
func CheckGeneration(c *cli.Command) error {
	if n := c.Int("n-predict"); n < -1 {
		return fmt.Errorf("--n-predict %d: give a number of tokens, or -1 for until the text or the context ends", n)
	}
	if n := c.Int64("seed"); n < -1 {
		return fmt.Errorf("--seed %d: give a number from 0, or -1 for a new one each time", n)
	}
	for _, name := range []string{"repeat-last-n", "dry-penalty-last-n"} {
		if n := c.Int(name); n < -1 {
			return fmt.Errorf("--%s %d: give a number of tokens, or -1 for the context", name, n)
		}
	}
	if _, err := samplerNames(c); err != nil {
		return err
	}
	_, err := logitBias(c)
	return err
}

// samplerNames reads --samplers or --sampler-seq.
func samplerNames(c *cli.Command) ([]string, error) {
	var chain []sample.Stage
	var err error
	switch {
	case c.IsSet("samplers") && c.IsSet("sampler-seq"):
		return nil, errors.New("--samplers and --sampler-seq each name the samplers; give one")
	case c.IsSet("sampler-seq"):
		chain, err = sample.ParseLetters(c.String("sampler-seq"))
	default:
		chain, err = sample.ParseChain(c.String("samplers"))
	}
	if err != nil {
		return nil, fmt.Errorf("--samplers: %w", err)
	}
	var DraftsBy []string
	for _, g := range chain {
		DraftsBy = append(DraftsBy, g.String())
	}
	return DraftsBy, nil
}

// logitBias reads --logit-bias; biases of one token add up.
func logitBias(c *cli.Command) (map[int32]float32, error) {
	biases := map[int32]float32{}
	for _, text := range c.StringSlice("logit-bias") {
		at := strings.IndexAny(text, "+-")
		if at < 1 {
			return nil, fmt.Errorf("--logit-bias %q: give a token's number, + or -, and the bias", text)
		}
		id, err := strconv.ParseInt(text[:at], 10, 32)
		bias, err2 := strconv.ParseFloat(text[at:], 32)
		if err != nil || err2 != nil || strings.IndexAny(text[at+1:], "+-") == 0 {
			return nil, fmt.Errorf("--logit-bias %q: give a token's number, + or -, and the bias", text)
		}
		biases[int32(id)] += float32(bias)
	}
	return biases, nil
}

// ReadSampling reads Sampling's flags for m. A drawn seed is in it, so that it can be told.
func ReadSampling(c *cli.Command, m *powerinfer.Model) (powerinfer.Sampling, error) {
	i := m.Info()
	return samplingFor(c, m.Sampling(), i.Context, i.Vocabulary, m.EndOfText)
}

// ReadSamplerOptions reads Sampling's flags for a model that is served.
func ReadSamplerOptions(c *cli.Command, e *session.Session) (sample.Options, error) {
	tok, vocabulary := e.Tokenizer(), e.Config().Vocab
	s, err := samplingFor(c, powerinfer.Sampling(e.Sampling()), e.Context(), vocabulary, tok.IsEOG)
	if err != nil {
		return sample.Options{}, err
	}
	return session.Sampling(s).Options(session.Breakers(tok, vocabulary))
}

// samplingFor returns s, which the model's file advises, with what its flags say instead, for a model with a context
// and a vocabulary of so many tokens, of which some end a text.
func samplingFor(c *cli.Command, s powerinfer.Sampling, context, vocabulary int, endOfText func(id int32) bool) (powerinfer.Sampling, error) {
	if seed := c.Int64("seed"); seed >= 0 {
		s.Seed = uint64(seed)
	} else {
		s.Seed = uint64(time.Now().UnixNano()) % powerinfer.RandomSeed
	}
	DraftsBy, err := samplerNames(c)
	if err != nil {
		return s, err
	}
	if c.IsSet("samplers") || c.IsSet("sampler-seq") {
		s.Samplers = DraftsBy
	}
	if s.LogitBias, err = logitBias(c); err != nil {
		return s, err
	}
	for name, field := range SamplingFields(&s) {
		if !c.IsSet(name) {
			continue
		}
		switch field := field.(type) {
		case *float32:
			*field = c.Float32(name)
		case *int:
			*field = c.Int(name)
		}
	}
	s.RepeatLastN, s.DRYLastN = LookBack(s.RepeatLastN, context), LookBack(s.DRYLastN, context)
	s.DRYBreakers = breakers(c)
	if c.Bool("ignore-eos") {
		BanEnds(s.LogitBias, vocabulary, endOfText)
	}
	if err := s.Validate(vocabulary); err != nil {
		return s, err
	}
	if s.AdaptiveTarget >= 0 && !slices.Contains(s.Samplers, sample.AdaptiveP.String()) {
		fmt.Fprintln(screen.Err, "note: --adaptive-target changes nothing unless --samplers names adaptive_p")
	}
	return s, nil
}

// SamplingFields returns the numbers of s by the flags that set them.
func SamplingFields(s *powerinfer.Sampling) map[string]any {
	return map[string]any{
		"temp": &s.Temperature, "dynatemp-range": &s.DynamicRange, "dynatemp-exp": &s.DynamicExponent,
		"top-k": &s.TopK, "top-p": &s.TopP, "min-p": &s.MinP, "top-n-sigma": &s.TopNSigma, "typical": &s.TypicalP,
		"xtc-probability": &s.XTCProbability, "xtc-threshold": &s.XTCThreshold,
		"repeat-last-n": &s.RepeatLastN, "repeat-penalty": &s.RepeatPenalty, "presence-penalty": &s.PresencePenalty, "frequency-penalty": &s.FrequencyPenalty,
		"dry-multiplier": &s.DRYMultiplier, "dry-base": &s.DRYBase, "dry-allowed-length": &s.DRYAllowedLength, "dry-penalty-last-n": &s.DRYLastN,
		"mirostat": &s.Mirostat, "mirostat-ent": &s.MirostatTau, "mirostat-lr": &s.MirostatEta,
		"adaptive-target": &s.AdaptiveTarget, "adaptive-decay": &s.AdaptiveDecay,
	}
}

// BanEnds adds biases that ban the tokens of a vocabulary that end a text.
func BanEnds(biases map[int32]float32, vocabulary int, endOfText func(id int32) bool) {
	for id := range int32(vocabulary) {
		if endOfText(id) {
			biases[id] = float32(math.Inf(-1))
		}
	}
}

// LookBack returns n tokens, -1 standing for the context.
func LookBack(n, context int) int {
	if n == -1 {
		return context
	}
	return n
}

// breakers reads --dry-sequence-breaker, with its escapes.
func breakers(c *cli.Command) []string {
	if !c.IsSet("dry-sequence-breaker") {
		return sample.DefaultBreakers()
	}
	var texts []string
	for _, t := range c.StringSlice("dry-sequence-breaker") {
		if t == "none" {
			texts = nil
			continue
		}
		texts = append(texts, WithoutEscapes(t))
	}
	return texts
}
