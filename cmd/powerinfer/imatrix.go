package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/imatrix/collect"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

func imatrixCommand() *cli.Command {
	return &cli.Command{
		Name: "imatrix", UsageText: `powerinfer imatrix model.gguf -f text.txt -o imatrix.gguf`, Usage: "measure what matters in a model's weights, for quantize --imatrix",
		Description: "Reads a text through the model, on the processor, and writes how large the inputs of each matrix\n" +
			"are. Some hundred chunks of text like what the model will be used for are enough. What was collected\n" +
			"is saved every --output-frequency chunks and when the command is interrupted, in a file with the\n" +
			"output's name and .partial, which --in-file takes. The output appears when all is read.\n" +
			"With --in-file and no text, files are added up.",
		Flags: append(flags.Model(),
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "text `FILE`; - is standard input"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o", "output-file"}, Value: "imatrix.gguf", Usage: "`FILE` to write"},
			&cli.StringFlag{Name: "output-format", Usage: "`FORM` of the file: gguf, or dat, the older one; default: dat where the name ends in .dat"},
			&cli.StringSliceFlag{Name: "in-file", Usage: "add what is in `FILE`; may be repeated"},
			&cli.BoolFlag{Name: "show-statistics", Usage: "describe what is in the one file of --in-file, and write nothing"},
			&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Value: collect.UsualContext, Usage: "tokens of a chunk", Sources: flags.Env("CTX_SIZE")},
			&cli.IntFlag{Name: "chunks", Value: -1, Usage: "chunks to read; -1: all"},
			&cli.IntFlag{Name: "chunk", Aliases: []string{"from-chunk"}, Usage: "chunks at the beginning to leave out"},
			&cli.IntFlag{Name: "output-frequency", Aliases: []string{"ofreq"}, Value: 10, Usage: "save what was collected so far every `N` chunks"},
			&cli.IntFlag{Name: "save-frequency", Usage: "keep a copy every `N` chunks, under the name of the output and .at_N; 0: none"},
			&cli.BoolFlag{Name: "process-output", Usage: "collect for output.weight, too"},
			&cli.BoolFlag{Name: "parse-special", Usage: "take special tokens in the text as such"},
			&cli.BoolFlag{Name: "no-ppl", Usage: "does nothing: no perplexity is computed here"},
			&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory", Sources: flags.Env("NO_REPACK")},
			&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Usage: "default: physical cores", Sources: flags.Env("THREADS")},
		),
		Action: makeMatrix,
	}
}

func makeMatrix(ctx context.Context, c *cli.Command) error {
	for name, least := range map[string]int{"chunks": -1, "chunk": 0, "output-frequency": 1, "save-frequency": 0, "ctx-size": 1, "threads": 0} {
		if n := c.Int(name); n < least || n > 1<<30 {
			return fmt.Errorf("--%s %d: give %d or more", name, n, least)
		}
	}
	if c.Int("chunks") == 0 {
		return errors.New("no chunk to read: raise --chunks, or leave it out for all")
	}
	if c.Bool("show-statistics") {
		files := c.StringSlice("in-file")
		if len(files) != 1 {
			return errors.New("--show-statistics describes one file: give it with --in-file")
		}
		m, err := collect.Sum(nil, files, c.Int("ctx-size"))
		if err != nil {
			return err
		}
		return showStatistics(screen.Out, m)
	}
	out, err := matrixWriter(c)
	if err != nil {
		return err
	}
	files := c.StringSlice("in-file")
	if c.String("file") == "" {
		if len(files) == 0 {
			return errors.New("give a text with -f FILE")
		}
		sum, err := collect.Sum(nil, files, c.Int("ctx-size"))
		if err != nil {
			return err
		}
		return out.write(context.WithoutCancel(ctx), sum, out.path)
	}
	f, err := openModel(c)
	if err != nil {
		return err
	}
	defer f.Close()
	base, err := collect.Sum(f, files, c.Int("ctx-size"))
	if err != nil {
		return err
	}
	return collectMatrix(ctx, c, f, base, out)
}

