package hybrid

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// router sends each operation to the processor that has what it needs. The host's operations are gathered until the
// GPU's turn comes; then they become one function, which the GPU calls in every replay. It implements compute.Executor.
type router struct {
	d   *Device
	gpu Recorder
	seg compute.Segment
	err error

	next    *stretch       // host operations that are not yet in an Overlap
	guess   *compute.Guess // a prediction of the next layer, to be made at this layer's SparseFFN
	guessed *guessed       // a prediction of this layer, made at the previous one

	foreseen func() // passes a prediction to the next turn with experts; or nil

	fed   int      // chunks of weights sent so far
	held  shadowed // on the GPU
	later *stretch // what the host does once the GPU has reached mark
	mark  uint64

	last *stretch // the previous turn; what the GPU uploads next was written by it or earlier
}

// Do implements compute.Executor.
func (r *router) Do(op compute.Op) {
	switch o := op.(type) {
	case *compute.MatMul: // its products may be on both processors
		r.matMul(o)
	case *compute.SparseFFN: // and so may its neurons
		r.sparseFFN(o)
	case *compute.Experts: // or its experts
		r.experts(o)
	case *compute.StoreKV:
		r.storeKV(o)
	case *compute.Attend, *compute.Select:
		r.attend(op)
	case *compute.Precede: // what Params.Before has is in the host's memory
		r.on(false, op, operandsOf(op))
	default:
		r.whole(op)
	}
}

// fail keeps the first error of the recording; Run returns it.
func (r *router) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// stretch is a turn of the host: it loads what the GPU has downloaded, computes, and stores what the GPU is going to
// upload.
type stretch struct {
	d      *Device
	name   string          // a weight of the turn, for the trace
	seg    compute.Segment // the GPU's
	host   string          // the name of the host's
	loads  []func(w *window)
	ops    []compute.Op
	stores []func(w *window)
	body   func(v compute.Verbs) // does ops
	now    window                // the current step's window
	resize resize                // changes ops to the rows of now
}

func (r *router) stretch() *stretch {
	if r.next == nil {
		r.next = r.newStretch()
	}
	return r.next
}

func (r *router) newStretch() *stretch {
	s := &stretch{d: r.d, seg: r.seg, host: fmt.Sprintf("%s, host", r.seg.Name)}
	s.resize.to = window{tokens: rows{n: r.seg.Rows}, outputs: rows{n: r.seg.Out}}
	s.body = func(v compute.Verbs) {
		for _, op := range s.ops {
			if t, ok := op.(*turn); ok {
				v.Host(t.f)
			} else {
				v.Do(op)
			}
		}
	}
	return s
}

func (s *stretch) run(p *compute.Params) error {
	from, begin := s.d.trace.Now(), monotime.Now()
	err := s.compute(p)
	s.d.watch.Turn(begin)
	s.d.trace.Span(trace.Host, cmp.Or(s.name, "activations"), from)
	return err
}

func (s *stretch) compute(p *compute.Params) error {
	s.now = windowOf(s.seg, p)
	for _, load := range s.loads {
		load(&s.now)
	}
	if len(s.ops) > 0 {
		s.fit()
		if err := s.d.host.Run(p.Segment(s.host), p, s.body); err != nil {
			return &hostError{err}
		}
	}
	for _, store := range s.stores {
		store(&s.now)
	}
	return nil
}

// fit gives the operations the step's rows: they were recorded with the segment's, and have had an earlier step's
// since.
func (s *stretch) fit() {
	if to := &s.resize.to; to.tokens.n == s.now.tokens.n && to.outputs.n == s.now.outputs.n {
		return
	}
	s.resize = resize{from: s.resize.to, to: s.now}
	for _, op := range s.ops {
		op.Visit(&s.resize)
	}
}

// named says what s is for, if nothing has yet.
func (s *stretch) named(w *compute.Matrix) {
	if s.name == "" {
		s.name = w.Name
	}
}

// meet records the host's pending operations as its turn. The GPU computes what during records at the same time.
func (r *router) meet(during func()) {
	if r.next == nil {
		if during != nil {
			during()
		}
		return
	}
	r.settle()
	r.last, r.next = r.next, nil
	r.gpu.Overlap(r.last.run, during)
}

// toGPU copies tensors to the GPU. It ends the host's stretch, because the GPU continues.
func (r *router) toGPU(tensors ...compute.Tensor) {
	r.meet(nil)
	for _, t := range tensors {
		m, ok := t.Mem.(*tensor)
		if !ok || m.onGPU {
			continue
		}
		m.onGPU = true
		if r.last == nil {
			continue // it never had a content: the GPU's is as good
		}
		from, to := viewed(t, m.host), r.gpu.Upload(viewed(t, m.gpu))
		r.last.stores = append(r.last.stores, func(w *window) { copyFloats(w.floats(from, to()), r.d.host.Data(from)) })
	}
}

// toHost makes the tensors available in the host's memory.
func (r *router) toHost(tensors ...compute.Tensor) {
	for _, t := range tensors {
		m, ok := t.Mem.(*tensor)
		if !ok || m.onHost {
			continue
		}
		m.onHost = true
		from, to := r.gpu.Download(viewed(t, m.gpu)), viewed(t, m.host)
		s := r.stretch()
		s.loads = append(s.loads, func(w *window) { copyFloats(r.d.host.Data(to), w.floats(to, from())) })
	}
}

