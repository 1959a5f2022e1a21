// Package model turns a GGUF file into a forward pass: hyperparameters, strict
// binding of weights, and one readable block per family, written in the verbs of
// internal/compute.
package model

import (
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/placement"
)

// Options are the choices made when a model is loaded.
type Options struct {
	Activation string                  // overrides the file's; empty keeps it
	Threshold  *float32                // overrides the file's sparse threshold
	Sparse     SparseMode              // how feed-forward layers are computed
	Order      [][]int32               // [layers][n_ff]: a layer's neuron i is the file's Order[layer][i]; nil keeps the file's order
	Places     []placement.Place       // [layers+1] what of each layer, and of the head, goes to a card, and which; nil: nothing
	Observer   Observer                // sees dense feed-forward layers, which it asks for; may be nil
	Batch      int                     // tokens of the largest step (llama.cpp's ubatch)
	Outputs    int                     // rows of logits of the largest step
	Cache      compute.CacheSpec       // only Pages is read; the rest follows from the file
	Pinned     bool                    // compute on the mapped file in place (--no-repack)
	Progress   func(done, total int64) // bytes of weights taken in; may be nil
}

// Model is a loaded model on a device. It is used by one goroutine at a time.
type Model struct {
	Config
	dev    compute.Device
	orders [][]int32         // Options.Order
	places []placement.Place // Options.Places
	block  func(*Model, compute.Verbs, *layer, int)
	embd   *compute.Matrix // [n_vocab, n_embd]
	pos    *compute.Matrix // [n_ctx+2, n_embd], OPT only
	layers []layer
	norm   norm            // before the head
	head   *compute.Matrix // [n_vocab, n_embd]; embd where tied
	rope   *compute.Rope
	scale  float32 // of attention scores: 1/√head_dim

	cache  *compute.Cache
	buf    buffers
	step   buffers         // buf, cut to the step in progress
	params *compute.Params // of the step in progress
	body   func(compute.Verbs)
}

// norm is a norm's scale and, in families with LayerNorm, its bias.
type norm struct {
	w, b *compute.Vector // [n_embd]
}

// layer is one transformer block.
type layer struct {
	attnNorm   norm
	attnNorm2  norm            // falcon 40B: attention's own norm
	wq         *compute.Matrix // [heads·head_dim, n_embd]
	wk, wv     *compute.Matrix // [kv_heads·head_dim, n_embd]
	wo         *compute.Matrix // [n_embd, heads·head_dim]
	bq, bk, bv *compute.Vector // biases of the above, or nil
	bo         *compute.Vector // [n_embd] or nil
	qNorm      *compute.Vector // [head_dim], qwen3
	kNorm      *compute.Vector // [head_dim], qwen3
	ffnNorm    norm
	ffn        ffn
}

// buffers are the activations of a step; rows are tokens.
type buffers struct {
	x, h, attn compute.Tensor // [n, n_embd], [n, n_embd], [n, heads·head_dim]
	ffnOut     compute.Tensor // [n, n_embd]
	q, k, v    compute.Tensor // [n, heads·head_dim], [n, kv_heads·head_dim] twice
	gate       compute.Tensor // [n, n_ff] in dense layers, and a predictor's logits
	up         compute.Tensor // [n, n_ff] in dense gated layers
	hidden     compute.Tensor // [n, largest predictor rank]
	set        compute.Set    // [n] of n_ff
	last       compute.Tensor // [n_out, n_embd]
	logits     compute.Tensor // [n_out, n_vocab]
}

