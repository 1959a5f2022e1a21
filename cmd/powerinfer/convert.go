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
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func convertCommand() *cli.Command {
	return &cli.Command{
		Name: "convert", Usage: "turn a Hugging Face folder into a GGUF file", ArgsUsage: "FOLDER",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "outfile", Usage: "GGUF `FILE` to write; default: FOLDER's name, type and .gguf"},
			&cli.StringFlag{Name: "outtype", Value: "f16", Usage: "f32, f16, bf16, q8_0 or q4_0"},
		},
		Action: convertModel,
	}
}

func convertModel(_ context.Context, c *cli.Command) error {
	if c.NArg() != 1 {
		return errors.New("give one Hugging Face folder: powerinfer convert FOLDER --outfile FILE")
	}
	name := strings.ToLower(c.String("outtype"))
	typ, ok := map[string]quant.Type{"f32": quant.F32, "f16": quant.F16, "bf16": quant.BF16, "q8_0": quant.Q8_0, "q4_0": quant.Q4_0}[name]
	if !ok {
		return fmt.Errorf("--outtype %q is not one of f32, f16, bf16, q8_0, q4_0", name)
	}
	dir := c.Args().First()
	out := c.String("outfile")
	if out == "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		out = fmt.Sprintf("%s-%s.gguf", filepath.Base(abs), name)
	}
	bar := newProgress("converting", unitBytes)
	err := convert.HuggingFace(dir, out, convert.Options{
		OutType: typ, Progress: bar.set,
		Notes: func(s string) { fmt.Fprintln(os.Stderr, "note:", s) },
	})
	bar.finish()
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wrote", out)
	return nil
}