// copyFloats copies many rows, as of a prompt, on several cores, and a few tokens' rows at once.
func copyFloats(dst, src []float32) {
	const piece = 64 << 10
	n := min(len(dst), len(src))
	if n <= piece {
		copy(dst, src)
		return
	}
	var all fault.Group
	for at := 0; at < n; at += piece {
		all.Go(func() { copy(dst[at:min(n, at+piece)], src[at:]) })
	}
	all.Wait()
}

// leave downloads tensors with which another GPU's part of the pass continues. The returned functions bring them to the
// host's memory after this part has run, in every replay, without a turn of the host.
func (r *router) leave(tensors ...compute.Tensor) (bring []func(w *window)) {
	r.meet(nil)
	for _, t := range tensors {
		m := t.Mem.(*tensor)
		if m.onHost {
			continue
		}
		m.onHost = true
		from, to := r.gpu.Download(viewed(t, m.gpu)), viewed(t, m.host)
		bring = append(bring, func(w *window) { copyFloats(r.d.host.Data(to), w.floats(to, from())) })
	}
	return bring
}

// arrive says that the host's memory holds tensors which another GPU's part of the pass has left there.
func (r *router) arrive(tensors ...compute.Tensor) {
	for _, t := range tensors {
		r.stretch() // what the GPU uploads is stored in the host's turn
		written(t, false)
	}
}

// written says where t's content is now.
func written(t compute.Tensor, gpu bool) { t.Mem.(*tensor).written(gpu) }

// onHost makes the host compute op, which uses these weights of the host's.
func (r *router) onHost(op compute.Op, weights ...*compute.Matrix) {
	s := r.stretch()
	s.ops = append(s.ops, op)
	if len(weights) > 0 {
		s.named(weights[0])
	}
}

// prefer says where an operation without weights is done: on the GPU, unless only the host has all operands.
func prefer(tensors ...compute.Tensor) (gpu bool) {
	gpu, host := true, true
	for _, t := range tensors {
		if m, ok := t.Mem.(*tensor); ok {
			gpu, host = gpu && m.onGPU, host && m.onHost
		}
	}
	return gpu || !host
}

func gpuTensor(t compute.Tensor) compute.Tensor {
	if m, ok := t.Mem.(*tensor); ok {
		return viewed(t, m.gpu)
	}
	return t
}

func hostTensor(t compute.Tensor) compute.Tensor {
	if m, ok := t.Mem.(*tensor); ok {
		return viewed(t, m.host)
	}
	return t
}

// whole does op on one processor: where its weights are, or its layer's keys and values, or where its operands are.
func (r *router) whole(op compute.Op) {
	o := operandsOf(op)
	r.on(r.belongsToGPU(o), op, o)
}

// on computes op, with operands o, on the GPU or on the host.
func (r *router) on(gpu bool, op compute.Op, o *operands) {
	if gpu {
		r.toGPU(o.reads...)
		r.setsToGPU(o.readSets)
		r.choiceToGPU(o.readChoice)
		r.gpu.Do(gpuOp(op))
	} else {
		r.toHost(o.reads...)
		r.setsToHost(o.readSets)
		r.choiceToHost(o.readChoice)
		r.onHost(hostOp(op), o.matrices...)
	}
	for _, t := range o.writes {
		written(t, gpu)
	}
	for _, s := range o.writeSets {
		sets(s).written(gpu)
	}
	if o.writeChoice != nil {
		choiceOf(*o.writeChoice).written(gpu)
	}
}

// belongsToGPU reports whether an operation with operands o is done on the GPU.
func (r *router) belongsToGPU(o *operands) bool {
	switch {
	case o.cache != nil:
		return r.d.caches(o.cache.LayerOf(o.layer))
	case len(o.matrices) > 0:
		return !slices.ContainsFunc(o.matrices, func(m *compute.Matrix) bool { return !onGPU(m) })
	}
	return prefer(o.reads...)
}

// matMul computes each product where its weights are, or on the GPU, to which they are sent.
func (r *router) matMul(o *compute.MatMul) {
	gpu, host := compute.MatMul{X: o.X}, compute.MatMul{X: o.X}
	nGPU, nHost := 0, 0
	for _, y := range o.Products {
		switch {
		case y.W == nil:
		case onGPU(y.W):
			gpu.Products[nGPU] = y
			nGPU++
		default:
			host.Products[nHost] = y
			nHost++
		}
	}
	if nHost > 0 && !r.sendProducts(&host) {
		r.whole(&host)
	}
	if nGPU > 0 {
		r.whole(&gpu)
	}
}

// turn is a function that the host calls in its turn: an operation that computes nothing.
type turn struct{ f func() error }

// On implements compute.Op.
func (*turn) On(compute.Operations) { panic("hybrid: a turn is no operation of a device") }

// Visit implements compute.Op.
func (*turn) Visit(compute.Visitor) {}

// Turn implements compute.Turner.
func (r *router) Turn(f func() error) { r.onHost(&turn{f}) }

// Host ends both devices' work and calls f.
func (r *router) Host(f func() error) {
	r.meet(nil)
	r.settle()
	r.gpu.Host(f)
}
