package help

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// page returns what a command prints, given these arguments.
func page(t *testing.T, c *cli.Command, args ...string) string {
	t.Helper()
	cli.HelpPrinter = Print
	var out strings.Builder
	c.Writer, c.HideHelpCommand = &out, true
	if err := c.Run(context.Background(), append([]string{c.Name}, args...)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPage: a page has usage, flags, placeholders, defaults, spellings and variables.
func TestPage(t *testing.T) {
	c := &cli.Command{
		Name: "count", Usage: "count things", ArgsUsage: "[FILE]", UsageText: "count file",
		Description: "Things are\ncounted.\n\n  as they stand",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "most", Aliases: []string{"m", "limit"}, Value: 7, Usage: "count at most `N` things, which is a long enough text to be broken between two words"},
			&cli.BoolFlag{Name: "json", HideDefault: true, Usage: "print JSON", Sources: cli.EnvVars("JSON")},
		},
	}
	const want = `count: count things

Usage: count [flags] [FILE]

Things are counted.

  as they stand

Examples:
  count file

Flags:
  -m, --most N            count at most N things, which is a long enough text to
                          be broken between two words (default: 7) (also
                          --limit)
  --json                  print JSON [$JSON]
  -h, --help              show help
`
	if got := page(t, c, "--help"); got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}

// TestExtend: a command with many flags shows the first ones, and all in --help-all.
func TestExtend(t *testing.T) {
	many := func() *cli.Command {
		c := &cli.Command{Name: "many", Usage: "have flags", Flags: []cli.Flag{&cli.StringFlag{Name: "model", Category: "Model", Usage: "a model"}}}
		for i := range manyFlags {
			c.Flags = append(c.Flags, &cli.BoolFlag{Name: fmt.Sprintf("flag-%d", i), Usage: "a flag"})
		}
		Extend(c)
		return c
	}
	first, all := page(t, many(), "--help"), page(t, many(), "--help-all")
	if strings.Contains(first, "flag-3") || !strings.Contains(first, "--model") || !strings.Contains(first, "more flags, by subject: many --help-all") {
		t.Errorf("--help shows\n%s", first)
	}
	if !strings.Contains(all, "\nModel:\n  --model TEXT") || !strings.Contains(all, "\nThis command:\n") || !strings.Contains(all, "--flag-23") {
		t.Errorf("--help-all shows\n%s", all)
	}
}
