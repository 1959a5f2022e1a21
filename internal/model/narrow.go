package model

import "github.com/powerinfer-go/powerinfer/internal/compute"

// narrow is how keys and values follow from a vector c that is narrower than the residual: their matrices are products of a tall and a wide one.
// The rotated part of a key is the same for all heads, and follows from the input.
//
// Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1 (multi-head latent attention); here without a cache of c.
type narrow struct {
	down   *compute.Matrix // [narrow, n_embd]
	shared *compute.Matrix // [rotated, n_embd]
	norm   norm            // of c
	up     *compute.Matrix // [heads·(key-rotated+value), narrow]
	rope   *compute.Rope   // of the shared part, which is rotated whole
}

func (n *narrow) bind(b *blockBinder) {
	if !b.m.Family.Narrow {
		return
	}
	if parts := b.slices(b.name("attn_kv_a_mqa.weight"), b.m.Embd, compute.Precise, b.m.Narrow, b.m.Rope.Dims); parts != nil {
		n.down, n.shared = parts[0], parts[1]
	}
	n.norm, n.up, n.rope = b.norm("attn_kv_a_norm"), b.matrix("attn_kv_b.weight"), b.m.sharedRope
}

// attendNarrow is attend with keys and values that follow from a narrow vector.
func (a *attention) attendNarrow(v compute.Verbs, m *Model, s *buffers, in compute.Tensor, i int) {
	shape, n := &a.shape, &a.narrow
	heads, own, rotated := shape.Heads, shape.Key-m.Rope.Dims, m.Rope.Dims
	m.product(v, in, compute.Products{{Out: s.q, W: a.wq}, {Out: s.narrow, W: n.down}, {Out: s.shared, W: n.shared}})
	m.normalise(v, s.narrow, s.narrow, n.norm)
	v.RoPE(s.q, shape.Key, a.rope)
	v.RoPE(s.shared, rotated, n.rope)
	m.product(v, s.narrow, compute.Products{{Out: s.both, W: n.up}})
	both := own + shape.Value
	v.CopyColumns(s.k, s.both, compute.Ranges{Step: shape.Key}, compute.Ranges{Step: both}, own, heads)
	v.CopyColumns(s.k, s.shared, compute.Ranges{First: own, Step: shape.Key}, compute.Ranges{}, rotated, heads)
	v.CopyColumns(s.v, s.both, compute.Ranges{Step: shape.Value}, compute.Ranges{First: own, Step: both}, shape.Value, heads)
	v.StoreKV(m.cache, i, s.k, s.v)
	v.Attend(s.attn, s.q, m.cache, i, a.how)
}
