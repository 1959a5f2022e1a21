package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/hub"
)

func rmCommand() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove models from the Hugging Face cache",
		ArgsUsage: "NAME...",
		Description: `NAME is USER/REPO[:QUANT] or a short name. Without QUANT or the name of a file the whole repository is removed, with what other programs downloaded of it.
Content that another file of the repository uses stays.`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"}},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() == 0 {
				return errors.New("name the models to remove, as powerinfer list does")
			}
			h, err := modelname.Hub(c)
			if err != nil {
				return err
			}
			var names []hub.Name
			for _, text := range c.Args().Slice() {
				n, err := modelname.Parse(text)
				if err != nil {
					if _, missing := os.Stat(text); missing == nil {
						return fmt.Errorf("%s is a file of yours; rm removes models of the cache only, by the names that powerinfer list shows", text)
					}
					return err
				}
				names = append(names, n)
			}
			for _, n := range names {
				if err := removeModel(ctx, h, n, c.Bool("yes")); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func removeModel(ctx context.Context, h *hub.Hub, n hub.Name, yes bool) error {
	would, err := h.Removable(ctx, n)
	if err != nil {
		return err
	}
	what := n.String()
	if len(would.Models) > 0 && !slices.Equal(would.Models, []string{what}) {
		what += " (" + strings.Join(would.Models, ", ") + ")"
	}
	if !yes {
		if !screen.Interactive() {
			return fmt.Errorf("%s would be removed, %s; -y confirms it", what, hub.Bytes(would.Bytes))
		}
		fmt.Fprintf(screen.Out, "remove %s, %s? [y/N] ", what, hub.Bytes(would.Bytes))
		if ok, err := confirmed(ctx); err != nil || !ok {
			return err
		}
	}
	gone, err := h.Remove(ctx, n)
	if err != nil {
		return err
	}
	fmt.Fprintf(screen.Err, "removed %s, %s\n", what, hub.Bytes(gone.Bytes))
	return nil
}

// confirmed asks the user and reports whether the answer is yes.
func confirmed(ctx context.Context) (bool, error) {
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(screen.Out)
		return false, errInterrupted
	case a := <-answer:
		return a == "y" || a == "yes", nil
	}
}
