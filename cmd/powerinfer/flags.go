package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// modelFlags choose a model and what is done to its metadata.
func modelFlags() []cli.Flag {
	return about(modelSubject, slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "GGUF `FILE`, or a model by name; without it the embedded demo model", Sources: env("MODEL")},
		&cli.StringSliceFlag{Name: "override-kv", Usage: "replace a metadata key: `KEY=TYPE:VALUE`, TYPE int, float, bool or str; ARCH stands for the file's architecture; may be repeated"},
	}, hubFlags()))
}

// engineFlags choose how a model is loaded and computed.
func engineFlags() []cli.Flag {
	return about(memorySubject, slices.Concat(modelFlags(), []cli.Flag{
		&cli.IntFlag{Name: "ctx-size", Aliases: []string{"c"}, Usage: "context in tokens; 0 is the model's own", Sources: env("CTX_SIZE")},
		batchFlag(), ubatchFlag(), cacheKeysFlag(), cacheValuesFlag(), wholeCacheFlag(),
		&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Usage: "threads for generation; fewer take part while other programs keep cores busy, where that is faster; default: physical cores", Sources: env("THREADS")},
		&cli.IntFlag{Name: "threads-batch", Aliases: []string{"tb"}, Usage: "threads for prompts; default: as --threads", Sources: env("THREADS_BATCH")},
		&cli.BoolFlag{Name: "no-repack", Aliases: []string{"nr"}, Usage: "compute on the mapped file instead of repacking it into memory; the text is the same, except with --sparse exact on a file that is not prepared, where sums round differently", Sources: env("NO_REPACK")},
		ramBudgetFlag(), kernelsFlag(),
		&cli.BoolFlag{Name: "mlock", Usage: "keep weights out of swap", Sources: env("MLOCK")},
		&cli.StringFlag{Name: "activation", Category: neuronSubject, Usage: "override the file's activation: `NAME` is silu, gelu, relu, fatrelu[:threshold], drelu or relu2"},
		sparseFlag(), expertsFlag(),
	}, boundFlags(), predictionFlags(), loraFlags(), ropeFlags(), gpuFlags()))
}

func ramBudgetFlag() cli.Flag {
	return &cli.StringFlag{Name: "ram-budget", Category: memorySubject, Usage: "`GIB` of RAM that the model may take in all; of one that takes more, experts, or neurons of a prepared model, stay on the disk, and RAM keeps those that are used most; default: what is free, less a reserve where weights stay on the disk", Sources: env("RAM_BUDGET")}
}

// ramBudget reads that flag: bytes; nil where it is not given.
func ramBudget(c *cli.Command) (*int64, error) {
	if !c.IsSet("ram-budget") {
		return nil, nil
	}
	bytes, err := budget(c.String("ram-budget"))
	if err != nil {
		return nil, fmt.Errorf("--ram-budget %w", err)
	}
	return &bytes, nil
}

func batchFlag() cli.Flag {
	return &cli.IntFlag{Name: "batch-size", Category: memorySubject, Aliases: []string{"b"}, Value: engine.UsualBatch, Usage: "tokens of a prompt handed in at a time", Sources: env("BATCH")}
}

func ubatchFlag() cli.Flag {
	return &cli.IntFlag{Name: "ubatch-size", Category: memorySubject, Aliases: []string{"ub"}, Value: model.UsualStep, Usage: "tokens computed at a time; by default as many as --batch-size where weights stay on the disk and memory allows", Sources: env("UBATCH")}
}

func cacheKeysFlag() cli.Flag {
	return &cli.StringFlag{Name: "cache-type-k", Category: memorySubject, Aliases: []string{"ctk"}, Value: "f16", Usage: "keep keys in `TYPE`: f32, f16, bf16, q8_0 or q4_0", Sources: env("CACHE_TYPE_K"), Action: nearestCache("cache-type-k")}
}

