package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// demoNote says what the embedded model is.
const demoNote = "this is the embedded demo, a tiny model that tells tales: it goes on with what you write, such as Once upon a time; to chat: powerinfer chat qwen3:0.6b"

// openModel opens the file that -m names, or the embedded model, and applies --override-kv.
func openModel(c *cli.Command) (*gguf.File, error) {
	path, err := flags.ModelPath(c)
	if err != nil {
		return nil, err
	}
	list, err := flags.ReadOverrides(c)
	if err != nil {
		return nil, err
	}
	return openWith(path, list)
}

// openWith opens the model at path, the embedded one if that is empty, with keys of its metadata replaced.
func openWith(path string, overrides []string) (f *gguf.File, err error) {
	if path == "" {
		f, err = gguf.Parse(demo.Name, demo.Model())
	} else {
		f, err = gguf.Open(path)
	}
	if err != nil {
		return nil, err
	}
	if err := session.Override(f, overrides); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// open opens the model that -m names, or the embedded one, with a progress bar. adjust, if it is not nil, changes what
// the flags say.
func open(ctx context.Context, c *cli.Command, adjust func(*powerinfer.Options)) (*powerinfer.Model, error) {
	o, err := flags.ReadOptions(c)
	if err != nil {
		return nil, err
	}
	o.Notice = note
	if adjust != nil {
		adjust(&o)
	}
	path, err := flags.ModelPath(c)
	if err != nil {
		return nil, err
	}
	defer showLoading(&o)()
	if path == "" {
		return powerinfer.OpenBytes(ctx, demo.Name, demo.Model(), o)
	}
	return powerinfer.Open(ctx, path, o)
}

// showLoading shows how far loading with o is, until the function that it returns is called.
func showLoading(o *powerinfer.Options) (finish func()) {
	measuring, compiling, bar := newProgress("measuring", unitRuns), newProgress("compiling", unitRuns), newProgress("loading", unitBytes)
	writing := newProgress("writing the file of neurons, once", unitBytes)
	o.Measuring = measuring.set
	write := sync.OnceFunc(writing.starts)
	o.Bundling = func(done, total int64) {
		measuring.finish()
		write()
		writing.set(done, total)
	}
	begin, compile := sync.OnceFunc(bar.starts), sync.OnceFunc(compiling.starts) // when the machine has been measured
	var waits, over atomic.Bool                                                  // for shaders: then what is loaded is not what takes time
	o.Compiling = func(gpu string, done, total int) {
		if over.Load() { // what is not needed at first goes on
			return
		}
		compile()
		compiling.say(fmt.Sprintf("compiling %d shaders for %s, once", total, gpu))
		compiling.set(int64(done), int64(total))
		if waits.Store(done < total); done == total { // so far: more may be asked for
			compiling.finish()
			compiling.starts()
		}
	}
	o.Progress = func(done, total int64) {
		measuring.finish()
		writing.finish()
		begin()
		if !waits.Load() {
			bar.set(done, total)
		}
	}
	return func() {
		over.Store(true)
		compiling.finish()
		writing.finish()
		bar.finish()
	}
}

// sessionOptions returns what the flags of a server say, of which outputs requests generate at a time.
func sessionOptions(c *cli.Command, outputs int) (session.Options, *powerinfer.Options, error) {
	so, o, err := flags.ReadSession(c, outputs)
	so.Planner.Notice = note
	return so, o, err
}

// plannerOptions returns what the flags say of where a model is computed.
func plannerOptions(c *cli.Command) (planner.Options, error) {
	o, err := flags.ReadPlanner(c)
	o.Notice = note
	return o, err
}

// readText returns the text of -p, or of the file behind -f ("-" is standard input).
func readText(c *cli.Command) (string, error) {
	file := c.String("file")
	if file == "" {
		return flags.Prompt(c), nil
	}
	if c.IsSet("prompt") {
		return "", errors.New("-p and -f both name a prompt; give one")
	}
	text, err := readFile(file, wholefile.Text)
	// llama.cpp drops one newline, with which editors end a file
	return strings.TrimSuffix(text, "\n"), err
}

// readFile returns the content of a file, which may have at most most bytes; "-" is standard input.
func readFile(name string, most int64) (string, error) {
	if name == "-" {
		data, err := wholefile.ReadFrom(os.Stdin, most)
		return string(data), err
	}
	data, err := wholefile.Read(name, most)
	return string(data), err
}
