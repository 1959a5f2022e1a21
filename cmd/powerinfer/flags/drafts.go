package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
)

// Names of --spec-type. llama.cpp's names for drafts from the text select ours: drafts change speed only.
const (
	DraftAuto   = "auto" // ours, as draft-hot
	DraftNone   = "none"
	DraftNgram  = "ngram"
	DraftSimple = "draft-simple"
	DraftHot    = "draft-hot"

	DraftMTP    = "draft-mtp"
	DraftEagle3 = "draft-eagle3"
	DraftDFlash = "draft-dflash"
)

// draftWays lists the names for messages.
var draftWays = strings.Join([]string{DraftAuto, DraftNgram, DraftSimple, DraftHot, DraftMTP, DraftEagle3, DraftDFlash}, ", ") + " or " + DraftNone

// draftHeads maps the names of --spec-type for draft heads to the heads' architectures.
var draftHeads = map[string]string{DraftEagle3: "eagle3", DraftDFlash: "dflash"}

// Drafts returns the flags that set how many tokens are drafted and checked at a time.
func Drafts() []cli.Flag {
	return About(DraftSubject, []cli.Flag{
		DraftType(), MostDrafts(),
		&cli.StringFlag{Name: "model-draft", Aliases: []string{"md", "spec-draft-model"}, Usage: "GGUF `FILE` of a small model of the same vocabulary, or of a draft head for the model (EAGLE-3, DFlash, gemma4-assistant), which guesses tokens where the text so far offers no guess; default: a head beside the model or in its repository, if there is one that fits", Sources: Env("SPEC_DRAFT_MODEL", "MODEL_DRAFT")},
		&cli.StringFlag{Name: "spec-draft-hf", Aliases: []string{"hfd", "hfrd", "hf-repo-draft"}, Usage: "the draft model, of the Hugging Face hub: `USER/REPO[:QUANT]`, as --hf-repo", Sources: Env("SPEC_DRAFT_HF_REPO")},
		&cli.StringFlag{Name: "device-draft", Aliases: []string{"devd", "spec-draft-device"}, Usage: "the draft model's GPUs, as --device; none keeps a draft head in RAM", Sources: Env("SPEC_DRAFT_DEVICE")},
		&cli.StringFlag{Name: "n-gpu-layers-draft", Aliases: []string{"ngld", "gpu-layers-draft", "spec-draft-ngl"}, Usage: "the draft model's layers on GPUs, as --n-gpu-layers; 0 keeps a draft head in RAM", Sources: Env("N_GPU_LAYERS_DRAFT")},
		&cli.Float32Flag{Name: "spec-draft-p-min", Aliases: []string{"draft-p-min"}, Value: 0.3, Usage: "end guesses of the draft model or head, of hot neurons or of the layer for multi-token prediction before a token less likely than `P`", Sources: Env("SPEC_DRAFT_P_MIN")},
	})
}

func DraftType() cli.Flag {
	return &cli.StringFlag{Name: "spec-type", Value: DraftAuto, Usage: "guess tokens and check several in one step, where that pays; the text stays the same. `TYPE` ngram guesses what followed the last tokens earlier in the text; draft-hot guesses by the model's hot neurons alone: those on GPUs, or with --sparse exact those that a prepared model's predictors choose; draft-mtp guesses by the file's layer for multi-token prediction; draft-eagle3 and draft-dflash guess by such a head, which -md names or which is beside the model; none guesses nothing; several are separated by commas; auto is ngram, a head that is found, and draft-hot where GPUs hold some of a layer's neurons and --sparse is not predict. Of llama.cpp's names, ngram-simple and the like mean ngram, and draft-simple what -md does", Sources: Env("SPEC_TYPE")}
}

func MostDrafts() cli.Flag {
	return &cli.IntFlag{Name: "spec-draft-n-max", Aliases: []string{"draft-max", "draft", "draft-n"}, Value: powerinfer.DefaultDrafts, Usage: "guess at most `N` tokens at a time", Sources: Env("SPEC_DRAFT_N_MAX", "DRAFT_MAX")}
}

