package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/outfile"
)

func convertCommand() *cli.Command {
	return &cli.Command{
		Name: "convert", Usage: "turn a Hugging Face folder into a GGUF file", ArgsUsage: "FOLDER",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "outfile", Usage: "GGUF `FILE` to write; default: FOLDER-TYPE.gguf here"},
			&cli.StringFlag{Name: "outtype", Value: "f16", Usage: "`TYPE` of the matrices: " + convert.OutTypes},
			&cli.StringFlag{Name: "model-name", Usage: "`NAME` to write as general.name; default: config.json's, else FOLDER's"},
		},
		Action: convertModel,
	}
}

func convertModel(ctx context.Context, c *cli.Command) error {
	if c.NArg() != 1 {
		return errors.New("give one Hugging Face folder: powerinfer convert FOLDER --outfile FILE")
	}
	typ, err := convert.ParseOutType(c.String("outtype"))
	if err != nil {
		return fmt.Errorf("--outtype: %w", err)
	}
	dir := c.Args().First()
	out := c.String("outfile")
	if out == "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		out = fmt.Sprintf("%s-%s.gguf", filepath.Base(abs), strings.ToLower(c.String("outtype")))
	}
	if err := outfile.Check(out); err != nil {
		return err
	}
	bar := newProgress("converting", unitBytes)
	err = convert.HuggingFace(dir, out, convert.Options{
		OutType: typ, Name: c.String("model-name"), Progress: untilCancelled(ctx, bar.set),
		Notes: func(s string) { fmt.Fprintln(os.Stderr, "note:", s) },
	})
	bar.finish()
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wrote", out)
	return nil
}
