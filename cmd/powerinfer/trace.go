package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/outfile"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

func traceFlag() cli.Flag {
	return &cli.StringFlag{Name: "trace", Usage: "write when processor and card did what to `FILE`, in Chrome's format: open it with ui.perfetto.dev"}
}

// traced calls f with a log that goes to the file of --trace behind it, whether or not f failed; nil without the flag.
func traced(c *cli.Command, f func(l *trace.Log) error) error {
	path := c.String("trace")
	if path == "" {
		return f(nil)
	}
	if err := outfile.Check(path); err != nil {
		return err
	}
	l := trace.New()
	err := f(l)
	if failed := outfile.Write(path, func(o *outfile.File) error { return l.Write(o) }); err == nil {
		err = failed
	}
	if n := l.Left(); n > 0 {
		fmt.Fprintf(os.Stderr, "note: the trace ends early, %d spans found no room in it\n", n)
	}
	return err
}
