package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// grammarFlags constrain what is generated.
func grammarFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "grammar", Usage: "generate only what this `GBNF` grammar allows"},
		&cli.StringFlag{Name: "grammar-file", Usage: "read the grammar from `FILE`"},
		&cli.StringFlag{Name: "json-schema", Aliases: []string{"j"}, Usage: "generate only JSON that is valid by this `SCHEMA`; {} is any JSON value"},
		&cli.StringFlag{Name: "json-schema-file", Aliases: []string{"jf"}, Usage: "read the JSON Schema from `FILE`"},
	}
}

// readGrammar returns the grammar that grammarFlags name, nil for none.
func readGrammar(c *cli.Command) (*grammar.Grammar, error) {
	var given []string
	for _, name := range []string{"grammar", "grammar-file", "json-schema", "json-schema-file"} {
		if c.IsSet(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	if len(given) > 1 {
		return nil, fmt.Errorf("%s each name a grammar; give one", strings.Join(given, " and "))
	}
	text := c.String(given[0][2:])
	if name, ok := strings.CutSuffix(given[0], "-file"); ok {
		var err error
		if text, err = readFile(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name+"-file", err)
		}
	}
	var g *grammar.Grammar
	var err error
	if strings.HasPrefix(given[0], "--json") {
		g, err = grammar.FromSchema([]byte(text))
	} else {
		g, err = grammar.ParseGBNF(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", given[0], err)
	}
	return g, nil
}

// constrain returns g as a constraint on texts of the tokenizer's tokens, nil for nil.
func constrain(g *grammar.Grammar, tok *tokenizer.Tokenizer) (sample.Constraint, error) {
	if g == nil {
		return nil, nil
	}
	v, err := session.Vocabulary(tok)
	if err != nil {
		return nil, err
	}
	compiled, err := g.Compile(v)
	if err != nil {
		return nil, err
	}
	return compiled.NewState(), nil
}
