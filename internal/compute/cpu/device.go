// Package cpu is the CPU device. It repacks weights into huge pages, shares work among a pool of worker threads, and
// computes every operation with the kernels of compute/cpu/kernel.
//
// The order in which an output element is summed depends on shapes and types only. In layers by neuron it also depends
// on the token's own neurons, and on whether the token is part of a prompt. Results therefore have the same bytes for
// any number of threads, any other tokens in a batch, and any cut of a prompt.
package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

// Options are the choices made when the device is opened.
type Options struct {
	Threads      int               // for steps of one token; at least 1
	Idle         int               // cores that other programs probably leave idle: see pool.Pool.Expect; 0: unknown
	ThreadsBatch int               // for longer steps; 0: as Threads
	Lock         bool              // keep memory out of swap
	Set          string            // a kernel set by name, for tests; empty: the fastest this machine runs
	Floats       bool              // products with floats are of floats in prompts, too, for tests: see kernel.Kernels.Floats
	Kernels      string            // for one token: KernelsAuto, KernelsUsual or a kernel's name; or an instruction set's for all; empty: KernelsUsual
	UnitCache    int64             // bytes of RAM for units of weights on disk
	Note         func(line string) // receives a line on the kernels that Tune chose; may be nil
}

// Device implements compute.Device and compute.Executor. One goroutine uses it at a time.
type Device struct {
	compute.Plain
	k      *kernel.Kernels
	decode *pool.Pool // steps of one token
	batch  *pool.Pool // longer steps; the same pool where thread counts agree
	pool   *pool.Pool // threads of the segment in progress
	mem    arena
	p      *compute.Params // params of the segment in progress
	verbs  compute.Verbs   // d's own
	parts  compute.Verbs   // for operations that are parts of others
	err    error           // an observer's error in the segment in progress
	watch  *compute.Watch  // the model's, or nil

	scratch scratch
	tiling  tiling
	mm      matmul
	heads   byHead
	att     attention
	expand  expansion
	choose  selecting
	rows    rowwise
	sparse  sparseFFN
	routing routing

	units       *store
	neuronGuess neuronGuess
	connections connections
	blocks      blocks
	experts     experts
	foresight   foresight
	ahead       readAhead
	turns       rotations
	tuner       tuner

	convolution convolution
	scans       scans
	deltas      deltas
	runs        []compute.Run // scratch of recent
	wkvs        wkvs
}

// New opens the device.
func New(o Options) (*Device, error) {
	if o.Threads < 1 || o.Threads > pool.MaxThreads || o.ThreadsBatch < 0 || o.ThreadsBatch > pool.MaxThreads {
		return nil, fmt.Errorf("%d threads: give 1 to %d", max(o.Threads, o.ThreadsBatch), pool.MaxThreads)
	}
	if set := o.namedSet(); set != "" {
		o.Set, o.Kernels = set, KernelsAuto
	}
	k, err := kernel.New(o.Set)
	if err != nil {
		return nil, err
	}
	if o.Floats {
		k = k.Floats()
	}
	if o.Kernels == "" {
		o.Kernels = KernelsUsual
	}
	if ways := k.AllWays(); o.Kernels != KernelsAuto && o.Kernels != KernelsUsual && !slices.Contains(ways, o.Kernels) {
		return nil, fmt.Errorf("kernels %q are not among those of this processor: auto, usual, %s; of all: %s", o.Kernels, strings.Join(ways, ", "), strings.Join(kernel.Names(), ", "))
	}
	d := &Device{k: k, mem: arena{lock: o.Lock}, units: newStore(o.UnitCache), tuner: tuner{kernels: o.Kernels, note: o.Note}}
	d.verbs, d.parts = compute.NewVerbs(d), compute.NewVerbs(inner{d})
	d.scratch.workers = make([]workerScratch, max(o.Threads, o.ThreadsBatch))
	d.decode = pool.New(o.Threads)
	if o.Idle > 0 {
		d.decode.Expect(o.Idle)
	}
	d.batch = d.decode
	if o.ThreadsBatch > 0 && o.ThreadsBatch != o.Threads {
		d.batch = pool.New(o.ThreadsBatch)
	}
	d.pool = d.batch
	d.tiling.init(d)
	d.mm.init(d)
	d.heads.init(d)
	d.att.init(d)
	d.expand.init(d)
	d.choose.init(d)
	d.rows.init(d)
	d.sparse.init(d)
	d.routing.init(d)
	d.connections.init(d)
	d.blocks.init(d)
	d.experts.init(d)
	d.ahead.init(d)
	d.convolution.init(d)
	d.scans.init(d)
	d.deltas.init(d)
	d.wkvs.init(d)
	return d, nil
}

