package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
)

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
			h, err := modelname.Hub(c)
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
	Error string `json:"error,omitempty"` // why the file cannot be read
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

// MarshalJSON writes one field "quant": the file's name is more exact for mixtures of types.
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

// state says in a word whether a model can be used.
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
