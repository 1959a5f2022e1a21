package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// report is a section in Markdown, which is shown while it is written.
type report struct {
	text bytes.Buffer
	out  io.Writer // of both
}

func newReport(shown io.Writer) *report {
	r := &report{}
	r.out = io.MultiWriter(&r.text, shown)
	return r
}

// say writes a paragraph.
func (r *report) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n\n", args...) }

// table writes a head and rows.
func (r *report) table(head []string, rows ...[]string) {
	r.row(head)
	r.row(strings.Split(strings.Repeat("---,", len(head)-1)+"---", ","))
	for _, row := range rows {
		r.row(row)
	}
	fmt.Fprintln(r.out)
}

// row writes a table's row.
func (r *report) row(cells []string) {
	for i, c := range cells {
		cells[i] = strings.NewReplacer("|", "\\|", "\n", " ").Replace(c)
	}
	fmt.Fprintf(r.out, "| %s |\n", strings.Join(cells, " | "))
}

func (r *report) write(path string) error {
	return atomicfile.Write(path, atomicfile.Kind{Shared: true}, func(f *atomicfile.File) error {
		_, err := f.Write(r.text.Bytes())
		return err
	})
}

// say tells what is going on, beside the report.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// join writes report.md of the sections that there are, of this and earlier runs.
func (c *check) join() error {
	r := newReport(io.Discard)
	gpu := c.info.Name
	if gpu == "" {
		gpu = "no GPU"
	}
	r.say("# GPU check: %s", gpu)
	r.say("%s, %s, commit %s, %s.", hw.Detect().Name, c.info.Driver, commit(), time.Now().UTC().Format("2006-01-02"))
	for i := range parts() {
		text, err := os.ReadFile(c.section(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		r.text.Write(text)
	}
	path := filepath.Join(c.out, "report.md")
	if err := r.write(path); err != nil {
		return err
	}
	fmt.Printf("wrote %s\n", path)
	return nil
}

// commit returns what the program was built from.
func commit() string {
	revision, changed := "unknown", ""
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(len(s.Value), 10)]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
	}
	return revision + changed
}
