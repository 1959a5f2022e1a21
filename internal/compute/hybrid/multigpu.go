package hybrid

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// MultiGPU is several GPUs and one host. Each layer has one GPU, and a pass is cut into stages where the GPU changes: a
// stage is what a Device, of that GPU and the host, runs. What one stage leaves for another passes through the host's
// memory. It implements compute.Device.
type MultiGPU struct {
	pairs  []*Device // a GPU each, and the same host
	home   []int     // [layers] each one's GPU
	stages map[compute.Segment][]stage
}

// NewMultiGPU returns a device made of several with the same host, and takes ownership of them. home is each layer's
// device. Each device was made with the attention of its own layers only.
func NewMultiGPU(pairs []*Device, home []int) *MultiGPU {
	f := &MultiGPU{pairs: pairs, home: home, stages: map[compute.Segment][]stage{}}
	for j, d := range pairs {
		d.index = j
	}
	return f
}

// Name says what computes.
func (f *MultiGPU) Name() string {
	var names []string
	for _, d := range f.pairs {
		names = append(names, d.gpu.Name())
	}
	return strings.Join(names, ", ") + " and " + f.host().Name()
}

// Usage says what the host and the slots of all GPUs did.
func (f *MultiGPU) Usage() compute.Usage {
	use := f.pairs[0].Usage()
	for _, d := range f.pairs[1:] {
		use.Slots.Add(d.slots.use)
		use.Unread = cmp.Or(use.Unread, d.slots.unread)
	}
	return use
}

// Watch has what the GPUs and the host compute added to w as long as it is on.
func (f *MultiGPU) Watch(w *compute.Watch) {
	for _, d := range f.pairs {
		d.Watch(w)
	}
}

func (f *MultiGPU) host() Host { return f.pairs[0].host }

// Close closes all devices.
func (f *MultiGPU) Close() error {
	var errs []error
	for _, d := range f.pairs {
		d.slots.close()
		errs = append(errs, d.gpu.Close())
	}
	return errors.Join(append(errs, f.host().Close())...)
}

// Rehearse has every GPU record, and not run, the segments that do runs.
func (f *MultiGPU) Rehearse(do func() error) error {
	for _, d := range f.pairs {
		inner := do
		do = func() error { return d.Rehearse(inner) }
	}
	return do()
}

// RehearsesEarly implements compute.Device.
func (f *MultiGPU) RehearsesEarly() bool {
	return !slices.ContainsFunc(f.pairs, func(d *Device) bool { return !d.RehearsesEarly() })
}

// Steps returns the numbers of tokens of the steps that together need of every GPU what any step does.
func (f *MultiGPU) Steps(most int) []int {
	var sizes []int
	for _, d := range f.pairs {
		for _, n := range d.Steps(most) {
			if !slices.Contains(sizes, n) {
				sizes = append(sizes, n)
			}
		}
	}
	return sizes
}

// Shape implements compute.Device. GPUs round in the same way, but may be sent neurons for prompts of other lengths.
func (f *MultiGPU) Shape(seg, most compute.Segment) compute.Segment {
	shape := f.pairs[0].Shape(seg, most)
	for _, d := range f.pairs[1:] {
		other := d.Shape(seg, most)
		shape.Rows, shape.Out = min(shape.Rows, other.Rows), min(shape.Out, other.Out)
	}
	return shape
}

// Spare implements compute.Device.
func (f *MultiGPU) Spare(most int) int { return f.pairs[0].Spare(most) }

// of returns the device with the GPU that src belongs to.
func (f *MultiGPU) of(src *compute.Source) (*Device, error) {
	gpu := int(src.Split.Tier)
	if gpu < 0 || gpu >= len(f.pairs) {
		return nil, fmt.Errorf("tensor %q: there are %d GPUs, and no GPU %d", src.Name, len(f.pairs), gpu)
	}
	return f.pairs[gpu], nil
}

// Matrix takes rows or neurons [0, src.Split.Bound) to the GPU src.Split.Tier and the others to the host.
func (f *MultiGPU) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	d, err := f.of(&src)
	if err != nil {
		return nil, err
	}
	m, err := d.Matrix(src, use)
	if err == nil {
		mem(m).home = d.index
	}
	return m, err
}

