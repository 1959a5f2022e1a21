package blueprint

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
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
	transposed         bool // the file's down projections are a row a neuron
}

// The largest step, by default.
const (
	usualTokens  = 512
	usualOutputs = 1
)

// How compute/vulkan works, so far as it takes memory.
const (
	manyTokens = 128 // of which gates and ups are kept at a time where every neuron is computed
	fewTokens  = 8   // that are computed by lists of neurons, with their attention in splits
	split      = 256 // positions
	lanes      = 64  // that a list is ordered by
)

// packed is what n activations take as bytes with scales and sums for 32 of them.
func packed(n int) int64 { return int64(n + n/quant.QK*8) }

// bytes is what the step takes on a card beside weights and cache: the model's activations, the host's part of a layer's output, and
// what lies between the dispatches of a verb.
func (s *step) bytes() int64 {
	n := s.tokens
	q, kv := s.heads*s.headDim, s.kv*s.headDim
	floats := n*(4*s.embd+2*q+2*kv) + s.outputs*(s.embd+s.vocab)
	dense := s.mode == model.Off && !s.transposed
	if dense || s.rank > 0 {
		floats += n * s.ff
	}
	if dense && s.gated {
		floats += n * s.ff
	}
	floats += n * s.rank

	many, few := min(n, manyTokens), min(n, fewTokens)
	floats += many * s.ff // gates, and ups
	if s.gated {
		floats += many * s.ff
	}
	floats += few * (3*s.ff + lanes + 1) // lists, their gates and sums
	splits := ((s.context+compute.PagePositions-1)/compute.PagePositions*compute.PagePositions + compute.PagePositions + split - 1) / split
	floats += few * s.heads * splits * (s.headDim + 2)
	floats += 2 * s.layers * s.embd // norms, which both processors have

	total := 4 * int64(floats)
	total += compute.CacheSpec{Layers: s.layers, KVHeads: s.kv, HeadDim: s.headDim, Pages: 1}.Bytes() // a spare page
	if s.rank > 0 {
		total += int64(n) * int64((s.ff+31)/32*4)
	}
	if s.quantised {
		total += packed(n*s.embd) + packed(s.outputs*s.embd) + packed(n*max(s.embd, q)) + packed(few*q) + packed(n*s.rank)
		if dense {
			total += packed(n*s.ff) + packed(many*s.ff)
		}
	}
	return total + total/100 // alignment
}
