// Package flags defines the flags that several commands share, and reads their values.
package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Engine returns the flags that choose how a model is loaded and computed.
func Engine() []cli.Flag {
	return About(MemorySubject, slices.Concat(Model(), flagsOf(engineRows(&powerinfer.Options{})), Bound(), Prediction(), Adapters(), Rope(), GPU()))
}

// row is a flag, and where its value goes: a pointer, or a function that reads it; nil: it is read elsewhere.
type row struct {
	flag cli.Flag
	to   any
}

func engineRows(o *powerinfer.Options) []row {
	return []row{
		{&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "context in tokens; 0 is the model's own", Sources: Env("CTX_SIZE")}, &o.Limits.Context},
		{Batch(), &o.Limits.Batch},
		{UBatch(), &o.Limits.UBatch},
		{CacheKeys(), &o.Cache.Key},
		{CacheValues(), &o.Cache.Value},
		{WholeCache(), &o.Cache.Whole},
		{&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Usage: "threads for generation; fewer take part while other programs keep cores busy, where that is faster; default: physical cores", Sources: Env("THREADS")}, &o.CPU.Threads},
		{&cli.IntFlag{Name: "threads-batch", Aliases: []string{"tb"}, Usage: "threads for prompts; default: as --threads", Sources: Env("THREADS_BATCH")}, &o.CPU.ThreadsBatch},
		{&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory; the text is the same, except with --sparse exact on a file that is not prepared, where sums round differently", Sources: Env("NO_REPACK")}, &o.Limits.Mapped},
		{RAM(), &o.Limits.RAM},
		{Kernels(), &o.CPU.Kernels},
		{&cli.BoolFlag{Name: "mlock", Usage: "keep weights out of swap", Sources: Env("MLOCK")}, &o.Limits.Lock},
		{&cli.StringFlag{Name: "activation", Category: NeuronSubject, Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"}, &o.Neurons.Activation},
		{Sparse(), &o.Neurons.Sparse},
		{Experts(), nil},
	}
}

func flagsOf(rows []row) (list []cli.Flag) {
	for _, r := range rows {
		list = append(list, r.flag)
	}
	return list
}

// read reads the flags of rows that c has.
func read(c *cli.Command, rows []row) (err error) {
	for _, r := range rows {
		name := r.flag.Names()[0]
		if err != nil || !Has(c, name) {
			continue
		}
		switch to := r.to.(type) {
		case *int:
			if *to = c.Int(name); *to == -1 && strings.HasPrefix(name, "threads") { // llama.cpp's name of the default
				*to = 0
			} else if *to < 0 || *to > 1<<30 {
				err = fmt.Errorf("--%s %d is not a number from 0 to %d", name, *to, 1<<30)
			}
		case *bool:
			*to = c.Bool(name)
		case *string:
			*to = c.String(name)
		case **bool:
			if c.IsSet(name) {
				on := c.Bool(name)
				*to = &on
			}
		case **int64:
			*to, err = ReadRAM(c)
		case *powerinfer.KVType:
			*to, err = cacheType(c, name)
		case *powerinfer.Sparse:
			*to, err = ReadSparse(c)
		case func(name string) error:
			err = to(name)
		}
	}
	return err
}

// ReadOptions reads the flags of Engine that the command has.
func ReadOptions(c *cli.Command) (powerinfer.Options, error) {
	var o powerinfer.Options
	o.Limits.Sequences = 1
	err := read(c, engineRows(&o))
	if err != nil {
		return o, err
	}
	if !c.IsSet("ubatch-size") { // weights on disk need a larger default
		o.Limits.UBatch = 0
	}
	if o.Neurons.Bound, err = ReadBound(c); err != nil {
		return o, err
	}
	if o.Overrides, err = ReadOverrides(c); err != nil {
		return o, err
	}
	if o.Adapters, err = ReadAdapters(c); err != nil {
		return o, err
	}
	if o.Cache.Extension, err = ReadExtension(c); err != nil {
		return o, err
	}
	if o.Drafts.Most, err = ReadDrafts(c); err != nil {
		return o, err
	}
	if o.Draft, o.Drafts.Least, err = ReadDraftModel(c); err != nil {
		return o, err
	}
	if o.Tower, err = ReadTower(c); err != nil {
		return o, err
	}
	o.Drafts.Further = DraftsBy(c, DraftMTP) && o.Drafts.Most > 0
	switch o.Drafts.NoLookup = !slices.ContainsFunc(strings.Split(c.String("spec-type"), ","), looksUp); {
	case DraftsBy(c, DraftHot):
		o.Drafts.Hot = powerinfer.HotAlways
	case !DraftsBy(c, DraftAuto):
		o.Drafts.Hot = powerinfer.HotNever
	}
	if c.IsSet("sparse-threshold") {
		t := c.Float32("sparse-threshold")
		if t != t {
			return o, errors.New("--sparse-threshold: NaN is no threshold")
		}
		o.Neurons.Threshold = &t
		if o.Neurons.Bound.IsSet() {
			return o, errors.New("--sparse-threshold sets what --max-kld and --min-same-top choose; give one or the other")
		}
	}
	if o.Neurons.AlwaysOn = c.Float64("sparse-always-on"); !(o.Neurons.AlwaysOn >= 0 && o.Neurons.AlwaysOn <= 1) {
		return o, fmt.Errorf("--sparse-always-on %g is not a share from 0 to 1", o.Neurons.AlwaysOn)
	}
	if o.Neurons.Skip, err = ReadLeaveOut(c, o.Neurons.Bound); err != nil {
		return o, err
	}
	if c.Bool("verbose") {
		o.CPU.Note = func(line string) { fmt.Fprintln(screen.Err, line) }
	}
	return o, gpuOptions(c, &o)
}

// ReadServed returns ReadOptions for a session in which this many requests generate at a time.
func ReadServed(c *cli.Command, sequences int) (*powerinfer.Options, error) {
	o, err := ReadOptions(c)
	o.Limits.Sequences = sequences
	if c.Bool("lora-init-without-apply") {
		for i := range o.Adapters {
			o.Adapters[i].Scale = 0
		}
	}
	return &o, err
}

// Session returns the options of o and c in the form of sessions.
func Session(c *cli.Command, o *powerinfer.Options) (session.Options, error) {
	so, err := session.OptionsOf(o)
	so.Engine.Work = c.Bool("metrics")
	return so, err
}

// ReadSession returns the options of a session in which this many requests generate at a time.
func ReadSession(c *cli.Command, sequences int) (session.Options, error) {
	o, err := ReadServed(c, sequences)
	if err != nil {
		return session.Options{}, err
	}
	return Session(c, o)
}

// ReadPlanner reads the flags about where a model is computed. plan has fewer of them than run.
func ReadPlanner(c *cli.Command) (planner.Options, error) {
	var o powerinfer.Options
	if err := gpuOptions(c, &o); err != nil {
		return planner.Options{}, err
	}
	so, err := session.OptionsOf(&o)
	return so.Planner, err
}
