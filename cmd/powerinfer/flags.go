package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
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
		&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory; sums are the same but in --sparse exact of files that are not prepared, whose down projections are then computed whole and round differently", Sources: env("NO_REPACK")},
		kernelsFlag(),
		&cli.BoolFlag{Name: "mlock", Usage: "keep weights out of swap", Sources: env("MLOCK")},
		&cli.StringFlag{Name: "activation", Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
		sparseFlag(),
		&cli.Float32Flag{Name: "sparse-threshold", Usage: "logit from which a predicted neuron is computed; default: the file's", Sources: cli.NewValueSourceChain(variable("LLAMA_SPARSE_PRED_THRESHOLD"))},
	}, gpuFlags(), grantedFlagsOf())
}

func batchFlag() cli.Flag {
	return &cli.IntFlag{Name: "batch-size", Aliases: []string{"b"}, Value: engine.UsualBatch, Usage: "tokens of a prompt handed in at a time", Sources: env("BATCH")}
}

func ubatchFlag() cli.Flag {
	return &cli.IntFlag{Name: "ubatch-size", Aliases: []string{"ub"}, Value: model.UsualStep, Usage: "tokens computed at a time", Sources: env("UBATCH")}
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
	if err := session.Override(f, c.StringSlice("override-kv")); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// noteBusy tells where other programs make the default number of threads smaller.
func noteBusy() {
	threads, usable := hw.IdleCores()
	if threads < usable {
		fmt.Fprintf(os.Stderr, "note: other programs are busy: computing on %s of %d; -t %d takes all\n", count(threads, "core"), usable, usable)
	}
}

func kernelsFlag() cli.Flag {
	return &cli.StringFlag{Name: "kernels", Value: planner.KernelsAuto, Usage: "processor kernels of generation, which all give the same text: auto measures while loading which is the fastest here; usual, or a `NAME` that -v shows"}
}

// engineOptions reads engineFlags but for gpuFlags.
func engineOptions(c *cli.Command) (engine.Options, planner.Processor, error) {
	o := engine.Options{
		Context: c.Int("ctx-size"), Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size"),
		NoRepack: c.Bool("no-repack"), Lock: c.Bool("mlock"), Activation: c.String("activation"),
	}
	cpu := planner.Processor{Threads: c.Int("threads"), ThreadsBatch: c.Int("threads-batch"), Lock: o.Lock, Kernels: c.String("kernels")}
	if c.Bool("verbose") {
		cpu.Note = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	for _, name := range []string{"ctx-size", "batch-size", "ubatch-size", "threads", "threads-batch"} {
		if v := c.Int(name); v == -1 && strings.HasPrefix(name, "threads") { // llama.cpp's way to say the default
			continue
		} else if v < 0 || v > 1<<30 {
			return o, cpu, fmt.Errorf("--%s %d is not a number from 0 to %d", name, v, 1<<30)
		}
	}
	var err error
	if o.Sparse, err = sparseMode(c); err != nil {
		return o, cpu, err
	}
	if c.IsSet("sparse-threshold") {
		t := c.Float32("sparse-threshold")
		if t != t {
			return o, cpu, errors.New("--sparse-threshold: NaN is no threshold")
		}
		o.Threshold = &t
	}
	return o, cpu, nil
}

// openEngine opens model and engine with a progress bar.
func openEngine(ctx context.Context, c *cli.Command, adjust func(*engine.Options, *gguf.File) error) (*session.Session, error) {
	o, cpu, err := engineOptions(c)
	if err != nil {
		return nil, err
	}
	f, err := openModel(c)
	if err != nil {
		return nil, err
	}
	if adjust != nil {
		if err := adjust(&o, f); err != nil {
			f.Close()
			return nil, err
		}
	}
	if cpu.Threads <= 0 {
		noteBusy()
	}
	e, err := loadEngine(ctx, c, f, o, cpu)
	if err != nil {
		f.Close()
		return nil, err
	}
	return e, nil
}

// readText returns the text of -p, or of the file behind -f ("-" is standard input).
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

// readFile returns the content of a file; "-" is standard input.
func readFile(name string) (string, error) {
	if name == "-" {
		data, err := io.ReadAll(os.Stdin)
		return string(data), err
	}
	data, err := os.ReadFile(name)
	return string(data), err
}

// unescape returns the text of -p with its escapes replaced, unless --no-escape is given.
func unescape(c *cli.Command) string {
	p := c.String("prompt")
	if c.Bool("no-escape") {
		return p
	}
	return withoutEscapes(p)
}

// withoutEscapes turns \n, \r, \t, \", \', \\ and \xHH into the characters they stand for, as llama.cpp does. What is no escape stays.
func withoutEscapes(p string) string {
	const from, to = `nrt"'\`, "\n\r\t\"'\\"
	var b strings.Builder
	for {
		i := strings.IndexByte(p, '\\')
		if i < 0 || i+1 == len(p) {
			return b.String() + p
		}
		b.WriteString(p[:i])
		p = p[i:]
		if j := strings.IndexByte(from, p[1]); j >= 0 {
			b.WriteByte(to[j])
			p = p[2:]
			continue
		}
		if p[1] == 'x' && len(p) >= 4 {
			if v, err := strconv.ParseUint(p[2:4], 16, 8); err == nil {
				b.WriteByte(byte(v))
				p = p[4:]
				continue
			}
		}
		b.WriteByte('\\')
		p = p[1:]
	}
}
