package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// bindFalcon binds Falcon 7B (one norm) and 40B (attn_norm_2 is attention's own).
func bindFalcon(b *binder, m *Model) error {
	m.bindEnds(b)
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	m.layers = make([]layer, m.Layers)
	for i := range m.layers {
		l := &m.layers[i]
		b.lies(m.place(i))
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
		l.attnNorm = m.bindNorm(b, name("attn_norm"))
		if b.has(name("attn_norm_2.weight")) {
			l.attnNorm2 = m.bindNorm(b, name("attn_norm_2"))
		}
		if qkv := b.slices(name("attn_qkv.weight"), m.Embd, compute.Precise, q, kv, kv); qkv != nil {
			l.wq, l.wk, l.wv = qkv[0], qkv[1], qkv[2]
		}
		l.wo = b.matrix(name("attn_output.weight"), m.Embd, q, compute.Precise)
		l.ffn.bind(b, m, i)
		if b.err != nil {
			return b.err
		}
	}
	return b.err
}

// falconBlock runs attention and the feed-forward layer side by side on the block's input:
//
//	x += Wo·attention(…norm(x)) + Wdown·gelu(Wup·norm(x))
func (m *Model) falconBlock(v compute.Verbs, l *layer, i int) {
	s := &m.step
	own := l.attnNorm
	if l.attnNorm2.w != nil {
		own = l.attnNorm2
	}
	v.LayerNorm(s.h, s.x, own.w, own.b, m.Eps)
	v.MatMul(s.h, compute.Products{{Out: s.q, W: l.wq}, {Out: s.k, W: l.wk}, {Out: s.v, W: l.wv}})
	v.RoPE(s.q, m.HeadDim, m.rope)
	v.RoPE(s.k, m.HeadDim, m.rope)
	v.StoreKV(m.cache, i, s.k, s.v)
	v.Attention(s.attn, s.q, m.cache, i, m.scale)

	if l.attnNorm2.w != nil {
		v.LayerNorm(s.h, s.x, l.attnNorm.w, l.attnNorm.b, m.Eps)
	}
	l.ffn.forward(v, s)
	v.MatMul(s.attn, compute.Products{{Out: s.h, W: l.wo}})
	v.Add(s.x, s.h)
	v.Add(s.x, s.ffnOut)
}
