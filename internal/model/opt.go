package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// positionOffset is how far OPT's learned positions are shifted: its first two rows are unused padding.
const positionOffset = 2

// bindOPT binds OPT: learned positions, LayerNorm, biases everywhere, tied head.
func bindOPT(b *binder, m *Model) error {
	m.bindEnds(b)
	b.card = b.card && m.head == m.embd // positions lie where the embedding does
	if b.err == nil {
		positions := m.Context + positionOffset
		if t := b.f.Tensor("position_embd.weight"); t != nil {
			positions = t.Rows()
		}
		m.pos = b.matrix("position_embd.weight", positions, m.Embd, compute.Embed)
		m.Context = min(m.Context, positions-positionOffset)
	}
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	m.layers = make([]layer, m.Layers)
	for i := range m.layers {
		l := &m.layers[i]
		b.lies(m.place(i))
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
		l.attnNorm = m.bindNorm(b, name("attn_norm"))
		if b.has(name("attn_qkv.weight")) {
			if qkv := b.slices(name("attn_qkv.weight"), m.Embd, compute.Precise, q, kv, kv); qkv != nil {
				l.wq, l.wk, l.wv = qkv[0], qkv[1], qkv[2]
			}
			if bias := b.vectorSlices(name("attn_qkv.bias"), q, kv, kv); bias != nil {
				l.bq, l.bk, l.bv = bias[0], bias[1], bias[2]
			}
		} else {
			l.wq = b.matrix(name("attn_q.weight"), q, m.Embd, compute.Precise)
			l.wk = b.matrix(name("attn_k.weight"), kv, m.Embd, compute.Precise)
			l.wv = b.matrix(name("attn_v.weight"), kv, m.Embd, compute.Precise)
			l.bq = b.vector(name("attn_q.bias"), q)
			l.bk = b.vector(name("attn_k.bias"), kv)
			l.bv = b.vector(name("attn_v.bias"), kv)
		}
		l.wo = b.matrix(name("attn_output.weight"), m.Embd, q, compute.Precise)
		l.bo = b.vector(name("attn_output.bias"), m.Embd)
		l.ffnNorm = m.bindNorm(b, name("ffn_norm"))
		l.ffn.bind(b, m, i)
		if b.err != nil {
			return b.err
		}
	}
	return b.err
}

// optBlock is a pre-norm block with biases and an ungated ReLU layer:
//
//	x += Wo·attention(Wq·h+bq, Wk·h+bk, Wv·h+bv) + bo, h = norm(x)
//	x += Wdown·relu(Wup·h+bup) + bdown,                 h = norm(x)
func (m *Model) optBlock(v compute.Verbs, l *layer, i int) {
	s := &m.step
	v.LayerNorm(s.h, s.x, l.attnNorm.w, l.attnNorm.b, m.Eps)
	v.MatMul(s.h, compute.Products{{Out: s.q, W: l.wq, Bias: l.bq}, {Out: s.k, W: l.wk, Bias: l.bk}, {Out: s.v, W: l.wv, Bias: l.bv}})
	v.StoreKV(m.cache, i, s.k, s.v)
	v.Attention(s.attn, s.q, m.cache, i, m.scale)
	v.MatMul(s.attn, compute.Products{{Out: s.h, W: l.wo, Bias: l.bo}})
	v.Add(s.x, s.h)

	v.LayerNorm(s.h, s.x, l.ffnNorm.w, l.ffnNorm.b, m.Eps)
	l.ffn.forward(v, s)
	v.Add(s.x, s.ffnOut)
}
