package main

import (
	"slices"
	"testing"

	"github.com/urfave/cli/v3"
)

// TestHelpAllHasEveryFlag keeps subjects, which order --help-all, from losing a flag.
func TestHelpAllHasEveryFlag(t *testing.T) {
	for _, c := range command().Commands {
		flags := c.VisibleFlags()
		var listed []cli.Flag
		for _, s := range subjects {
			listed = append(listed, ofSubject(flags, s)...)
		}
		for _, f := range flags {
			if !slices.Contains(listed, f) {
				t.Errorf("powerinfer %s --help-all does not show --%s", c.Name, f.Names()[0])
			}
		}
	}
}
