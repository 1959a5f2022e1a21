package model

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// latent is multi-head latent attention. Of each position a vector c is cached, which is narrower than the residual,
// and a rotated part r of keys that all heads share. Head h has the key [K_h·c, r] and the value V_h·c, but neither is
// computed: with a query [a, b] the score is a·K_h·c + b·r, so a goes through K_h's transpose once, whatever the number
// of positions, and of the weighted sum of c through V_h. What remains is attention of one KV head, whose keys are [c,
// r] and whose values are c, their beginning.
//
// For a head of 128+64 elements, values of 128 and c of 512 that is 1088 multiplications a position in place of 320; a
// prompt of n tokens would have to compute keys and values of each position it sees, 131072 a head, for its own n
// queries, which pays for n from 171 on. Both give the same to rounding. Prompts take the second way where that is
// fewer multiplications and the processor has the layer's cache (expands); GPUs take the first.
//
// Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1 and appendix C.
type latent struct {
	queryDown *compute.Matrix // [query latent, n_embd], or nil where wq reads the input
	queryNorm norm            // of what it gives
	down      *compute.Matrix // [latent, n_embd] gives c
	shared    *compute.Matrix // [rotated, n_embd] gives r
	norm      norm            // of c
	keys      *compute.Matrix // [heads·latent, key-rotated] the heads' K_h, transposed
	values    *compute.Matrix // [heads·value, latent] their V_h
	keyRows   *compute.Matrix // [heads·own, latent] their K_h as they are, or nil where no step needs them
	rope      *compute.Rope   // of r, which is rotated whole
}

// bindLatent binds what queries, keys and values follow from.
func (a *attention) bindLatent(b *blockBinder) {
	m, n, shape := b.m, &a.latent, &b.m.Blocks[b.layer]
	queries := shape.Heads * shape.Key
	if m.QueryLatent > 0 && b.has(b.name("attn_q_a.weight")) {
		n.queryDown, n.queryNorm = b.matrix("attn_q_a.weight"), b.norm("attn_q_a_norm")
		a.wq = b.binder.matrix(b.name("attn_q_b.weight"), queries, m.QueryLatent, compute.Precise)
	} else {
		a.wq = b.binder.matrix(b.name("attn_q.weight"), queries, m.Embd, compute.Precise)
	}
	if parts := b.slices(b.name("attn_kv_a_mqa.weight"), m.Embd, compute.Precise, shape.Latent, shape.Rotated); parts != nil {
		n.down, n.shared = parts[0], parts[1]
	}
	n.norm, n.rope = b.norm("attn_kv_a_norm"), m.sharedRope
	own := shape.Key - shape.Rotated
	if m.Family.KeysByHead() && !b.has(b.name("attn_kv_b.weight")) {
		n.keys = b.binder.matrix(b.name("attn_k_b.weight"), shape.Heads*shape.Latent, own, compute.Precise)
		n.values = b.binder.matrix(b.name("attn_v_b.weight"), shape.Heads*shape.Value, shape.Latent, compute.Precise)
		if t := b.f.Tensor(b.name("attn_k_b.weight")); m.expanding(b.layer) && b.err == nil {
			n.keyRows = b.across(t, shape.Heads, shape.Latent, own)
		}
		return
	}
	n.keys, n.values, n.keyRows = b.heads(b.name("attn_kv_b.weight"), shape.Heads, own, shape.Value, shape.Latent, m.expanding(b.layer))
}

// expanding reports whether prompts may have a layer's keys and values made of what is cached.
func (m *Model) expanding(layer int) bool {
	d, ok := m.dev.(compute.LatentExpander)
	return ok && d.ExpandsLatent() && !m.place(layer).Attention
}

// leastGain is the share of multiplications that must be saved at least for a step to have keys and values made:
// rounding is other than without them.
const leastGain = 0.2

