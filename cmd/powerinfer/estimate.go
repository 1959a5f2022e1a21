package main

import (
	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/summary"
)

// expects reports whether a command says what it will take: where somebody looks on, or asked for it.
func expects(c *cli.Command) bool {
	return c.Bool("verbose") || screen.Err.IsTerminal()
}

// expect has o tell on standard error what loading a model takes of memory, and how long generating so many tokens will
// then take; 0: their number is not known.
func expect(c *cli.Command, o *powerinfer.Options, tokens int) {
	if !expects(c) {
		return
	}
	last := ""
	o.Expect = func(m powerinfer.Memory, rate float64) {
		if line := summary.Expectation(m, rate, tokens); line != last { // it is told again where a GPU fails
			last = line
			screen.Note(line)
		}
	}
}
