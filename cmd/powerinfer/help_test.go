package main

import (
	"slices"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/help"
)

// TestHelpAllHasEveryFlag: the order of --help-all by subject loses no flag.
func TestHelpAllHasEveryFlag(t *testing.T) {
	for _, c := range command().Commands {
		list := c.VisibleFlags()
		var listed []cli.Flag
		for _, s := range flags.Subjects {
			listed = append(listed, help.OfSubject(list, s)...)
		}
		for _, f := range list {
			if !slices.Contains(listed, f) {
				t.Errorf("powerinfer %s --help-all does not show --%s", c.Name, f.Names()[0])
			}
		}
	}
}
