// Package vulkan is the GPU device: compute shaders on Vulkan, and the same path on Mesa's lavapipe in tests.
//
// A segment's verbs are recorded once, with barriers that follow from what each dispatch reads and writes, and replayed
// with other params. Sums are in a fixed order on a given device, so results have the same bytes from run to run, and
// in any company, except for products of many tokens (see Arithmetic).
package vulkan

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// Options are the choices made when the device is opened.
type Options struct {
	Device   string                            // an index or a part of a name in Devices, or Software; empty: the best one except software
	Budget   int64                             // bytes of device memory that may be in use; 0: all that is free
	Cache    string                            // folder for compiled pipelines; empty: none are kept
	Messages func(string)                      // enables the validation layer and gets its messages, on any thread
	Uploaded func(n int64)                     // gets the number of bytes that reached the device; may be nil
	Compiled func(gpu string, done, total int) // gets how many of the shaders known to be needed are compiled, on any thread; may be nil
	Trace    *trace.Log                        // keeps submissions and waits; nil: nothing does
	Long     Arithmetic                        // arithmetic of products of many tokens; Best, except to compare

	maxBinding int64 // bytes of a part of a matrix; tests make it small
	assisted   bool  // validation looks at every access of a shader, instead of what orders them
}

// Device implements compute.Device. One goroutine uses it at a time.
type Device struct {
	compute.Plain
	gpu        *driver.GPU
	pipelines  *driver.Pipelines
	bindings   *bindings
	mem        driver.Memory
	maxBinding int64 // bytes that a part of a matrix may have; tests make it smaller than what a binding may span
	beside     bool  // copies are made while it computes; tests do so on one queue
	stage      stage
	inputs     exchange
	results    exchange
	pagesIn    exchange    // pages of the KV cache, read from files
	pagesOut   exchange    // to files
	passage    driver.View // host memory for pages of a layer that a segment brings
	passing    int64       // bytes that it has at most, where tests make it small; 0: passageBytes
	seen       readback
	uploaded   func(int64)
	quantised  bool // there are weights of quantised types
	segments   map[compute.Segment]*segment
	runs       uint64
	tables     int      // words of the largest recording's paramsLayout.tables: others soon need as many
	played     *segment // the last segment run; Read returns its results
	lead       int      // the row of played that is the first row of the step
	leadOut    int      // the row of played's logits that is the first of the step
	scratches  map[string]driver.View
	sizes      map[string]int64 // sizes of scratch memory, as far as they are known in advance
	stamps     *stamps          // nil: nothing is timed
	clocked    bool             // stamps were made, if there can be any
	watch      *compute.Watch   // the model's, or nil
	long       long
	turns      bool // it is a processor, which takes a workgroup's invocations in turn: small ones are fast

	tally func(c *call, weight string, waits bool) // called for each dispatch of a device that counts, with the weight named last; may be nil
}

// Open opens a device.
func Open(o Options) (*Device, error) {
	g, err := driver.Open(driver.Options{Device: o.Device, Messages: o.Messages, Assisted: o.assisted, Trace: o.Trace})
	if err != nil {
		return nil, err
	}
	d := &Device{gpu: g, bindings: newBindings(g), uploaded: o.Uploaded, segments: map[compute.Segment]*segment{}, scratches: map[string]driver.View{}, sizes: map[string]int64{}}
	d.mem = driver.Memory{GPU: g, Budget: g.Info.Free, Apart: o.assisted}
	if o.Budget > 0 {
		d.mem.Budget = o.Budget
	}
	d.beside = g.Copies.Beside()
	d.turns = g.Info.Kind == CPU
	d.long.asked = o.Long
	d.maxBinding = g.Span()
	if o.maxBinding > 0 {
		d.maxBinding = min(d.maxBinding, o.maxBinding)
	}
	d.reset()
	if d.pipelines, err = driver.NewPipelines(g, o.Cache, o.Compiled); err != nil {
		d.bindings.pin.Unpin()
		g.Close()
		return nil, err
	}
	return d, nil
}

// Name says what computes.
func (d *Device) Name() string { return fmt.Sprintf("Vulkan %s", d.gpu.Info.Name) }

// Info describes the device.
func (d *Device) Info() Info { return d.gpu.Info }

// Used returns how many bytes of device memory are allocated.
func (d *Device) Used() int64 { return d.mem.Used }

// Close frees everything.
func (d *Device) Close() error {
	if d.gpu.Counts() {
		return nil
	}
	err := d.gpu.Lost
	if err == nil {
		err = d.gpu.VK.WaitIdle()
	}
	d.pipelines.Close()
	d.stamps.destroy()
	d.reset()
	d.gpu.Close()
	d.bindings.pin.Unpin()
	return err
}

