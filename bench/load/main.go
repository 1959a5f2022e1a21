// Command load puts many clients on servers that speak llama-server's API and compares what the clients see: tokens per
// second of all together, time to the first token, and the gaps between tokens. Servers take turns within every round,
// each with the same requests, so that a machine's drift meets all alike; a server that waits for its turn is idle.
//
//	go run ./bench/load --server ours=http://127.0.0.1:8080 --server llama=http://127.0.0.1:8081 --clients 1,4,8,16 --prompt 32,1000 --gen 64 --rounds 3
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cmd := &cli.Command{
		Name: "load", Usage: "put many clients on servers and compare what they see", DisableSliceFlagSeparator: true,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "server", Usage: "`NAME=URL` of a server; may be repeated", Required: true},
			&cli.StringFlag{Name: "clients", Value: "1,4,8,16", Usage: "`NUMBERS` of clients at a time, each with one request after the other"},
			&cli.StringFlag{Name: "prompt", Value: "32,1000", Usage: "`LEAST,MOST` tokens of a prompt, evenly on a logarithmic scale"},
			&cli.IntFlag{Name: "gen", Value: 64, Usage: "tokens to generate"},
			&cli.IntFlag{Name: "requests", Value: 2, Usage: "requests of each client"},
			&cli.IntFlag{Name: "rounds", Value: 3, Usage: "rounds, in which each server has its turn"},
			&cli.IntFlag{Name: "vocab", Value: 32000, Usage: "prompts are random tokens below `N`"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of prompts"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			servers, err := readServers(c.StringSlice("server"))
			if err != nil {
				return err
			}
			return compare(ctx, c, servers)
		},
	}
	if err := cmd.Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// server is a server that is asked.
type server struct{ name, url string }

func readServers(list []string) ([]server, error) {
	var all []server
	for _, s := range list {
		name, url, ok := strings.Cut(s, "=")
		if !ok || name == "" || url == "" {
			return nil, fmt.Errorf("--server %q is not NAME=URL", s)
		}
		all = append(all, server{name, strings.TrimSuffix(url, "/")})
	}
	return all, nil
}

// numbers reads positive numbers with commas between them.
func numbers(flag, list string) ([]int, error) {
	var all []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--%s: %q is not a positive number", flag, s)
		}
		all = append(all, n)
	}
	return all, nil
}

func compare(ctx context.Context, c *cli.Command, servers []server) error {
	clients, err := numbers("clients", c.String("clients"))
	if err != nil {
		return err
	}
	lengths, err := numbers("prompt", c.String("prompt"))
	if err != nil {
		return err
	}
	if len(lengths) != 2 || lengths[0] > lengths[1] {
		return errors.New("--prompt is not LEAST,MOST")
	}
	w := work{least: lengths[0], most: lengths[1], gen: c.Int("gen"), each: c.Int("requests"), vocab: c.Int("vocab"), client: http.DefaultClient}
	r := results{}
	for round := range c.Int("rounds") {
		turns := slices.Clone(servers)
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, n := range clients {
			w.clients, w.seed = n, c.Uint64("seed")+uint64(round)
			for _, s := range turns {
				seen, err := w.run(ctx, s)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				r.add(n, s.name, seen)
				fmt.Fprintf(os.Stderr, "round %d, %d clients, %s: %.1f tokens/s, first token %v, gap %v\n",
					round+1, n, s.name, seen.rate, seen.first.Round(time.Millisecond), seen.gap.Round(time.Millisecond/10))
			}
		}
	}
	fmt.Print(r.table(servers, clients))
	return nil
}