// ReadDrafts returns the value of powerinfer.Options.Drafts.Most. Commands without the flags draft nothing.
func ReadDrafts(c *cli.Command) (int, error) {
	if c.String("spec-type") == "" && !c.IsSet("spec-type") {
		return -1, nil
	}
	guess := false
	for _, name := range strings.Split(c.String("spec-type"), ",") {
		switch {
		case name == DraftNone:
		case looksUp(name):
			guess = true
		case name == DraftSimple:
			if c.String("model-draft") == "" {
				return 0, fmt.Errorf("--spec-type %s: name the draft model with -md", name)
			}
			guess = true
		case name == DraftHot, name == DraftMTP, draftHeads[name] != "":
			guess = true
		case strings.HasPrefix(name, "draft-"):
			return 0, fmt.Errorf("--spec-type %s: draft models have no such parts here: take %s", name, draftWays)
		default:
			return 0, fmt.Errorf("--spec-type %q is not %s", name, draftWays)
		}
	}
	n := c.Int("spec-draft-n-max")
	if n < 0 || n > powerinfer.MostDrafts {
		return 0, fmt.Errorf("--spec-draft-n-max %d is not a number from 0 to %d", n, powerinfer.MostDrafts)
	}
	if !guess || n == 0 {
		return -1, nil
	}
	return n, nil
}

// looksUp reports whether a name of --spec-type stands for drafts from the text so far.
func looksUp(name string) bool {
	return slices.Contains([]string{DraftAuto, DraftNgram, "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"}, name)
}

// DraftsBy reports whether --spec-type names this way of drafting.
func DraftsBy(c *cli.Command, way string) bool {
	return slices.Contains(strings.Split(c.String("spec-type"), ","), way)
}

// FindsDraft reports whether a command uses a draft model that it finds next to the model or in the model's repository. It
// does if no other draft model is named and --spec-type does not rule it out. Commands that only fetch models do, too.
func FindsDraft(c *cli.Command) bool {
	if Has(c, "no-draft") {
		return !c.Bool("no-draft")
	}
	return Has(c, "spec-type") && c.String("model-draft") == "" && c.String("spec-draft-hf") == "" && (DraftsBy(c, DraftAuto) || DraftsBy(c, DraftMTP) || byHead(c)) && c.Int("spec-draft-n-max") != 0
}

// byHead reports whether --spec-type names a draft head.
func byHead(c *cli.Command) bool { return DraftsBy(c, DraftEagle3) || DraftsBy(c, DraftDFlash) }

// ReadDraftModel reads the flags of the draft model, and the least probability of draft tokens.
func ReadDraftModel(c *cli.Command) (d powerinfer.DraftModel, least float32, err error) {
	d.Path, d.Devices, least = c.String("model-draft"), c.String("device-draft"), c.Float32("spec-draft-p-min")
	d.Off = d.Path == "" && !FindsDraft(c)
	for _, name := range strings.Split(c.String("spec-type"), ",") {
		if kind := draftHeads[name]; kind != "" {
			d.Kinds = append(d.Kinds, kind)
		}
	}
	if least < 0 || least > 1 || least != least {
		return d, least, fmt.Errorf("--spec-draft-p-min %g is not a number from 0 to 1", least)
	}
	if d.Layers, err = wholeLayers(c, "n-gpu-layers-draft", "-ngld"); err != nil {
		return d, least, err
	}
	if d.Path == "" {
		for _, name := range []string{"device-draft", "n-gpu-layers-draft"} {
			if c.IsSet(name) && (d.Off || !d.OnProcessor()) {
				return d, least, fmt.Errorf("--%s is for a draft model: name one with -md; a head beside the model is kept in RAM by -devd none or -ngld 0", name)
			}
		}
		if c.IsSet("spec-draft-p-min") && !DraftsBy(c, DraftAuto) && !DraftsBy(c, DraftHot) && !DraftsBy(c, DraftMTP) && !byHead(c) {
			return d, least, fmt.Errorf("--spec-draft-p-min is for guesses of a draft model, of hot neurons or of a further layer: name a model with -md, or --spec-type %s,%s or %s,%s", DraftNgram, DraftHot, DraftNgram, DraftMTP)
		}
	}
	return d, least, nil
}
