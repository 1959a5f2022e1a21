package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/planreport"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

func showCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "say what a model is, and how it would run here",
		ArgsUsage: "NAME|FILE",
		Description: "NAME is one that powerinfer list prints, or a short one: powerinfer models. Nothing is downloaded,\n" +
			"and no weights are loaded.",
		Flags: []cli.Flag{
			flags.ModelsDir(),
			&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "context in tokens to plan for; 0 is the model's own", Sources: flags.Env("CTX_SIZE")},
			flags.Device(), flags.VRAM(), machineFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print it as JSON"},
		},
		Action: show,
	}
}

// shown is the output of show for one model.
type shown struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes of all files
	hub.Details
	NameQuant string `json:"name_quant,omitempty"` // type according to the file name, which is more exact for mixtures
	Prepared  bool   `json:"prepared"`             // for --sparse predict
	Neurons   string `json:"neurons"`
	Sampling  string `json:"sampling,omitempty"` // advised by the file
	Tower     string `json:"mmproj,omitempty"`   // file of the vision tower
	Draft     string `json:"draft,omitempty"`    // file of a draft model
	Plan      string `json:"plan"`
}

func show(ctx context.Context, c *cli.Command) error {
	if c.NArg() != 1 {
		return errors.New("name one model, as powerinfer list does, or a file")
	}
	m, err := shownModel(ctx, c)
	if err != nil {
		return err
	}
	f, err := gguf.Open(m.Path())
	if err != nil {
		return err
	}
	defer f.Close()
	s := shown{Name: m.Name, Path: m.Path(), Size: m.Size, Details: hub.Describe(f), NameQuant: m.Quant, Tower: hub.TowerBeside(m.Path())}
	s.Draft = session.HeadBeside(f)
	if s.Prepared, s.Neurons, err = neuronState(f); err != nil {
		return err
	}
	_, said, _ := session.FileSampling(f, 0)
	s.Sampling = strings.Join(said, ", ")
	if s.Plan, err = planLine(ctx, c, f); err != nil {
		return err
	}
	if c.Bool("json") {
		return indented(s)
	}
	return s.print()
}

// shownModel finds the argument's model: a file, else a model of the folder or the cache.
func shownModel(ctx context.Context, c *cli.Command) (hub.Model, error) {
	name := c.Args().First()
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		m := hub.Model{Name: name, Quant: hub.Quant(name), Complete: true}
		paths := []string{name}
		if parts := gguf.Parts(name); len(parts) > 1 {
			paths = parts[:len(parts)-1] // the last one is the name again
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				m.Files, m.Size = append(m.Files, path), m.Size+info.Size()
			}
		}
		m.Files[0] = name
		return m, nil
	}
	h, err := modelname.Hub(c)
	if err != nil {
		return hub.Model{}, err
	}
	if _, at, ok := hub.FindShort(name); ok {
		m, err := h.Resolve(ctx, at)
		if errors.Is(err, hub.ErrNotFound) {
			err = fmt.Errorf("%s is %s, which is not here; powerinfer pull %s downloads it, and powerinfer models says what it takes", name, at, name)
		}
		return m, err
	}
	m, err := h.Lookup(ctx, name, flags.ReadModelsDirs(c)...)
	if !errors.Is(err, hub.ErrNotFound) {
		return m, err
	}
	if strings.HasSuffix(name, ".gguf") {
		return m, fmt.Errorf("there is no file %s, and %w", name, err)
	}
	if _, unnamed := modelname.Parse(name); unnamed != nil {
		return m, unnamed
	}
	return m, err
}

// neuronState says whether f has sorted neurons and predictors.
func neuronState(f *gguf.File) (ready bool, says string, err error) {
	if f.Magic == "PWRI" {
		return true, "predictors, in the original PowerInfer's form", nil
	}
	info, ok, err := prepared.Read(f)
	if err != nil || !ok {
		return false, "not prepared", err
	}
	n := 0
	for _, l := range info.Layers {
		if l.Mode == prepared.Predict {
			n++
		}
	}
	return true, fmt.Sprintf("prepared: hottest first, predicted in %d of %d layers", n, len(info.Layers)), nil
}

// planLine returns f's plan in a line.
func planLine(ctx context.Context, c *cli.Command, f *gguf.File) (string, error) {
	o, err := flags.ReadPlanner(c)
	if err != nil {
		return "", err
	}
	if n := c.Int("ctx-size"); n < 0 || n > 1<<30 {
		return "", fmt.Errorf("--ctx-size %d is not a number from 0 to %d", n, 1<<30)
	}
	b, err := modelcost.Of(f, modelcost.Options{Context: c.Int("ctx-size"), Law: modelcost.UsualLaw()})
	if err != nil {
		return "cannot be run: " + strings.TrimPrefix(screen.Error(err), f.Path+": "), nil
	}
	if !c.IsSet("machine") && !planner.Kept() {
		return "unknown: powerinfer doctor measures this machine, once", nil
	}
	m, err := planMachine(ctx, c, &o)
	if err != nil {
		return "", err
	}
	d, err := planreport.New(planner.With(m, b, o))
	if err != nil {
		return "cannot be run here: " + screen.Error(err), nil
	}
	return d.Line(), nil
}

func (s *shown) print() error {
	out := bufio.NewWriter(screen.Out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	number := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}
	quant := s.Quant
	if s.NameQuant != "" && s.NameQuant != s.Quant {
		quant = s.NameQuant + ", mostly " + s.Quant
	}
	template := "none: conversations are plain continuations"
	if s.Template {
		template = "yes"
	}
	row("name", screen.Plain(s.Name))
	row("title", screen.Plain(s.Title))
	row("file", screen.Plain(s.Path))
	row("size", hub.Bytes(s.Size))
	row("architecture", screen.Plain(s.Architecture))
	row("parameters", quantity.Parameters(s.Parameters))
	row("quant", quant)
	row("context", number(s.Context))
	row("layers", number(s.Layers))
	row("embedding", number(s.Embedding))
	row("chat template", template)
	if s.Tower != "" {
		row("pictures", "shown by "+screen.Plain(filepath.Base(s.Tower)))
	}
	if s.Draft != "" {
		row("draft model", screen.Plain(filepath.Base(s.Draft)))
	}
	row("licence", screen.Plain(s.Licence))
	row("sampling", screen.Plain(s.Sampling))
	row("neurons", s.Neurons)
	row("plan", s.Plan)
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Flush()
}
