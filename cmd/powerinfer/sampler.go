package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// samplerFlags choose how the next token is drawn.
func samplerFlags() []cli.Flag {
	d := sample.DefaultOptions()
	return []cli.Flag{
		&cli.Int64Flag{Name: "seed", Aliases: []string{"s"}, Value: -1, Usage: "of the random choices; -1: a new one each time", Sources: env("SEED")},
		&cli.StringFlag{Name: "samplers", Value: sample.ChainNames(d.Chain), Usage: "samplers to apply, in this `ORDER`, separated by ;"},
		&cli.StringFlag{Name: "sampler-seq", Aliases: []string{"sampling-seq"}, Value: sample.ChainLetters(d.Chain), Usage: "the same as `LETTERS`, one for each; a stands for adaptive_p"},
		&cli.Float32Flag{Name: "temp", Aliases: []string{"temperature"}, Value: d.Temperature, Usage: "temperature; 0 always takes the likeliest token", Sources: env("TEMPERATURE", "TEMP")},
		&cli.Float32Flag{Name: "dynatemp-range", Usage: "vary the temperature by up to this: lower where the model is sure, higher where it is not"},
		&cli.Float32Flag{Name: "dynatemp-exp", Value: d.DynamicExponent, Usage: "raise the entropy, as a share of the highest possible, to this power before it sets the temperature"},
		&cli.IntFlag{Name: "top-k", Value: d.TopK, Usage: "keep the k likeliest tokens; 0: all", Sources: env("TOP_K")},
		&cli.Float32Flag{Name: "top-p", Value: d.TopP, Usage: "keep the likeliest tokens that make up this probability", Sources: env("TOP_P")},
		&cli.Float32Flag{Name: "min-p", Value: d.MinP, Usage: "drop tokens less likely than this share of the likeliest", Sources: env("MIN_P")},
		&cli.Float32Flag{Name: "top-n-sigma", Aliases: []string{"top-nsigma"}, Value: d.TopNSigma, Usage: "keep logits at most this many standard deviations below the highest; -1: all"},
		&cli.Float32Flag{Name: "typical", Aliases: []string{"typical-p"}, Value: d.TypicalP, Usage: "keep the tokens nearest to the expected surprise that make up this probability; 1: all"},
		&cli.Float32Flag{Name: "xtc-probability", Usage: "probability of leaving out the likeliest tokens, for less predictable texts"},
		&cli.Float32Flag{Name: "xtc-threshold", Value: d.XTCThreshold, Usage: "XTC leaves out tokens of at least this probability, but keeps the least likely of them"},
		&cli.IntFlag{Name: "repeat-last-n", Value: d.RepeatLastN, Usage: "tokens that penalties look back on; -1: the context"},
		&cli.Float32Flag{Name: "repeat-penalty", Value: d.RepeatPenalty, Usage: "divide the logits of recent tokens by this", Sources: env("REPEAT_PENALTY")},
		&cli.Float32Flag{Name: "presence-penalty", Value: d.PresencePenalty, Usage: "subtract this from the logits of recent tokens", Sources: env("PRESENCE_PENALTY")},
		&cli.Float32Flag{Name: "frequency-penalty", Value: d.FrequencyPenalty, Usage: "subtract this for every recent occurrence", Sources: env("FREQUENCY_PENALTY")},
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
	}
}

// checkGeneration refuses values that make no sense, as far as no model is needed for that.
func checkGeneration(c *cli.Command) error {
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
	if _, err := samplerChain(c); err != nil {
		return err
	}
	_, err := logitBias(c)
	return err
}

// samplerChain reads --samplers or --sampler-seq.
func samplerChain(c *cli.Command) ([]sample.Stage, error) {
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
	return chain, nil
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

// samplerOptions reads samplerFlags. A drawn seed is in them, so that it can be told.
func samplerOptions(c *cli.Command, e *engine.Engine) (sample.Options, error) {
	o := sample.DefaultOptions()
	if seed := c.Int64("seed"); seed >= 0 {
		o.Seed = uint64(seed)
	} else {
		o.Seed = uint64(time.Now().UnixNano()) % sample.RandomSeed
	}
	var err error
	if o.Chain, err = samplerChain(c); err != nil {
		return o, err
	}
	if o.LogitBias, err = logitBias(c); err != nil {
		return o, err
	}
	for name, field := range map[string]*float32{
		"temp": &o.Temperature, "dynatemp-range": &o.DynamicRange, "dynatemp-exp": &o.DynamicExponent,
		"top-p": &o.TopP, "min-p": &o.MinP, "top-n-sigma": &o.TopNSigma, "typical": &o.TypicalP,
		"xtc-probability": &o.XTCProbability, "xtc-threshold": &o.XTCThreshold,
		"repeat-penalty": &o.RepeatPenalty, "presence-penalty": &o.PresencePenalty, "frequency-penalty": &o.FrequencyPenalty,
		"dry-multiplier": &o.DRYMultiplier, "dry-base": &o.DRYBase,
		"mirostat-ent": &o.MirostatTau, "mirostat-lr": &o.MirostatEta,
		"adaptive-target": &o.AdaptiveTarget, "adaptive-decay": &o.AdaptiveDecay,
	} {
		*field = c.Float32(name)
	}
	o.TopK, o.Mirostat, o.DRYAllowedLength = c.Int("top-k"), c.Int("mirostat"), c.Int("dry-allowed-length")
	o.RepeatLastN, o.DRYLastN = lookBack(c, "repeat-last-n", e), lookBack(c, "dry-penalty-last-n", e)
	tok := e.Tokenizer()
	if o.DRYMultiplier != 0 {
		o.DRYBreakers = sample.NewBreakers(breakers(c), e.Config().Vocab, func(id int32) []byte {
			if int(id) >= tok.Size() {
				return nil // an output that stands for no token
			}
			return tok.Piece(id, true)
		})
	}
	if c.Bool("ignore-eos") {
		for id := range e.Config().Vocab {
			if tok.IsEOG(int32(id)) {
				o.LogitBias[int32(id)] = float32(math.Inf(-1))
			}
		}
	}
	if err := o.Validate(e.Config().Vocab); err != nil {
		return o, err
	}
	if o.AdaptiveTarget >= 0 && !slices.Contains(o.Chain, sample.AdaptiveP) {
		fmt.Fprintln(os.Stderr, "note: --adaptive-target changes nothing unless --samplers names adaptive_p")
	}
	return o, nil
}

// lookBack reads a flag of a number of tokens, -1 for the context.
func lookBack(c *cli.Command, name string, e *engine.Engine) int {
	if n := c.Int(name); n >= 0 {
		return n
	}
	return e.Context()
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
		texts = append(texts, withoutEscapes(t))
	}
	return texts
}
