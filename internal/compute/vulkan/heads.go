package vulkan

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
)

// headsFusion fuses the operations on heads before attention: norms, rotations and the like of queries, keys and
// values, each in place, and a StoreKV of keys and values. One dispatch computes any sequence of them. It also computes
// a single rotation or StoreKV.
type headsFusion struct{}

// Limits of heads.comp.
const (
	headsMost     = 3    // tensors
	headsSteps    = 8    // operations on each
	headsElements = 2048 // elements of a head
)

// The kinds of operations in heads.comp.
const (
	headsRMS = iota + 1
	headsLayer
	headsMultiply
	headsTurn
	headsClamp
)

// headed is a tensor of heads, and what is done with each.
type headed struct {
	x        compute.Tensor
	elements int // elements of a head; 0: not known
	steps    uint32
	n        int
	w, by    *compute.Vector // weights of its norm and of its product, or nil
	eps      float32
	before   compute.Op // a norm over all heads together, which is recorded by itself; or nil
}

// program is a sequence of a headsFusion.
type program struct {
	all    [headsMost]headed
	n      int
	tokens int // 0: not known
	rope   *compute.Rope
	clamps bool
	limit  float32
	store  *compute.StoreKV
	keys   int // which of all are stored
	values int
}

// add adds a step on the heads of x, which have that many elements; 0: unknown.
func (p *program) add(x compute.Tensor, tokens, elements int, kind uint32) *headed {
	if p.store != nil || tokens > 0 && p.tokens > 0 && tokens != p.tokens {
		return nil
	}
	h := p.of(x, elements)
	if h == nil || kind != 0 && h.n == headsSteps {
		return nil
	}
	if kind != 0 {
		h.steps |= kind << (4 * h.n)
		h.n++
	}
	p.tokens = max(p.tokens, tokens)
	return h
}

// of returns the entry of x among the program's tensors. It adds one if needed.
func (p *program) of(x compute.Tensor, elements int) *headed {
	i := 0
	for i < p.n && p.all[i].x.Mem != x.Mem {
		i++
	}
	if i == headsMost || elements > headsElements {
		return nil
	}
	h := &p.all[i]
	if i == p.n {
		h.x = x
		p.n++
	}
	if floats(h.x) != floats(x) {
		return nil
	}
	if elements > 0 && h.elements > 0 && elements != h.elements {
		if h.n != 1 || h.steps != headsRMS || h.before != nil || elements > h.elements {
			return nil
		}
		// What was taken for a head is a whole row.
		norm := &compute.RMSNorm{Dst: h.x, X: h.x, W: h.w, Eps: h.eps}
		if *h = (headed{x: h.x, before: norm}); h.x.Cols != norm.W.Len {
			return nil
		}
	}
	h.elements = max(h.elements, elements)
	return h
}

// programOf returns ops as a program; ok is false if they are none.
func programOf(ops []compute.Op) (p program, ok bool) {
	p.keys, p.values = headsMost, headsMost
	for _, op := range ops {
		if !p.take(op) {
			return p, false
		}
	}
	return p, true
}

func (p *program) take(op compute.Op) bool {
	switch o := op.(type) {
	case *compute.RMSNorm:
		h := p.norm(o.Dst, o.X, o.W, headsRMS)
		if h == nil {
			return false
		}
		h.eps = o.Eps
	case *compute.LayerNorm:
		h := p.norm(o.Dst, o.X, o.W, headsLayer)
		if h == nil || o.B != nil {
			return false
		}
		h.eps = o.Eps
	case *compute.Multiply:
		h := p.add(o.X, o.X.Rows, 0, headsMultiply)
		if o.Dst != o.X || o.W.Len != o.X.Cols || h == nil || h.by != nil || h == &p.all[headsMost-1] {
			return false
		}
		h.by = o.W
	case *compute.RoPE:
		if p.rope != nil && p.rope != o.Rope || o.HeadDim < 1 || o.X.Cols%o.HeadDim != 0 || len(o.Rope.Freqs) == 0 {
			return false
		}
		p.rope = o.Rope
		return p.add(o.X, o.X.Rows, o.HeadDim, headsTurn) != nil
	case *compute.Clamp:
		if p.clamps && p.limit != o.High || o.Low != -o.High {
			return false
		}
		p.clamps, p.limit = true, o.High
		return p.add(o.X, o.X.Rows, 0, headsClamp) != nil
	case *compute.StoreKV:
		l := o.Cache.Layers[o.Layer]
		k := p.add(o.K, o.K.Rows, l.Key, 0)
		if k == nil || o.K.Cols != l.Heads*l.Key || l.Every > 0 {
			return false
		}
		if o.V.Mem != nil {
			v := p.add(o.V, o.K.Rows, l.Value, 0)
			if v == nil || o.V.Rows != o.K.Rows || o.V.Cols != l.Heads*l.Value {
				return false
			}
			p.values = p.index(v)
		}
		p.store, p.keys = o, p.index(k)
	default:
		return false
	}
	return true
}

// norm adds a norm of heads in place.
func (p *program) norm(dst, x compute.Tensor, w *compute.Vector, kind uint32) *headed {
	h := p.add(x, 0, x.Cols, kind)
	if dst != x || w.Len != x.Cols || h == nil || h.w != nil {
		return nil
	}
	h.w = w
	return h
}

func (p *program) index(h *headed) int {
	i := 0
	for h != &p.all[i] {
		i++
	}
	return i
}

