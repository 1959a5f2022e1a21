package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
)

func pullCommand() *cli.Command {
	return &cli.Command{
		Name: "pull", Usage: "download models from the Hugging Face hub, or update them",
		ArgsUsage: "[NAME]...",
		Description: `NAME is USER/REPO[:QUANT] of the hub, USER/REPO/FILE.gguf, an address there, or a short name such as qwen3:0.6b. Without a
NAME the short names are listed, as powerinfer models does.
Files go to the cache that Python's huggingface_hub and llama.cpp use, and are found there by all of them: $HF_HOME/hub, usually
~/.cache/huggingface/hub. A download that was interrupted goes on where it ended. The path of each model is printed.`,
		Flags: append(flags.Access(), &cli.BoolFlag{Name: "no-mmproj", Usage: "without the file that shows pictures to a model"}, &cli.BoolFlag{Name: "no-draft", Usage: "without the draft model of a model's repository"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() == 0 {
				return printShorts(ctx, c)
			}
			if c.NArg() > 1 && c.IsSet("hf-file") {
				return errors.New("--hf-file is of one repository; name one, or write user/repo/file.gguf")
			}
			h, err := openHub(c)
			if err != nil {
				return err
			}
			for _, text := range c.Args().Slice() {
				n, err := hubName(c, text)
				if err != nil {
					return err
				}
				m, err := bring(ctx, h, text, n, h.Pull)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(screen.Out, m.Path()); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Aliases: []string{"ls"}, Usage: "list the models in the Hugging Face cache and in a folder",
		Flags: []cli.Flag{
			flags.ModelsDir(),
			&cli.BoolFlag{Name: "json", Usage: "print them as one JSON array"},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			h, err := openHub(c)
			if err != nil {
				return err
			}
			models, err := h.List(flags.ReadModelsDirs(c)...)
			if err != nil {
				return err
			}
			list := make([]listed, len(models))
			for i, m := range models {
				list[i] = newListed(m)
			}
			if c.Bool("json") {
				return indented(list)
			}
			if len(list) == 0 {
				screen.Note(fmt.Sprintf("no model is cached in %s; powerinfer pull qwen3:0.6b downloads one, powerinfer models lists more", h.Folder()))
			}
			return printList(screen.Out, list)
		},
	}
}

// listed is a model as list shows it.
type listed struct {
	hub.Model
	*hub.Details
	Error string `json:"error,omitempty"` // why its file cannot be read
}

// newListed reads the header of a complete model.
func newListed(m hub.Model) listed {
	l := listed{Model: m}
	if !m.Complete {
		return l
	}
	f, err := gguf.Open(m.Path())
	if err != nil {
		l.Error = screen.Error(err)
		return l
	}
	defer f.Close()
	d := hub.Describe(f)
	l.Details = &d
	return l
}

// MarshalJSON leaves one field "quant": what the file's name tells is more exact, of mixtures of types.
func (l listed) MarshalJSON() ([]byte, error) {
	type plain struct {
		hub.Model
		Architecture string `json:"architecture,omitempty"`
		Parameters   int64  `json:"parameters,omitempty"`
		Context      uint64 `json:"context,omitempty"`
		Error        string `json:"error,omitempty"`
	}
	p := plain{Model: l.Model, Error: l.Error}
	p.Quant = l.quant()
	if l.Details != nil {
		p.Architecture, p.Parameters, p.Context = l.Architecture, l.Parameters, l.Context
	}
	return json.Marshal(p)
}

func (l *listed) quant() string {
	if l.Model.Quant == "" && l.Details != nil {
		return l.Details.Quant
	}
	return l.Model.Quant
}

// state says whether a model can be used.
func (l *listed) state() string {
	switch {
	case l.Error != "":
		return "damaged"
	case l.Complete:
		return "complete"
	case l.Size > l.Have:
		return fmt.Sprintf("%d %% there", 100*l.Have/max(1, l.Size))
	}
	return "parts are missing"
}

func printList(to io.Writer, list []listed) error {
	if len(list) == 0 {
		return nil
	}
	out := bufio.NewWriter(to)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tquant\tsize\tfamily\tparameters\tmodified\tstate")
	for _, l := range list {
		family, parameters, modified := "", "", ""
		if l.Details != nil {
			family, parameters = screen.Plain(l.Architecture), quantity.Parameters(l.Parameters)
		}
		if !l.Modified.IsZero() {
			modified = l.Modified.Local().Format("2006-01-02 15:04")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", screen.Plain(l.Name), l.quant(), hub.Bytes(l.Size), family, parameters, modified, l.state())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Flush()
}

// indented prints v as JSON that people can read.
func indented(v any) error {
	enc := json.NewEncoder(screen.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func rmCommand() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove models from the Hugging Face cache",
		ArgsUsage: "NAME...",
		Description: `NAME is USER/REPO[:QUANT] or a short name. Without QUANT or the name of a file the whole repository is removed, with what other programs downloaded of it.
Content that another file of the repository uses stays.`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"}},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() == 0 {
				return errors.New("name the models to remove, as powerinfer list does")
			}
			h, err := openHub(c)
			if err != nil {
				return err
			}
			var names []hub.Name
			for _, text := range c.Args().Slice() {
				n, err := hubModel(text)
				if err != nil {
					if _, missing := os.Stat(text); missing == nil {
						return fmt.Errorf("%s is a file of yours; rm removes models of the cache only, by the names that powerinfer list shows", text)
					}
					return err
				}
				names = append(names, n)
			}
			for _, n := range names {
				if err := removeModel(ctx, h, n, c.Bool("yes")); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func removeModel(ctx context.Context, h *hub.Hub, n hub.Name, yes bool) error {
	would, err := h.Removable(ctx, n)
	if err != nil {
		return err
	}
	what := n.String()
	if len(would.Models) > 0 && !slices.Equal(would.Models, []string{what}) {
		what += " (" + strings.Join(would.Models, ", ") + ")"
	}
	if !yes {
		if !screen.Interactive() {
			return fmt.Errorf("%s would be removed, %s; -y confirms it", what, hub.Bytes(would.Bytes))
		}
		fmt.Fprintf(screen.Out, "remove %s, %s? [y/N] ", what, hub.Bytes(would.Bytes))
		if ok, err := confirmed(ctx); err != nil || !ok {
			return err
		}
	}
	gone, err := h.Remove(ctx, n)
	if err != nil {
		return err
	}
	fmt.Fprintf(screen.Err, "removed %s, %s\n", what, hub.Bytes(gone.Bytes))
	return nil
}

// confirmed reads whether the user says yes.
func confirmed(ctx context.Context) (bool, error) {
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(screen.Out)
		return false, errInterrupted
	case a := <-answer:
		return a == "y" || a == "yes", nil
	}
}
