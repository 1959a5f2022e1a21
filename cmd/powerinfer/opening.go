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
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
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

// openWith opens the model at path, or the embedded one if path is empty, with overridden metadata.
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

// open opens the model of -m, or the embedded one, with a progress bar. adjust, if not nil, changes the options.
func open(ctx context.Context, c *cli.Command, adjust func(*powerinfer.Options)) (*powerinfer.Model, error) {
	o, err := flags.ReadOptions(c)
	if err != nil {
		return nil, err
	}
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

// openSession opens the model of -m, or the embedded one, with a progress bar, for this many sequences.
func openSession(ctx context.Context, c *cli.Command, sequences int) (*session.Session, error) {
	o, err := flags.ReadServed(c, sequences)
	if err != nil {
		return nil, err
	}
	f, err := openModel(c)
	if err != nil {
		return nil, err
	}
	defer showLoading(o)()
	so, err := flags.Session(c, o)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s, err := session.Open(ctx, f, so)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// showLoading shows the progress of loading with o until finish is called.
func showLoading(o *powerinfer.Options) (finish func()) {
	measuring, compiling, bar := progress.New("measuring", progress.Time), progress.New("compiling", progress.Runs), progress.New("loading", progress.Bytes)
	writing := progress.New("writing the file of neurons, once", progress.Bytes)
	o.Measuring = measuring.Set
	write := sync.OnceFunc(writing.Starts)
	o.Bundling = func(done, total int64) {
		measuring.Finish()
		write()
		writing.Set(done, total)
	}
	begin, compile := sync.OnceFunc(bar.Starts), sync.OnceFunc(compiling.Starts) // once the machine has been measured
	var waits, over atomic.Bool                                                  // waits: loading waits for shaders; over: loading has ended
	o.Compiling = func(gpu string, done, total int) {
		if over.Load() { // shaders that are not needed at first continue
			return
		}
		compile()
		compiling.Say(fmt.Sprintf("compiling %d shaders for %s, once", total, gpu))
		compiling.Set(int64(done), int64(total))
		if waits.Store(done < total); done == total { // more may be asked for later
			compiling.Finish()
			compiling.Starts()
		}
	}
	o.Progress = func(done, total int64) {
		measuring.Finish()
		writing.Finish()
		begin()
		if !waits.Load() {
			bar.Set(done, total)
		}
	}
	return func() {
		over.Store(true)
		compiling.Finish()
		writing.Finish()
		bar.Finish()
	}
}

// readText returns the text of -p, or of the file that -f names ("-" is standard input).
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

// readFile returns the content of a file of at most most bytes; "-" is standard input.
func readFile(name string, most int64) (string, error) {
	if name == "-" {
		data, err := wholefile.ReadFrom(os.Stdin, most)
		return string(data), err
	}
	data, err := wholefile.Read(name, most)
	return string(data), err
}