// expands reports whether a step has keys and values made of what is cached: where that is fewer multiplications, and
// no row goes by the arithmetic of single tokens.
func (m *Model) expands(p *compute.Params) bool {
	if !m.Family.Latent || p.Decode > 0 || len(p.Tokens) <= compute.FewTokens {
		return false
	}
	made, pairs := 0, 0 // positions whose keys and values are made, and pairs of a query and a position that it sees
	for i, pos := range p.Pos {
		pairs += int(pos) + 1
		if i == len(p.Pos)-1 || p.Seq[i+1] != p.Seq[i] {
			made += int(pos) + 1
		}
	}
	b := &m.Blocks[0]
	once := (b.Key - b.Rotated + b.Value) * b.Latent // of a position to make them, and of a query to meet the cache and to leave it
	with, without := made*once+pairs*(b.Key+b.Value), len(p.Tokens)*once+pairs*(2*b.Latent+b.Rotated)
	return float64(with) < (1-leastGain)*float64(without)
}

// across binds t, matrices [rows, cols] of which each head has one, with their columns as rows. Types are as heads has
// them.
func (b *binder) across(t *gguf.Tensor, heads, rows, cols int) *compute.Matrix {
	typ, rowBytes := turned(t.Type), t.Type.RowBytes(cols)
	out := make([]byte, 0, heads*cols*typ.RowBytes(rows))
	head, column := make([]float32, rows*cols), make([]float32, rows)
	for h := range heads {
		quant.Decode(t.Type, head, t.Data[h*rows*rowBytes:][:rows*rowBytes])
		for c := range cols {
			for r := range column {
				column[r] = head[r*cols+c]
			}
			out = out[:len(out)+typ.RowBytes(rows)]
			quant.Encode(typ, out[len(out)-typ.RowBytes(rows):], column)
		}
	}
	return b.made(compute.Source{Name: t.Name, Type: typ, Rows: heads * cols, Cols: rows, Data: out})
}

// heads binds name [heads·(own+value), latent], which has each head's K_h [own, latent] and then its V_h [value,
// latent], as all K_h transposed and all V_h. Rows of V_h stay as the file has them, and so do K_h's in rows, if they
// are wanted as well. K_h's columns become rows: floats keep their type, and quantised elements, whose blocks lie along
// the rows, become halves, which hold them to 11 bits.
func (b *binder) heads(name string, heads, own, value, latent int, wanted bool) (keys, values, keyRows *compute.Matrix) {
	t := b.take(name, latent, heads*(own+value))
	if t == nil {
		return nil, nil, nil
	}
	typ, rowBytes := turned(t.Type), t.Type.RowBytes(latent)
	if !t.Type.Known() || t.Type == quant.I32 {
		b.fail("tensor %q: %s cannot be computed with; these can: %s", name, t.Type, quant.Supported())
		return nil, nil, nil
	}
	var whole []byte
	across, rest := make([]byte, 0, heads*latent*typ.RowBytes(own)), make([]byte, 0, heads*value*rowBytes)
	head, column := make([]float32, own*latent), make([]float32, own)
	for h := range heads {
		rows := t.Data[h*(own+value)*rowBytes:][:(own+value)*rowBytes]
		quant.Decode(t.Type, head, rows[:own*rowBytes])
		for c := range latent {
			for r := range column {
				column[r] = head[r*latent+c]
			}
			across = across[:len(across)+typ.RowBytes(own)]
			quant.Encode(typ, across[len(across)-typ.RowBytes(own):], column)
		}
		rest = append(rest, rows[own*rowBytes:]...)
		if wanted {
			whole = append(whole, rows[:own*rowBytes]...)
		}
	}
	if keys = b.made(compute.Source{Name: name, Type: typ, Rows: heads * latent, Cols: own, Data: across}); keys != nil {
		values = b.made(compute.Source{Name: name, Type: t.Type, Rows: heads * value, Cols: latent, Data: rest})
	}
	if wanted && b.err == nil {
		keyRows = b.made(compute.Source{Name: name, Type: t.Type, Rows: heads * own, Cols: latent, Data: whole})
	}
	b.loaded(t, true)
	return keys, values, keyRows
}

// turned returns the type of keys' matrices whose columns have become rows.
func turned(t quant.Type) quant.Type {
	if t.BlockElems() > 1 {
		return quant.F16
	}
	return t
}

