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

// Sampling returns the flags of sampling. Without a flag the model's file decides, else the default.
func Sampling() []cli.Flag {
	o := sample.DefaultOptions()
	list := []cli.Flag{
		&cli.Int64Flag{Name: "seed", Aliases: []string{"s"}, Value: -1, Usage: "seed of the random choices; -1: a new one each time", Sources: Env("SEED")},
		&cli.StringFlag{Name: "samplers", Value: strings.Join(o.Samplers, ";"), Usage: "samplers to apply, in this `ORDER`, separated by ;"},
		&cli.StringFlag{Name: "sampler-seq", Aliases: []string{"sampling-seq"}, Value: sample.DefaultLetters(), Usage: "the same as `LETTERS`, one for each sampler; a stands for adaptive_p"},
	}
	for _, n := range sample.Numbers() {
		names := n.Names()
		if n.Flag == "" {
			continue
		}
		switch at := n.Of(&o).(type) {
		case *float32:
			list = append(list, &cli.Float32Flag{Name: names[0], Aliases: names[1:], Value: *at, Usage: n.Usage, Sources: Env(strings.Fields(n.Env)...)})
		case *int:
			list = append(list, &cli.IntFlag{Name: names[0], Aliases: names[1:], Value: *at, Usage: n.Usage, Sources: Env(strings.Fields(n.Env)...)})
		}
		if n.Field == "DRY.LastN" {
			list = append(list, &cli.StringSliceFlag{Name: "dry-sequence-breaker", Usage: "sequences end at this `TEXT`; may be repeated, none: no such text; default: newline, colon, quotation mark and asterisk"})
		}
	}
	return About(SamplingSubject, append(list,
		&cli.StringSliceFlag{Name: "logit-bias", Aliases: []string{"l"}, Usage: "add to a token's logit: `ID+BIAS` or ID-BIAS, where ID-inf bans it; may be repeated"},
		&cli.BoolFlag{Name: "ignore-eos", Usage: "go on where the model would end the text"},
	))
}

// CheckGeneration refuses impossible values, as far as it can without a model.
func CheckGeneration(c *cli.Command) error {
	if n := c.Int("n-predict"); n < -1 {
		return fmt.Errorf("--n-predict %d: give a number of tokens, or -1 for until the text or the context ends", n)
	}
	if n := c.Int64("seed"); n < -1 {
		return fmt.Errorf("--seed %d: give a number from 0, or -1 for a new one each time", n)
	}
	for _, n := range sample.Numbers() {
		if v := c.Int(n.Flag); n.Context && v < -1 {
			return fmt.Errorf("--%s %d: give a number of tokens, or -1 for the context", n.Flag, v)
		}
	}
	if _, err := samplerNames(c); err != nil {
		return err
	}
	_, err := logitBias(c)
	return err
}

// samplerNames reads --samplers or --sampler-seq.
func samplerNames(c *cli.Command) (list []string, err error) {
	switch {
	case c.IsSet("samplers") && c.IsSet("sampler-seq"):
		return nil, errors.New("--samplers and --sampler-seq each name the samplers; give one")
	case c.IsSet("sampler-seq"):
		list, err = sample.ParseLetters(c.String("sampler-seq"))
	default:
		list, err = sample.ParseSamplers(c.String("samplers"))
	}
	if err != nil {
		return nil, fmt.Errorf("--samplers: %w", err)
	}
	return list, nil
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

// ReadSampling returns m's sampling: as Sampling's flags say, else as the model's file advises. It draws a random seed,
// so that the seed can be shown.
func ReadSampling(c *cli.Command, m *powerinfer.Model) (sample.Options, error) {
	i := m.Info()
	return sampling(c, m.Sampling(), i.Context, i.Vocabulary, m.EndOfText)
}

// ReadSessionSampling is ReadSampling for a model that is served.
func ReadSessionSampling(c *cli.Command, s *session.Session) (sample.Options, error) {
	return sampling(c, s.Sampling(), s.Context(), s.Config().Vocab, s.Tokenizer().IsEOG)
}

// sampling returns o as changed by Sampling's flags, for a model with this context and vocabulary, in tokens. endOfText reports whether a token ends a text.
func sampling(c *cli.Command, o sample.Options, context, vocabulary int, endOfText func(id int32) bool) (sample.Options, error) {
	if seed := c.Int64("seed"); seed >= 0 {
		o.Seed = uint64(seed)
	} else {
		o.Seed = uint64(time.Now().UnixNano()) % sample.RandomSeed
	}
	list, err := samplerNames(c)
	if err != nil {
		return o, err
	}
	if c.IsSet("samplers") || c.IsSet("sampler-seq") {
		o.Samplers = list
	}
	if o.LogitBias, err = logitBias(c); err != nil {
		return o, err
	}
	for _, n := range sample.Numbers() {
		v := n.Get(&o)
		if names := n.Names(); n.Flag != "" && c.IsSet(names[0]) {
			if v = float64(c.Float32(names[0])); n.Whole() {
				v = float64(c.Int(names[0]))
			}
		}
		n.Set(&o, v, context)
	}
	if c.IsSet("dry-sequence-breaker") {
		o.DRY.Breakers = breakers(c)
	}
	if c.Bool("ignore-eos") {
		BanEnds(o.LogitBias, vocabulary, endOfText)
	}
	if err := o.Check(vocabulary); err != nil {
		return o, err
	}
	if o.Adaptive.Target >= 0 && !slices.Contains(o.Samplers, sample.AdaptiveP.String()) {
		fmt.Fprintln(screen.Err, "note: --adaptive-target changes nothing unless --samplers names adaptive_p")
	}
	return o, nil
}

// BanEnds adds biases that ban the tokens of a vocabulary that end a text.
func BanEnds(biases map[int32]float32, vocabulary int, endOfText func(id int32) bool) {
	for id := range int32(vocabulary) {
		if endOfText(id) {
			biases[id] = float32(math.Inf(-1))
		}
	}
}

// breakers reads --dry-sequence-breaker, with its escapes.
func breakers(c *cli.Command) []string {
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

// Length returns the flag of a text's length.
func Length() cli.Flag {
	return &cli.IntFlag{Name: "n-predict", Aliases: []string{"n", "predict"}, Value: -1, Usage: "tokens to generate; -1: until the text or the context ends", Sources: Env("N_PREDICT")}
}

// MostTokens returns --n-predict as powerinfer.Generation.Max has it.
func MostTokens(n int) int {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return -1
	}
	return n
}
