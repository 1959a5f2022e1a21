package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// bindLlama binds llama and its kin: qwen2 adds biases to q, k, v; qwen3 norms each head; bamboo is llama with dReLU.
func bindLlama(b *binder, m *Model) error {
	m.bindEnds(b)
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	m.layers = make([]layer, m.Layers)
	for i := range m.layers {
		l := &m.layers[i]
		b.lies(m.place(i))
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
		l.attnNorm = m.bindNorm(b, name("attn_norm"))
		l.wq = b.matrix(name("attn_q.weight"), q, m.Embd, compute.Precise)
		l.wk = b.matrix(name("attn_k.weight"), kv, m.Embd, compute.Precise)
		l.wv = b.matrix(name("attn_v.weight"), kv, m.Embd, compute.Precise)
		l.wo = b.matrix(name("attn_output.weight"), m.Embd, q, compute.Precise)
		l.bq = b.optionalVector(name("attn_q.bias"), q)
		l.bk = b.optionalVector(name("attn_k.bias"), kv)
		l.bv = b.optionalVector(name("attn_v.bias"), kv)
		l.bo = b.optionalVector(name("attn_output.bias"), m.Embd)
		if m.Arch == "qwen3" {
			l.qNorm = b.vector(name("attn_q_norm.weight"), m.HeadDim)
			l.kNorm = b.vector(name("attn_k_norm.weight"), m.HeadDim)
		}
		l.ffnNorm = m.bindNorm(b, name("ffn_norm"))
		l.ffn.bind(b, m, i)
		if b.err != nil {
			return b.err
		}
	}
	return b.err
}

// llamaBlock is a pre-norm transformer block with a gated feed-forward layer:
//
//	x += Wo·attention(rope(Wq·h), rope(Wk·h), Wv·h), h = norm(x)
//	x += Wdown·(act(Wgate·h) ⊙ Wup·h),                h = norm(x)
func (m *Model) llamaBlock(v compute.Verbs, l *layer, i int) {
	s := &m.step
	v.RMSNorm(s.h, s.x, l.attnNorm.w, m.Eps)
	v.MatMul(s.h, compute.Products{{Out: s.q, W: l.wq, Bias: l.bq}, {Out: s.k, W: l.wk, Bias: l.bk}, {Out: s.v, W: l.wv, Bias: l.bv}})
	if l.qNorm != nil {
		q, k := s.q.Split(m.HeadDim), s.k.Split(m.HeadDim)
		v.RMSNorm(q, q, l.qNorm, m.Eps)
		v.RMSNorm(k, k, l.kNorm, m.Eps)
	}
	v.RoPE(s.q, m.HeadDim, m.rope)
	v.RoPE(s.k, m.HeadDim, m.rope)
	v.StoreKV(m.cache, i, s.k, s.v)
	v.Attention(s.attn, s.q, m.cache, i, m.scale)
	v.MatMul(s.attn, compute.Products{{Out: s.h, W: l.wo, Bias: l.bo}})
	v.Add(s.x, s.h)

	v.RMSNorm(s.h, s.x, l.ffnNorm.w, m.Eps)
	m.foresee(v, i)
	l.ffn.forward(v, s)
	v.Add(s.x, s.ffnOut)
}
