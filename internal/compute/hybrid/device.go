// Package hybrid makes one device of several: a GPU, or a MultiGPU of them, with the weights that the plan put there,
// and the host, which computes with the rest from RAM. Only activations pass between them.
//
// Every operation is computed where its weights are or, without weights, where its operands are. Both compute a
// feed-forward layer that is split by neuron at the same time. Placement is fixed when weights are loaded, so the same
// operations always run on the same processor, and the GPU may record them once and replay them.
package hybrid

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Device is a GPU and the host. It implements compute.Device.
type Device struct {
	gpu        GPU
	index      int // the GPU's number in a MultiGPU
	host       Host
	attention  []bool                   // [layers] keys and values are on the GPU
	further    bool                     // the MTP layer's keys and values are on the GPU
	rows       int                      // rows of the largest activations: tokens of the largest step
	partials   map[partialOf]tensorPair // [rows, columns]
	ahead      Ahead
	early      compute.Set // the host's set for a prediction
	rehearsal  bool        // Run records only
	trace      *trace.Log  // or nil
	watch      *compute.Watch
	streaming  Streaming
	rooms      rooms
	shadows    map[shadowOf]*compute.Cache
	sent       int64 // bytes of weights, as files have them, that went to the GPU for prompts
	slots      slots
	joins      map[compute.Segment][]join // counts of a run that are added to the model's
	fetches    fetches
	foresights map[foresightOf]foresight
	onDisk     bool // some of the host's weights are on disk
	experts    bool // some of the weights on disk are experts
	lends      bool // the host lends them, so that prompts can send them to the GPU
	tensors    []*tensor
	ends       map[compute.Segment][]whereabouts // [tensors] where a run leaves their content
}

// GPUError is an error of a GPU that the host and other GPUs can do without.
type GPUError struct {
	Err error
	GPU int // its number in a MultiGPU
}

func (e *GPUError) Error() string { return e.Err.Error() }

// Unwrap returns the GPU's error.
func (e *GPUError) Unwrap() error { return e.Err }

// ofGPU marks an error of the GPU's.
func (d *Device) ofGPU(err error) error {
	if err == nil {
		return nil
	}
	return &GPUError{err, d.index}
}

// New returns a device of gpu and host, and takes ownership of both. attention says for each layer whether its keys and
// values are on the GPU.
func New(gpu GPU, host Host, attention []bool) *Device {
	return &Device{gpu: gpu, host: host, attention: attention, partials: map[partialOf]tensorPair{}, shadows: map[shadowOf]*compute.Cache{}, joins: map[compute.Segment][]join{}, fetches: fetches{}, foresights: map[foresightOf]foresight{}, ends: map[compute.Segment][]whereabouts{}}
}

// HoldFurther puts keys and values of the MTP layer on the GPU.
func (d *Device) HoldFurther() { d.further = true }

// Watch adds what the GPU and the host compute to w while it is on.
func (d *Device) Watch(w *compute.Watch) {
	d.watch = w
	d.gpu.Watch(w)
	d.host.Watch(w)
}

// Trace records the host's work in l.
func (d *Device) Trace(l *trace.Log) { d.trace = l }

// Name says what computes.
func (d *Device) Name() string { return d.gpu.Name() + " and " + d.host.Name() }

// Close closes both devices.
func (d *Device) Close() error {
	d.slots.close()
	return errors.Join(d.gpu.Close(), d.host.Close())
}

// matrix is a weight's two parts; the second's rows, or neurons, follow the first's. Either may be nil.
type matrix struct {
	gpu, host *compute.Matrix
	hot       int // neurons, or rows, on the GPU
	use       compute.Use
	home      int      // the GPU's number in a MultiGPU
	slots     bool     // the host has all rows; those on the GPU are experts that may change
	units     int      // units that the host has on disk; 0: none
	passing   bool     // as compute.Source has it
	slotted   *slotted // a layer's slots, for its down matrix, once it was recorded; nil if its experts do not move
	known     bool     // slotted says so
}

func mem(m *compute.Matrix) *matrix { return m.Mem.(*matrix) }

// onGPU reports whether the GPU has all of m.
func onGPU(m *compute.Matrix) bool { return mem(m).host == nil }

