package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/client"
)

func healthCommand() *cli.Command {
	return &cli.Command{
		Name: "health", Usage: "say whether a server answers and its model is loaded", ArgsUsage: "[URL]",
		Description: `Asks a server's /health and ends with status 0 where it can answer requests, 1 where it cannot yet, or is not there.
Containers are checked by it: an image needs no shell and no curl. Without a URL it asks the port or socket on this machine
that serve listens on by the same flags or variables, over TLS where serve has a certificate. A URL may be unix:PATH.`,
		Flags: append(serverFlags(), &cli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "`TIME` that the answer may take"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return fmt.Errorf("unexpected argument %q: one server at a time", c.Args().Get(1))
			}
			address := client.URL(c.String("host"), c.Int("port"), c.String("ssl-cert-file") != "")
			if c.Args().Present() {
				address = c.Args().First()
			}
			ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
			defer cancel()
			if err := (client.Server{Address: address, Certificate: c.String("ssl-cert-file")}).Healthy(ctx); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.Root().Writer, address+" is ready")
			return err
		},
	}
}