// latentBytes returns the bytes that attn_kv_b, the tensor of type t with the keys' and values' matrices of all heads,
// takes in memory. They are not the file's, because heads binds the keys' matrices in another form.
func (b *Block) latentBytes(t quant.Type) int64 {
	own := b.Key - b.Rotated
	return int64(b.Heads) * (int64(b.Latent)*int64(turned(t).RowBytes(own)) + int64(b.Value)*int64(t.RowBytes(b.Latent)))
}

// ExpandedBytes returns what a tensor of c's file takes in memory once more where its layer's attention lies in RAM,
// which places say; nil: all do. The keys' matrices of latent attention are there as they are, too, for prompts
// (Model.expanding). It is 0 for other tensors.
func (c *Config) ExpandedBytes(t *gguf.Tensor, places []compute.Place) int64 {
	b := c.shapeOf(t.Name)
	if b == nil || b.Latent == 0 {
		return 0
	}
	if l, _ := blockOf(t.Name); c.attendsOnGPU(l, places) {
		return 0
	}
	rows := int64(b.Heads) * int64(b.Key-b.Rotated)
	switch {
	case strings.HasSuffix(t.Name, ".attn_kv_b.weight"):
		return rows * int64(t.Type.RowBytes(b.Latent))
	case strings.HasSuffix(t.Name, ".attn_k_b.weight"):
		return rows * int64(turned(t.Type).RowBytes(b.Latent))
	}
	return 0
}

// made returns the device's matrix of a source that the file holds in another form. It lies whole where the tensor that
// is bound next lies.
func (b *binder) made(src compute.Source) *compute.Matrix {
	src.Split = compute.Split{Tier: b.tier, Bound: b.whole(src.Rows)}
	m, err := b.dev.Matrix(src, compute.Precise)
	if err != nil {
		b.fail("%w", err)
		return nil
	}
	return m
}

// attendLatent does what attend does, by multi-head latent attention.
func (a *attention) attendLatent(v compute.Verbs, m *Model, s *buffers, in compute.Tensor, i int) {
	shape, n := &a.shape, &a.latent
	heads, rotated, width := shape.Heads, shape.Rotated, shape.Latent
	own, row := shape.Key-rotated, width+rotated
	if n.queryDown != nil {
		m.product(v, in, compute.Products{{Out: s.queryLatent, W: n.queryDown}, {Out: s.latent, W: n.down}, {Out: s.shared, W: n.shared}})
		m.normalise(v, s.queryLatent, s.queryLatent, n.queryNorm)
		m.product(v, s.queryLatent, compute.Products{{Out: s.q, W: a.wq}})
	} else {
		m.product(v, in, compute.Products{{Out: s.q, W: a.wq}, {Out: s.latent, W: n.down}, {Out: s.shared, W: n.shared}})
	}
	m.normalise(v, s.latent, s.latent, n.norm)
	v.RoPE(s.q, shape.Key, a.rope)
	v.RoPE(s.shared, rotated, n.rope)
	v.CopyColumns(s.k, s.latent, compute.Ranges{}, compute.Ranges{}, width, 1)
	v.CopyColumns(s.k, s.shared, compute.Ranges{First: width}, compute.Ranges{}, rotated, 1)
	v.StoreKV(m.cache, i, s.k, compute.Tensor{})

	if m.expanded && n.keyRows != nil {
		v.AttendLatent(compute.AttendLatent{Out: s.attn, Q: s.q, Heads: heads, Keys: n.keyRows, Values: n.values, Cache: m.cache, Layer: i, How: a.how})
		return
	}
	v.CopyColumns(s.own, s.q, compute.Ranges{Step: own}, compute.Ranges{Step: shape.Key}, own, heads)
	v.MatMulByHead(s.wide, compute.Ranges{Step: row}, s.own, n.keys)
	v.CopyColumns(s.wide, s.q, compute.Ranges{First: width, Step: row}, compute.Ranges{First: own, Step: shape.Key}, rotated, heads)
	v.Attend(s.mixed, s.wide, m.cache, i, a.how)
	v.MatMulByHead(s.attn, compute.Ranges{Step: shape.Value}, s.mixed, n.values)
}
