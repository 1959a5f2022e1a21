package model

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// buffers are the activations of a step; rows are tokens.
type buffers struct {
	x, h, attn compute.Tensor // [n, n_embd], [n, n_embd], [n, heads·value]
	ffnOut     compute.Tensor // [n, n_embd]
	q, k, v    compute.Tensor // [n, heads·key], [n, kv_heads·key], [n, kv_heads·value]
	gate       compute.Tensor // [n, n_ff] in dense layers, and a predictor's logits
	up         compute.Tensor // [n, n_ff] in dense gated layers
	latent     compute.Tensor // [n, latent], of which keys and values are made in latent attention
	shared     compute.Tensor // [n, rotated], the part of keys that heads share there
	own        compute.Tensor // [n, heads·(key-rotated)], the other part of queries
	wide       compute.Tensor // [n, heads·(latent+rotated)], queries as they meet the cache
	mixed      compute.Tensor // [n, heads·latent], heads' sums over positions

	queryLatent compute.Tensor // [n, query latent], of which queries are made

	hidden        compute.Tensor  // [n, largest predictor rank]
	set           compute.Set     // [n] of n_ff
	streams       compute.Streams // of the residual, of which blocks compute one in x; or none
	modalities    compute.Tensor  // [n, streams]
	low           compute.Tensor  // [n, rank of what is added to attention]
	beside        compute.Tensor  // [n, n_embd] what is added to attention
	inputs        compute.Tensor  // [n, layers·input] layers' own embeddings of the tokens
	lookup        compute.Tensor  // [n, layers·input] as they are looked up
	input         compute.Tensor  // [n, input] a layer's
	gated         compute.Tensor  // [n, input]
	router        compute.Tensor  // [n, experts] logits
	choice        compute.Choice  // [n] of experts
	expertsOut    compute.Tensor  // [n, n_embd] the chosen experts' outputs, which are added to those of shared ones
	expertsIn     compute.Tensor  // [n, latent] what experts read, where that is narrower
	expertsLatent compute.Tensor  // [n, latent] what they write
	sharedGate    compute.Tensor  // [n, 1] logits of the weights of shared experts
	leaving       compute.Tensor  // [n, inner] gates of what leaves a recurrent layer's state, and then what does
	entering      compute.Tensor  // [n, channels] of its convolution
	convolved     compute.Tensor  // [n, channels]
	steps         compute.Tensor  // [n, heads]
	scanned       compute.Tensor  // [n, inner]
	writes        compute.Tensor  // [n, heads] of a delta net
	queries       compute.Tensor  // [n, heads·2·key] each head's query and behind it its gate, in gated attention
	queryGates    compute.Tensor  // [n, heads·key] the gates
	last          compute.Tensor  // [n_out, n_embd]
	lastAttn      compute.Tensor  // [n_out, heads·value] of the last layer, where it computes these rows alone
	logits        compute.Tensor  // [n_out, n_vocab]

	adapterLow, adapterWide   compute.Tensor // [n, rank of adapters], [n, widest adapted matrix]
	adapterGates, adapterUps  compute.Tensor // [n, ranks of all adapters] of layers by neuron
	adapterDowns              compute.Tensor // [n, ranks of all adapters]
	adapterLast, adapterVocab compute.Tensor // [n_out, rank of adapters], [n_out, n_vocab] where the head is adapted
}

// ActivationBytes is about what a step of n tokens takes: the residual and its neighbours, q, k, v, attention's output,
// gates and ups.
func (c Config) ActivationBytes(n int) int64 {
	latent := 0
	if c.Family.Latent {
		b := c.Blocks[0]
		latent = c.QueryLatent + b.Heads*(b.Key+2*b.Latent+b.Rotated)
	}
	if c.Family.GatedAttention {
		latent = 3 * c.Heads * c.HeadDim
	}
	experts, states := 0, 0
	if c.Recurrent() {
		states = 2 * (c.States.Inner + c.States.Channels())
	}
	if e := &c.Experts; e.Count > 0 {
		experts = e.Count + 2*c.Embd + e.Used*(c.Embd+2*e.FF)
	}
	return 4 * int64(n) * int64(4*c.Embd+2*(c.Heads+c.KVHeads)*c.HeadDim+3*c.FF+latent+experts+states)
}

