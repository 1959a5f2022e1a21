package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

func traceFlag() cli.Flag {
	return &cli.StringFlag{Name: "trace", Usage: "write when processor and GPU did what to `FILE`, in Chrome's format: open it with ui.perfetto.dev"}
}

// traced calls f with a log, nil without the flag, and then writes it to the file of --trace. If f failed before the model computed
// anything, an earlier file stays as it was.
func traced(c *cli.Command, f func(l *trace.Log) error) error {
	path := c.String("trace")
	if path == "" {
		return f(nil)
	}
	if err := atomicfile.Check(path); err != nil {
		return err
	}
	l := trace.New()
	err := f(l)
	if err != nil && l.Empty() {
		return err
	}
	if failed := atomicfile.Write(path, func(o *atomicfile.File) error { return l.Write(o) }); err == nil {
		err = failed
	}
	if n := l.Left(); n > 0 {
		fmt.Fprintf(os.Stderr, "note: the trace ends early, %d spans found no room in it\n", n)
	}
	return err
}