// Vector takes a one-dimensional weight to the GPU src.Split.Tier and to the host.
func (f *MultiGPU) Vector(src compute.Source) (*compute.Vector, error) {
	d, err := f.of(&src)
	if err != nil {
		return nil, err
	}
	v, err := d.Vector(src)
	if err == nil {
		v.Mem.(*vector).home = d.index
	}
	return v, err
}

// spread is an activation on every GPU and on the host. All pairs share the host's memory.
type spread struct {
	on []compute.Tensor // [GPUs]
	at int              // the GPU of the stage that saw it last
}

// Tensor allocates an activation [rows, cols] on all devices.
func (f *MultiGPU) Tensor(rows, cols int) (compute.Tensor, error) {
	host, err := f.host().Tensor(rows, cols)
	if err != nil {
		return compute.Tensor{}, err
	}
	s := &spread{on: make([]compute.Tensor, len(f.pairs))}
	for j, d := range f.pairs {
		if s.on[j], err = d.tensor(host); err != nil {
			return compute.Tensor{}, err
		}
	}
	return compute.Tensor{Rows: rows, Cols: cols, Mem: s}, nil
}

// Set allocates a set on all devices.
func (f *MultiGPU) Set(rows, n int) (compute.Set, error) {
	host, err := f.host().Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	cold, err := f.host().Set(rows, n)
	if err != nil {
		return compute.Set{}, err
	}
	on := make([]compute.Set, len(f.pairs))
	for j, d := range f.pairs {
		if on[j], err = d.set(host, cold); err != nil {
			return compute.Set{}, err
		}
	}
	return compute.Set{Rows: rows, N: n, Mem: on}, nil
}

// Choice allocates choices on all devices.
func (f *MultiGPU) Choice(rows, used, n int) (compute.Choice, error) {
	host, err := f.host().Choice(rows, used, n)
	if err != nil {
		return compute.Choice{}, err
	}
	on := make([]compute.Choice, len(f.pairs))
	for j, d := range f.pairs {
		if on[j], err = d.choice(host); err != nil {
			return compute.Choice{}, err
		}
	}
	return compute.Choice{Rows: rows, Used: used, N: n, Mem: on}, nil
}

// ExpandsLatent implements compute.Device.
func (f *MultiGPU) ExpandsLatent() bool { return f.pairs[0].ExpandsLatent() }

// spreadCache is the part of a KV cache on each pair; nil: none.
type spreadCache struct {
	on    []*compute.Cache
	index []int // number of each part of the cache within its pair
}

// caches returns the pair that has a layer's keys and values. An MTP layer's are with the last layer's.
func (f *MultiGPU) caches(layer int) int { return f.home[min(layer, len(f.home)-1)] }

// Cache allocates every layer where its attention is computed.
func (f *MultiGPU) Cache(spec compute.CacheSpec) (*compute.Cache, error) {
	if err := planned(&spec, len(f.home)); err != nil {
		return nil, err
	}
	parts, index := spec.Among(len(f.pairs), f.caches)
	c := &spreadCache{on: make([]*compute.Cache, len(f.pairs)), index: index}
	for j, d := range f.pairs {
		if len(parts[j].Layers) == 0 {
			continue
		}
		var err error
		if c.on[j], err = d.Cache(parts[j]); err != nil {
			return nil, err
		}
	}
	return &compute.Cache{CacheSpec: spec, Mem: c}, nil
}

// CopyPage copies a page on every device.
func (f *MultiGPU) CopyPage(c *compute.Cache, to, from compute.Page) {
	for j, part := range c.Mem.(*spreadCache).on {
		if part != nil {
			f.pairs[j].CopyPage(part, to, from)
		}
	}
}

// ReadPage reads each layer's part of a page from the pair that stores it.
func (f *MultiGPU) ReadPage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	return f.eachPart(c, layers, func(d *Device, part *compute.Cache, layers [][]byte) error { return d.ReadPage(part, page, layers) })
}

// WritePage writes each layer's part of a page to the pair that stores it.
func (f *MultiGPU) WritePage(c *compute.Cache, page compute.Page, layers [][]byte) error {
	return f.eachPart(c, layers, func(d *Device, part *compute.Cache, layers [][]byte) error { return d.WritePage(part, page, layers) })
}

// eachPart calls do for each device's part of a cache, with that device's layers.
func (f *MultiGPU) eachPart(c *compute.Cache, layers [][]byte, do func(*Device, *compute.Cache, [][]byte) error) error {
	for j, part := range c.Mem.(*spreadCache).on {
		if part == nil {
			continue
		}
		var own [][]byte
		for l := range c.Layers {
			if f.caches(c.LayerOf(l)) == j {
				own = append(own, layers[l])
			}
		}
		if err := do(f.pairs[j], part, own); err != nil {
			return err
		}
	}
	return nil
}