// Matrix puts rows or neurons [0, src.Split.Bound) on the GPU and the others on the host; with slots on the GPU, all on
// the host.
func (d *Device) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	n := src.Rows
	if use == compute.Columns && src.Stack == 0 {
		n = src.Cols
	}
	out := &compute.Matrix{Name: src.Name, Type: src.Type, Rows: src.Rows, Cols: src.Cols}
	hot := src.Split.Bound
	m := &matrix{hot: hot, use: use, passing: src.Passing}
	out.Mem = m
	split := use == compute.Rows || use == compute.Columns
	if hot < 0 || hot > n || !split && hot != 0 && hot != n {
		return nil, fmt.Errorf("tensor %q: %d of its %d rows cannot be on the GPU", src.Name, hot, n)
	}
	var err error
	switch hot {
	case n:
		src.Pinned, src.Disk = false, nil
		m.gpu, err = d.gpu.Matrix(src, use)
		err = d.ofGPU(err)
	case 0:
		if use == compute.Dense && src.Stack > 0 && d.streaming.Experts > 0 { // prompts may have its rows sent
			use = compute.Rows
		}
		err = d.toHost(m, src, use)
	default:
		held := src
		held.Disk = nil
		var part compute.Source
		if part, err = neurons(held, use, 0, hot); err != nil {
			return nil, err
		}
		part.Pinned = false
		if m.gpu, err = d.gpu.Matrix(part, use); err != nil {
			return nil, d.ofGPU(err)
		}
		first := hot
		if m.slots = src.Split.Slots; m.slots {
			first = 0
			d.slots.unknown++
		}
		if part, err = neurons(src, use, first, n); err != nil {
			return nil, err
		}
		err = d.toHost(m, part, use)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// toHost takes m's part in RAM, or on disk, to the host.
func (d *Device) toHost(m *matrix, src compute.Source, use compute.Use) (err error) {
	if src.Disk != nil {
		m.units, d.onDisk = src.Disk.Units, true
		d.experts = d.experts || src.Stack > 0
	}
	m.host, err = d.host.Matrix(src, use)
	return err
}

// vector is on both devices.
type vector struct {
	gpu, host *compute.Vector
	home      int // the GPU's number in a MultiGPU
	data      []float32
	parts     map[piece]*compute.Vector
}

// piece is a part of a vector on one of the devices.
type piece struct {
	dev      compute.Device
	from, to int
}

// Vector takes a one-dimensional weight in.
func (d *Device) Vector(src compute.Source) (*compute.Vector, error) {
	v := &vector{parts: map[piece]*compute.Vector{}}
	var err error
	if v.gpu, err = d.gpu.Vector(src); err != nil {
		return nil, d.ofGPU(err)
	}
	if v.host, err = d.host.Vector(src); err != nil {
		return nil, err
	}
	v.data = make([]float32, src.Cols)
	if src.Data != nil { // otherwise only shapes are known and needed
		quant.Decode(src.Type, v.data, src.Data)
	}
	return &compute.Vector{Name: src.Name, Len: src.Cols, Mem: v}, nil
}

// part is elements [from, to) of v on dev; nil for a nil v.
func part(v *compute.Vector, dev compute.Device, from, to int) (*compute.Vector, error) {
	if v == nil {
		return nil, nil
	}
	m, key := v.Mem.(*vector), piece{dev, from, to}
	if have := m.parts[key]; have != nil {
		return have, nil
	}
	data := make([]byte, 4*(to-from))
	quant.Encode(quant.F32, data, m.data[from:to])
	made, err := dev.Vector(compute.Source{Name: v.Name, Type: quant.F32, Rows: 1, Cols: to - from, Data: data})
	if err == nil {
		m.parts[key] = made
	}
	return made, err
}

func gpuVector(v *compute.Vector) *compute.Vector {
	if v == nil {
		return nil
	}
	return v.Mem.(*vector).gpu
}

func hostVector(v *compute.Vector) *compute.Vector {
	if v == nil {
		return nil
	}
	return v.Mem.(*vector).host
}

// tensorPair is one activation's memory on both devices.
type tensorPair struct{ gpu, host compute.Tensor }

// tensor is a tensorPair and where its content is, at the place that a recording has reached.
type tensor struct {
	tensorPair
	whereabouts
}

// whereabouts say where the content is of what both devices have memory for.
type whereabouts struct{ onGPU, onHost bool }

// written says that one of the devices has written it.
func (w *whereabouts) written(gpu bool) { w.onGPU, w.onHost = gpu, !gpu }

// pair is host, with as much memory on the GPU.
func (d *Device) pair(host compute.Tensor) (tensorPair, error) {
	gpu, err := d.gpu.Tensor(host.Rows, host.Cols)
	d.rows = max(d.rows, host.Rows)
	return tensorPair{gpu, host}, d.ofGPU(err)
}

// partialOf says which of an operation's outputs a partial is for: several have memory of their own.
type partialOf struct{ cols, output int }

// partial is memory for the host's part of an output of cols columns, as many rows as any step has: layers take turns,
// for each part is added before the next one's is made.
func (d *Device) partial(cols, output int) (tensorPair, error) {
	of := partialOf{cols, output}
	p, ok := d.partials[of]
	if !ok {
		host, err := d.host.Tensor(d.rows, cols)
		if err != nil {
			return p, err
		}
		if p, err = d.pair(host); err != nil {
			return p, err
		}
		d.partials[of] = p
	}
	return p, nil
}

// Tensor allocates an activation [rows, cols] on both devices.
func (d *Device) Tensor(rows, cols int) (compute.Tensor, error) {
	host, err := d.host.Tensor(rows, cols)
	if err != nil {
		return compute.Tensor{}, err
	}
	return d.tensor(host)
}

// tensor returns an activation on both devices that uses host's memory on the host.
func (d *Device) tensor(host compute.Tensor) (compute.Tensor, error) {
	p, err := d.pair(host)
	if err != nil {
		return compute.Tensor{}, err
	}
	t := &tensor{tensorPair: p}
	d.tensors = append(d.tensors, t)
	return compute.Tensor{Rows: host.Rows, Cols: host.Cols, Mem: t}, nil
}

// set is a set's memory on both devices, and where its content is.
type set struct {
	gpu, host compute.Set
	cold      compute.Set // the host's, of the neurons that are not on the GPU
	words     []uint32    // scratch: bits of host
	whereabouts
}

// Set allocates a set on both devices.
func (d *Device) Set(rows, n int) (compute.Set, error) {
	host, err := d.host.Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	cold, err := d.host.Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	return d.set(host, cold)
}

// set returns a set on both devices that uses the memory of host and cold on the host.
func (d *Device) set(host, cold compute.Set) (compute.Set, error) {
	gpu, err := d.gpu.Set(host.Rows, host.N)
	if err != nil {
		return compute.Set{}, d.ofGPU(err)
	}
	return compute.Set{Rows: host.Rows, N: host.N, Mem: &set{gpu: gpu, host: host, cold: cold}}, nil
}

// cache is the layers of a KV cache that each device holds.
type cache struct {
	gpu, host *compute.Cache
	index     []int // number of each part of the cache within its device
}

// Usage says what the host and the slots did.
func (d *Device) Usage() compute.Usage {
	use := d.host.Usage()
	use.Slots, use.Unread = d.slots.use, cmp.Or(use.Unread, d.slots.unread)
	return use
}

// ExpandsLatent implements compute.Device.
func (d *Device) ExpandsLatent() bool { return d.host.ExpandsLatent() }

// planned reports whether a plan for that many layers fits a cache, which may have one more part for the MTP layer.
func planned(spec *compute.CacheSpec, layers int) error {
	if n := len(spec.Layers) - len(spec.Further); n != layers && n != layers+1 {
		return fmt.Errorf("a plan for %d layers is not for a cache of %d", layers, n)
	}
	return nil
}

// caches reports whether a layer's keys and values are on the GPU.
func (d *Device) caches(layer int) bool {
	if layer == len(d.attention) {
		return d.further
	}
	return d.attention[layer]
}

// Cache allocates every layer where its attention is computed.
func (d *Device) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	if err := planned(&spec, len(d.attention)); err != nil {
		return nil, err
	}
	const onGPU, onHost = 0, 1
	on, index := spec.Among(2, func(l int) int {
		if d.caches(l) {
			return onGPU
		}
		return onHost
	})
	gpu, host := on[onGPU], on[onHost]
	c := &cache{index: index}
	var err error
	if len(gpu.Layers) > 0 {
		c.gpu, err = d.gpu.Cache(gpu)
		err = d.ofGPU(err)
	}
	if err == nil && len(host.Layers) > 0 {
		c.host, err = d.host.Cache(host)
	}
	if err != nil {
		return nil, err
	}
	return &compute.Cache{CacheSpec: spec, Mem: c}, nil
}

