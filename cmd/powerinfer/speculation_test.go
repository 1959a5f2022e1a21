package main

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
)

// guessesOf returns the settings that the flags of speculation give a command.
func guessesOf(t *testing.T, c *cli.Command, args ...string) (drafts int, d powerinfer.DraftModel, least float32, err error) {
	t.Helper()
	c.Before, c.Action = nil, func(_ context.Context, c *cli.Command) error {
		if drafts, err = flags.ReadDrafts(c); err == nil {
			d, least, err = flags.ReadDraftModel(c)
		}
		return nil
	}
	if e := c.Run(t.Context(), append([]string{c.Name}, args...)); e != nil {
		t.Fatalf("%s %q: %v", c.Name, args, e)
	}
	return drafts, d, least, err
}

// TestSpeculationFlags: run, serve and batch read the flags of speculation alike, under llama.cpp's present and older
// names.
func TestSpeculationFlags(t *testing.T) {
	commands := []func() *cli.Command{runCommand, serveCommand, batchCommand}
	for _, c := range []struct {
		args   string
		drafts int
		want   powerinfer.DraftModel
		least  float32
		err    string
	}{
		{"", powerinfer.DefaultDrafts, powerinfer.DraftModel{}, 0.3, ""},
		{"--spec-draft-n-max 5", 5, powerinfer.DraftModel{}, 0.3, ""},
		{"--draft-max 5", 5, powerinfer.DraftModel{}, 0.3, ""},
		{"--draft-n 5", 5, powerinfer.DraftModel{}, 0.3, ""},
		{"--draft 5", 5, powerinfer.DraftModel{}, 0.3, ""},
		{"--draft-max 0", -1, powerinfer.DraftModel{Off: true}, 0.3, ""},
		{"--spec-type none", -1, powerinfer.DraftModel{Off: true}, 0.3, ""},
		{"--spec-draft-p-min 0.5", powerinfer.DefaultDrafts, powerinfer.DraftModel{}, 0.5, ""},
		{"--spec-type ngram,draft-mtp --draft-p-min 0.5", powerinfer.DefaultDrafts, powerinfer.DraftModel{}, 0.5, ""},
		{"--spec-type ngram", powerinfer.DefaultDrafts, powerinfer.DraftModel{Off: true}, 0.3, ""},
		{"--spec-type ngram --draft-p-min 0.5", 0, powerinfer.DraftModel{}, 0, "--spec-draft-p-min is for"},
		{"--spec-type ngram -md small.gguf --draft-p-min 0.5 -devd none", powerinfer.DefaultDrafts, powerinfer.DraftModel{Path: "small.gguf", Devices: "none"}, 0.5, ""},
		{"--spec-draft-model small.gguf --spec-draft-device none", powerinfer.DefaultDrafts, powerinfer.DraftModel{Path: "small.gguf", Devices: "none"}, 0.3, ""},
		{"--spec-draft-device none", powerinfer.DefaultDrafts, powerinfer.DraftModel{Devices: "none"}, 0.3, ""},
		{"--spec-draft-device Vulkan0", 0, powerinfer.DraftModel{}, 0, "--device-draft is for a draft model"},
		{"--spec-type ngram -ngld 0", 0, powerinfer.DraftModel{}, 0, "--n-gpu-layers-draft is for a draft model"},
		{"--spec-type draft-simple", 0, powerinfer.DraftModel{}, 0, "name the draft model with -md"},
		{"--spec-type draft-eagle3", powerinfer.DefaultDrafts, powerinfer.DraftModel{Kinds: []string{"eagle3"}}, 0.3, ""},
		{"--spec-type ngram,draft-dflash -md head.gguf", powerinfer.DefaultDrafts, powerinfer.DraftModel{Path: "head.gguf", Kinds: []string{"dflash"}}, 0.3, ""},
		{"--spec-type draft-dspark", 0, powerinfer.DraftModel{}, 0, "draft models have no such parts here"},
	} {
		for _, command := range commands {
			cmd := command()
			drafts, d, least, err := guessesOf(t, cmd, strings.Fields(c.args)...)
			d.Layers = c.want.Layers // another flag decides its default
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s %s: error %v, want one with %q", cmd.Name, c.args, err, c.err)
				}
			case err != nil || drafts != c.drafts || !reflect.DeepEqual(d, c.want) || least != c.least:
				t.Errorf("%s %s: %d guesses, %+v and error %v, want %d and %+v", cmd.Name, c.args, drafts, d, err, c.drafts, c.want)
			}
		}
	}
}
