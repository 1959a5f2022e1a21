package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// grammarFlags constrain what is generated.
func grammarFlags() []cli.Flag {
	return flags.About(flags.FormSubject, []cli.Flag{
		&cli.StringFlag{Name: "grammar", Usage: "generate only what this `GBNF` grammar allows"},
		&cli.StringFlag{Name: "grammar-file", Usage: "read the grammar from `FILE`"},
		&cli.StringFlag{Name: "json-schema", Aliases: []string{"j"}, Usage: "generate only JSON that is valid by this `SCHEMA`; {} is any JSON value"},
		&cli.StringFlag{Name: "json-schema-file", Aliases: []string{"jf"}, Usage: "read the JSON Schema from `FILE`"},
	})
}

// readGrammar sets g's grammar or schema from grammarFlags, and refuses one that cannot be read.
func readGrammar(c *cli.Command, g *powerinfer.Generation) error {
	var given []string
	for _, name := range []string{"grammar", "grammar-file", "json-schema", "json-schema-file"} {
		if c.IsSet(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) == 0 {
		return nil
	}
	if len(given) > 1 {
		return fmt.Errorf("%s each name a grammar; give one", strings.Join(given, " and "))
	}
	text := c.String(given[0][2:])
	if name, ok := strings.CutSuffix(given[0], "-file"); ok {
		var err error
		if text, err = readFile(text, wholefile.Setting); err != nil {
			return fmt.Errorf("%s: %w", name+"-file", err)
		}
	}
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("%s is empty; leave it out to allow anything", given[0])
	}
	if strings.HasPrefix(given[0], "--json") {
		g.Schema = text
	} else {
		g.Grammar = text
	}
	if err := g.Validate(); err != nil {
		return fmt.Errorf("%s: %w", given[0], err)
	}
	return nil
}
