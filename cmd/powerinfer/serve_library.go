package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/serving"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/library"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// several reports whether the flags ask for a server of several models: those of a folder and the cache, or of the
// cache alone.
func several(c *cli.Command) bool {
	return c.String("models-dir") != "" || c.String("model") == "" && !c.IsSet("hf-repo") && (c.IsSet("models-max") || c.Bool("no-models-autoload"))
}

// serveLibrary serves the models of --models-dir and of the cache.
func serveLibrary(ctx context.Context, c *cli.Command, o server.Options, m server.ModelOptions, l net.Listener, url string) error {
	if c.String("model") != "" || c.IsSet("hf-repo") || m.Name != "" {
		return errors.New("--models-dir serves many models: leave out -m, -hf and --alias")
	}
	if c.String("model-draft") != "" {
		return errors.New("--models-dir serves many models, for which there is no draft model in common: leave out -md")
	}
	h, err := modelname.Hub(c)
	if err != nil {
		return err
	}
	dirs := flags.ReadModelsDirs(c)
	for _, dir := range dirs {
		if _, err := hub.Folder(dir); err != nil {
			return err
		}
	}
	so, err := flags.ReadSession(c, m.Slots)
	if err != nil {
		return err
	}
	so.Planner.Notice = func(line string) { o.Log.Info(line) }
	opener := &modelOpener{c: c, session: so, model: m}
	models := library.New(library.Options{
		Opener: opener, Keep: c.Duration("keep-alive"), Most: c.Int("models-max"), Asked: c.Bool("no-models-autoload"), Log: o.Log, Meter: o.Meter,
		Scan: func() ([]library.Source, error) { return serving.Complete(h, dirs, !c.Bool("no-mmproj")) },
	})
	s := serving.New(models, h, o)
	o.Log.Info("listening", "url", url, "models", len(models.List()), "folder", c.String("models-dir"))
	return errors.Join(s.Serve(ctx, l), models.Close())
}

// serveSleeping serves one model, which is freed after a time without requests.
func serveSleeping(ctx context.Context, c *cli.Command, o server.Options, m server.ModelOptions, l net.Listener, url string) error {
	so, err := flags.ReadSession(c, m.Slots)
	if err != nil {
		return err
	}
	path, err := flags.ModelPath(c)
	if err != nil {
		return err
	}
	source := library.Source{Name: m.Name, Path: path, Aliases: m.Aliases, Tags: m.Tags, Modified: time.Now(), Sees: !c.Bool("no-mmproj") && (c.String("mmproj") != "" || hub.TowerBeside(path) != "")}
	if source.Name == "" {
		source.Name = cmp.Or(modelname.Short(c), strings.TrimSuffix(filepath.Base(cmp.Or(path, demo.Name)), ".gguf"))
	}
	if info, err := os.Stat(path); err == nil {
		source.Size, source.Modified = info.Size(), info.ModTime()
	}
	so.Planner.Notice = func(line string) { o.Log.Info(line) }
	var s *server.Server
	models := &serving.Sleeping{Library: library.New(library.Options{
		Opener: &modelOpener{c: c, session: so, model: m, opened: func(m *server.Model) { serving.Asleep(s, m) }},
		Keep:   time.Duration(c.Int("sleep-idle-seconds")) * time.Second, Any: true, Log: o.Log, Meter: o.Meter,
		Scan: func() ([]library.Source, error) { return []library.Source{source}, nil },
	})}
	s = serving.New(models, nil, o)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- s.Serve(ctx, l)
		stop()
	}()
	if err := models.Load(ctx, source.Name); err != nil {
		stop()
		return errors.Join(err, <-ended, models.Close())
	}
	models.Began()
	o.Log.Info("listening", "url", url, "model", source.Name)
	return errors.Join(<-ended, models.Close())
}

// modelOpener opens models according to the flags of serve. It implements library.Opener.
type modelOpener struct {
	c       *cli.Command
	session session.Options
	model   server.ModelOptions
	opened  func(*server.Model) // called with each model; may be nil
}

// Need returns the memory that a file's model takes.
func (o *modelOpener) Need(ctx context.Context, path string) (session.Need, error) {
	f, err := o.open(path)
	if err != nil {
		return session.Need{}, err
	}
	n, err := session.NeedOf(ctx, f, o.session)
	return n, errors.Join(err, f.Close())
}

// Free returns the available RAM.
func (o *modelOpener) Free() (int64, error) {
	mem, err := hw.ReadMemory()
	return int64(mem.Available), err
}

// Open loads a file's model.
func (o *modelOpener) Open(ctx context.Context, name, path string) (*server.Model, io.Closer, error) {
	f, err := o.open(path)
	if err != nil {
		return nil, nil, err
	}
	e, err := session.Open(ctx, f, o.session)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	m := o.model
	m.Name = name
	if err := completeOptions(o.c, e, &m); err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	opened := server.NewModel(e.Engine, m)
	if o.opened != nil {
		o.opened(opened)
	}
	return opened, e, nil
}

// open opens a file with the metadata overrides of the flags.
func (o *modelOpener) open(path string) (*gguf.File, error) {
	list, err := flags.ReadOverrides(o.c)
	if err != nil {
		return nil, err
	}
	return openWith(path, list)
}
