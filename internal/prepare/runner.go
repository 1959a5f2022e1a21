package prepare

import (
	"context"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// Steps of the dense model. Results do not depend on them, times do.
const (
	stepTokens   = 512
	maxSequences = 16 // in one step
	windowTokens = 512
)

// runner evaluates the dense model, several sequences to a step.
type runner struct {
	*model.Model
	dev    compute.Device
	window int       // tokens of a sequence
	pages  [][]int32 // [maxSequences]
	params compute.Params
}

// leastFree is the memory that must stay available in addition to a repacked model. With less, the model is computed on
// in the mapped file.
const leastFree = 1 << 30

// mapped reports whether the model does not fit memory and is read from its file in every step.
func mapped(f *gguf.File) bool {
	var weights uint64
	for _, t := range f.Tensors {
		weights += uint64(len(t.Data))
	}
	mem, err := hw.ReadMemory()
	return err == nil && mem.Available > 0 && weights+leastFree > mem.Available
}

// newRunner loads f. observer may be nil.
func newRunner(ctx context.Context, f *gguf.File, o *Options, observer model.Observer, pinned bool) (*runner, error) {
	dev, err := cpu.New(cpu.Options{Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	perSequence := (windowTokens + compute.PagePositions - 1) / compute.PagePositions
	mode := model.Off
	if o.magnitudes != nil { // an observer sees the zeros that thresholds make of all neurons
		mode = model.Threshold
	}
	m, err := model.Load(ctx, f, dev, model.Options{
		Neurons: model.Neurons{Activation: o.Activation, Sparse: mode}, Magnitudes: o.magnitudes, Observer: observer, Batch: stepTokens, Outputs: maxSequences, Context: windowTokens,
		Cache: compute.CacheSpec{Pages: perSequence * maxSequences, States: maxSequences}, Pinned: pinned, Progress: o.bytes(StageLoad),
	})
	if err != nil {
		dev.Close()
		return nil, err
	}
	r := &runner{Model: m, dev: dev, window: min(windowTokens, m.Context)}
	page := int32(0)
	for range maxSequences {
		var own []int32
		for range perSequence {
			own = append(own, page)
			page++
		}
		r.pages = append(r.pages, own)
	}
	return r, nil
}

// Close frees the model.
func (r *runner) Close() error { return r.dev.Close() }

// run evaluates windows, each from its beginning. They must fit into one step.
func (r *runner) run(ws []window) error {
	p := r.begin()
	for s, w := range ws {
		r.add(s, 0, w.tokens)
	}
	return r.Forward(p)
}

// begin empties the parameters of the next step.
func (r *runner) begin() *compute.Params {
	p := &r.params
	p.Tokens, p.Pos, p.Seq, p.Out, p.Pages = p.Tokens[:0], p.Pos[:0], p.Seq[:0], p.Out[:0], r.pages
	return p
}

// add puts tokens at positions from pos on of sequence s into the next step.
func (r *runner) add(s, pos int, tokens []int32) {
	p := &r.params
	for i, id := range tokens {
		p.Tokens, p.Pos, p.Seq = append(p.Tokens, id), append(p.Pos, int32(pos+i)), append(p.Seq, int32(s))
	}
}
