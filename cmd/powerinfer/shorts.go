package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// shortContext is the context, in tokens, for which the memory of models with short names is told.
const shortContext = 8192

// timedContext is the number of tokens of context that estimated speeds assume.
const timedContext = 1024

// assumedStream is the bandwidth of RAM, in bytes per second, of a machine that was not measured: two channels of DDR4.
const assumedStream = 30e9

func modelsCommand() *cli.Command {
	return &cli.Command{
		Name: "models", Usage: "list models to download by short names, and about how fast they are here",
		Description: fmt.Sprintf("Memory is that of the weights and of a context of %d tokens. Speeds are estimates from what a token\n"+
			"reads and from the bandwidth that powerinfer doctor measured, or an assumed one. A name with * is what\n"+
			"the family's name alone means; a quantisation may follow, as in qwen3:8b-q8_0.", shortContext),
		Flags: []cli.Flag{
			flags.Device(), machineFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print them as one JSON array"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return printShorts(ctx, c)
		},
	}
}

// shortRow is a model with a short name, as models shows it.
type shortRow struct {
	Name       string  `json:"name"`
	Also       string  `json:"also,omitempty"` // the family's name, where that alone means this model
	Hub        string  `json:"hub"`
	Bytes      int64   `json:"bytes"`  // bytes to download
	Memory     int64   `json:"memory"` // bytes
	Parameters float64 `json:"parameters"`
	Active     float64 `json:"active"` // parameters that a token needs
	About      string  `json:"about,omitempty"`
	Downloaded bool    `json:"downloaded"`
	Fits       bool    `json:"fits"`
	FromDisk   bool    `json:"from_disk,omitempty"`         // it does not fit, and its experts would stay on the disk
	Rate       float64 `json:"tokens_per_second,omitempty"` // about; 0: it cannot run
}

// shortMachine is the machine that models are listed for.
type shortMachine struct {
	*planner.Machine
	free    int64 // bytes of RAM
	assumed bool  // its bandwidth
}

// shortsMachine returns this machine, or the one that --machine describes.
func shortsMachine(ctx context.Context, c *cli.Command) (m shortMachine, err error) {
	if c.String("machine") == "" {
		memory, err := hw.ReadMemory()
		if err != nil {
			return m, err
		}
		if m.free = int64(memory.Available); !planner.Kept() {
			m.Machine, m.assumed = planner.Described(m.free, assumedStream), true
			return m, nil
		}
	}
	o, err := flags.ReadPlanner(c)
	if err != nil {
		return m, err
	}
	if m.Machine, err = planMachine(ctx, c, &o); err == nil && m.free == 0 {
		m.free = int64(m.Memory)
	}
	return m, err
}

// row returns what models says of a model on the machine. downloaded are the names of models that are here.
func (m *shortMachine) row(s *hub.Short, downloaded []string) (shortRow, error) {
	r := shortRow{
		Name: s.Name, Hub: s.At, Bytes: int64(s.Bytes), Memory: s.Memory(shortContext), Parameters: s.Parameters * 1e9, Active: s.Active * 1e9, About: s.About,
		Downloaded: slices.ContainsFunc(downloaded, func(name string) bool { return strings.EqualFold(name, s.At) }),
	}
	if s.Usual {
		r.Also = s.Family()
	}
	_, ram, err := m.About(planner.Outline{Bytes: r.Bytes, Read: s.Read(), KV: r.Memory - r.Bytes})
	if err != nil {
		return r, err
	}
	if r.Fits = ram <= m.free; !r.Fits {
		r.Rate, err = m.AboutOnDisk(planner.Outline{Bytes: r.Bytes, Read: s.Read(), KV: int64(s.Cache) << 10 * timedContext}, m.free)
		r.FromDisk = r.Rate > 0
		return r, err
	}
	r.Rate, _, err = m.About(planner.Outline{Bytes: r.Bytes, Read: s.Read(), KV: int64(s.Cache) << 10 * timedContext})
	return r, err
}

// printShorts lists the models that have short names.
func printShorts(ctx context.Context, c *cli.Command) error {
	m, err := shortsMachine(ctx, c)
	if err != nil {
		return err
	}
	h, err := openHub(c)
	if err != nil {
		return err
	}
	here, err := h.List()
	if err != nil {
		return err
	}
	var downloaded []string
	for _, l := range here {
		if l.Complete {
			downloaded = append(downloaded, l.Name, l.Repo)
		}
	}
	rows := []shortRow{}
	for _, s := range hub.Shorts() {
		r, err := m.row(&s, downloaded)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	if c.Bool("json") {
		return indented(rows)
	}
	if err := printShortRows(screen.Out, rows); err != nil {
		return err
	}
	screen.Note("* is what the family's name alone means, such as qwen3")
	screen.Note(m.says())
	screen.Note("powerinfer chat NAME downloads a model and talks; powerinfer pull NAME downloads it")
	return nil
}

// says tells what the speeds are from.
func (m *shortMachine) says() string {
	if m.assumed {
		return fmt.Sprintf("%.1f GB of memory are free; RAM of %d GB/s is assumed, and no GPU: powerinfer doctor measures", float64(m.free)/1e9, int(assumedStream/1e9))
	}
	gpus := "no GPU"
	if n := m.GPUs(); n > 0 {
		gpus = "a GPU"
		if n > 1 {
			gpus = fmt.Sprint(n, " GPUs")
		}
	}
	return fmt.Sprintf("%.1f GB of memory are free, and there is %s", float64(m.free)/1e9, gpus)
}

func printShortRows(to io.Writer, rows []shortRow) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	gb := func(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
	fmt.Fprintln(w, "name\tdownload\tmemory\tabout\t")
	for _, r := range rows {
		name, speed := r.Name, "too large"
		if r.Also != "" {
			name += " *"
		}
		if r.Fits || r.FromDisk {
			speed = quantity.Rounded(r.Rate) + " tokens/s"
		}
		var about []string
		if r.FromDisk {
			about = append(about, "from the disk")
		}
		if r.Downloaded {
			about = append(about, "downloaded")
		}
		if r.About != "" {
			about = append(about, r.About)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, gb(r.Bytes), gb(r.Memory), speed, strings.Join(about, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	out := bufio.NewWriter(to)
	for line := range strings.Lines(table.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.Flush()
}
