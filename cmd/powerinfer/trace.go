package main

import (
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

func traceFlag() cli.Flag {
	return &cli.StringFlag{Name: "trace", Category: flags.LogSubject, Usage: "write when processor and GPU did what to `FILE`, in Chrome's format: open it with ui.perfetto.dev"}
}

// traceKind is the kind of traces in Chrome's format, of any program.
func traceKind() atomicfile.Kind {
	return atomicfile.Matches("a trace in Chrome's format", `^\{"(displayTimeUnit|traceEvents)"`)
}

// traced calls f and then writes its trace to the file of --trace. Without the flag the trace is nil. If f fails before
// the model computes anything, the file stays as it was.
func traced(c *cli.Command, f func(t *powerinfer.Trace) error) error {
	path := c.String("trace")
	if path == "" {
		return f(nil)
	}
	if err := atomicfile.Check(path, traceKind()); err != nil {
		return err
	}
	t := powerinfer.NewTrace()
	err := f(t)
	if err != nil && t.Empty() {
		return err
	}
	if failed := atomicfile.Write(path, traceKind(), func(o *atomicfile.File) error { return t.Write(o) }); err == nil {
		err = failed
	}
	if n := t.Dropped(); n > 0 {
		fmt.Fprintf(screen.Err, "note: the trace ends early, %d spans found no room in it\n", n)
	}
	return err
}
