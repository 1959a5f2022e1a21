package blueprint

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// step is the largest step of a model, and what its memory on a card depends on.
type step struct {
	tokens, outputs    int
	layers             int
	embd, ff, vocab    int
	heads, kv, headDim int
	rank               int // largest of the predictors; 0: there are none
	context            int
	mode               model.SparseMode
	gated, quantised   bool
	halved             bool  // there are weights that long products may take with activations in halves
	transposed         bool  // the file's down projections are a row a neuron
	beside             int64 // bytes that lie where the head does and are not read with it: learned positions
}

// The largest step, by default.
const (
	usualTokens  = 512
	usualOutputs = 1
)

// How compute/vulkan works, so far as it takes memory; by its names.
const (
	everyTokens = 128 // of which gates and ups are kept at a time where every neuron is computed
	manyTokens  = 32  // and more may be multiplied as halves
	fewTokens   = 8   // that are computed by lists of neurons, with their attention in splits
	split       = 256 // positions
	lanes       = 64  // that a list is ordered by
)

// halves is what activations [n, cols] take as halves with scales.
func halves(n, cols int) int64 { return int64(n) * int64((cols+31)/32*32*2+4) }

// packed is what n activations take as bytes with scales and sums for 32 of them.
func packed(n int) int64 { return int64(n + n/quant.QK*8) }

// onCard is what of a plan the step's memory on the card depends on.
type onCard struct {
	layers     int  // whose norms are there: its own, and those that lie in RAM whole
	caches     int  // layers whose keys and values are there
	head       bool // is there
	split      bool // some layer is computed on both processors
	neurons    int  // most of a layer that is computed by neuron; or of those that are sent at a time
	dense      bool // some layer is dense, wherever it is
	denseThere bool // and some on the card
}

// most is what any plan may need.
func (s *step) most() onCard {
	dense := s.mode == model.Off && !s.transposed
	return onCard{layers: s.layers, caches: s.layers, head: true, split: true, neurons: s.ff, dense: dense, denseThere: dense}
}

// of is what places need of a card.
func (s *step) of(places []placement.Place, gpu int) onCard {
	head := places[len(places)-1]
	u := onCard{head: head.GPU == gpu && head.Attention}
	for _, p := range places[:len(places)-1] {
		dense := s.mode == model.Off && !s.transposed && (p.Hot == 0 || p.Hot == s.ff)
		if p.GPU == gpu || p.GPU == placement.RAM {
			u.layers++
		}
		if p.GPU != gpu {
			u.dense = u.dense || dense
			continue
		}
		if p.Attention {
			u.caches++
		}
		if !dense {
			u.neurons = max(u.neurons, p.Hot)
			u.split = u.split || p.Hot > 0 && p.Hot < s.ff
		}
		u.dense = u.dense || dense
		u.denseThere = u.denseThere || dense && p.Hot > 0
	}
	return u
}

// bytes is what the step takes on a card beside weights and cache: the model's activations, the host's part of a layer's output, and
// what lies between the dispatches of a verb.
func (s *step) bytes(u onCard) int64 {
	n := s.tokens
	q, kv := s.heads*s.headDim, s.kv*s.headDim
	floats := n*(3*s.embd+2*q+2*kv) + s.outputs*(s.embd+s.vocab)
	if u.split {
		floats += n * s.embd // the host's part
	}
	if u.dense || s.rank > 0 {
		floats += n * s.ff
	}
	if u.dense && s.gated {
		floats += n * s.ff
	}
	floats += n * s.rank

	every, few := min(n, everyTokens), min(n, fewTokens)
	floats += every*u.neurons + few*(3*u.neurons+lanes+1) // gates; lists, their gates and sums
	if s.gated {
		floats += every * u.neurons // ups
	}
	if u.caches > 0 {
		splits := ((s.context+compute.PagePositions-1)/compute.PagePositions*compute.PagePositions + compute.PagePositions + split - 1) / split
		floats += few * s.heads * splits * (s.headDim + 2)
	}
	floats += 2 * u.layers * s.embd // norms, which both processors have

	total := 4 * int64(floats)
	if u.head {
		total += s.beside
	}
	total += compute.CacheSpec{Layers: u.caches, KVHeads: s.kv, HeadDim: s.headDim, Pages: 1}.Bytes() // a spare page
	if s.rank > 0 {
		total += int64(n) * int64((s.ff+31)/32*4)
	}
	if s.quantised {
		total += packed(n*s.embd) + packed(s.outputs*s.embd) + packed(n*max(s.embd, q)) + packed(few*q) + packed(n*s.rank)
		if u.denseThere {
			total += packed(n * s.ff)
		}
	}
	if s.halved && n >= manyTokens {
		wide := max(s.embd, q)
		if u.denseThere {
			wide = max(wide, s.ff)
		}
		total += halves(n, wide) + halves(every, u.neurons) + halves(n, s.rank)
	}
	return total + total/100 // alignment
}

