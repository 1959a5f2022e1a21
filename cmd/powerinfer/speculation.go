package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
)

// Names of --spec-type. Those of llama.cpp's ways of guessing from the text mean ours: what is guessed changes speed only.
const (
	specNone  = "none"
	specNgram = "ngram"
)

// speculationFlags say how many tokens are guessed and checked at a time.
func speculationFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "spec-type", Value: specNgram, Usage: "guess tokens and check several in one step, where that pays; the text is the same: `TYPE` ngram guesses what followed the last tokens before, none nothing; llama.cpp's ngram-simple and others mean ngram", Sources: env("SPEC_TYPE")},
		&cli.IntFlag{Name: "spec-draft-n-max", Aliases: []string{"draft-max", "draft", "draft-n"}, Value: powerinfer.DefaultDrafts, Usage: "guess at most `N` tokens at a time", Sources: env("SPEC_DRAFT_N_MAX", "DRAFT_MAX")},
	}
}

// readDrafts returns what speculationFlags say as powerinfer.Options.Drafts has it. Commands without them guess nothing.
func readDrafts(c *cli.Command) (int, error) {
	if c.String("spec-type") == "" && !c.IsSet("spec-type") {
		return -1, nil
	}
	guess := false
	for _, name := range strings.Split(c.String("spec-type"), ",") {
		switch {
		case name == specNone:
		case name == specNgram, slices.Contains([]string{"ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"}, name):
			guess = true
		case strings.HasPrefix(name, "draft-"):
			return 0, fmt.Errorf("--spec-type %s: no draft models are used: take %s or %s", name, specNgram, specNone)
		default:
			return 0, fmt.Errorf("--spec-type %q is neither %s nor %s", name, specNgram, specNone)
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
