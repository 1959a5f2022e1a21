package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Attention is attention of query heads that share key and value heads (Ainslie et al. 2023, GQA).
type Attention struct {
	Q, K, V Linear // [heads·key, n_embd], [kv_heads·key, n_embd], [kv_heads·value, n_embd]
	Out     Linear // [n_embd, heads·value]

	QNorm, KNorm HeadNorm
	VNorm        Norm // [value] of each head, or none
	Inner        Norm // [heads·value] of Out's input, or none

	Gate HeadGate // gate of the heads' output, or none

	HeadShape
	Layer   int  // its number
	Stored  int  // the part of the cache with its keys and values
	Borrows bool // it reads the keys and values of layer From, and has none itself
	From    int  // with Borrows

	Onward      bool                // rows never see later ones, not even the rows of a picture, which see each other in other layers
	Gated       bool                // in Q each head's query is followed by a gate of the same size; its sigmoid multiplies the head's output
	Clamp       float32             // queries, keys and values are clamped to [-Clamp, Clamp]; 0: they are not
	Rope        *compute.Rope       // nil: heads are not rotated
	Then        *compute.Rope       // a further rotation of other elements, or nil
	RotateFirst bool                // heads are rotated before their norms, not after them
	Indexer     *Indexer            // chooses the positions that it sees; nil: it sees all
	Temperature compute.Temperature // scales queries by their position; its Scale is 0 if they are not scaled
	Scale       float32             // factor of the output before it is added to the residual; 0: 1
	Scores      compute.Attention
}

// HeadShape says how many heads attention has, and how wide they are.
type HeadShape struct {
	Heads, KVHeads int // query heads, and KV heads
	Key, Value     int // elements of a head's key and query, and of its value
}

// Attention returns the layer's attention, which has no weights yet.
func (b *Binder) Attention(s HeadShape) *Attention {
	a := &Attention{HeadShape: s, Layer: b.layer}
	b.parts[b.layer].Attention = a
	b.checkHeads(s)
	a.Stored = b.Store(compute.KVShape{Heads: s.KVHeads, Key: s.Key, Value: s.Value})
	return a
}

// Again returns a, the layer's attention, for another time that tokens go through the layer: with the same weights, but
// its own keys and values. Only the last time drops the rows without wanted logits.
func (b *Binder) Again(a *Attention) *Attention {
	if a == nil {
		return nil
	}
	again := *a
	again.Stored = b.Store(compute.KVShape{Heads: a.KVHeads, Key: a.Key, Value: a.Value})
	parts := &b.parts[b.layer]
	for _, before := range append([]*Attention{parts.Attention}, parts.Again...) {
		before.Layer = -1
	}
	parts.Again = append(parts.Again, &again)
	return &again
}

// checkHeads fails unless attention with heads of that shape can be computed.
func (b *Binder) checkHeads(s HeadShape) {
	if s.KVHeads == 0 || s.Heads%s.KVHeads != 0 {
		b.Fail("%d attention heads do not share %d KV heads evenly", s.Heads, s.KVHeads)
	}
	for _, n := range []int{s.Key, s.Value} {
		if n%8 != 0 || n > maxHead {
			b.Fail("heads of %d elements are not supported; a multiple of 8 up to %d is", n, maxHead)
		}
	}
	if s.Heads*max(s.Key, s.Value) > MaxWidth {
		b.Fail("%d heads of %d elements are wider than %d", s.Heads, max(s.Key, s.Value), MaxWidth)
	}
}

// maxHead bounds the elements of a head's key and of its value.
const maxHead = 512

// Forward returns the residual and the attention of in, the residual's norm, which the caller adds to it. It overwrites
// in. In a step that wants few logits the last layer stores keys and values of all rows, and then drops the rows
// without wanted logits from both results. [n, n_embd] each
func (a *Attention) Forward(p *Pass, residual, in compute.Tensor) (_, out compute.Tensor) {
	x, heads := a.AttendWanted(p, residual, in)
	p.Normalize(heads, a.Inner)
	out = p.reuse(in, residual, heads, a.Out.W.Rows)
	p.LinearTo(out, heads, &a.Out)
	if a.Scale != 0 {
		p.Scale(out, a.Scale)
	}
	p.pool.giveBack(heads)
	return x, out
}

// AttendWanted is Forward without Out: it returns what all heads read. [n, heads·value]
func (a *Attention) AttendWanted(p *Pass, residual, in compute.Tensor) (_, heads compute.Tensor) {
	heads = a.Attend(p, in)
	residual = p.Wanted(a.Layer, residual)
	return residual, p.Wanted(a.Layer, heads)
}

