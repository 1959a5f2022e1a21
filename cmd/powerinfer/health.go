package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// mostHealth bounds the bytes that are read of an answer: what is at that address may be no server of ours.
const mostHealth = 64 << 10

func healthCommand() *cli.Command {
	return &cli.Command{
		Name: "health", Usage: "say whether a server answers and its model is loaded", ArgsUsage: "[URL]",
		Description: `Asks a server's /health and ends with status 0 where it can answer requests, 1 where it cannot yet, or is not there.
Containers are checked by it: an image needs no shell and no curl. Without a URL it asks the port on this machine that
serve listens on by the same flags or variables.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "`ADDRESS` of the server", Sources: env("HOST")},
			&cli.IntFlag{Name: "port", Value: 8080, Usage: "its port", Sources: env("PORT")},
			&cli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "`TIME` that the answer may take"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return fmt.Errorf("unexpected argument %q: one server at a time", c.Args().Get(1))
			}
			address := serverURL(c.String("host"), c.Int("port"))
			if c.Args().Present() {
				address = c.Args().First()
			}
			ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
			defer cancel()
			return checkHealth(ctx, address)
		},
	}
}

// serverURL returns the address at which this machine reaches a server that listens at host and port. Where that is
// every address of the machine, the loopback's is one of them.
func serverURL(host string, port int) string {
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host = "127.0.0.1"; ip.To4() == nil {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// checkHealth returns nil where the server at address says that it is ready.
func checkHealth(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is no server's address; http://127.0.0.1:8080 is one", address)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/health"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("no server answers: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(answer.Body, mostHealth)).Decode(&body) == nil && body.Error.Message != "" {
		return fmt.Errorf("not ready: %s (%s)", body.Error.Message, answer.Status)
	}
	return fmt.Errorf("not ready: %s answers %s", u, answer.Status)
}
