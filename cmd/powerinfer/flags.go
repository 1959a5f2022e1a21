package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// modelFlags choose a model and what is done to its metadata.
func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "GGUF `FILE`; without it the embedded demo model", Sources: env("MODEL")},
		&cli.StringSliceFlag{Name: "override-kv", Usage: "replace a metadata key: `KEY=TYPE:VALUE`, TYPE int, float, bool or str; may be repeated"},
	}
}

// engineFlags choose how a model is loaded and computed.
func engineFlags() []cli.Flag {
	return slices.Concat(modelFlags(), []cli.Flag{
		&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "context in tokens; 0 is the model's own", Sources: env("CTX_SIZE")},
		batchFlag(), ubatchFlag(),
		&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Usage: "threads for generation; default: idle physical cores", Sources: env("THREADS")},
		&cli.IntFlag{Name: "threads-batch", Aliases: []string{"tb"}, Usage: "threads for prompts; default: as --threads", Sources: env("THREADS_BATCH")},
		&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory", Sources: env("NO_REPACK")},
		&cli.BoolFlag{Name: "mlock", Usage: "keep weights out of swap", Sources: env("MLOCK")},
		&cli.StringFlag{Name: "activation", Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
		sparseFlag(),
		&cli.Float32Flag{Name: "sparse-threshold", Usage: "logit from which a predicted neuron is computed; default: the file's", Sources: cli.NewValueSourceChain(variable("LLAMA_SPARSE_PRED_THRESHOLD"))},
	}, cardFlags())
}

func batchFlag() cli.Flag {
	return &cli.IntFlag{Name: "batch-size", Aliases: []string{"b"}, Value: 2048, Usage: "tokens of a prompt handed in at a time", Sources: env("BATCH")}
}

func ubatchFlag() cli.Flag {
	return &cli.IntFlag{Name: "ubatch-size", Aliases: []string{"ub"}, Value: 512, Usage: "tokens computed at a time", Sources: env("UBATCH")}
}

func sparseFlag() cli.Flag {
	return &cli.StringFlag{Name: "sparse", Value: "auto", Usage: "neurons of feed-forward layers to compute: `MODE` auto, off (all), exact (those not zero) or predict (those predicted)", Sources: env("SPARSE")}
}

func sparseMode(c *cli.Command) (model.SparseMode, error) {
	m, err := model.ParseSparseMode(c.String("sparse"))
	if err != nil {
		return m, fmt.Errorf("--sparse: %w", err)
	}
	return m, nil
}

// openModel opens the file that -m names, or the embedded model, and applies --override-kv.
func openModel(c *cli.Command) (*gguf.File, error) {
	var f *gguf.File
	var err error
	switch path := c.String("model"); {
	case path != "":
		f, err = gguf.Open(path)
	case c.IsSet("model"): // mostly a shell variable that was meant to hold a name
		err = errors.New("-m names no file; leave it out for the embedded model")
	default:
		f, err = gguf.Parse(demo.Name, demo.Model())
	}
	if err != nil {
		return nil, err
	}
	for _, o := range c.StringSlice("override-kv") {
		key, rest, ok1 := strings.Cut(o, "=")
		typ, value, ok2 := strings.Cut(rest, ":")
		if !ok1 || !ok2 || key == "" {
			f.Close()
			return nil, fmt.Errorf("--override-kv %q is not KEY=TYPE:VALUE with a type of int, float, bool or str", o)
		}
		if err := f.Override(key, typ, value); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// engineOptions reads engineFlags.
func engineOptions(c *cli.Command) (engine.Options, error) {
	o := engine.Options{
		Context: c.Int("ctx-size"), Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size"),
		Threads: c.Int("threads"), ThreadsBatch: c.Int("threads-batch"),
		NoRepack: c.Bool("no-repack"), Lock: c.Bool("mlock"), Activation: c.String("activation"),
	}
	for _, name := range []string{"ctx-size", "batch-size", "ubatch-size", "threads", "threads-batch"} {
		if v := c.Int(name); v == -1 && strings.HasPrefix(name, "threads") { // llama.cpp's way to say the default
			continue
		} else if v < 0 || v > 1<<30 {
			return o, fmt.Errorf("--%s %d is not a number from 0 to %d", name, v, 1<<30)
		}
	}
	var err error
	if o.Sparse, err = sparseMode(c); err != nil {
		return o, err
	}
	if c.IsSet("sparse-threshold") {
		t := c.Float32("sparse-threshold")
		if t != t {
			return o, errors.New("--sparse-threshold: NaN is no threshold")
		}
		o.Threshold = &t
	}
	return o, nil
}

// openEngine opens model and engine with a progress bar. The returned function closes both.
func openEngine(ctx context.Context, c *cli.Command, adjust func(*engine.Options, *gguf.File) error) (*engine.Engine, func(), error) {
	o, err := engineOptions(c)
	if err != nil {
		return nil, nil, err
	}
	f, err := openModel(c)
	if err != nil {
		return nil, nil, err
	}
	if adjust != nil {
		if err := adjust(&o, f); err != nil {
			f.Close()
			return nil, nil, err
		}
	}
	e, err := loadEngine(ctx, c, f, o)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return e, func() { e.Close(); f.Close() }, nil
}

// readText is the text of -p, or of the file behind -f ("-" is standard input).
func readText(c *cli.Command) (string, error) {
	file := c.String("file")
	if file == "" {
		return unescape(c), nil
	}
	if c.IsSet("prompt") {
		return "", errors.New("-p and -f both name a prompt; give one")
	}
	text, err := readFile(file)
	// llama.cpp drops one newline, with which editors end a file
	return strings.TrimSuffix(text, "\n"), err
}

// readFile is the content of a file; "-" is standard input.
func readFile(name string) (string, error) {
	if name == "-" {
		data, err := io.ReadAll(os.Stdin)
		return string(data), err
	}
	data, err := os.ReadFile(name)
	return string(data), err
}

// unescape turns \n, \t and their like in -p into the characters they stand for, as llama.cpp does by default.
func unescape(c *cli.Command) string {
	p := c.String("prompt")
	if c.Bool("no-escape") {
		return p
	}
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\'`, `'`).Replace(p)
}