// CopyPage copies a page on both devices.
func (d *Device) CopyPage(c *compute.Cache, to, from compute.Page) {
	m := c.Mem.(*cache)
	if m.gpu != nil {
		d.gpu.CopyPage(m.gpu, to, from)
	}
	if m.host != nil {
		d.host.CopyPage(m.host, to, from)
	}
}

// ReadPage reads each layer's part of a page from the device that stores it.
func (d *Device) ReadPage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	return d.eachPart(c, layers, func(dev compute.Device, part *compute.Cache, layers [][]byte) error {
		return dev.ReadPage(part, page, layers)
	})
}

// WritePage writes each layer's part of a page to the device that stores it.
func (d *Device) WritePage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	return d.eachPart(c, layers, func(dev compute.Device, part *compute.Cache, layers [][]byte) error {
		return dev.WritePage(part, page, layers)
	})
}

// eachPart calls f for the GPU's and the host's part of a cache, each with its own layers.
func (d *Device) eachPart(c *compute.Cache, layers [][]byte, f func(compute.Device, *compute.Cache, [][]byte) error) error {
	m := c.Mem.(*cache)
	var gpu, host [][]byte
	for l := range c.Layers {
		if d.caches(c.LayerOf(l)) {
			gpu = append(gpu, layers[l])
		} else {
			host = append(host, layers[l])
		}
	}
	if m.gpu != nil {
		if err := f(d.gpu, m.gpu, gpu); err != nil {
			return d.ofGPU(err)
		}
	}
	if m.host != nil {
		return f(d.host, m.host, host)
	}
	return nil
}

