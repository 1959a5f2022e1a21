package modelname

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/hub"
)

// Hub returns the hub according to the environment and to flags.Access.
func Hub(c *cli.Command) (*hub.Hub, error) {
	o, err := hubOptions(c)
	if err != nil {
		return nil, err
	}
	return hub.New(o)
}

func hubOptions(c *cli.Command) (hub.Options, error) {
	o, err := hub.Environment()
	if err != nil {
		return o, err
	}
	if t := c.String("hf-token"); t != "" {
		o.Token = t
	}
	o.Offline = o.Offline || c.Bool("offline")
	o.Note = screen.Note
	o.Towers = flags.Has(c, "no-mmproj") && !c.Bool("no-mmproj") && c.String("mmproj") == ""
	o.Heads = flags.FindsDraft(c)
	return o, nil
}

// OfHub reads a model's name at the hub, or a short one. --hf-file replaces the name's file.
func OfHub(c *cli.Command, text string) (hub.Name, error) {
	n, err := Parse(text)
	if err != nil {
		return n, err
	}
	if file := c.String("hf-file"); file != "" {
		return hub.ParseName(n.Repo + "/" + file)
	}
	return n, nil
}

// Parse returns the hub's name of a model. text is that name or a short one.
func Parse(text string) (hub.Name, error) {
	if _, n, ok := hub.FindShort(text); ok {
		return n, nil
	}
	n, err := hub.ParseName(text)
	if info, missing := os.Stat(text); err != nil && (missing == nil && info.IsDir() || !strings.Contains(text, "/")) {
		return n, unknownModel(text)
	}
	return n, err
}

// FetchModels returns an action that first downloads the models of -hf and -hfd to the cache, makes them the models of -m
// and -md, and then does action.
func FetchModels(action cli.ActionFunc) cli.ActionFunc {
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
		if err := fetchTower(ctx, c); err != nil {
			return err
		}
		return action(ctx, c)
	}
}

// fetchDraft fetches the draft model that -hfd or -md names.
func fetchDraft(ctx context.Context, c *cli.Command) error {
	text, file := c.String("spec-draft-hf"), c.String("model-draft")
	switch {
	case text == "" && c.IsSet("spec-draft-hf"):
		return errors.New("-hfd names no repository; write user/repo")
	case text == "" && file == "":
		return nil
	case text == "":
		return Use(ctx, c, file, "model-draft")
	case c.IsSet("model-draft"):
		return errors.New("-md and -hfd both name a draft model; give one")
	}
	n, err := Parse(text)
	if err != nil {
		return err
	}
	n.Draft = true
	return fetch(ctx, c, text, n, "model-draft")
}

func fetchModel(ctx context.Context, c *cli.Command) error {
	if !flags.Has(c, "hf-repo") {
		return nil
	}
	if word := namedModel(c); word != "" {
		return Use(ctx, c, word, "model")
	}
	text, name := c.String("hf-repo"), c.String("model")
	switch {
	case text == "" && c.IsSet("hf-repo"):
		return errors.New("-hf names no repository; write user/repo")
	case text == "" && c.IsSet("hf-file"):
		return errors.New("--hf-file names a file of a repository; name that with -hf user/repo")
	case text == "" && name == "":
		return nil
	case text == "":
		return Use(ctx, c, name, "model")
	case c.IsSet("model"):
		return errors.New("-m and -hf both name a model; give one")
	}
	n, err := OfHub(c, text)
	if err != nil {
		return err
	}
	return fetch(ctx, c, text, n, "model")
}

