// Package shortlist lists the models with short names, their memory, and their approximate speed on a machine.
package shortlist

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

// Context is the context of Row.Memory, in tokens.
const Context = 8192

// timedContext is the number of tokens of context that estimated speeds assume.
const timedContext = 1024

// assumedStream is the RAM bandwidth of a machine that was not measured, in bytes per second: two channels of DDR4.
const assumedStream = 30e9

// Row is a model with a short name.
type Row struct {
	Name       string  `json:"name"`
	Also       string  `json:"also,omitempty"` // the family's name, if it alone means this model
	Hub        string  `json:"hub"`
	Bytes      int64   `json:"bytes"`  // bytes to download
	Memory     int64   `json:"memory"` // bytes
	Parameters float64 `json:"parameters"`
	Active     float64 `json:"active"` // parameters that a token uses
	About      string  `json:"about,omitempty"`
	Downloaded bool    `json:"downloaded"`
	Fits       bool    `json:"fits"`
	FromDisk   bool    `json:"from_disk,omitempty"`         // it does not fit into RAM, so its experts would stay on the disk
	Rate       float64 `json:"tokens_per_second,omitempty"` // estimated; 0: it cannot run
}

// Machine is the machine that models are listed for.
type Machine struct {
	*planner.Machine
	Free    int64 // bytes of RAM
	assumed bool  // the bandwidth of RAM is assumedStream
}

// Assumed returns a machine with free bytes of RAM that was not measured.
func Assumed(free int64) Machine {
	return Machine{Machine: planner.Described(free, assumedStream), Free: free, assumed: true}
}

// Rows returns all models with short names. downloaded names the downloaded ones.
func (m *Machine) Rows(downloaded []string) ([]Row, error) {
	rows := []Row{}
	for _, s := range hub.Shorts() {
		r, err := m.row(&s, downloaded)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// row returns the row of a model.
func (m *Machine) row(s *hub.Short, downloaded []string) (Row, error) {
	r := Row{
		Name: s.Name, Hub: s.At, Bytes: int64(s.Bytes), Memory: s.Memory(Context), Parameters: s.Parameters * 1e9, Active: s.Active * 1e9, About: s.About,
		Downloaded: slices.ContainsFunc(downloaded, func(name string) bool { return strings.EqualFold(name, s.At) }),
	}
	if s.Usual {
		r.Also = s.Family()
	}
	_, ram, err := m.About(planner.Outline{Bytes: r.Bytes, Read: s.Read(), KV: r.Memory - r.Bytes})
	if err != nil {
		return r, err
	}
	if r.Fits = ram <= m.Free; !r.Fits {
		r.Rate, err = m.AboutOnDisk(planner.Outline{Bytes: r.Bytes, Read: s.Read(), KV: int64(s.Cache) << 10 * timedContext}, m.Free)
		r.FromDisk = r.Rate > 0
		return r, err
	}
	r.Rate, _, err = m.About(planner.Outline{Bytes: r.Bytes, Read: s.Read(), KV: int64(s.Cache) << 10 * timedContext})
	return r, err
}

// Says returns a line about the origin of the speeds.
func (m *Machine) Says() string {
	if m.assumed {
		return fmt.Sprintf("%.1f GB of memory are free; RAM of %d GB/s is assumed, and no GPU: powerinfer doctor measures", float64(m.Free)/1e9, int(assumedStream/1e9))
	}
	gpus := "no GPU"
	if n := m.GPUs(); n > 0 {
		gpus = "a GPU"
		if n > 1 {
			gpus = fmt.Sprint(n, " GPUs")
		}
	}
	return fmt.Sprintf("%.1f GB of memory are free, and there is %s", float64(m.Free)/1e9, gpus)
}

// Print writes rows as a table.
func Print(to io.Writer, rows []Row) error {
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