func cacheValuesFlag() cli.Flag {
	return &cli.StringFlag{Name: "cache-type-v", Category: memorySubject, Aliases: []string{"ctv"}, Value: "f16", Usage: "keep values in `TYPE`, one of the same", Sources: env("CACHE_TYPE_V"), Action: nearestCache("cache-type-v")}
}

// nearCaches are llama.cpp's types of keys and values that are not there, and the nearest that are.
var nearCaches = map[string]string{"q5_0": "q8_0", "q5_1": "q8_0", "q4_1": "q4_0", "iq4_nl": "q4_0"}

// nearestCache has the flag of that name mean the nearest type that is there.
func nearestCache(name string) func(context.Context, *cli.Command, string) error {
	return func(_ context.Context, c *cli.Command, value string) error {
		near, ok := nearCaches[strings.ToLower(value)]
		if !ok {
			return nil
		}
		fmt.Fprintf(screen.Err, "note: --%s: the KV cache is kept in %s, the nearest to %s\n", name, near, value)
		return c.Set(name, near)
	}
}

func wholeCacheFlag() cli.Flag {
	return &cli.BoolFlag{Name: "swa-full", Category: memorySubject, Usage: "layers with sliding windows keep all keys and values, so that a text may go on anywhere behind its beginning", Sources: env("SWA_FULL")}
}

// cacheTypes reads those flags.
func cacheTypes(c *cli.Command) (types compute.CacheTypes, err error) {
	if types.Key, err = compute.ParseKVType(c.String("cache-type-k")); err != nil {
		return types, fmt.Errorf("--cache-type-k: %w", err)
	}
	if types.Value, err = compute.ParseKVType(c.String("cache-type-v")); err != nil {
		return types, fmt.Errorf("--cache-type-v: %w", err)
	}
	return types, nil
}

func sparseFlag() cli.Flag {
	return &cli.StringFlag{Name: "sparse", Category: neuronSubject, Value: "auto", Usage: "neurons of feed-forward layers to compute: `MODE` auto, off (all), exact (those not zero), predict (those predicted) or threshold (those not nearly zero)", Sources: env("SPARSE")}
}

// predictionFlags say how predictors are used.
func predictionFlags() []cli.Flag {
	return about(neuronSubject, []cli.Flag{
		&cli.Float32Flag{Name: "sparse-threshold", Usage: "logit from which a predicted neuron is computed; default: the file's", Sources: cli.NewValueSourceChain(variable("LLAMA_SPARSE_PRED_THRESHOLD"))},
		&cli.Float64Flag{Name: "sparse-always-on", HideDefault: true, Usage: "`SHARE` of each layer's neurons, the hottest, that --sparse predict computes for every token; default and minimum: the file's"},
	})
}

// boundFlags have the file's curve choose how neurons are left out.
func boundFlags() []cli.Flag {
	return about(neuronSubject, []cli.Flag{
		&cli.Float64Flag{Name: "max-kld", Usage: fmt.Sprintf("leave out as many neurons as the file's measured settings allow: the fastest setting with which 19 of 20 documents stay within this KL divergence from computing all neurons, in nats a token; with --sparse threshold the default is %g", model.UsualMaxKLD), Sources: env("MAX_KLD")},
		&cli.StringFlag{Name: "leave-out", Usage: "`K:SHARE` of experts that may be left out instead of being read from disk, instead of what --max-kld chooses: those after the K highest ranked of a token with less than SHARE of its weights, such as 4:0.05"},
		&cli.Float64Flag{Name: "min-same-top", Usage: "the same by another measure: the least share of a document's tokens whose likeliest successor stays the same, such as 0.97", Sources: env("MIN_SAME_TOP")},
	})
}

// leaveOut parses the value of --leave-out.
func leaveOut(v string) (o powerinfer.LeaveOut, err error) {
	after, below, ok := strings.Cut(v, ":")
	if ok {
		o.After, err = strconv.Atoi(after)
	}
	if ok && err == nil {
		o.Below, err = strconv.ParseFloat(below, 64)
	}
	if !ok || err != nil || o.After < 1 || !(o.Below > 0 && o.Below <= 1) {
		return o, fmt.Errorf("--leave-out %q: give how many experts of a token stay, 1 or more, and a share of its weights up to 1, such as 4:0.05", v)
	}
	return o, nil
}

