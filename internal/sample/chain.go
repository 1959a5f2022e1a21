package sample

import (
	"fmt"
	"slices"
	"strings"
)

// A Stage is a part of the chain that turns logits into the tokens that may be drawn and their probabilities.
type Stage uint8

// The stages, in the order of the usual chain; AdaptiveP is not part of that. Options say how each is set and where it
// was published.
const (
	Penalties   Stage = iota // repetition, presence and frequency
	DRYStage                 // penalises what would repeat a sequence
	TopNSigma                // by distance from the highest logit
	TopK                     // by rank
	Typical                  // by distance from the expected surprise
	TopP                     // by the sum of probabilities
	MinP                     // by the highest probability
	XTCStage                 // sometimes leaves out the likeliest
	Temperature              // divides the logits, by a constant or by their entropy
	AdaptiveP                // draws near a probability; it comes last wherever it is named
)

// stageNames are llama.cpp's, with the letters of --sampler-seq.
var stageNames = [...]struct {
	name    string
	letter  byte
	aliases []string // other names, apart from those with - and without _
}{
	Penalties:   {"penalties", 'e', nil},
	DRYStage:    {"dry", 'd', nil},
	TopNSigma:   {"top_n_sigma", 's', nil},
	TopK:        {"top_k", 'k', nil},
	Typical:     {"typ_p", 'y', []string{"typ"}},
	TopP:        {"top_p", 'p', []string{"nucleus"}},
	MinP:        {"min_p", 'm', nil},
	XTCStage:    {"xtc", 'x', nil},
	Temperature: {"temperature", 't', []string{"temp"}},
	AdaptiveP:   {"adaptive_p", 'a', nil},
}

func (g Stage) String() string {
	if int(g) < len(stageNames) {
		return stageNames[g].name
	}
	return fmt.Sprintf("stage %d", g)
}

// defaultChain holds llama.cpp's usual stages in their order.
var defaultChain = []Stage{Penalties, DRYStage, TopNSigma, TopK, Typical, TopP, MinP, XTCStage, Temperature}

// names returns the names of stages.
func names(chain []Stage) []string {
	list := make([]string, len(chain))
	for i, g := range chain {
		list[i] = g.String()
	}
	return list
}

// ParseSamplers returns the samplers of a list of names separated by semicolons.
func ParseSamplers(list string) ([]string, error) { return readNames(strings.Split(list, ";")) }

// readNames returns the names of samplers as Options.Samplers has them.
func readNames(list []string) ([]string, error) {
	o := Options{Samplers: list}
	chain, err := o.chain()
	return names(chain), err
}

// parseStage returns the stage of a name, in any case and with _, - or nothing between its words.
func parseStage(name string) (Stage, error) {
	lower := strings.ToLower(name)
	if lower == "infill" {
		return 0, fmt.Errorf("the sampler infill is not supported")
	}
	for g, n := range stageNames {
		if lower == n.name || lower == strings.ReplaceAll(n.name, "_", "-") || lower == strings.ReplaceAll(n.name, "_", "") ||
			slices.Contains(n.aliases, lower) {
			return Stage(g), nil
		}
	}
	return 0, fmt.Errorf("there is no sampler called %q; there are %s", name, strings.Join(names(append(slices.Clone(defaultChain), AdaptiveP)), ";"))
}

// ParseLetters returns the samplers of a list of letters, one for each.
func ParseLetters(letters string) ([]string, error) {
	list := []string{}
	for _, letter := range letters {
		if letter == 'i' {
			return nil, fmt.Errorf("the sampler infill (i) is not supported")
		}
		g := 0
		for g < len(stageNames) && rune(stageNames[g].letter) != letter {
			g++
		}
		if g == len(stageNames) {
			return nil, fmt.Errorf("no sampler has the letter %q; the usual order is %s", letter, DefaultLetters())
		}
		list = append(list, stageNames[g].name)
	}
	return list, nil
}

// DefaultLetters returns the letters of the usual samplers.
func DefaultLetters() string {
	var b strings.Builder
	for _, g := range defaultChain {
		b.WriteByte(stageNames[g].letter)
	}
	return b.String()
}

// choice is how the token is chosen from the remaining ones.
type choice uint8

const (
	draws     choice = iota // by probability
	takesBest               // the highest logit
	mirostats               // by probability, after a cut that aims at a surprise
	adapts                  // near a probability
)

// plan returns the given stages that change anything, and the choice at their end.
func (o *Options) plan(given []Stage) ([]Stage, choice) {
	end := draws
	switch {
	case o.Mirostat.Version != 0:
		given, end = slices.DeleteFunc(slices.Clone(given), func(g Stage) bool { return g != Penalties && g != DRYStage }), mirostats
		given = append(given, Temperature)
	case slices.Contains(given, AdaptiveP) && o.Adaptive.Target >= 0:
		end = adapts
	}
	var chain []Stage
	for _, g := range given {
		if o.off(g) {
			continue
		}
		if g == Temperature && o.Temperature <= 0 && o.DynamicRange <= 0 {
			// One token is left. Stages before that keep the best one are not needed.
			for len(chain) > 0 && keepsBest(chain[len(chain)-1]) {
				chain = chain[:len(chain)-1]
			}
			return chain, takesBest
		}
		chain = append(chain, g)
	}
	return chain, end
}

// off reports whether a stage would change nothing.
func (o *Options) off(g Stage) bool {
	switch g {
	case Penalties:
		return !o.penalises()
	case DRYStage:
		return o.DRY.Multiplier == 0 || o.DRY.LastN == 0
	case TopNSigma:
		return o.TopNSigma <= 0
	case TopK:
		return o.TopK <= 0
	case Typical:
		return o.TypicalP >= 1
	case TopP:
		return o.TopP >= 1
	case MinP:
		return o.MinP <= 0
	case XTCStage:
		return o.XTC.Probability <= 0 || o.XTC.Threshold > 0.5
	case Temperature:
		return o.Temperature == 1 && o.DynamicRange <= 0
	}
	return true // AdaptiveP is a choice
}

// keepsBest reports whether a stage only drops other tokens than the best one.
func keepsBest(g Stage) bool { return g == TopNSigma || g == TopK || g == TopP || g == MinP }
