package checkup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// Report is a section in Markdown, which is shown while it is written.
type Report struct {
	text bytes.Buffer
	out  io.Writer // text and where it is shown
}

// NewReport returns an empty section that is also written to shown.
func NewReport(shown io.Writer) *Report {
	r := &Report{}
	r.out = io.MultiWriter(&r.text, shown)
	return r
}

// Text returns what was written.
func (r *Report) Text() string { return r.text.String() }

// Say writes a paragraph.
func (r *Report) Say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n\n", args...) }

// Table writes a head and rows.
func (r *Report) Table(head []string, rows ...[]string) {
	r.row(head)
	r.row(strings.Split(strings.Repeat("---,", len(head)-1)+"---", ","))
	for _, row := range rows {
		r.row(row)
	}
	fmt.Fprintln(r.out)
}

// row writes a table's row.
func (r *Report) row(cells []string) {
	for i, c := range cells {
		cells[i] = strings.NewReplacer("|", "\\|", "\n", " ").Replace(c)
	}
	fmt.Fprintf(r.out, "| %s |\n", strings.Join(cells, " | "))
}

// Write writes the section to a file.
func (r *Report) Write(path string) error {
	return atomicfile.Write(path, atomicfile.Kind{Shared: true}, func(f *atomicfile.File) error {
		_, err := f.Write(r.text.Bytes())
		return err
	})
}

// Progress prints the present work on standard error. It is not part of the report.
func Progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// writeJoined writes a title, a paragraph and those sections that exist.
func writeJoined(path, title, about string, sections []string) error {
	r := NewReport(io.Discard)
	r.Say("# %s", title)
	r.Say("%s", about)
	for _, s := range sections {
		text, err := os.ReadFile(s)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		r.text.Write(text)
	}
	return r.Write(path)
}

// commit returns the commit that the program was built from.
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