// readBound reads those flags.
func readBound(c *cli.Command) (b model.Bound, err error) {
	if c.IsSet("max-kld") {
		if b.KLD, err = maxKLD(c); err != nil {
			return b, err
		}
	}
	if c.IsSet("min-same-top") {
		b.SameTop = c.Float64("min-same-top")
		if !(b.SameTop > 0 && b.SameTop <= 1) {
			return b, fmt.Errorf("--min-same-top %g is not a share above 0 and up to 1, such as 0.97", b.SameTop)
		}
	}
	return b, nil
}

// maxKLD reads a flag of that name.
func maxKLD(c *cli.Command) (float64, error) {
	v := c.Float64("max-kld")
	if !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("--max-kld %g is no bound; give a number above 0, such as %g", v, model.UsualMaxKLD)
	}
	return v, nil
}

func sparseMode(c *cli.Command) (model.SparseMode, error) {
	name := c.String("sparse")
	if name == "" { // a command that has no such flag, because it chooses
		return model.Auto, nil
	}
	m, err := model.ParseSparseMode(name)
	if err != nil {
		return m, fmt.Errorf("--sparse: %w", err)
	}
	return m, nil
}

// modelPath returns the file that -m names, empty for the embedded model.
func modelPath(c *cli.Command) (string, error) {
	path := c.String("model")
	if path == "" && c.IsSet("model") { // mostly a shell variable that was meant to hold a name
		return "", errors.New("-m names no file; leave it out for the embedded model")
	}
	return path, nil
}

// isDemo reports whether the embedded model is used, once fetchModel has run.
func isDemo(c *cli.Command) bool { return c.String("model") == "" }

// demoNote says what the embedded model is.
const demoNote = "this is the embedded demo, a tiny model that tells tales: it goes on with what you write, such as Once upon a time; to chat: powerinfer chat qwen3:0.6b"

