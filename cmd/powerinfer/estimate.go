package main

import (
	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
)

// expects reports whether a command says what it will take: if somebody watches, or asked for it.
func expects(c *cli.Command) bool {
	return c.Bool("verbose") || screen.Err.IsTerminal()
}

// expect makes o report on standard error how much memory loading a model takes, and how long generating this many
// tokens will take; 0: their number is not known.
func expect(c *cli.Command, o *powerinfer.Options, tokens int) {
	if !expects(c) {
		return
	}
	last := ""
	o.Expect = func(m powerinfer.Memory, rate float64) {
		if line := summary.Expectation(m, rate, tokens); line != last { // the line changes when a GPU fails
			last = line
			screen.Note(line)
		}
	}
}
