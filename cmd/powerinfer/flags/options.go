// Package flags holds the flags that several commands share, and what is read from them.
package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Engine returns the flags that choose how a model is loaded and computed.
func Engine() []cli.Flag {
	return About(MemorySubject, slices.Concat(Model(), []cli.Flag{
		&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "context in tokens; 0 is the model's own", Sources: Env("CTX_SIZE")},
		Batch(), UBatch(), CacheKeys(), CacheValues(), WholeCache(),
		&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Usage: "threads for generation; fewer take part while other programs keep cores busy, where that is faster; default: physical cores", Sources: Env("THREADS")},
		&cli.IntFlag{Name: "threads-batch", Aliases: []string{"tb"}, Usage: "threads for prompts; default: as --threads", Sources: Env("THREADS_BATCH")},
		&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory; the text is the same, except with --sparse exact on a file that is not prepared, where sums round differently", Sources: Env("NO_REPACK")},
		RAM(), Kernels(),
		&cli.BoolFlag{Name: "mlock", Usage: "keep weights out of swap", Sources: Env("MLOCK")},
		&cli.StringFlag{Name: "activation", Category: NeuronSubject, Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
		Sparse(), Experts(),
	}, Bound(), Prediction(), Adapters(), Rope(), GPU()))
}

// ReadOptions reads the flags of Engine, or those of them that the command has.
func ReadOptions(c *cli.Command) (powerinfer.Options, error) {
	o := powerinfer.Options{
		Context: c.Int("ctx-size"), Sequences: 1, Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size"),
		Threads: c.Int("threads"), ThreadsBatch: c.Int("threads-batch"), Mapped: c.Bool("no-repack"), Lock: c.Bool("mlock"),
		Activation: c.String("activation"), Sparse: powerinfer.Sparse(c.String("sparse")), Kernels: c.String("kernels"),
	}
	bound, err := ReadBound(c)
	if err != nil {
		return o, err
	}
	o.MaxKLD, o.MinSameTop = bound.KLD, bound.SameTop
	if o.Overrides, err = ReadOverrides(c); err != nil {
		return o, err
	}
	if o.Adapters, err = ReadAdapters(c); err != nil {
		return o, err
	}
	for name, v := range map[string]*int{
		"ctx-size": &o.Context, "batch-size": &o.Batch, "ubatch-size": &o.UBatch, "threads": &o.Threads, "threads-batch": &o.ThreadsBatch,
	} {
		if *v == -1 && strings.HasPrefix(name, "threads") { // llama.cpp's way to say the default
			*v = 0
		} else if *v < 0 || *v > 1<<30 {
			return o, fmt.Errorf("--%s %d is not a number from 0 to %d", name, *v, 1<<30)
		}
	}
	if !c.IsSet("ubatch-size") { // more where weights stay on the disk
		o.UBatch = 0
	}
	if o.RAM, err = ReadRAM(c); err != nil {
		return o, err
	}
	if _, err := ReadSparse(c); err != nil {
		return o, err
	}
	if _, err := ReadCacheTypes(c); err != nil {
		return o, err
	}
	o.CacheKeys, o.CacheValues = c.String("cache-type-k"), c.String("cache-type-v")
	o.WholeCache = c.Bool("swa-full")
	if o.Extension, err = ReadExtension(c); err != nil {
		return o, err
	}
	if o.Drafts, err = ReadDrafts(c); err != nil {
		return o, err
	}
	if o.Draft, err = ReadDraftModel(c); err != nil {
		return o, err
	}
	if err := ReadTower(c, &o); err != nil {
		return o, err
	}
	o.FurtherDrafts = DraftsBy(c, DraftMTP) && o.Drafts > 0
	switch o.NoLookup = !slices.ContainsFunc(strings.Split(c.String("spec-type"), ","), looksUp); {
	case DraftsBy(c, DraftHot):
		o.HotDrafts = powerinfer.HotAlways
	case !DraftsBy(c, DraftAuto):
		o.HotDrafts = powerinfer.HotNever
	}
	if c.IsSet("sparse-threshold") {
		t := c.Float32("sparse-threshold")
		if t != t {
			return o, errors.New("--sparse-threshold: NaN is no threshold")
		}
		o.SparseThreshold = &t
		if bound.IsSet() {
			return o, errors.New("--sparse-threshold sets what --max-kld and --min-same-top choose; give one or the other")
		}
	}
	if o.AlwaysOn = c.Float64("sparse-always-on"); !(o.AlwaysOn >= 0 && o.AlwaysOn <= 1) {
		return o, fmt.Errorf("--sparse-always-on %g is not a share from 0 to 1", o.AlwaysOn)
	}
	if v := c.String("leave-out"); v != "" {
		if o.LeaveOut, err = leaveOut(v); err != nil {
			return o, err
		}
		if bound.IsSet() {
			return o, errors.New("--leave-out sets what --max-kld and --min-same-top choose; give one or the other")
		}
	}
	if c.Bool("verbose") {
		o.Chosen = func(line string) { fmt.Fprintln(screen.Err, line) }
	}
	return o, gpuOptions(c, &o)
}