// openModel opens the file that -m names, or the embedded model, and applies --override-kv.
func openModel(c *cli.Command) (*gguf.File, error) {
	path, err := modelPath(c)
	if err != nil {
		return nil, err
	}
	list, err := overrides(c)
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

func kernelsFlag() cli.Flag {
	return &cli.StringFlag{Name: "kernels", Category: memorySubject, Value: planner.KernelsAuto, Usage: "the processor's kernels for generation; all give the same text. auto measures which is the fastest while loading, usual takes the ordinary one, another `NAME` is one that -v shows; the name of an instruction set, as doctor shows it, keeps everything to that set"}
}

// openOptions reads engineFlags, of commands that have some of them those.
func openOptions(c *cli.Command) (powerinfer.Options, error) {
	o := powerinfer.Options{
		Context: c.Int("ctx-size"), Sequences: 1, Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size"),
		Threads: c.Int("threads"), ThreadsBatch: c.Int("threads-batch"), Mapped: c.Bool("no-repack"), Lock: c.Bool("mlock"),
		Activation: c.String("activation"), Sparse: powerinfer.Sparse(c.String("sparse")), Kernels: c.String("kernels"),
	}
	bound, err := readBound(c)
	if err != nil {
		return o, err
	}
	o.MaxKLD, o.MinSameTop = bound.KLD, bound.SameTop
	if o.Overrides, err = overrides(c); err != nil {
		return o, err
	}
	if o.Adapters, err = readAdapters(c); err != nil {
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
	if o.RAM, err = ramBudget(c); err != nil {
		return o, err
	}
	if _, err := sparseMode(c); err != nil {
		return o, err
	}
	if _, err := cacheTypes(c); err != nil {
		return o, err
	}
	o.CacheKeys, o.CacheValues = c.String("cache-type-k"), c.String("cache-type-v")
	o.WholeCache = c.Bool("swa-full")
	if o.Extension, err = readExtension(c); err != nil {
		return o, err
	}
	if o.Drafts, err = readDrafts(c); err != nil {
		return o, err
	}
	if o.Draft, err = readDraftModel(c); err != nil {
		return o, err
	}
	if err := readTower(c, &o); err != nil {
		return o, err
	}
	o.FurtherDrafts = names(c, specFurther) && o.Drafts > 0
	switch o.NoLookup = !slices.ContainsFunc(strings.Split(c.String("spec-type"), ","), looksUp); {
	case names(c, specHot):
		o.HotDrafts = powerinfer.HotAlways
	case !names(c, specAuto):
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

// open opens the model that -m names, or the embedded one, with a progress bar. adjust, if it is not nil, changes what
// the flags say.
func open(ctx context.Context, c *cli.Command, adjust func(*powerinfer.Options)) (*powerinfer.Model, error) {
	o, err := openOptions(c)
	if err != nil {
		return nil, err
	}
	if adjust != nil {
		adjust(&o)
	}
	path, err := modelPath(c)
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
	measuring, compiling, bar := progress.New("measuring", progress.Runs), progress.New("compiling", progress.Runs), progress.New("loading", progress.Bytes)
	writing := progress.New("writing the file of neurons, once", progress.Bytes)
	o.Measuring = measuring.Set
	write := sync.OnceFunc(writing.Starts)
	o.Bundling = func(done, total int64) {
		measuring.Finish()
		write()
		writing.Set(done, total)
	}
	begin, compile := sync.OnceFunc(bar.Starts), sync.OnceFunc(compiling.Starts) // when the machine has been measured
	var waits, over atomic.Bool                                                  // for shaders: then what is loaded is not what takes time
	o.Compiling = func(gpu string, done, total int) {
		if over.Load() { // what is not needed at first goes on
			return
		}
		compile()
		compiling.Say(fmt.Sprintf("compiling %d shaders for %s, once", total, gpu))
		compiling.Set(int64(done), int64(total))
		if waits.Store(done < total); done == total { // so far: more may be asked for
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

// sessionOptions reads engineFlags for a server, of which outputs requests generate at a time.
func sessionOptions(c *cli.Command, outputs int) (session.Options, *powerinfer.Options, error) {
	o, err := openOptions(c)
	if err != nil {
		return session.Options{}, nil, err
	}
	e := engine.Options{
		Context: o.Context, Batch: o.Batch, UBatch: o.UBatch, NoRepack: o.Mapped, RAM: o.RAM, Lock: o.Lock, Activation: o.Activation, Threshold: o.SparseThreshold, AlwaysOn: o.AlwaysOn, Skip: compute.Skip{After: o.LeaveOut.After, Below: float32(o.LeaveOut.Below)}, Bound: model.Bound{KLD: o.MaxKLD, SameTop: o.MinSameTop},
		Outputs: outputs, Drafts: max(0, o.Drafts), NoLookup: o.NoLookup, HotDrafts: engine.HotDrafts(o.HotDrafts), Further: o.FurtherDrafts, LeastHot: o.Draft.Least, Work: c.Bool("metrics"),
	}
	if e.Sparse, err = sparseMode(c); err != nil {
		return session.Options{}, nil, err
	}
	if e.CacheTypes, err = cacheTypes(c); err != nil {
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

// readText returns the text of -p, or of the file behind -f ("-" is standard input).
func readText(c *cli.Command) (string, error) {
	file := c.String("file")
	if file == "" {
		return unescape(c), nil
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

// unescape returns the text of -p with its escapes replaced, unless --no-escape is given.
func unescape(c *cli.Command) string {
	p := c.String("prompt")
	if c.Bool("no-escape") {
		return p
	}
	return withoutEscapes(p)
}

// withoutEscapes turns \n, \r, \t, \", \', \\ and \xHH into the characters they stand for, as llama.cpp does. What is
// no escape stays.
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