func collectMatrix(ctx context.Context, c *cli.Command, f *gguf.File, base *collect.Matrix, out *matrixFile) error {
	text, err := readFile(c.String("file"), wholefile.Text)
	if err != nil {
		return err
	}
	bar := progress.New("importances", progress.Windows)
	o := collect.Options{
		Text: strings.TrimSuffix(text, "\n"), Dataset: c.String("file"), Context: c.Int("ctx-size"), Skip: c.Int("chunk"), Chunks: max(0, c.Int("chunks")),
		Special: c.Bool("parse-special"), Head: c.Bool("process-output"), Threads: c.Int("threads"), Pinned: c.Bool("no-repack"), Matrix: base,
	}
	memory, err := o.Memory(f)
	if err != nil {
		return err
	}
	told := false
	chunks := fmt.Sprintf("chunks of %d tokens", o.Context)
	var left *progress.Remaining // starts, like bar, when loading ends
	loaded := sync.OnceFunc(func() {
		left = progress.NewRemaining(chunks)
		bar = progress.New("importances", progress.Windows)
		bar.Begins()
	})
	o.Loading = func(done, total int64) {
		if !told {
			told = true
			screen.Note(fmt.Sprintf("about %.1f GiB of memory", float64(memory)/(1<<30)))
		}
		if done == total { // never reached if the file has tensors that are not needed
			loaded()
		}
	}
	o.Expect = func(chunks int, whole time.Duration) {
		loaded()
		left.Foretold(chunks, whole, bar)
	}
	o.Progress = func(done, total int) {
		loaded()
		bar.Begun()
		left.Set(int64(done), int64(total))
		bar.Count(done, total)
	}
	part, saved := out.partial(c.StringSlice("in-file")), false
	o.Save = func(m *collect.Matrix, done int) error {
		if every := c.Int("save-frequency"); every > 0 && done%every == 0 {
			if err := out.write(context.WithoutCancel(ctx), m, fmt.Sprintf("%s.at_%d", out.path, done)); err != nil {
				return err
			}
		}
		if done%c.Int("output-frequency") != 0 {
			return nil
		}
		saved = true
		return out.write(context.WithoutCancel(ctx), m, part)
	}
	allowEnding(ctx, savingGrace)
	m, err := collect.Run(ctx, f, o)
	bar.Finish()
	if err != nil && (m == nil || m.Chunks == base.Chunks) {
		if saved {
			screen.Note(part + " has what was collected; --in-file adds it")
		}
		return err
	}
	onward := func(verb string) {
		done := m.Chunks - base.Chunks
		fmt.Fprintf(screen.Err, "%s after %s; what was collected is in %s, and --in-file %s --chunk %d goes on\n", verb, quantity.Of(done, "chunk"), part, part, o.Skip+done)
	}
	if err != nil {
		failed := out.write(context.WithoutCancel(ctx), m, part)
		if failed == nil {
			onward("interrupted")
		}
		return errors.Join(failed, err)
	}
	if err := out.write(context.WithoutCancel(ctx), m, out.path); err != nil {
		if out.write(context.WithoutCancel(ctx), m, part) == nil {
			onward("ended")
		}
		return err
	}
	if saved {
		_ = os.Remove(part)
	}
	fmt.Fprintf(screen.Err, "wrote %s: %d tensors, %d chunks of %d tokens\n", out.path, len(m.Entries), m.Chunks, m.ChunkTokens)
	return nil
}

// matrixFile is the output file of imatrix.
type matrixFile struct {
	path  string
	older bool
}

func matrixWriter(c *cli.Command) (*matrixFile, error) {
	w := &matrixFile{path: c.String("output")}
	switch form := c.String("output-format"); form {
	case "":
		w.older = strings.HasSuffix(w.path, ".dat")
	case "gguf", "dat":
		w.older = form == "dat"
	default:
		return nil, fmt.Errorf("--output-format: %.80q is neither gguf nor dat", form)
	}
	kind := gguf.MatrixKind()
	if w.older {
		kind = collect.OlderKind()
	}
	return w, atomicfile.Check(w.path, kind)
}

// partial returns a free name for the file of the collected data while text is read. Such files of interrupted runs
// stay; partial tells the user about those that are not among the inputs.
func (w *matrixFile) partial(inputs []string) string {
	for n := 1; ; n++ {
		name := w.path + ".partial"
		if n > 1 {
			name += fmt.Sprintf(".%d", n)
		}
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		if slices.ContainsFunc(inputs, func(in string) bool { return sameFile(in, name) }) {
			continue
		}
		chunks := ""
		if m, err := collect.Sum(nil, []string{name}, collect.UsualContext); err == nil {
			chunks = " of " + quantity.Of(m.Chunks, "chunk")
		}
		screen.Note(fmt.Sprintf("%s has what an interrupted run collected%s; --in-file adds it", name, chunks))
	}
}

func (w *matrixFile) write(ctx context.Context, m *collect.Matrix, path string) error {
	if w.older {
		return m.WriteOlder(path)
	}
	return m.Write(ctx, path)
}
