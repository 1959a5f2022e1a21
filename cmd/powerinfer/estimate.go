package main

import (
	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
)

// expects reports whether the command shows estimates: on a terminal, or if asked to.
func expects(c *cli.Command) bool {
	return c.Bool("verbose") || screen.Err.IsTerminal()
}

// expect makes o print the memory that the model takes and the time for generating tokens; 0: an unknown number.
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