// Use sets a flag to the file of the model that text names, and fetches the model if necessary: see wordsOf.
func Use(ctx context.Context, c *cli.Command, text, flag string) error {
	if _, err := os.Stat(text); err == nil {
		return c.Set(flag, text)
	}
	if m, ok := inFolders(c, text); ok {
		return c.Set(flag, m.Path())
	}
	_, n, short := hub.FindShort(text)
	if !short {
		var err error
		if n, err = hub.ParseName(text); err != nil && hub.IsAddress(text) {
			return err
		}
		folder, _, _ := strings.Cut(text, "/")
		_, here := os.Stat(folder)
		file := strings.HasSuffix(strings.ToLower(text), ".gguf")
		switch {
		case hub.IsAddress(text):
		case err != nil && !file:
			return unknownModel(text)
		case file && (err != nil || n.File == "" || here == nil): // user/repo/file.gguf, unless user is a folder here
			return c.Set(flag, text)
		}
	}
	if file := c.String("hf-file"); file != "" && flag == "model" {
		var err error
		if n, err = hub.ParseName(n.Repo + "/" + file); err != nil {
			return err
		}
	}
	return fetch(ctx, c, text, n, flag)
}

// fetch brings a model that was called text into the cache and sets the flag of its file.
func fetch(ctx context.Context, c *cli.Command, text string, n hub.Name, flag string) error {
	o, err := hubOptions(c)
	if err != nil {
		return err
	}
	if flag != "model" {
		o.Towers, o.Heads = false, false
	}
	h, err := hub.New(o)
	if err != nil {
		return err
	}
	m, err := Bring(ctx, h, text, n, h.Use)
	if err != nil {
		return err
	}
	if _, _, short := hub.FindShort(text); short && flag == "model" {
		remember(c, shortName, strings.ToLower(text))
	}
	return c.Set(flag, m.Path())
}

// Bring calls get, the hub's Use or Pull, for the model that the user called text, and shows the progress. If the
// repository no longer has the quantisation of a short name, Bring takes an available one.
func Bring(ctx context.Context, h *hub.Hub, text string, n hub.Name, get func(context.Context, hub.Name, func(hub.Progress)) (hub.Model, error)) (hub.Model, error) {
	called, usual, short := hub.FindShort(text)
	if !short || n != usual {
		text = ""
	}
	m, err := downloading(ctx, text, func(progress func(hub.Progress)) (hub.Model, error) { return get(ctx, n, progress) })
	if short && errors.Is(err, hub.ErrNotFound) && n.Tag != "" && n == called.Hub() {
		n.Tag = ""
		if other, e := downloading(ctx, text, func(progress func(hub.Progress)) (hub.Model, error) { return get(ctx, n, progress) }); e == nil {
			return other, nil
		}
	}
	if errors.Is(err, hub.ErrOffline) && !h.Offline() {
		err = fmt.Errorf("%w; check the network or the proxy in HTTPS_PROXY, name another hub in HF_ENDPOINT, or give a GGUF file", err)
	}
	return m, err
}

// downloading shows the progress of a download and, if it is interrupted, how to continue. called is the user's name
// for the model. In a pipe it prints one line at the beginning.
func downloading(ctx context.Context, called string, get func(func(hub.Progress)) (hub.Model, error)) (hub.Model, error) {
	tty := screen.Err.IsTerminal() && os.Getenv("TERM") != "dumb"
	var bar *progress.Bar
	var first, last hub.Progress // first: at the beginning
	told := false
	m, err := get(func(p hub.Progress) {
		if last.Total == 0 {
			first = p
		}
		last = p
		if !told && p.Done > first.Done { // before that, the hub may still refuse
			told = true
			name := p.Model
			if called != "" {
				name = called + ", which is " + p.Model
			}
			fmt.Fprintln(screen.Err, screen.Lines(fmt.Sprintf("downloading %s: %s", name, amount(first))))
			if tty {
				bar = progress.New("downloading", progress.Bytes)
			}
		}
		if bar != nil {
			bar.Set(p.Done-first.Done, p.Total-first.Done)
		}
	})
	if bar != nil {
		bar.Finish()
	}
	if err != nil && ctx.Err() != nil && last.Total > 0 {
		fmt.Fprintf(screen.Err, "interrupted: %s of %s are kept; the same command goes on\n", hub.Bytes(last.Done), hub.Bytes(last.Total))
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

// fetchTower fetches the vision tower that --mmproj names at the hub.
func fetchTower(ctx context.Context, c *cli.Command) error {
	if !flags.Has(c, "mmproj") || c.String("mmproj") == "" {
		return nil
	}
	return Use(ctx, c, c.String("mmproj"), "mmproj")
}
