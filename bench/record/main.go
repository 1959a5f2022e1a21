// Command record records the answers of a powerinfer binary, so that a later binary can be compared byte by byte:
// greedy texts, perplexities with a hash of all saved predictions, prepared files and plans, of every model family,
// element type, sparse mode and thread count, on the processor and on Mesa's software GPU. The models are synthetic
// ones of fixed seeds, made anew each time, and the embedded model.
//
//	go run ./bench/record take -o new.txt ./powerinfer
//	go run ./bench/record compare bench/record/testdata/7d56a66.txt new.txt
//
// compare names each case that differs and exits with 1. Bytes depend on the processor's instruction sets and, on the
// GPU, on the Vulkan driver. The record's header has both. Records with different headers are not compared: take both on
// one machine then. --only WORDS restricts both commands to the cases with names that contain WORDS: --only "cpu opt".
//
// bench/compare --old compares the speed of two binaries.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/urfave/cli/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	only := &cli.StringFlag{Name: "only", Usage: "leave out cases whose names do not contain `WORDS`"}
	return &cli.Command{
		Name: "record", Usage: "write down what a powerinfer binary answers, and compare two records",
		Commands: []*cli.Command{
			{
				Name: "take", Usage: "record what a binary answers", ArgsUsage: "BINARY",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE` to write", Required: true},
					&cli.StringFlag{Name: "note", Usage: "`TEXT` for the header, such as the binary's commit"},
					&cli.IntFlag{Name: "jobs", Aliases: []string{"j"}, Value: runtime.NumCPU(), Usage: "`N` processes at a time"},
					only,
				},
				Action: take,
			},
			{
				Name: "compare", Usage: "name the cases in which two records differ", ArgsUsage: "OLD NEW",
				Flags: []cli.Flag{only},
				Action: func(_ context.Context, c *cli.Command) error {
					if c.NArg() != 2 {
						return errors.New("give two records: compare OLD NEW")
					}
					return compare(c.Args().Get(0), c.Args().Get(1), c.String("only"))
				},
			},
		},
	}
}

func take(ctx context.Context, c *cli.Command) error {
	if c.NArg() != 1 {
		return errors.New("give one binary: take -o FILE BINARY")
	}
	if c.Int("jobs") < 1 {
		return fmt.Errorf("--jobs %d: give at least 1", c.Int("jobs"))
	}
	s, err := newSubject(ctx, c.Args().First())
	if err != nil {
		return err
	}
	defer s.close()
	all := questions(s.driver != "")
	all = filter(all, func(q question) string { return q.name }, c.String("only"))
	if err := s.makeModels(ctx, all, c.Int("jobs")); err != nil {
		return err
	}
	r := record{header: s.header(c.String("note"))}
	if r.answers, err = s.answers(ctx, all, c.Int("jobs")); err != nil {
		return err
	}
	return r.write(c.String("out"))
}

// filter returns the elements of list with names that contain words.
func filter[T any](list []T, name func(T) string, words string) []T {
	var kept []T
	for _, v := range list {
		if strings.Contains(name(v), words) {
			kept = append(kept, v)
		}
	}
	return kept
}

// compare prints the cases in which the records at two paths differ; that they do is an error.
func compare(oldPath, newPath, only string) error {
	older, err := read(oldPath)
	if err != nil {
		return err
	}
	newer, err := read(newPath)
	if err != nil {
		return err
	}
	name := func(a answer) string { return a.name }
	older.answers, newer.answers = filter(older.answers, name, only), filter(newer.answers, name, only)
	differ, err := older.differences(newer)
	if err != nil {
		return err
	}
	for _, d := range differ {
		fmt.Println(d)
	}
	if len(differ) > 0 {
		return fmt.Errorf("%d of %d cases differ", len(differ), len(older.answers))
	}
	fmt.Printf("%d cases are the same\n", len(older.answers))
	return nil
}
