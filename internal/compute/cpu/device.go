// Package cpu is the CPU device: weights repacked into huge pages, a claiming
// worker pool, and the kernels of compute/cpu/kernel behind every verb.
//
// An output element's order of accumulation depends on shapes and types only, so
// results are the same bytes for any number of threads and any company in a batch. Only layers by neuron may be rounded
// in another way in steps of at least panelTokens.
package cpu

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/pool"
)

// Options are the choices made when the device is opened.
type Options struct {
	Threads      int    // for steps of one token; at least 1
	ThreadsBatch int    // for longer steps; 0: as Threads
	Lock         bool   // keep memory out of swap
	Kernels      string // a kernel set by name, for tests; empty: the fastest this machine runs
}

// Device implements compute.Device and compute.Verbs. One goroutine uses it at a time.
type Device struct {
	k      *kernel.Kernels
	decode *pool.Pool // steps of one token
	batch  *pool.Pool // longer steps; the same pool where thread counts agree
	pool   *pool.Pool // of the segment in progress
	mem    arena
	p      *compute.Params // of the segment in progress

	scratch scratch
	mm      matmul
	att     attention
	rows    rowwise
	sparse  sparseFFN
	ahead   readAhead
	turns   rotations
}

// New opens the device.
func New(o Options) (*Device, error) {
	if o.Threads < 1 || o.Threads > pool.MaxThreads || o.ThreadsBatch < 0 || o.ThreadsBatch > pool.MaxThreads {
		return nil, fmt.Errorf("%d threads: give 1 to %d", max(o.Threads, o.ThreadsBatch), pool.MaxThreads)
	}
	k, err := kernel.New(o.Kernels)
	if err != nil {
		return nil, err
	}
	d := &Device{k: k, mem: arena{lock: o.Lock}}
	d.scratch.workers = make([]workerScratch, max(o.Threads, o.ThreadsBatch))
	d.decode = pool.New(o.Threads)
	d.batch = d.decode
	if o.ThreadsBatch > 0 && o.ThreadsBatch != o.Threads {
		d.batch = pool.New(o.ThreadsBatch)
	}
	d.pool = d.batch
	d.mm.init(d)
	d.att.init(d)
	d.rows.init(d)
	d.sparse.init(d)
	d.ahead.init(d)
	return d, nil
}

// Name says what computes: the kernel set and the threads.
func (d *Device) Name() string {
	if d.batch != d.decode {
		return fmt.Sprintf("CPU %s, %d threads (%d for prompts)", d.k.Name, d.decode.Threads(), d.batch.Threads())
	}
	return fmt.Sprintf("CPU %s, %d threads", d.k.Name, d.decode.Threads())
}

// Close stops the workers and frees all memory, weights included.
func (d *Device) Close() error {
	d.decode.Close()
	if d.batch != d.decode {
		d.batch.Close()
	}
	return d.mem.free()
}

// Run computes body at once.
func (d *Device) Run(_ compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	d.p = p
	d.pool = d.batch
	if len(p.Tokens) == 1 {
		d.pool = d.decode
	}
	d.turns.reset()
	body(d)
	d.p = nil
	return nil
}

// Host calls f at once: nothing is queued.
func (d *Device) Host(f func()) { f() }

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
func (d *Device) Read(t compute.Tensor, i int) []float32 { return row(t, i) }

// Data is t's memory. [t.Rows·t.Cols]
func (d *Device) Data(t compute.Tensor) []float32 { return floats(t) }

// Vector takes a one-dimensional weight in.
func (d *Device) Vector(src compute.Source) (*compute.Vector, error) {
	if !src.Type.Known() || src.Cols < 1 || src.Cols%src.Type.BlockElems() != 0 || len(src.Data) != src.Type.RowBytes(src.Cols) {
		return nil, fmt.Errorf("tensor %q: %d bytes do not hold %d elements of %s", src.Name, len(src.Data), src.Cols, src.Type)
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