func (m *Model) newBuffers(n, outputs int) (buffers, error) {
	var b buffers
	var err error
	tensor := func(rows, cols int) compute.Tensor {
		if err != nil || cols == 0 {
			return compute.Tensor{}
		}
		var t compute.Tensor
		t, err = m.dev.Tensor(rows, cols)
		return t
	}
	b.x, b.h, b.ffnOut = tensor(n, m.Embd), tensor(n, m.Embd), tensor(n, m.Embd)
	q, k, values, attn := 0, 0, 0, 0 // of the widest layer
	for _, l := range m.Blocks {
		lq, lk, lv := l.widths()
		q, k, values, attn = max(q, lq), max(k, lk), max(values, lv), max(attn, l.Heads*l.Value)
	}
	b.q, b.attn, b.k, b.v = tensor(n, q), tensor(n, attn), tensor(n, k), tensor(n, values)
	if m.Family.GatedAttention {
		b.queries, b.queryGates = tensor(n, 2*q), tensor(n, q)
	}
	if m.Family.Latent {
		l := m.Blocks[0]
		b.latent, b.shared, b.queryLatent = tensor(n, l.Latent), tensor(n, l.Rotated), tensor(n, m.QueryLatent)
		b.own, b.wide, b.mixed = tensor(n, l.Heads*(l.Key-l.Rotated)), tensor(n, l.Heads*(l.Latent+l.Rotated)), tensor(n, l.Heads*l.Latent)
	}
	b.last, b.logits = tensor(outputs, m.Embd), tensor(outputs, m.Vocab)
	b.last.Outputs, b.logits.Outputs = true, true
	if m.narrowing {
		last := m.Blocks[m.Layers-1]
		b.lastAttn = tensor(outputs, last.Heads*last.Value)
	}
	m.newStreams(&b, n, tensor)
	m.recurrentBuffers(&b, n, tensor)
	m.adapterBuffers(&b, tensor, n, outputs)
	rank, dense, gated := 0, false, false
	need := func(f *ffn) {
		dense, gated = dense || !f.byNeuron && f.up != nil, gated || !f.byNeuron && f.gate != nil
		if f.fc1 != nil {
			rank = max(rank, f.fc1.Rows)
		}
	}
	for i := range m.layers {
		need(&m.layers[i].ffn)
	}
	if m.further != nil {
		need(&m.further.block.ffn)
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
	if err != nil {
		return b, err
	}
	if experts := m.expertBuffers(&b, n, tensor); experts != nil {
		return b, experts
	}
	return b, err
}

// first is b cut to a step of n tokens and nOut rows of logits.
func (b *buffers) first(n, nOut int) buffers {
	c := b.cut(n, false)
	c.last, c.logits = b.last.First(nOut), b.logits.First(nOut)
	return c
}

// cut is b's tensors of tokens cut to n rows, which are those that Params.Out names if outputs is set.
func (b *buffers) cut(n int, outputs bool) buffers {
	like := compute.Tensor{Rows: n, Outputs: outputs}
	c := buffers{
		x: b.x.Like(like), h: b.h.Like(like), attn: b.attn.Like(like), ffnOut: b.ffnOut.Like(like),
		q: b.q.Like(like), k: b.k.Like(like), v: b.v.Like(like), gate: b.gate.Like(like), up: b.up.Like(like),
		latent: b.latent.Like(like), shared: b.shared.Like(like), own: b.own.Like(like), wide: b.wide.Like(like), mixed: b.mixed.Like(like), queryLatent: b.queryLatent.Like(like),
		hidden: b.hidden.Like(like), set: b.set.First(n),
		streams: b.streams.First(n), modalities: b.modalities.Like(like), low: b.low.Like(like), beside: b.beside.Like(like),
		inputs: b.inputs.Like(like), lookup: b.lookup.Like(like), input: b.input.Like(like), gated: b.gated.Like(like),
		router: b.router.Like(like), choice: b.choice.First(n), expertsOut: b.expertsOut.Like(like), sharedGate: b.sharedGate.Like(like), expertsIn: b.expertsIn.Like(like), expertsLatent: b.expertsLatent.Like(like),
		leaving: b.leaving.Like(like), entering: b.entering.Like(like), convolved: b.convolved.Like(like), steps: b.steps.Like(like), scanned: b.scanned.Like(like),
		writes: b.writes.Like(like), queries: b.queries.Like(like), queryGates: b.queryGates.Like(like),
	}
	c.set.Outputs, c.choice.Outputs = outputs, outputs
	return c
}

// of returns b as a layer's part of the step uses it: as wide as the layer is.
func (b *buffers) of(l *Block) *buffers {
	b.q.Cols, b.k.Cols, b.v.Cols = l.widths()
	b.attn.Cols, b.gate.Cols, b.up.Cols = l.Heads*l.Value, l.FF, l.FF
	b.queries.Cols, b.queryGates.Cols = 2*b.q.Cols, b.q.Cols
	return b
}