// namedSet returns the name of the instruction set that Kernels names, or nothing.
func (o *Options) namedSet() string {
	for _, name := range kernel.Names() {
		if strings.EqualFold(name, o.Kernels) {
			return name
		}
	}
	return ""
}

// Kernels returns the name of the kernels that this machine runs.
func Kernels() string { return kernel.Variants()[0].Name }

// Name names the kernel set and the number of threads.
func (d *Device) Name() string {
	plural := "s"
	if d.decode.Threads() == 1 {
		plural = ""
	}
	name := fmt.Sprintf("CPU %s, %d thread%s", d.k.Name, d.decode.Threads(), plural)
	if d.batch != d.decode {
		name += fmt.Sprintf(" (%d for prompts)", d.batch.Threads())
	}
	return name
}

// Do implements compute.Executor.
func (d *Device) Do(op compute.Op) {
	w := d.watch
	if w == nil || !w.On {
		op.On(d)
		return
	}
	begin := monotime.Now()
	op.On(d)
	w.Work.CPU[compute.PartOf(op)] += monotime.Since(begin)
}

// inner does operations that are parts of others. A watch counts them with the others.
type inner struct{ *Device }

func (d inner) Do(op compute.Op) { op.On(d.Device) }

// Usage implements compute.Device. Only short steps leave cores to other programs.
func (d *Device) Usage() compute.Usage {
	return compute.Usage{Units: d.units.usage(), Yielded: d.decode.Yielded(), Threads: d.decode.Threads(), Unread: d.units.unread}
}

// Close stops the workers and frees all memory, weights included.
func (d *Device) Close() error {
	d.decode.Close()
	if d.batch != d.decode {
		d.batch.Close()
	}
	return errors.Join(d.units.close(), d.mem.free())
}

// Run computes body at once.
func (d *Device) Run(_ compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return fault.Guard(func() error { return d.run(p, body) })
}

func (d *Device) run(p *compute.Params, body func(compute.Verbs)) error {
	d.p = p
	d.pool = d.batch
	if len(p.Tokens) == 1 {
		d.pool = d.decode
	}
	d.pool.Begin(kindOfRegions(len(p.Tokens)))
	d.turns.reset()
	d.err = nil
	d.foresight.g, d.foresight.of, d.neuronGuess.g = compute.ExpertGuess{}, nil, compute.Guess{}
	body(d.verbs)
	d.p = nil
	return d.err
}

// kindOfRegions distinguishes a pool's regions by a step's tokens: regions of few tokens are short.
func kindOfRegions(tokens int) int {
	if tokens > compute.FewTokens {
		return 0
	}
	return tokens
}

// single returns how many of t's first rows are computed as the single tokens of running sequences are.
func (d *Device) single(t compute.Tensor) int {
	if t.Outputs {
		return d.p.DecodeOut()
	}
	return min(d.p.Decode, t.Rows)
}

// Watch makes the device add its counts to w while w is on.
func (d *Device) Watch(w *compute.Watch) { d.watch = w }

// Host calls f at once: nothing is queued.
func (d *Device) Host(f func() error) { d.err = cmp.Or(d.err, f()) }

// buffer is a tensor's memory. [rows·cols]
type buffer struct{ data []float32 }

func floats(t compute.Tensor) []float32 { return t.Mem.(*buffer).data[:t.Rows*t.Cols] }

func row(t compute.Tensor, i int) []float32 {
	return t.Mem.(*buffer).data[i*t.Cols : (i+1)*t.Cols]
}

// Tensor allocates an activation [rows, cols].
func (d *Device) Tensor(rows, cols int) (compute.Tensor, error) {
	data, err := d.mem.floats(rows * cols)
	if err != nil {
		return compute.Tensor{}, fmt.Errorf("activations of %d×%d: %w", rows, cols, err)
	}
	return compute.Tensor{Rows: rows, Cols: cols, Mem: &buffer{data}}, nil
}

// Read returns row i of t.
func (d *Device) Read(t compute.Tensor, i int) ([]float32, error) { return row(t, i), nil }

// Data returns t's memory. [t.Rows·t.Cols]
func (d *Device) Data(t compute.Tensor) []float32 { return floats(t) }

// Over returns t with data as its memory.
func (d *Device) Over(t compute.Tensor, data []float32) compute.Tensor {
	t.Mem = &buffer{data}
	return t
}

// Vector takes a one-dimensional weight in.
func (d *Device) Vector(src compute.Source) (*compute.Vector, error) {
	if err := src.CheckVector(); err != nil {
		return nil, err
	}
	v, err := d.mem.floats(src.Cols)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", src.Name, err)
	}
	decode(src.Type, v, src.Data)
	return &compute.Vector{Name: src.Name, Len: src.Cols, Mem: v}, nil
}

func vector(v *compute.Vector) []float32 {
	if v == nil {
		return nil
	}
	return v.Mem.([]float32)
}
