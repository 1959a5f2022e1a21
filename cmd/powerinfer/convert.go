package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/convert"
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
	if err := replaceable(out); err != nil {
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

// replaceable refuses what a file must not be renamed over (root could replace a device), and folders that do not take
// files, before the work is done.
func replaceable(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; a model is not written to it", path)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".powerinfer.*")
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
