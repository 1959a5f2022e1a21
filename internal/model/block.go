package model

import (
	"cmp"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// attention is a block's token mixer: it brings what other positions of the sequence hold to a token.
type attention struct {
	norm       norm            // of its input
	wq         *compute.Matrix // [heads·key, n_embd]
	wk         *compute.Matrix // [kv_heads·key, n_embd]
	wv         *compute.Matrix // [kv_heads·value, n_embd]
	wo         *compute.Matrix // [n_embd, heads·value]
	bq, bk, bv *compute.Vector // biases of the above, or nil
	bo         *compute.Vector // [n_embd] or nil
	qNorm      norm            // [key] of each head, or [heads·key] of all; or none
	kNorm      norm            // [key] or [kv_heads·key] likewise
	ones       *compute.Vector // [key] where each head's norm has weights of its own, or nil
	vNorm      *compute.Vector // [value] of ones, in families that norm values; or nil
	after      norm            // of what attention adds to the residual, or none
	shape      Block
	latent     latent        // in place of wk and wv, or zero
	rope       *compute.Rope // nil where heads are not rotated
	how        compute.Attention
	stored     int // the layer in whose part of the cache keys and values lie
}

// block is one transformer block: a token mixer, and a channel mixer, which works on each token alone.
type block struct {
	attention
	recurrent recurrent // in place of attention or beside it, or none
	ffnNorm   norm      // of the feed-forward layer's input; without weights it reads what attention does in parallel families, else the residual
	ffnAfter  norm      // of what the feed-forward layer adds to the residual, or none
	ffn       ffn
	experts   experts
	input     input   // reads the layer's own embedding
	scale     float32 // of the residual behind the block
	mixing    mixing  // of streams
}

// forward runs the block. Each part reads the norm of the residual x and is added to it:
//
//	x += attention(norm(x)); x += ffn(norm(x))
//	x += attention(norm(x)) + ffn(norm(x))     in parallel families
//	x = norm(x + attention(x)); x = norm(x + ffn(x))
//
// Some families have a norm behind each part, instead of the one before it or besides, and some scale what is added.
func (l *block) forward(v compute.Verbs, m *Model, i int) {
	if l.mixing.router != nil {
		l.alternate(v, m, i)
		return
	}
	s := m.step.of(&l.shape)
	if l.experts.early {
		l.experts.rate(v, m, s, s.x)
	}
	if m.Family.StateSpace {
		l.forwardParts(v, m, s, i)
		return
	}
	in := m.input(v, s, l.norm)
	l.attend(v, m, s, in, i)
	narrow := m.narrows(i)
	if narrow {
		if s = m.narrowed(v, s, &l.shape, true); s.x.Rows == 0 {
			return
		}
	}
	if m.Family.Parallel {
		switch {
		case l.ffnNorm.w != nil:
			in = m.input(v, s, l.ffnNorm)
		case narrow: // in has the rows of the whole step
			in = m.input(v, s, l.norm)
		}
		l.mix(v, m, s, in)
		m.product(v, s.attn, compute.Products{{Out: s.h, W: l.wo, Bias: l.bo}})
		m.join(v, s.x, s.h, l.after)
		m.join(v, s.x, s.ffnOut, l.ffnAfter)
		return
	}
	m.product(v, s.attn, compute.Products{{Out: s.h, W: l.wo, Bias: l.bo}})
	m.join(v, s.x, s.h, l.after)

	in = m.input(v, s, l.ffnNorm)
	m.foresee(v, s, i)
	l.mix(v, m, s, in)
	m.join(v, s.x, s.ffnOut, l.ffnAfter)
	if l.input.gate != nil {
		l.input.compute(v, m, s, i)
		v.Add(s.x, s.h)
	}
	if l.scale != 1 {
		v.Scale(s.x, l.scale)
	}
}

// forwardParts runs a block that may have a recurrent layer in place of attention or beside it, or be one part only.
func (l *block) forwardParts(v compute.Verbs, m *Model, s *buffers, i int) {
	switch {
	case l.recurrent.out != nil && l.wo != nil:
		in := m.input(v, s, l.norm)
		l.attend(v, m, s, in, i)
		l.recurrent.forward(v, m, s, in)
		m.product(v, s.attn, compute.Products{{Out: s.ffnOut, W: l.wo, Bias: l.bo}})
		v.Add(s.h, s.ffnOut)
		m.join(v, s.x, s.h, l.after)
	case l.recurrent.out != nil:
		l.recurrent.forward(v, m, s, m.input(v, s, l.norm))
		m.join(v, s.x, s.h, l.after)
	case l.wo != nil:
		l.attend(v, m, s, m.input(v, s, l.norm), i)
		m.product(v, s.attn, compute.Products{{Out: s.h, W: l.wo, Bias: l.bo}})
		m.join(v, s.x, s.h, l.after)
	}
	if m.narrows(i) {
		if s = m.narrowed(v, s, &l.shape, false); s.x.Rows == 0 {
			return
		}
	}
	if l.ffn.up == nil && l.experts.router == nil {
		return
	}
	in := m.input(v, s, l.ffnNorm)
	m.foresee(v, s, i)
	l.mix(v, m, s, in)
	m.join(v, s.x, s.ffnOut, l.ffnAfter)
}

// mix computes s.ffnOut from the input in by the feed-forward layer or the experts.
func (l *block) mix(v compute.Verbs, m *Model, s *buffers, in compute.Tensor) {
	if l.experts.router == nil {
		l.ffn.forward(v, m, s, in)
		return
	}
	l.experts.forward(v, m, s, &l.ffn, in)
}

// input returns what a part of a block reads: the norm of the residual, or the residual itself where there is no norm.
func (m *Model) input(v compute.Verbs, s *buffers, n norm) compute.Tensor {
	if n.w == nil {
		return s.x
	}
	m.normalise(v, s.h, s.x, n)
	return s.h
}

// join adds a part's output y, which it overwrites, to the residual: x += scale·norm(y).
func (m *Model) join(v compute.Verbs, x, y compute.Tensor, after norm) {
	if m.Family.NormSum {
		v.Add(x, y)
		m.normalise(v, x, x, after)
		return
	}
	if after.w != nil {
		m.normalise(v, y, y, after)
	}
	if m.Scale.Residual != 1 {
		v.Scale(y, m.Scale.Residual)
	}
	v.Add(x, y)
}

// attend computes s.attn, all heads' sums over positions, from the block's input:
//
//	attention(rope(Wq·in+bq), rope(Wk·in+bk), Wv·in+bv)
//
// Layers may read the keys and values of an earlier one instead of their own, and values may be the keys before they
// are rotated.
func (a *attention) attend(v compute.Verbs, m *Model, s *buffers, in compute.Tensor, i int) {
	if a.latent.keys != nil {
		a.attendLatent(v, m, s, in, i)
		return
	}
	own := a.shape.KV == i // keys and values
	switch {
	case m.Family.GatedAttention:
		m.product(v, in, compute.Products{{Out: s.queries, W: a.wq, Bias: a.bq}, {Out: s.k, W: a.wk, Bias: a.bk}, {Out: s.v, W: a.wv, Bias: a.bv}})
		both := s.queries.Split(2 * a.shape.Key)
		v.Slice(s.q.Split(a.shape.Key), both, 0)
		v.Slice(s.queryGates.Split(a.shape.Key), both, a.shape.Key)
	case !own:
		m.product(v, in, compute.Products{{Out: s.q, W: a.wq, Bias: a.bq}})
	case a.wv == nil:
		m.product(v, in, compute.Products{{Out: s.q, W: a.wq, Bias: a.bq}, {Out: s.k, W: a.wk, Bias: a.bk}})
		v.Slice(s.v, s.k, 0)
	default:
		m.product(v, in, compute.Products{{Out: s.q, W: a.wq, Bias: a.bq}, {Out: s.k, W: a.wk, Bias: a.bk}, {Out: s.v, W: a.wv, Bias: a.bv}})
	}
	if m.Clamp > 0 {
		v.Clamp(s.q, m.Clamp)
		if own {
			v.Clamp(s.k, m.Clamp)
			v.Clamp(s.v, m.Clamp)
		}
	}
	a.turn(v, m, s.q, a.qNorm)
	if own {
		a.turn(v, m, s.k, a.kNorm)
		if a.vNorm != nil {
			each := s.v.Split(a.shape.Value)
			v.RMSNorm(each, each, a.vNorm, m.Eps)
		}
	}
	if m.Temperature.Scale != 0 && (a.rope == nil || m.Family.Tempered) {
		v.Temper(s.q, m.Temperature)
	}
	if own {
		v.StoreKV(m.cache, a.stored, s.k, s.v)
	}
	if m.narrows(i) && s.logits.Rows == 0 { // keys and values are all that is wanted
		return
	}
	v.Attend(s.attn, s.q, m.cache, a.stored, a.how)
	if m.Family.GatedAttention {
		v.Activate(s.attn, s.queryGates, s.attn, compute.Activation{Kind: compute.Logistic})
	}
}

// turn norms and rotates the heads of queries or keys.
func (a *attention) turn(v compute.Verbs, m *Model, x compute.Tensor, n norm) {
	if a.rope != nil && m.Family.TurnedFirst {
		v.RoPE(x, a.shape.Key, a.rope)
	}
	heads := x
	if !m.Family.WideNorm {
		heads = x.Split(a.shape.Key)
	}
	switch {
	case a.ones != nil:
		m.normalise(v, heads, heads, norm{w: a.ones})
		v.Multiply(x, x, n.w)
	case n.w != nil:
		m.normalise(v, heads, heads, n)
	}
	if a.rope != nil && !m.Family.TurnedFirst {
		v.RoPE(x, a.shape.Key, a.rope)
	}
}

// blockBinder binds one block's tensors by their names after "blk.N.". What the family does not have is nil.
type blockBinder struct {
	*binder
	m     *Model
	layer int
}

func (b *blockBinder) name(s string) string { return fmt.Sprintf("blk.%d.%s", b.layer, s) }

// bound reports whether the block binds a tensor: it must, or it may and the file holds it.
func (b *blockBinder) bound(name string) bool {
	t, ok := b.m.Family.InBlock(name)
	return ok && (!t.Optional || b.has(b.name(name)))
}

// requires reports whether files must hold a tensor of the block.
func (b *blockBinder) requires(name string) bool {
	t, ok := b.m.Family.InBlock(name)
	return ok && !t.Optional
}

func (b *blockBinder) matrix(name string) *compute.Matrix {
	if !b.bound(name) {
		return nil
	}
	shape := b.m.Family.Shape(name, b.m.sizes(b.layer))
	return b.binder.matrix(b.name(name), shape[0], shape[1], compute.Precise)
}

func (b *blockBinder) vector(name string) *compute.Vector {
	if !b.bound(name) {
		return nil
	}
	return b.binder.vector(b.name(name), b.m.Family.Shape(name, b.m.sizes(b.layer))[0])
}

// headNorm binds the norm of queries or keys.
func (b *blockBinder) headNorm(name string) norm {
	if w := name + ".weight"; b.m.Family.HeadNorms && b.bound(w) {
		shape := b.m.Family.Shape(w, b.m.sizes(b.layer))
		return norm{w: b.rowsVector(b.name(w), shape[0], shape[1])}
	}
	return b.norm(name)
}

func (b *blockBinder) norm(name string) norm {
	return norm{w: b.vector(b.m.Family.NormWeight(name)), b: b.vector(name + ".bias")}
}

// bindBlock binds layer i.
func (m *Model) bindBlock(in *binder, i int) {
	in.lies(m.place(i))
	b, l := &blockBinder{binder: in, m: m, layer: i}, &m.layers[i]
	l.norm = b.norm("attn_norm")
	if second := b.norm("attn_norm_2"); second.w != nil { // attention's own; the other is the feed-forward layer's
		l.norm, l.ffnNorm = second, l.norm
	}
	l.shape = m.Blocks[i]
	if l.shape.State > 0 {
		l.recurrent.bind(b)
	}
	if l.shape.Heads > 0 {
		l.bindAttention(b, i)
	} else if m.Family.OnePart && l.shape.State == 0 {
		l.norm, l.ffnNorm = norm{}, l.norm
	}
	ffnNorm := cmp.Or(m.Family.FFNNorm, "ffn_norm")
	if ffnNorm != "post_attention_norm" {
		l.after = b.norm("post_attention_norm")
	}
	l.ffnAfter = b.norm("post_ffw_norm")
	if m.Family.NormSum {
		l.after, l.ffnAfter = b.norm("attn_output_norm"), b.norm("layer_output_norm")
	}
	if n := b.norm(ffnNorm); n.w != nil {
		l.ffnNorm = n
	}
	l.experts.bind(b)
	l.ffn.bind(b)
	l.bindMixing(b)
}

// bindAttention binds layer i's attention.
func (l *block) bindAttention(b *blockBinder, i int) {
	m := b.m
	l.bindQKV(b)
	if l.qNorm = b.headNorm("attn_q_norm"); m.Family.HeadNorms && l.qNorm.w != nil {
		l.ones = b.ones(m.Blocks[i].Key)
	}
	if m.Blocks[i].KV == i {
		l.kNorm = b.headNorm("attn_k_norm")
		if m.Family.NormedValues {
			l.vNorm = b.ones(m.Blocks[i].Value)
		}
	}
	if m.Family.UnitHeads && m.Experts.Count != m.Family.UnitHeadsBut && m.Blocks[i].Rotation != Unrotated {
		l.qNorm.w = b.ones(m.Blocks[i].Key)
		l.kNorm.w = l.qNorm.w
	}
	l.wo, l.bo = b.matrix("attn_output.weight"), b.vector("attn_output.bias")
	l.rope = m.ropes[l.shape.Rotation]
	scale := cmp.Or(m.Scale.Attention, float32(m.Rope.scores()/math.Sqrt(float64(l.shape.Key))))
	l.how = compute.Attention{Scale: scale, Window: l.shape.Window, Parts: m.Family.Parts, Later: m.Later, SoftCap: m.Cap.Scores}
	if m.Alibi > 0 {
		l.how.Slopes = b.numbers("ALiBi's slopes", slopes(l.shape.Heads, m.Alibi))
	}
	l.how.Sinks = b.vector("attn_sinks.weight")
}

// bindQKV binds q, k and v. Any family's files may hold their weights as one tensor, and likewise their biases.
func (a *attention) bindQKV(b *blockBinder) {
	m := b.m
	if m.Family.Latent {
		a.bindLatent(b)
		return
	}
	if m.Blocks[b.layer].KV != b.layer { // files may hold what it would need for its own
		a.wq, a.bq = b.matrix("attn_q.weight"), b.vector("attn_q.bias")
		for _, name := range []string{"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"} {
			b.ignore(b.name(name))
		}
		return
	}
	q, k, v := m.Blocks[b.layer].widths()
	if m.Family.GatedAttention {
		q *= 2
	}
	_, usual := m.Family.InBlock("attn_qkv.weight")
	if usual = usual && !m.Family.Delta; b.has(b.name("attn_qkv.weight")) || usual && !b.has(b.name("attn_q.weight")) {
		if qkv := b.slices(b.name("attn_qkv.weight"), m.Embd, compute.Precise, q, k, v); qkv != nil {
			a.wq, a.wk, a.wv = qkv[0], qkv[1], qkv[2]
		}
	} else {
		weight := func(name string, rows int) *compute.Matrix {
			if !usual {
				return b.matrix(name)
			}
			return b.binder.matrix(b.name(name), rows, m.Embd, compute.Precise)
		}
		a.wq, a.wk, a.wv = weight("attn_q.weight", q), weight("attn_k.weight", k), weight("attn_v.weight", v)
	}
	if b.has(b.name("attn_qkv.bias")) || b.requires("attn_qkv.bias") && !b.has(b.name("attn_q.bias")) {
		if bias := b.vectorSlices(b.name("attn_qkv.bias"), q, k, v); bias != nil {
			a.bq, a.bk, a.bv = bias[0], bias[1], bias[2]
		}
		return
	}
	bias := func(name string, n int) *compute.Vector {
		if !b.requires(name) && !b.has(b.name(name)) {
			return nil
		}
		return b.binder.vector(b.name(name), n)
	}
	a.bq, a.bk, a.bv = bias("attn_q.bias", q), bias("attn_k.bias", k), bias("attn_v.bias", v)
}

// sizes returns what the shapes of a layer's tensors follow from.
func (c *Config) sizes(layer int) arch.Sizes {
	b := c.Blocks[layer]
	return arch.Sizes{
		Embd: c.Embd, Vocab: c.Vocab, Positions: c.Context, FF: b.FF, Heads: b.Heads, KVHeads: b.KVHeads, Key: b.Key, Value: b.Value,
		Latent: b.Latent, QueryLatent: c.QueryLatent, Rotated: b.Rotated,
		Layers: c.Layers, Input: c.Input,
		Experts: c.Experts.Count, ExpertFF: c.Experts.FF, SharedFF: c.Experts.Shared, ExpertLatent: c.Experts.Latent,
		StateSpace: c.States.StateSpace,
	}
}

// kv returns the shape of the layer's keys and values in the cache, or of its state where it has only that.
func (b Block) kv() compute.KVShape {
	if b.Heads == 0 {
		return b.state()
	}
	if b.Latent > 0 {
		return compute.KVShape{Heads: 1, Key: b.Latent + b.Rotated, Value: b.Latent, Within: true}
	}
	return compute.KVShape{Heads: b.KVHeads, Key: b.Key, Value: b.Value}
}

// state returns the shape of the layer's state in the cache.
func (b Block) state() compute.KVShape { return compute.KVShape{State: b.State} }

// widths returns the elements of all heads' queries, and of what is stored of keys and of values.
func (b Block) widths() (q, k, v int) {
	kv := b.kv()
	if kv.Within {
		return b.Heads * b.Key, kv.Heads * kv.Key, 0
	}
	return b.Heads * b.Key, kv.Heads * kv.Key, kv.Heads * kv.Value
}
