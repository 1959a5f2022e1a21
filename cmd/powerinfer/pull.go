package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

func pullCommand() *cli.Command {
	return &cli.Command{
		Name: "pull", Usage: "download models from the Hugging Face hub, or update them",
		ArgsUsage: "[NAME]...",
		Description: `NAME is USER/REPO[:QUANT] of the hub, USER/REPO/FILE.gguf, an address there, or a short name such as qwen3:0.6b. Without a
NAME the short names are listed, as powerinfer models does.
Files go to the cache that Python's huggingface_hub and llama.cpp use, and are found there by all of them: $HF_HOME/hub, usually
~/.cache/huggingface/hub. A download that was interrupted goes on where it ended. The path of each model is printed.`,
		Flags: append(flags.Access(), &cli.BoolFlag{Name: "no-mmproj", Usage: "without the file that shows pictures to a model"}, &cli.BoolFlag{Name: "no-draft", Usage: "without the draft model of a model's repository"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() == 0 {
				return printShorts(ctx, c)
			}
			if c.NArg() > 1 && c.IsSet("hf-file") {
				return errors.New("--hf-file is of one repository; name one, or write user/repo/file.gguf")
			}
			h, err := modelname.Hub(c)
			if err != nil {
				return err
			}
			for _, text := range c.Args().Slice() {
				n, err := modelname.OfHub(c, text)
				if err != nil {
					return err
				}
				m, err := modelname.Bring(ctx, h, text, n, h.Pull)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(screen.Out, m.Path()); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