// Read returns row i of t from where its content is.
func (d *Device) Read(t compute.Tensor, i int) ([]float32, error) {
	m := t.Mem.(*tensor)
	if m.onHost {
		return d.host.Read(viewed(t, m.host), i)
	}
	row, err := d.gpu.Read(viewed(t, m.gpu), i)
	return row, d.ofGPU(err)
}

// viewed returns t with memory's storage.
func viewed(t, memory compute.Tensor) compute.Tensor {
	t.Mem = memory.Mem
	return t
}

// Run makes the GPU run body. Operations of the host's are passed on to it.
func (d *Device) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	d.watch.Begin()
	var failed error // while recording, and of the host
	run := d.gpu.Run
	if d.rehearsal {
		run = d.gpu.Record
	}
	begun := time.Now()
	d.fetches.start(seg)
	defer d.fetches.end(seg)
	err := run(seg, p, func(v compute.Verbs) {
		m, ok := v.Executor().(Recorder)
		if !ok {
			failed = fmt.Errorf("%s cannot work at the same time as another processor", d.gpu.Name())
			return
		}
		delete(d.joins, seg)
		delete(d.fetches, seg)
		r := &router{d: d, gpu: m, seg: seg}
		body(compute.NewVerbs(r))
		r.meet(nil)
		r.settle()
		d.leave(seg)
		failed = r.err
	})
	if err == nil {
		d.arrived(seg)
		for _, j := range d.joins[seg] {
			j.to.Join(j.part)
		}
		if failed == nil && !d.rehearsal {
			failed = d.slots.step(d, p, time.Since(begun))
		}
		return failed
	}
	d.slots.forget()
	return errors.Join(failed, d.whose(err))
}

// leave keeps where the recording of seg leaves tensors. Its first run may fail, and others may be recorded before the
// next.
func (d *Device) leave(seg compute.Segment) {
	ends := make([]whereabouts, len(d.tensors))
	for i, t := range d.tensors {
		ends[i] = t.whereabouts
	}
	d.ends[seg] = ends
}

// arrived records where the finished run left tensors: at the end of its recording, which later recordings may have
// changed.
func (d *Device) arrived(seg compute.Segment) {
	for i, w := range d.ends[seg] {
		d.tensors[i].whereabouts = w
	}
}

// Rehearse has the GPU record, and not run, the segments that f runs: what they need of the GPU is there afterwards, or
// is this error. What f reads has no meaning, but recordings of such segments copy it to the host from then on.
func (d *Device) Rehearse(f func() error) error {
	d.rehearsal = true
	defer func() { d.rehearsal = false }()
	return f()
}

// RehearsesEarly implements compute.Device.
func (d *Device) RehearsesEarly() bool { return d.gpu.RehearsesEarly() }

// Steps returns the numbers of tokens, at most most, of the steps that together need of the GPU what any step does; the
// largest is the first.
func (d *Device) Steps(most int) []int { return d.gpu.Steps(most) }

// Shape implements compute.Device: only the GPU has padding.
func (d *Device) Shape(seg, most compute.Segment) compute.Segment {
	shape := d.gpu.Shape(seg, most)
	for _, sent := range []int{d.streaming.Tokens, d.streaming.Experts} { // only the step's own rows decide what is sent for them, not padding
		if seg.Decode > 0 {
			break
		}
		if seg.Rows < sent {
			shape.Rows = min(shape.Rows, sent-1)
		}
		if seg.Out < sent {
			shape.Out = min(shape.Out, sent-1)
		}
	}
	return shape
}

// Spare implements compute.Device.
func (d *Device) Spare(most int) int { return d.gpu.Spare(most) }

// hostError is an error of the host's part of a run, which the GPU passes on.
type hostError struct{ err error }

func (e *hostError) Error() string { return e.err.Error() }

// whose tells errors of the GPU from those of the host.
func (d *Device) whose(err error) error {
	var host *hostError
	if errors.As(err, &host) {
		return host.err
	}
	return d.ofGPU(err)
}

// Tune makes the host choose its kernels.
func (d *Device) Tune() { d.host.Tune() }