// Read returns row i of t from where its content is.
func (f *MultiGPU) Read(t compute.Tensor, i int) ([]float32, error) {
	s := t.Mem.(*spread)
	return f.pairs[s.at].Read(viewed(t, s.on[s.at]), i)
}

// Run runs body stage by stage.
func (f *MultiGPU) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	stages, ok := f.stages[seg]
	if !ok {
		stages = f.survey(seg, body)
		f.stages[seg] = stages
	}
	for i := range stages {
		if err := f.run(&stages[i], p, body); err != nil {
			return err
		}
	}
	return nil
}

// run has the stage's device do its operations of body.
func (f *MultiGPU) run(s *stage, p *compute.Params, body func(compute.Verbs)) error {
	for _, t := range s.seen {
		t.at = s.gpu
	}
	err := f.pairs[s.gpu].Run(s.seg, p, func(v compute.Verbs) {
		r, on := v.Executor().(*router), toStage{f, s.gpu}
		r.arrive(on.tensors(s.takes)...)
		body(compute.NewVerbs(&stageExecutor{f: f, s: s, to: r}))
		s.bring = r.leave(on.tensors(s.leaves)...)
	})
	if err != nil {
		return err
	}
	if f.pairs[s.gpu].rehearsal { // nothing was computed
		return nil
	}
	w := windowOf(s.seg, p)
	for _, bring := range s.bring {
		bring(&w)
	}
	return nil
}

// stage is a stretch of a pass: the operations of one GPU, and of the host.
type stage struct {
	gpu      int              // -1: not known yet
	seg      compute.Segment  // what it is on its GPU
	from, to int              // its operations, counted through the pass
	seen     []*spread        // activations that it takes or writes
	takes    []compute.Tensor // activations that earlier stages left in the host's memory
	leaves   []compute.Tensor // tensors that it leaves there
	bring    []func(*window)  // copies those on the GPU, as recorded last
}

// survey cuts body's operations into stages, without doing them.
func (f *MultiGPU) survey(seg compute.Segment, body func(compute.Verbs)) []stage {
	w := &survey{stages: []stage{{gpu: -1}}, writer: map[*spread]int{}}
	body(compute.NewVerbs(&stageExecutor{f: f, survey: w}))
	for i := range w.stages {
		s := &w.stages[i]
		s.gpu = max(s.gpu, 0)
		s.seg = seg
		s.seg.Name = fmt.Sprintf("%s, stage %d", seg.Name, i)
	}
	return w.stages
}

// survey finds out where a pass changes GPUs, and what crosses there.
type survey struct {
	stages []stage
	writer map[*spread]int // the stage that wrote it last
}

// take adds the next operation, which reads in and writes out. It needs home's GPU, or any if home is negative.
func (w *survey) take(home int, in, out []compute.Tensor) {
	now := len(w.stages) - 1
	switch s := &w.stages[now]; {
	case home < 0 || home == s.gpu:
	case s.gpu < 0:
		s.gpu = home
	default:
		w.stages = append(w.stages, stage{gpu: home, from: s.to, to: s.to})
		now++
	}
	s := &w.stages[now]
	s.to++
	for _, t := range in {
		m, ok := t.Mem.(*spread)
		if !ok {
			continue
		}
		if by, ok := w.writer[m]; ok && by != now {
			s.takes = cross(s.takes, t)
			s.see(m)
			w.stages[by].leaves = cross(w.stages[by].leaves, t)
		}
	}
	for _, t := range out {
		m := t.Mem.(*spread)
		w.writer[m] = now
		s.see(m)
	}
}

func (s *stage) see(m *spread) {
	if !slices.Contains(s.seen, m) {
		s.seen = append(s.seen, m)
	}
}

// cross adds t to what crosses; of several views of one activation the largest counts.
func cross(list []compute.Tensor, t compute.Tensor) []compute.Tensor {
	for i, have := range list {
		if have.Mem == t.Mem {
			if t.Rows*t.Cols > have.Rows*have.Cols {
				list[i] = t
			}
			return list
		}
	}
	return append(list, t)
}

// Tune makes the shared host choose its kernels.
func (f *MultiGPU) Tune() { f.pairs[0].Tune() }
