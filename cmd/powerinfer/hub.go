package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/powerinfer-go/powerinfer/internal/hub"
)

// hubFlags choose a model of the Hugging Face hub.
func hubFlags() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "hf-repo", Aliases: []string{"hf", "hfr"}, Usage: "model of the Hugging Face hub, downloaded unless it is cached: `USER/REPO[:QUANT]`; QUANT is Q4_K_M, else Q8_0, else the first file", Sources: env("HF_REPO")},
	}, accessFlags())
}

// accessFlags say which file is meant and how the hub is asked.
func accessFlags() []cli.Flag {
	return about(modelSubject, []cli.Flag{
		&cli.StringFlag{Name: "hf-file", Aliases: []string{"hff"}, Usage: "`NAME` of the file in that repository, instead of QUANT", Sources: env("HF_FILE")},
		&cli.StringFlag{Name: "hf-token", Aliases: []string{"hft"}, Usage: "`TOKEN` for gated and private repositories; default: $HF_TOKEN, or that of the last login"},
		&cli.BoolFlag{Name: "offline", Usage: "take models from the cache only", Sources: env("OFFLINE")},
	})
}

// modelsDirFlag names a folder of models in addition to the cache.
func modelsDirFlag() cli.Flag {
	return &cli.StringFlag{Name: "models-dir", Usage: "also the models in this `FOLDER`", Sources: env("MODELS_DIR")}
}

// modelsDirs returns the folders that modelsDirFlag names.
func modelsDirs(c *cli.Command) []string {
	if dir := c.String("models-dir"); dir != "" {
		return []string{dir}
	}
	return nil
}

// openHub returns the hub that the environment and accessFlags name.
func openHub(c *cli.Command) (*hub.Hub, error) {
	o, err := hub.Environment()
	if err != nil {
		return nil, err
	}
	if t := c.String("hf-token"); t != "" {
		o.Token = t
	}
	o.Offline = o.Offline || c.Bool("offline")
	o.Note = note
	return hub.New(o)
}

// hubName reads a model's name; --hf-file replaces what it says of the file.
func hubName(c *cli.Command, text string) (hub.Name, error) {
	n, err := hub.ParseName(text)
	if err != nil {
		return n, err
	}
	if file := c.String("hf-file"); file != "" {
		return hub.ParseName(n.Repo + "/" + file)
	}
	return n, nil
}

// fetched is action, before which the models that -hf and -hfd name are brought into the cache and become those of -m
// and -md.
func fetched(action cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		if c.Bool("list-devices") {
			return action(ctx, c)
		}
		if err := fetchModel(ctx, c); err != nil {
			return err
		}
		if err := fetchDraft(ctx, c); err != nil {
			return err
		}
		return action(ctx, c)
	}
}

// fetchDraft fetches the draft model that -hfd names.
func fetchDraft(ctx context.Context, c *cli.Command) error {
	text := c.String("spec-draft-hf")
	switch {
	case text == "" && c.IsSet("spec-draft-hf"):
		return errors.New("-hfd names no repository; write user/repo")
	case text == "":
		return nil
	case c.IsSet("model-draft"):
		return errors.New("-md and -hfd both name a draft model; give one")
	}
	n, err := hub.ParseName(text)
	if err != nil {
		return err
	}
	return fetch(ctx, c, n, "model-draft")
}

func fetchModel(ctx context.Context, c *cli.Command) error {
	if !slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return f.Names()[0] == "hf-repo" }) {
		return nil
	}
	text := c.String("hf-repo")
	switch {
	case text == "" && c.IsSet("hf-repo"):
		return errors.New("-hf names no repository; write user/repo")
	case text == "" && c.IsSet("hf-file"):
		return errors.New("--hf-file names a file of a repository; name that with -hf user/repo")
	case text == "":
		return nil
	case c.IsSet("model"):
		return errors.New("-m and -hf both name a model; give one")
	}
	n, err := hubName(c, text)
	if err != nil {
		return err
	}
	return fetch(ctx, c, n, "model")
}

// fetch brings a model into the cache and sets the flag of its file.
func fetch(ctx context.Context, c *cli.Command, n hub.Name, flag string) error {
	h, err := openHub(c)
	if err != nil {
		return err
	}
	m, err := downloading(ctx, func(progress func(hub.Progress)) (hub.Model, error) { return h.Use(ctx, n, progress) })
	if err != nil {
		return err
	}
	return c.Set(flag, m.Path())
}

// downloading shows the progress of a download, and says what an interruption leaves. In a pipe it is a line at the
// beginning.
func downloading(ctx context.Context, get func(func(hub.Progress)) (hub.Model, error)) (hub.Model, error) {
	tty := term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb"
	var bar *progress
	var first, last hub.Progress // first: what was there before
	told := false
	m, err := get(func(p hub.Progress) {
		if last.Total == 0 {
			first = p
		}
		last = p
		if !told && p.Done > first.Done { // the hub may still have refused it
			told = true
			fmt.Fprintf(os.Stderr, "downloading %s: %s\n", p.Model, amount(first))
			if tty {
				bar = newProgress(p.Model, unitBytes)
			}
		}
		if bar != nil {
			bar.set(p.Done-first.Done, p.Total-first.Done)
		}
	})
	if bar != nil {
		bar.finish()
	}
	if err != nil && ctx.Err() != nil && last.Total > 0 {
		fmt.Fprintf(os.Stderr, "interrupted: %s of %s are kept; the same command goes on\n", hub.Bytes(last.Done), hub.Bytes(last.Total))
	}
	return m, err
}

// amount says how much is to be downloaded.
func amount(p hub.Progress) string {
	if p.Done > 0 {
		return fmt.Sprintf("%s of %s are missing", hub.Bytes(p.Total-p.Done), hub.Bytes(p.Total))
	}
	return hub.Bytes(p.Total)
}
