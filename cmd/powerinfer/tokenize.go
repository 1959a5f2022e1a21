package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

func tokenizeCommand() *cli.Command {
	return &cli.Command{
		Name: "tokenize", Usage: "print the tokens of a text",
		Flags: append(flags.Model(),
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "`TEXT` to tokenize"},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the text from `FILE`"},
			&cli.BoolFlag{Name: "stdin", Usage: "read the text from standard input"},
			&cli.BoolFlag{Name: "ids", Usage: "print only the ids, as [1, 2, 3]"},
			&cli.BoolFlag{Name: "no-escape", Usage: `take \n, \t and the like in -p literally`},
			&cli.BoolFlag{Name: "no-bos", Usage: "do not add the token that begins a text"},
			&cli.BoolFlag{Name: "no-parse-special", Usage: "take special tokens' names in the text as text"},
			&cli.BoolFlag{Name: "show-count", Usage: "print the number of tokens at the end"},
		),
		Action: tokenize,
	}
}

func tokenize(_ context.Context, c *cli.Command) error {
	text, err := tokenizeText(c)
	if err != nil {
		return err
	}
	f, err := openModel(c)
	if err != nil {
		return err
	}
	defer f.Close()
	tok, err := model.Tokenizer(f)
	if err != nil {
		return err
	}
	if note := tok.Note(); note != "" {
		fmt.Fprintln(screen.Err, note)
	}
	ids := tok.Encode(text, !c.Bool("no-bos"), !c.Bool("no-parse-special"))
	out := bufio.NewWriter(screen.Out)
	if c.Bool("ids") {
		words := make([]string, len(ids))
		for i, id := range ids {
			words[i] = strconv.Itoa(int(id))
		}
		fmt.Fprintf(out, "[%s]\n", strings.Join(words, ", "))
	} else {
		for _, id := range ids {
			fmt.Fprintf(out, "%6d -> '%s'\n", id, tok.Piece(id, true))
		}
	}
	if c.Bool("show-count") {
		fmt.Fprintf(out, "Total number of tokens: %d\n", len(ids))
	}
	return out.Flush()
}

// tokenizeText reads the text from exactly one of -p, -f and --stdin.
func tokenizeText(c *cli.Command) (string, error) {
	given := 0
	for _, name := range []string{"prompt", "file", "stdin"} {
		if c.IsSet(name) {
			given++
		}
	}
	if given == 0 {
		if text, err := modelname.Piped(); err != nil || text != "" {
			return text, err
		}
	}
	if given != 1 {
		return "", errors.New("give the text as words, or by exactly one of -p, -f and --stdin")
	}
	var data []byte
	var err error
	switch {
	case c.Bool("stdin") || c.String("file") == "-":
		data, err = wholefile.ReadFrom(os.Stdin, wholefile.Text)
	case c.IsSet("file"):
		data, err = wholefile.Read(c.String("file"), wholefile.Text)
	default:
		return flags.Prompt(c), nil
	}
	return string(data), err
}
