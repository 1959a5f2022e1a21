package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// usualSavedCache is the default of --save-cache in MiB: some 16,000 tokens of an 8B model of Llama 3's shape.
const usualSavedCache = 2048

// chatFlags are of conversations.
func chatFlags() []cli.Flag {
	return about(chatSubject, slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "system-prompt", Aliases: []string{"sys"}, Usage: "begin the conversation with this system `TEXT`"},
		&cli.StringFlag{Name: "system-prompt-file", Aliases: []string{"sysf"}, Usage: "read the system's text from `FILE`"},
		&cli.BoolFlag{Name: "single-turn", Aliases: []string{"st"}, Usage: "end after one answer"},
		&cli.BoolFlag{Name: "multiline-input", Aliases: []string{"mli"}, Usage: `a message goes on over lines until one ends with \ or /`},
		&cli.BoolFlag{Name: "simple-io", Usage: "read plain lines and write plain text, without colours and line editing"},
		&cli.Int64Flag{Name: "save-cache", Value: usualSavedCache, Usage: "`MIB` that /save may write of keys and values beside a conversation; 0: none"},
	}, templateFlags()))
}

// templateFlags choose a chat template.
func templateFlags() []cli.Flag {
	return about(chatSubject, []cli.Flag{
		&cli.StringFlag{Name: "chat-template", Usage: "`NAME` of a built-in chat template, or a template itself (Jinja); default: the model's", Sources: env("CHAT_TEMPLATE")},
		&cli.StringFlag{Name: "chat-template-file", Usage: "read the chat template from `FILE`", Sources: env("CHAT_TEMPLATE_FILE")},
		&cli.StringFlag{Name: "chat-template-kwargs", Usage: `more variables for the template, a JSON object such as '{"enable_thinking":false}'`, Sources: env("CHAT_TEMPLATE_KWARGS")},
	})
}

// modeFlags choose between a conversation and a continuation.
func modeFlags() []cli.Flag {
	return about(chatSubject, []cli.Flag{
		&cli.BoolFlag{Name: "conversation", Aliases: []string{"cnv"}, Usage: "talk, as powerinfer chat does; the default on a terminal without -p and -f"},
		&cli.BoolFlag{Name: "no-conversation", Aliases: []string{"no-cnv"}, Usage: "continue a text; the default with -p or -f"},
	})
}

// talks reports whether run is to hold a conversation.
func talks(c *cli.Command) bool {
	if c.Bool("no-conversation") {
		return false
	}
	onlyChat := slices.ContainsFunc(chatFlags(), func(f cli.Flag) bool {
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

// readKwargs returns the template's variables.
func readKwargs(c *cli.Command) (map[string]json.RawMessage, error) {
	text := c.String("chat-template-kwargs")
	if text == "" {
		return nil, nil
	}
	var kwargs map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &kwargs); err != nil {
		return nil, fmt.Errorf("--chat-template-kwargs is no JSON object: %w", err)
	}
	return kwargs, nil
}
