package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// talks reports whether run is to hold a conversation.
func talks(c *cli.Command) bool {
	if c.Bool("no-conversation") {
		return false
	}
	onlyChat := slices.ContainsFunc(flags.Chat(), func(f cli.Flag) bool {
		return c.IsSet(f.Names()[0]) && !c.IsSet("prompt") && !c.IsSet("file")
	})
	if c.IsSet("prompt-cache") && !c.Bool("conversation") {
		return false
	}
	return c.Bool("conversation") || onlyChat || !c.IsSet("prompt") && !c.IsSet("file") && screen.Interactive()
}

// readSystem returns the system's text.
func readSystem(c *cli.Command) (string, error) {
	if !c.IsSet("system-prompt-file") {
		return c.String("system-prompt"), nil
	}
	if c.IsSet("system-prompt") {
		return "", errors.New("--system-prompt and --system-prompt-file both name the system's text; give one")
	}
	text, err := readFile(c.String("system-prompt-file"), wholefile.Setting)
	return strings.TrimSuffix(text, "\n"), err
}

// modelTemplate returns the template that the flags name or that the model's file holds, nil where there is none. It is
// read before the model is loaded, so that a template that cannot be used is known at once.
func modelTemplate(c *cli.Command) (*chat.Template, error) {
	f, err := openModel(c)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readTemplate(c, f)
}

// readTemplate returns the template that the flags name or that f holds, nil where there is none.
func readTemplate(c *cli.Command, f *gguf.File) (*chat.Template, error) {
	source := c.String("chat-template")
	if c.IsSet("chat-template-file") {
		if source != "" {
			return nil, errors.New("--chat-template and --chat-template-file both name a template; give one")
		}
		var err error
		if source, err = readFile(c.String("chat-template-file"), wholefile.Setting); err != nil {
			return nil, fmt.Errorf("--chat-template-file: %w", err)
		}
	}
	if source != "" {
		return chat.Named(source, f)
	}
	t, err := chat.FromGGUF(f, "")
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, nil
	}
	return t, err
}