// reset frees what models hold, and keeps the device and its pipelines.
func (d *Device) reset() {
	if !d.gpu.Counts() {
		_ = d.gpu.VK.WaitIdle() // uploads may be on their way; a lost device has none
	}
	for seg := range d.segments {
		d.forget(seg)
	}
	d.stage.free()
	d.mem.Release()
	clear(d.scratches)
	clear(d.sizes)
	d.played, d.lead, d.leadOut, d.tables = nil, 0, 0, 0
	d.inputs, d.results = exchange{memory: &d.mem, purpose: driver.ToDevice}, exchange{memory: &d.mem, purpose: driver.ToHost}
	d.pagesIn, d.pagesOut = exchange{memory: &d.mem, purpose: driver.ToDevice}, exchange{memory: &d.mem, purpose: driver.ToHost}
	d.passage = driver.View{}
	d.seen, d.stage = readback{d: d, rows: map[place]driver.View{}, known: map[string][]readTensor{}, bytes: exchange{memory: &d.mem, purpose: driver.ToHost}}, stage{d: d}
}

// tensor is the memory of a compute.Tensor.
type tensor struct{ driver.View }

// Tensor allocates an activation [rows, cols] of zeros.
func (d *Device) Tensor(rows, cols int) (compute.Tensor, error) {
	size := 4 * int64(rows) * int64(cols)
	if most := d.gpu.Span(); size > most {
		return compute.Tensor{}, fmt.Errorf("activations of %d×%d: %s has %s in one tensor at most: take a smaller ubatch", rows, cols, d.gpu.Info.Name, driver.Mebibytes(most))
	}
	v, err := d.zeros(size)
	if err != nil {
		return compute.Tensor{}, fmt.Errorf("activations of %d×%d: %w", rows, cols, err)
	}
	return compute.Tensor{Rows: rows, Cols: cols, Mem: &tensor{v}}, nil
}

// alloc is size bytes of device memory, which hold whatever was there before.
func (d *Device) alloc(size int64) (driver.View, error) { return d.mem.Alloc(driver.Local, size) }

// zeros is size bytes of zeros.
func (d *Device) zeros(size int64) (driver.View, error) {
	v, err := d.alloc(size)
	if err != nil {
		return v, err
	}
	return v, d.once(func(r *recorder) { r.fill(v, 0) })
}

// once records with f, submits and waits.
func (d *Device) once(f func(r *recorder)) error {
	if d.gpu.Counts() {
		r := &recorder{d: d, seg: &segment{}, err: errSizing}
		f(r)
		r.flush()
		return nil
	}
	r := &recorder{d: d, seg: &segment{}}
	r.begin()
	if r.err == nil {
		f(r)
	}
	r.leg(nil, nil)
	if r.err == nil {
		r.fail(r.seg.legs[0].play(d.gpu, nil, 0, 0))
	}
	if r.err == nil {
		r.fail(d.gpu.Wait(d.gpu.Last))
	}
	d.free(r.seg)
	return r.err
}

// floats returns the memory of t's rows.
func floats(t compute.Tensor) driver.View {
	return t.Mem.(*tensor).Slice(0, 4*int64(t.Rows)*int64(t.Cols))
}

// Vector takes a one-dimensional weight in.
func (d *Device) Vector(src compute.Source) (*compute.Vector, error) {
	var data []float32
	if !d.gpu.Counts() {
		if err := src.CheckVector(); err != nil {
			return nil, err
		}
		data = make([]float32, src.Cols)
		quant.Decode(src.Type, data, src.Data)
	}
	v, err := d.alloc(4 * int64(src.Cols))
	if err == nil {
		err = d.upload(v, 4, func(dst []byte, first int) { copy(numbers(dst), data[first:]) })
	}
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", src.Name, err)
	}
	return &compute.Vector{Name: src.Name, Len: src.Cols, Mem: v}, nil
}

// elements returns the memory of v.
func elements(v *compute.Vector) driver.View { return v.Mem.(driver.View) }

// elementsOr returns v's elements or, if v is nil, standIn: every binding needs a view.
func elementsOr(v *compute.Vector, standIn driver.View) driver.View {
	if v == nil {
		return standIn
	}
	return elements(v)
}

// zeroed is scratch that shaders leave as they find it: full of zeros.
func (r *recorder) zeroed(name string, size int64) driver.View {
	had := r.d.scratches[name]
	v := r.scratch(name, size)
	if now := r.d.scratches[name]; r.err == nil && (now.Slab != had.Slab || now.At != had.At) {
		r.fail(r.d.once(func(r *recorder) { r.fill(now, 0) }))
	}
	return v
}

// scratch returns memory for values between the dispatches of an operation. The same name always gives the same memory,
// of the largest size requested, zeroed at first. Recordings that use a smaller size keep theirs.
func (r *recorder) scratch(name string, size int64) driver.View {
	d := r.d
	if r.sizing {
		d.sizes[name] = max(d.sizes[name], size)
		return driver.View{Slab: &driver.Slab{}, Size: size} // a placeholder of its own
	}
	v, ok := d.scratches[name]
	if !ok || v.Size < size {
		var err error
		if v, err = d.zeros(max(size, d.sizes[name])); err != nil {
			r.fail(fmt.Errorf("scratch for %s: %w", name, err))
			return driver.View{Size: size} // nothing is recorded any more
		}
		d.scratches[name] = v
	}
	return v.Slice(0, size)
}