// Step makes n tokens those of the largest step.
func (b *Blueprint) Step(n int) {
	b.step.tokens = min(n, b.step.context)
	b.Buffers = b.step.bytes(b.step.most())
}

// slack is what compute/vulkan may allocate and not fill, of so many bytes in all.
func slack(bytes int64) int64 { return min(32<<20, max(256<<10, bytes/64)) }

// Places is the plan, with overheads that are what this very plan needs. stream is how each card streams; it may be nil.
func (b *Blueprint) Places(on placement.Machine, stream []hybrid.Streaming, solve func(placement.Model, placement.Machine) (placement.Plan, error)) (placement.Plan, error) {
	if stream == nil {
		stream = make([]hybrid.Streaming, len(on.GPUs))
	}
	with := func(given []int64) (placement.Plan, []int64, error) {
		on := on
		on.GPUs = slices.Clone(on.GPUs)
		for j := range on.GPUs {
			g := &on.GPUs[j]
			g.Overhead = stream[j].RoomBytes() + given[j] + slack(min(g.Budget, b.Model.Bytes()+b.Buffers))
		}
		p, err := solve(b.Model, on)
		if err != nil {
			return p, nil, err
		}
		return p, b.needs(&p, stream), nil
	}
	given := slices.Repeat([]int64{b.Buffers}, len(on.GPUs)) // enough for any plan
	p, need, err := with(given)
	next := need
	if err != nil { // whole layers that may fit beside what they need
		next = make([]int64, len(on.GPUs))
	}
	for range closerTries {
		closer, needs, failed := with(next)
		if failed != nil {
			break
		}
		if within(needs, next) {
			p, need, given, err = closer, needs, next, nil
			break
		}
		next = most(needs, next)
	}
	if err != nil {
		return p, err
	}
	for j := range p.VRAM {
		if p.VRAM[j] > 0 {
			p.VRAM[j] += need[j] - given[j]
		}
	}
	return p, nil
}

// A plan with less set aside for its step may put more on a card, whose step then needs more, so many times.
const closerTries = 4

// needs is what p's step takes on each card.
func (b *Blueprint) needs(p *placement.Plan, stream []hybrid.Streaming) []int64 {
	var bytes []int64
	for j := range p.VRAM {
		u := b.step.of(p.Places(), j)
		if size := b.Model.Layers[0].Units.Size; stream[j].Tokens > 0 && size > 0 {
			u.neurons, u.split = max(u.neurons, int(min(stream[j].Bytes/size, int64(b.FF)))), true
		}
		bytes = append(bytes, b.step.bytes(u))
	}
	return bytes
}

// within reports whether no element of a is more than b's.
func within(a, b []int64) bool {
	for j := range a {
		if a[j] > b[j] {
			return false
		}
	}
	return true
}

// most is the larger of each two elements.
func most(a, b []int64) []int64 {
	c := slices.Clone(a)
	for j := range c {
		c[j] = max(c[j], b[j])
	}
	return c
}