// Load binds f's weights to dev. The file may be closed afterwards unless Options.Pinned.
func Load(f *gguf.File, dev compute.Device, o Options) (*Model, error) {
	c, err := ReadConfig(f, o.Activation)
	if err != nil {
		return nil, err
	}
	if o.Threshold != nil {
		c.Threshold = *o.Threshold
	}
	if c.Sparse, err = c.Resolve(o.mode()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	m := &Model{Config: c, dev: dev, scale: float32(1 / math.Sqrt(float64(c.HeadDim)))}
	if err := m.takeOrder(f, o.Order); err != nil {
		return nil, err
	}
	if m.places = o.Places; o.Places != nil && len(o.Places) != m.Layers+1 {
		return nil, fmt.Errorf("%s: a plan of %d layers is not for this model of %d", f.Path, len(o.Places)-1, m.Layers)
	}
	b := newBinder(f, dev, o.Pinned, o.Progress)
	fam := families()[c.Arch]
	m.block = fam.block
	if err := m.bindRope(b); err != nil {
		return nil, err
	}
	if err := fam.bindAll(b, m); err != nil {
		return nil, err
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	if m.cache, err = dev.Cache(m.CacheSpec(o.Cache.Pages)); err != nil {
		return nil, err
	}
	if m.buf, err = m.newBuffers(o.Batch, o.Outputs); err != nil {
		return nil, err
	}
	m.body = m.forward
	if o.Observer != nil {
		return m, m.observe(o.Observer)
	}
	return m, nil
}

// ActivationBytes is about what a step of n tokens takes: the residual and its neighbours, q, k, v, attention's output, gates and ups.
func (c Config) ActivationBytes(n int) int64 {
	return 4 * int64(n) * int64(4*c.Embd+2*(c.Heads+c.KVHeads)*c.HeadDim+3*c.FF)
}

// mode is the sparse mode asked for: an observer wants to see every neuron.
func (o *Options) mode() SparseMode {
	if o.Observer != nil {
		return Off
	}
	return o.Sparse
}

// CacheSpec is the shape of a KV cache of the given number of pages.
func (c Config) CacheSpec(pages int) compute.CacheSpec {
	return compute.CacheSpec{Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Pages: pages}
}

func (m *Model) bindRope(b *binder) error {
	if m.Arch == "opt" {
		return nil
	}
	var factors []float32
	if b.has("rope_freqs.weight") {
		factors = b.floats("rope_freqs.weight", m.Rope.Dims/2)
	}
	for i := range m.Layers { // precomputed frequencies that old converters wrote; they follow from the keys
		b.ignore(fmt.Sprintf("blk.%d.attn_rot_embd", i))
	}
	if b.err != nil {
		return b.err
	}
	var err error
	if m.rope, err = m.Rope.rope(factors); err != nil {
		return fmt.Errorf("%s: %w", b.f.Path, err)
	}
	return nil
}

// bindEnds binds what lies before and behind the layers: embedding, last norm, head. A head that is the embedding keeps it where the
// head is wanted.
func (m *Model) bindEnds(b *binder) {
	head, tied := m.place(m.Layers), !b.has("output.weight")
	b.lies(head)
	b.card = b.card && tied
	m.embd = b.matrix("token_embd.weight", m.Vocab, m.Embd, compute.Embed)
	m.norm = m.bindNorm(b, "output_norm")
	b.lies(head)
	if m.head = m.embd; !tied {
		m.head = b.matrix("output.weight", m.Vocab, m.Embd, compute.Precise)
	}
}

// bindNorm binds name's weight and, in families with LayerNorm, its bias.
func (m *Model) bindNorm(b *binder, name string) norm {
	n := norm{w: b.vector(name+".weight", m.Embd)}
	if m.layerNorm() {
		n.b = b.vector(name+".bias", m.Embd)
	}
	return n
}

func (m *Model) newBuffers(n, outputs int) (buffers, error) {
	var b buffers
	var err error
	tensor := func(rows, cols int) compute.Tensor {
		if err != nil {
			return compute.Tensor{}
		}
		var t compute.Tensor
		t, err = m.dev.Tensor(rows, cols)
		return t
	}
	b.x, b.h, b.ffnOut = tensor(n, m.Embd), tensor(n, m.Embd), tensor(n, m.Embd)
	b.q, b.attn = tensor(n, m.Heads*m.HeadDim), tensor(n, m.Heads*m.HeadDim)
	b.k, b.v = tensor(n, m.KVHeads*m.HeadDim), tensor(n, m.KVHeads*m.HeadDim)
	b.last, b.logits = tensor(outputs, m.Embd), tensor(outputs, m.Vocab)
	rank, dense, gated := 0, false, false
	for i := range m.layers {
		f := &m.layers[i].ffn
		dense, gated = dense || !f.byNeuron, gated || !f.byNeuron && f.gate != nil
		if f.fc1 != nil {
			rank = max(rank, f.fc1.Rows)
		}
	}
	if dense || rank > 0 {
		b.gate = tensor(n, m.FF)
	}
	if gated {
		b.up = tensor(n, m.FF)
	}
	if rank > 0 {
		b.hidden = tensor(n, rank)
		if err == nil {
			b.set, err = m.dev.Set(n, m.FF)
		}
	}
	return b, err
}

// first is b cut to a step of n tokens and nOut rows of logits.
func (b *buffers) first(n, nOut int) buffers {
	return buffers{
		x: b.x.First(n), h: b.h.First(n), attn: b.attn.First(n), ffnOut: b.ffnOut.First(n),
		q: b.q.First(n), k: b.k.First(n), v: b.v.First(n), gate: b.gate.First(n), up: b.up.First(n),
		hidden: b.hidden.First(n), set: b.set.First(n), last: b.last.First(nOut), logits: b.logits.First(nOut),
	}
}

// Forward runs one step. Afterwards Logits returns the rows that p.Out asked for.
func (m *Model) Forward(p *compute.Params) error {
	n, nOut := len(p.Tokens), len(p.Out)
	if n == 0 || n > m.buf.x.Rows || nOut > m.buf.logits.Rows {
		return fmt.Errorf("a step of %d tokens and %d outputs does not fit buffers of %d and %d", n, nOut, m.buf.x.Rows, m.buf.logits.Rows)
	}
	p.Threshold, m.params = m.Threshold, p
	m.step = m.buf.first(n, nOut)
	return m.dev.Run(compute.Segment{Name: "forward", Rows: n, Out: nOut}, p, m.body)
}

// forward is the whole pass: embedding, blocks, final norm, head.
func (m *Model) forward(v compute.Verbs) {
	s := &m.step
	v.Embed(s.x, m.embd)
	if m.pos != nil {
		v.AddPosition(s.x, m.pos, positionOffset)
	}
	for i := range m.layers {
		m.block(m, v, &m.layers[i], i)
	}
	if s.logits.Rows == 0 {
		return
	}
	v.Gather(s.last, s.x)
	m.normalise(v, s.last, s.last, m.norm)
	v.MatMul(s.last, compute.Products{{Out: s.logits, W: m.head}})
}

// normalise applies the family's norm: LayerNorm for falcon and OPT, RMSNorm for the others.
func (m *Model) normalise(v compute.Verbs, dst, x compute.Tensor, n norm) {
	if m.layerNorm() {
		v.LayerNorm(dst, x, n.w, n.b, m.Eps)
		return
	}
	v.RMSNorm(dst, x, n.w, m.Eps)
}

// Logits is row i of the last step's logits [n_vocab], valid until the next step.
func (m *Model) Logits(i int) []float32 { return m.dev.Read(m.buf.logits, i) }

// CopyPage copies one page of the KV cache, in every layer.
func (m *Model) CopyPage(to, from int32) { m.dev.CopyPage(m.cache, to, from) }
