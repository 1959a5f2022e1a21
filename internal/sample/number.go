package sample

import (
	"math"
	"reflect"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// A Number describes a numeric option of Options to other packages: its names, its default and its bounds.
type Number struct {
	Field   string  // of Options; a point separates a group and its field
	Flag    string  // the program's flag, and other names for it after spaces; empty: there is none
	Env     string  // what follows LLAMA_ARG_ in the flag's environment variables, separated by spaces
	JSON    string  // the field of requests to llama-server
	File    string  // what follows general.sampling. in the key by which a model's file advises a value; empty: none does
	Default float64 // llama.cpp's
	Least   float64 // the least value allowed
	Most    float64
	Off     string // how it is turned off, for errors
	Context bool   // outside of this package, -1 stands for the length of the context
	Usage   string // the flag's help
}

var inf = math.Inf(1)

// Numbers returns all numbers of Options. Their defaults are llama.cpp's (common_params_sampling).
func Numbers() []Number {
	return []Number{
		{
			Field: "Temperature", Flag: "temp temperature", Env: "TEMPERATURE TEMP", JSON: "temperature", File: "temp", Default: 0.8, Least: -inf, Most: inf,
			Usage: "temperature; 0 always takes the likeliest token",
		},
		{
			Field: "DynamicRange", Flag: "dynatemp-range", JSON: "dynatemp_range", Most: inf, Off: "0 turns it off",
			Usage: "vary the temperature by up to this: lower where the model is sure, higher where it is not",
		},
		{
			Field: "DynamicExponent", Flag: "dynatemp-exp", JSON: "dynatemp_exponent", Default: 1, Most: inf,
			Usage: "raise the entropy, as a share of the highest possible, to this power before it sets the temperature",
		},
		{
			Field: "TopK", Flag: "top-k", Env: "TOP_K", JSON: "top_k", File: "top_k", Default: 40, Least: -inf, Most: inf,
			Usage: "keep the k likeliest tokens; 0: all",
		},
		{
			Field: "TopP", Flag: "top-p", Env: "TOP_P", JSON: "top_p", File: "top_p", Default: 0.95, Most: 1, Off: "1 turns it off",
			Usage: "keep the likeliest tokens that make up this probability",
		},
		{
			Field: "MinP", Flag: "min-p", Env: "MIN_P", JSON: "min_p", File: "min_p", Default: 0.05, Most: 1, Off: "0 turns it off",
			Usage: "drop tokens less likely than this share of the likeliest",
		},
		{Field: "MinKeep", JSON: "min_keep", Most: inf},
		{
			Field: "TopNSigma", Flag: "top-n-sigma top-nsigma", JSON: "top_n_sigma", Default: -1, Least: -inf, Most: inf,
			Usage: "keep logits at most this many standard deviations below the highest; -1: all",
		},
		{
			Field: "TypicalP", Flag: "typical typical-p", JSON: "typical_p", Default: 1, Most: 1, Off: "1 turns it off",
			Usage: "keep the tokens nearest to the expected surprise that make up this probability; 1: all",
		},
		{
			Field: "XTC.Probability", Flag: "xtc-probability", JSON: "xtc_probability", File: "xtc_probability", Most: 1, Off: "0 turns it off",
			Usage: "probability of leaving out the likeliest tokens, for less predictable texts",
		},
		{
			Field: "XTC.Threshold", Flag: "xtc-threshold", JSON: "xtc_threshold", File: "xtc_threshold", Default: 0.1, Most: 1, Off: "more than 0.5 turns it off",
			Usage: "XTC leaves out tokens of at least this probability, but keeps the least likely of them",
		},
		{
			Field: "RepeatLastN", Flag: "repeat-last-n", JSON: "repeat_last_n", File: "penalty_last_n", Default: 64, Most: inf, Off: "0 turns it off", Context: true,
			Usage: "tokens that penalties look back on; -1: the context",
		},
		{
			Field: "RepeatPenalty", Flag: "repeat-penalty", Env: "REPEAT_PENALTY", JSON: "repeat_penalty", File: "penalty_repeat", Default: 1, Least: -inf, Most: inf,
			Usage: "divide the logits of recent tokens by this",
		},
		{
			Field: "PresencePenalty", Flag: "presence-penalty", Env: "PRESENCE_PENALTY", JSON: "presence_penalty", Least: -inf, Most: inf,
			Usage: "subtract this from the logits of recent tokens",
		},
		{
			Field: "FrequencyPenalty", Flag: "frequency-penalty", Env: "FREQUENCY_PENALTY", JSON: "frequency_penalty", Least: -inf, Most: inf,
			Usage: "subtract this for every recent occurrence",
		},
		{
			Field: "DRY.Multiplier", Flag: "dry-multiplier", JSON: "dry_multiplier", Most: inf, Off: "0 turns it off",
			Usage: "penalty for a token that would repeat a sequence of tokens; 0: off",
		},
		{
			Field: "DRY.Base", Flag: "dry-base", JSON: "dry_base", Default: 1.75, Least: 1, Most: inf,
			Usage: "the penalty grows by this factor with every token of the sequence",
		},
		{
			Field: "DRY.AllowedLength", Flag: "dry-allowed-length", JSON: "dry_allowed_length", Default: 2, Most: inf,
			Usage: "sequences shorter than this may be repeated",
		},
		{
			Field: "DRY.LastN", Flag: "dry-penalty-last-n", JSON: "dry_penalty_last_n", Default: 64, Most: inf, Off: "0 turns it off", Context: true,
			Usage: "tokens to search for the sequence; -1: the context",
		},
		{
			Field: "Mirostat.Version", Flag: "mirostat", JSON: "mirostat", File: "mirostat", Least: -inf, Most: inf,
			Usage: "use `VERSION` 1 or 2 of Mirostat, which keeps the text's surprise constant, instead of the samplers that drop tokens; 0: off",
		},
		{
			Field: "Mirostat.Tau", Flag: "mirostat-ent", JSON: "mirostat_tau", File: "mirostat_tau", Default: 5, Most: inf,
			Usage: "the surprise of a token that Mirostat aims at, in bits",
		},
		{
			Field: "Mirostat.Eta", Flag: "mirostat-lr", JSON: "mirostat_eta", File: "mirostat_eta", Default: 0.1, Most: inf,
			Usage: "how fast Mirostat corrects itself",
		},
		{
			Field: "Adaptive.Target", Flag: "adaptive-target", JSON: "adaptive_target", Default: -1, Least: -inf, Most: 1, Off: "a negative one turns it off",
			Usage: "favour tokens near this probability, where --samplers names adaptive_p; -1: off",
		},
		{
			Field: "Adaptive.Decay", Flag: "adaptive-decay", JSON: "adaptive_decay", Default: 0.9, Most: 0.99,
			Usage: "how much adaptive_p remembers of earlier tokens, from 0 to 0.99",
		},
	}
}

// Names returns the flag's name and its other names.
func (n *Number) Names() []string { return strings.Fields(n.Flag) }

// Of returns a pointer to the number in o: a *float32 or an *int.
func (n *Number) Of(o *Options) any { return n.value(o).Addr().Interface() }

func (n *Number) value(o *Options) reflect.Value {
	v := reflect.ValueOf(o).Elem()
	for name := range strings.SplitSeq(n.Field, ".") {
		v = v.FieldByName(name)
	}
	return v
}

// Set sets the number to v, which is whole where the number is, or to the length of the context where v stands for it.
func (n *Number) Set(o *Options, v float64, context int) {
	if n.Context && v == -1 {
		v = float64(context)
	}
	if to := n.value(o); to.CanFloat() {
		to.SetFloat(v)
	} else {
		to.SetInt(int64(v))
	}
}

// Get returns the number.
func (n *Number) Get(o *Options) float64 {
	v := n.value(o)
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// Whole reports whether the number is a whole one.
func (n *Number) Whole() bool { return n.value(&Options{}).CanInt() }

// setting returns the number as errors name it.
func (n *Number) setting() setting.Setting {
	if n.Flag == "" {
		return setting.Setting(strings.ReplaceAll(n.JSON, "_", "-") + "|Sampling." + n.Field)
	}
	return setting.Setting(n.Names()[0] + "|Sampling." + n.Field)
}

// validate returns an error if the number of o is out of bounds.
func (n *Number) validate(o *Options) error {
	at, v, off := n.value(o), n.Get(o), ""
	if v >= n.Least && v <= n.Most && !math.IsInf(v, 0) {
		return nil
	}
	if n.Off != "" {
		off = "; " + n.Off
	}
	name, value, least, most := n.setting(), at.Interface(), float32(n.Least), float32(n.Most)
	switch {
	case at.CanInt():
		return setting.Errorf("%s %d is negative%s", name, value, off)
	case n.Most < inf && n.Least > -inf:
		return setting.Errorf("%s %v is not in [%v, %v]%s", name, value, least, most, off)
	case n.Most < inf:
		return setting.Errorf("%s %v is not a number up to %v%s", name, value, most, off)
	case n.Least > -inf:
		return setting.Errorf("%s %v is not a finite number from %v%s", name, value, least, off)
	}
	return setting.Errorf("%s %v is not a finite number", name, value)
}

// NumberBy returns the number that a flag sets.
func NumberBy(flag string) (n Number, found bool) {
	for _, n := range Numbers() {
		if names := n.Names(); len(names) > 0 && names[0] == flag {
			return n, true
		}
	}
	return n, false
}