// heads returns how many heads of a token tensor i has; 0: that is not known.
func (p *program) heads(i int) int {
	h := &p.all[i]
	if h.elements == 0 || p.tokens == 0 || h.x.Rows*h.x.Cols%(p.tokens*h.elements) != 0 {
		return 0
	}
	return h.x.Rows * h.x.Cols / (p.tokens * h.elements)
}

func (headsFusion) takes(_ *recorder, ops []compute.Op) bool {
	_, ok := programOf(ops)
	return ok
}

// Norms alone are a chain's.
func (headsFusion) whole(r *recorder, ops []compute.Op) bool {
	p, _ := programOf(ops)
	all := 0
	for i := range p.n {
		if p.heads(i) == 0 {
			return false
		}
		all += p.heads(i)
	}
	most := r.d.gpu.Limits.MaxComputeWorkGroupCount
	return (p.rope != nil || p.store != nil) && p.tokens > 0 && p.tokens <= int(most[0]) && all <= int(most[1])
}

// leave records norms of whole rows that are neither rotated nor stored by themselves: a chain also packs them for the
// products that take them, and nothing of the program waits for them.
func (p *program) leave(r *recorder) {
	keys, values, n := p.keys, p.values, 0
	for i := range p.n {
		h := p.all[i]
		op := compute.Op(&compute.RMSNorm{Dst: h.x, X: h.x, W: h.w, Eps: h.eps})
		if h.steps == headsLayer {
			op = &compute.LayerNorm{Dst: h.x, X: h.x, W: h.w, Eps: h.eps}
		}
		if alone := []compute.Op{op}; h.n == 1 && h.w != nil && h.before == nil && p.heads(i) == 1 && i != p.keys && i != p.values && (chainFusion{}).takes(r, alone) {
			chainFusion{}.record(r, alone)
			continue
		}
		switch i {
		case p.keys:
			keys = n
		case p.values:
			values = n
		}
		p.all[n] = h
		n++
	}
	clear(p.all[n:])
	p.n, p.keys, p.values = n, keys, values
}

func (headsFusion) record(r *recorder, ops []compute.Op) {
	p, _ := programOf(ops)
	for i := range p.n {
		if w := p.all[i].w; w != nil {
			r.about(w.Name)
			break
		}
	}
	p.leave(r)
	for i := range p.n {
		if before := p.all[i].before; before != nil {
			if alone := []compute.Op{before}; (chainFusion{}).takes(r, alone) {
				chainFusion{}.record(r, alone)
			} else {
				before.On(r)
			}
		}
	}
	var heads, elements, eps, steps [headsMost]uint32
	var x, w, by [headsMost]driver.View
	all, most := 0, 0
	for i := range p.all {
		h := &p.all[i]
		if i >= p.n { // its bindings stand in
			x[i], w[i], by[i] = x[0], w[0], by[0]
			continue
		}
		heads[i], elements[i], eps[i], steps[i] = uint32(p.heads(i)), uint32(h.elements), math.Float32bits(h.eps), h.steps
		x[i] = floats(h.x)
		w[i], by[i] = elementsOr(h.w, x[i]), elementsOr(h.by, x[i])
		all, most = all+p.heads(i), max(most, h.elements)
	}
	turns, keys, values, params := x[0], x[0], x[0], x[0]
	var pairs, begin, near, style uint32
	var keyType, valueType compute.KVType
	if rp := p.rope; rp != nil {
		for i := range p.n {
			if rp.First < 0 || p.all[i].turned() && rp.First+rp.Dims > p.all[i].elements || len(rp.Freqs) != rp.Dims/2 {
				panic(fmt.Sprintf("vulkan: RoPE of heads of %d, %d turned by %d", p.all[i].elements, rp.Dims, len(rp.Freqs)))
			}
		}
		turns, pairs, begin, style = r.turns(rp, p.tokens), uint32(len(rp.Freqs)), uint32(rp.First), uint32(rp.Style)
	}
	if s := p.store; s != nil {
		r.check(needPlaces(s.Cache.CacheSpec, s.Layer))
		keys, values = cacheLayer(s.Cache, s.Layer)
		params, near = r.params(), truth(s.Cache.IsWindowed(s.Layer))
		keyType, valueType = s.Cache.Layers[s.Layer].KeyType, s.Cache.Layers[s.Layer].ValueType
	}
	local := headsLocal
	for local < headsWidest && local < most/2 {
		local *= 2
	}
	r.dispatch(call{
		shader: "heads", local: local,
		spec: []uint32{uint32(most), steps[0], steps[1], steps[2], style, uint32(keyType), uint32(valueType), uint32(p.keys), uint32(p.values)},
		bind: []binding{
			update(x[0]), update(x[1]), update(x[2]), read(w[0]), read(w[1]), read(w[2]), read(by[0]), read(by[1]), read(turns),
			update(keys), update(values), read(params),
		},
		push: []uint32{
			heads[0], heads[1], heads[2], elements[0], elements[1], elements[2], eps[0], eps[1], eps[2], math.Float32bits(p.limit),
			pairs, begin, uint32(r.seg.params.rows), uint32(r.seg.params.out), near,
		},
		groups: [3]int{p.tokens, all, 1},
	})
}

// Invocations of a workgroup of heads.comp: the least, and the most.
const (
	headsLocal  = 64
	headsWidest = 256
)

// turned reports whether the heads are rotated.
func (h *headed) turned() bool {
	for steps := h.steps; steps != 0; steps >>= 4 {
		if steps&15 == headsTurn {
			return true
		}
	}
	return false
}