// ReadSession reads Engine's flags for a server, of which outputs requests generate at a time.
func ReadSession(c *cli.Command, outputs int) (session.Options, *powerinfer.Options, error) {
	o, err := ReadOptions(c)
	if err != nil {
		return session.Options{}, nil, err
	}
	e := engine.Options{
		Context: o.Context, Batch: o.Batch, UBatch: o.UBatch, NoRepack: o.Mapped, RAM: o.RAM, Lock: o.Lock, Activation: o.Activation, Threshold: o.SparseThreshold, AlwaysOn: o.AlwaysOn, Skip: compute.Skip{After: o.LeaveOut.After, Below: float32(o.LeaveOut.Below)}, Bound: model.Bound{KLD: o.MaxKLD, SameTop: o.MinSameTop},
		Outputs: outputs, Drafts: max(0, o.Drafts), NoLookup: o.NoLookup, HotDrafts: engine.HotDrafts(o.HotDrafts), Further: o.FurtherDrafts, LeastHot: o.Draft.Least, Work: c.Bool("metrics"),
	}
	if e.Sparse, err = ReadSparse(c); err != nil {
		return session.Options{}, nil, err
	}
	if e.CacheTypes, err = ReadCacheTypes(c); err != nil {
		return session.Options{}, nil, err
	}
	e.WholeCache = c.Bool("swa-full")
	so := session.Options{Engine: e, Planner: plannerOptionsOf(&o), Statistics: o.Statistics}
	if d := o.Draft; d.Path != "" {
		so.Draft = &session.Draft{Path: d.Path, Least: d.Least, Device: d.Devices, Layers: d.GPULayers}
	}
	so.Tower = session.Tower{Path: o.Tower, Off: o.NoTower, OnProcessor: o.TowerInRAM, Least: o.LeastPictureTokens, Most: o.MostPictureTokens}
	for _, a := range o.Adapters {
		so.Adapters = append(so.Adapters, session.Adapter(a))
	}
	if c.Bool("lora-init-without-apply") {
		for i := range so.Adapters {
			so.Adapters[i].Scale = 0
		}
	}
	return so, &o, nil
}

// plannerOptionsOf returns what o says of the machine, in the planner's terms.
func plannerOptionsOf(o *powerinfer.Options) planner.Options {
	return planner.Options{
		Processor: planner.Processor{Threads: o.Threads, ThreadsBatch: o.ThreadsBatch, Lock: o.Lock, Kernels: o.Kernels, Note: o.Chosen},
		Device:    o.Devices, Budgets: o.VRAM, Layers: o.GPULayers, Tensors: o.Tensors, KVInRAM: o.KVInRAM, StreamTokens: o.StreamTokens, ReadAhead: o.ReadAhead, MoECache: o.MoECache,
		Notice: o.Notice, Measuring: o.Measuring, Compiling: o.Compiling,
	}
}

// ReadPlanner reads the flags of where a model is computed; plan has fewer of them than run.
func ReadPlanner(c *cli.Command) (planner.Options, error) {
	var o powerinfer.Options
	err := gpuOptions(c, &o)
	return plannerOptionsOf(&o), err
}
