package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

func quantizeCommand() *cli.Command {
	return &cli.Command{
		Name: "quantize", Usage: "write a GGUF file's matrices in another type", ArgsUsage: "IN OUT TYPE [THREADS]",
		Description: "TYPE is one of " + convert.OutTypes() + ".\nQ5_K_M has values and down projections of half of the layers in Q6_K.\nVectors, metadata and what prepared files hold stay as they are.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "allow-requantize", Usage: "decode matrices that are quantised already; quality is lost twice"},
			&cli.BoolFlag{Name: "pure", Usage: "the output matrix is of TYPE, too; else it is Q8_0 where TYPE has 4 bits"},
		},
		Action: quantize,
	}
}

// mostThreads bounds the buffers that threads need.
const mostThreads = 512

func quantize(ctx context.Context, c *cli.Command) error {
	if n := c.NArg(); n < 3 || n > 4 {
		return errors.New("give a file, a file to write and a type: powerinfer quantize IN OUT TYPE")
	}
	in, out := c.Args().Get(0), c.Args().Get(1)
	outtype, err := convert.ParseOutput(c.Args().Get(2))
	if err != nil {
		return err
	}
	threads := 0
	if s := c.Args().Get(3); s != "" {
		if threads, err = strconv.Atoi(s); err != nil || threads < 1 || threads > mostThreads {
			return fmt.Errorf("%q threads: give 1 to %d", s, mostThreads)
		}
	}
	if err := atomicfile.Check(out); err != nil {
		return err
	}
	f, err := gguf.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	note := func(s string) { fmt.Fprintln(os.Stderr, "note:", s) }
	info, _, err := prepared.Read(f)
	if err != nil {
		return err
	}
	bar := newProgress("quantising", unitBytes)
	err = convert.Quantize(ctx, f, out, convert.Quantization{
		Type: outtype.Type, More: outtype.More, Pure: c.Bool("pure"), Requantize: c.Bool("allow-requantize"), Threads: threads,
		Progress: bar.set, Notes: note,
	})
	bar.finish()
	if err != nil {
		return err
	}
	after, err := gguf.Open(out)
	if err != nil {
		return err
	}
	defer after.Close()
	if info.Quality != nil {
		note("the quality that the file names was measured on " + in)
	}
	a, b := bench.Describe(f), bench.Describe(after)
	fmt.Fprintf(os.Stderr, "wrote %s: %.1f MiB before, %.1f MiB after, %.2f bits a weight\n",
		out, float64(a.Bytes)/(1<<20), float64(b.Bytes)/(1<<20), 8*float64(b.Bytes)/float64(b.Params))
	return nil
}
