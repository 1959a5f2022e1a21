package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// promptCacheFlags returns the flags of run for prompt caches, as in llama.cpp's completion tool.
func promptCacheFlags() []cli.Flag {
	return flags.About(flags.ContextSubject, []cli.Flag{
		&cli.StringFlag{Name: "prompt-cache", Usage: "keep the prompt's keys and values in `FILE`, and evaluate only what it does not hold yet; without a prompt the file's text is continued"},
		&cli.BoolFlag{Name: "prompt-cache-all", Usage: "keep those of the generated text in it, too"},
		&cli.BoolFlag{Name: "prompt-cache-ro", Usage: "only read it"},
	})
}

// promptCache is a file of a prompt's keys and values.
type promptCache struct {
	path          string // empty: no file
	all, readOnly bool
	held          []int32 // the text that the file holds keys and values of
}

func readPromptCache(c *cli.Command) (promptCache, error) {
	p := promptCache{path: c.String("prompt-cache"), all: c.Bool("prompt-cache-all"), readOnly: c.Bool("prompt-cache-ro")}
	switch {
	case p.path == "" && (p.all || p.readOnly || c.IsSet("prompt-cache")):
		return p, errors.New("--prompt-cache names no file; --prompt-cache-all and --prompt-cache-ro say what is done with it")
	case p.all && p.readOnly:
		return p, errors.New("--prompt-cache-all writes the file and --prompt-cache-ro does not; give one")
	}
	if p.path != "" && !p.readOnly {
		if err := atomicfile.Check(p.path, atomicfile.Kind{}); err != nil {
			return p, fmt.Errorf("--prompt-cache: %w", err)
		}
	}
	return p, nil
}

// load restores the file into m's cache. A missing file, or an empty one, as mktemp makes it, is written later.
func (p *promptCache) load(ctx context.Context, m *powerinfer.Model) error {
	if p.path == "" {
		return nil
	}
	if info, err := os.Stat(p.path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		if p.readOnly {
			fmt.Fprintf(screen.Err, "note: %s holds no keys and values yet, and --prompt-cache-ro writes none\n", p.path)
		}
		return nil
	}
	s, err := m.RestoreCache(ctx, p.path)
	if err != nil {
		return fmt.Errorf("--prompt-cache: %w; remove the file or name another one", err)
	}
	p.held = s.Tokens
	return nil
}

// save writes the part of the prompt that the file lacks and, with all, the generated text. It does so for an
// interrupted generation, too.
func (p *promptCache) save(ctx context.Context, m *powerinfer.Model, prompt, generated []int32) error {
	if p.path == "" || p.readOnly {
		return nil
	}
	text := prompt
	if p.all {
		text = slices.Concat(prompt, generated)
	}
	if len(p.held) >= len(text) && slices.Equal(p.held[:len(text)], text) {
		return nil
	}
	_, err := m.SaveCache(context.WithoutCancel(ctx), p.path, text, 0)
	if errors.Is(err, powerinfer.ErrNotCached) { // interrupted before anything was computed
		return nil
	}
	if err != nil {
		return fmt.Errorf("--prompt-cache: %w", err)
	}
	return nil
}