// Attend returns what all heads read: [n, heads·value]
//
//	attention(rope(norm(Q·x)), rope(norm(K·x)), V·x)
//
// Where V is not bound, values are the keys before their norm and rotation.
func (a *Attention) Attend(p *Pass, x compute.Tensor) compute.Tensor {
	heads := p.New(x, a.Heads*a.Value)
	scope := p.Scope()
	how := a.Scores
	how.Bounded = how.Bounded || p.Bounded && !how.Later && !a.Onward
	if a.Indexer != nil {
		how.Seen = a.Indexer.Choose(p, x, x)
	}
	q, k, v, gate := a.project(p, x)
	if a.Clamp > 0 {
		p.verbs.Clamp(q, -a.Clamp, a.Clamp)
		if !a.Borrows {
			p.verbs.Clamp(k, -a.Clamp, a.Clamp)
			p.verbs.Clamp(v, -a.Clamp, a.Clamp)
		}
	}
	a.rotate(p, q, &a.QNorm)
	if !a.Borrows {
		a.rotate(p, k, &a.KNorm)
		if a.VNorm.Bound() {
			p.Normalize(v.Split(a.Value), a.VNorm)
		}
	}
	if a.Temperature.Scale != 0 {
		p.verbs.Temper(q, a.Temperature)
	}
	if !a.Borrows {
		p.verbs.StoreKV(p.Cache, a.Stored, k, v)
	}
	if !p.narrows(a.Layer) || p.outs > 0 { // else keys and values are all that is wanted
		p.verbs.Attend(heads, q, p.Cache, a.Stored, how)
		if a.Gated {
			p.verbs.Activate(heads, gate, heads, compute.Activation{Kind: compute.Logistic})
		}
		a.Gate.apply(p, heads, x, a.Value)
	}
	p.Leave(scope)
	return heads
}

// Store stores the keys and values of x: what Attend does before it attends.
func (a *Attention) Store(p *Pass, x compute.Tensor) {
	scope := p.Scope()
	var k, v compute.Tensor
	if a.V.Bound() {
		k, v = p.Linear2(x, &a.K, &a.V)
	} else {
		k = p.Linear(x, &a.K)
		v = p.Slice(k, 0, a.KVHeads*a.Value)
	}
	a.rotate(p, k, &a.KNorm)
	if a.VNorm.Bound() {
		p.Normalize(v.Split(a.Value), a.VNorm)
	}
	p.verbs.StoreKV(p.Cache, a.Stored, k, v)
	p.Leave(scope)
}

// project returns queries, keys, values, and the gates of queries if there are any.
func (a *Attention) project(p *Pass, x compute.Tensor) (q, k, v, gate compute.Tensor) {
	switch {
	case a.Gated:
		var both compute.Tensor
		both, k, v = p.Linear3(x, &a.Q, &a.K, &a.V)
		q, gate = p.New(x, a.Heads*a.Key), p.New(x, a.Heads*a.Key)
		p.verbs.Slice(q.Split(a.Key), both.Split(2*a.Key), 0)
		p.verbs.Slice(gate.Split(a.Key), both.Split(2*a.Key), a.Key)
	case a.Borrows:
		q = p.Linear(x, &a.Q)
	case !a.V.Bound():
		q, k = p.Linear2(x, &a.Q, &a.K)
		v = p.Slice(k, 0, a.KVHeads*a.Value)
	default:
		q, k, v = p.Linear3(x, &a.Q, &a.K, &a.V)
	}
	return q, k, v, gate
}

// rotate applies n to the heads of queries or keys and rotates them to their positions.
func (a *Attention) rotate(p *Pass, x compute.Tensor, n *HeadNorm) {
	if a.Rope != nil && a.RotateFirst {
		p.verbs.RoPE(x, a.Key, a.Rope)
	}
	p.normalizeHeads(x, a.Key, n)
	if a.Rope != nil && !a.RotateFirst {
		p.verbs.RoPE(x, a.Key, a.Rope)
	}
	if a.Then != nil {
		p.verbs.RoPE(x, a.Key, a.Then)
	}
}

// RotateKeys rotates the keys at the step's positions, in the cache, by Params.Turns. unscaled is Rope without its
// magnitude, which stored keys have already.
func (a *Attention) RotateKeys(p *Pass, unscaled *compute.Rope) {
	scope := p.Scope()
	k := p.Tokens(a.KVHeads * a.Key)
	p.verbs.LoadKeys(p.Cache, a.Stored, k)
	p.verbs.RoPE(k, a.Key, unscaled)
	p.verbs.StoreKV(p.Cache, a.Stored, k, compute.Tensor{})
	p.Leave(scope)
}
