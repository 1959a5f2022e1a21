package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/client"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/hub"
)

// serverFlags name the server to ask.
func serverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "`ADDRESS` of the server; one that ends with .sock is a socket in the file system", Sources: flags.Env("HOST")},
		&cli.IntFlag{Name: "port", Value: 8080, Usage: "its port", Sources: flags.Env("PORT")},
		&cli.StringFlag{Name: "ssl-cert-file", Usage: "PEM `FILE` of the server's certificate, which is trusted whatever its name and whoever signed it", Sources: flags.Env("SSL_CERT_FILE")},
	}
}

// keyFlag is for commands that ask a server for more than its health.
func keyFlag() cli.Flag {
	return &cli.StringFlag{Name: "api-key", Usage: "a `KEY` of the server, if it asks for one", Sources: cli.NewValueSourceChain(flags.Variable("LLAMA_API_KEY"))}
}

func psCommand() *cli.Command {
	return &cli.Command{
		Name: "ps", Usage: "list the models that a running server has loaded",
		Description: "Asks the server that powerinfer serve started on this machine, by the same flags or variables.",
		Flags:       append(serverFlags(), keyFlag(), &cli.BoolFlag{Name: "json", Usage: "print the server's answer, as Ollama's API has it"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			body, err := askServer(ctx, c, http.MethodGet, "/api/ps", nil)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				_, err := fmt.Fprintf(c.Root().Writer, "%s\n", bytes.TrimSpace(body))
				return err
			}
			list, err := readRunning(body)
			if err != nil {
				return err
			}
			return printRunning(c.Root().Writer, list, time.Now())
		},
	}
}

func stopCommand() *cli.Command {
	return &cli.Command{
		Name: "stop", Usage: "have a running server free the memory of a model", ArgsUsage: "[NAME]",
		Description: "NAME is one that powerinfer ps shows; where one model is loaded it may be left out. The server goes on,\n" +
			"and loads the model again when a request names it.",
		Flags: append(serverFlags(), keyFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() > 1 {
				return fmt.Errorf("unexpected argument %q: one model at a time", c.Args().Get(1))
			}
			name, err := runningModel(ctx, c)
			if err != nil {
				return err
			}
			request, err := json.Marshal(map[string]any{"model": name, "keep_alive": 0})
			if err != nil {
				return err
			}
			if _, err := askServer(ctx, c, http.MethodPost, "/api/generate", request); err != nil {
				return err
			}
			body, err := askServer(ctx, c, http.MethodGet, "/api/ps", nil)
			if err != nil {
				return err
			}
			left, err := readRunning(body)
			if err != nil {
				return err
			}
			for _, m := range left {
				if m.Name == name {
					return fmt.Errorf("%s stays loaded: it answers a request, or the server was started with this model alone; Ctrl-C there ends the server", name)
				}
			}
			fmt.Fprintln(screen.Err, "stopped", name)
			return nil
		},
	}
}

// loadedModel is a loaded model in Ollama's API.
type loadedModel struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"`
	VRAM    int64     `json:"size_vram"`
	Context int       `json:"context_length"`
	Expires time.Time `json:"expires_at"`
}

func readRunning(body []byte) ([]loadedModel, error) {
	var list struct {
		Models []loadedModel `json:"models"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return list.Models, nil
}

// runningModel returns the name of the loaded model of the argument, or of the only loaded model.
func runningModel(ctx context.Context, c *cli.Command) (string, error) {
	body, err := askServer(ctx, c, http.MethodGet, "/api/ps", nil)
	if err != nil {
		return "", err
	}
	list, err := readRunning(body)
	if err != nil {
		return "", err
	}
	name := c.Args().First()
	var names []string
	for _, m := range list {
		if m.Name == name || m.Name == strings.TrimSuffix(name, ":latest") {
			return m.Name, nil
		}
		names = append(names, m.Name)
	}
	switch {
	case len(names) == 0:
		return "", errors.New("the server has no model loaded")
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "":
		return "", fmt.Errorf("name one of the loaded models: %s", strings.Join(names, ", "))
	}
	if _, at, ok := hub.FindShort(name); ok {
		for _, n := range names {
			if n == at.String() {
				return n, nil
			}
		}
	}
	return "", fmt.Errorf("%q is not loaded; loaded are %s", name, strings.Join(names, ", "))
}

func printRunning(to io.Writer, list []loadedModel, now time.Time) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tmemory\ton GPUs\tcontext\tuntil")
	for _, m := range list {
		until := "its server ends"
		if left := m.Expires.Sub(now); left < 365*24*time.Hour {
			until = "unused for " + max(left, 0).Round(time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", screen.Plain(m.Name), hub.Bytes(m.Size), hub.Bytes(m.VRAM), m.Context, until)
	}
	return w.Flush()
}

// askServer sends a request to the server of the flags, and returns the answer's body.
func askServer(ctx context.Context, c *cli.Command, method, path string, body []byte) ([]byte, error) {
	file := c.String("ssl-cert-file")
	s := client.Server{Address: client.URL(c.String("host"), c.Int("port"), file != ""), Certificate: file, Key: c.String("api-key")}
	return s.Ask(ctx, method, path, body)
}
