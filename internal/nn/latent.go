package nn

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// LatentAttention is multi-head latent attention. For each position the cache has a latent vector c, which is narrower
// than the residual, and a rotated part r of keys that all heads share. Head h has the key [K_h·c, r] and the value
// V_h·c, but computes neither. With a query [a, b] the score is a·K_h·c + b·r, so a goes through K_h's transpose once,
// whatever the number of positions. The weighted sum of c goes through V_h. What remains is attention of one KV head
// with keys [c, r] and values c, the beginning of the keys.
//
// For a head of 128+64 elements, values of 128 and c of 512 that is 1088 multiplications a position instead of 320. A
// prompt of n tokens that expands keys and values takes 131072 for each position and head once, which pays from 171
// tokens on. Both ways give the same up to rounding. Prompts expand where that takes fewer multiplications
// (Step.Expanded) and the CPU has the layer's cache (ExpandedKeys).
//
// Its tensors are attn_q, or attn_q_a, attn_q_a_norm and attn_q_b; attn_kv_a_mqa (c and r) and attn_kv_a_norm; and
// attn_kv_b, or attn_k_b and attn_v_b.
//
// Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1 and appendix C.
type LatentAttention struct {
	QueryDown Linear          // [query latent, n_embd]; not bound if Q reads the input
	QueryNorm Norm            // norm of QueryDown's output
	Q         Linear          // [heads·key, query latent or n_embd]
	Down      Linear          // [latent, n_embd] gives c
	Shared    Linear          // [rotated, n_embd] gives r
	Norm      Norm            // norm of c
	KeyNorm   Norm            // norm of r before its rotation, or none
	Keys      *compute.Matrix // [heads·latent, key-rotated] the heads' K_h, transposed
	Values    *compute.Matrix // [heads·value, latent] the heads' V_h
	Gate      HeadGate        // gate of the heads' output, or none
	Out       Linear          // [n_embd, heads·value]

	ExpandedKeys *compute.Matrix // [heads·(key-rotated), latent] the heads' K_h, or nil if no step expands keys

	LatentShape

	Indexer  *Indexer // chooses the positions that attention sees, with queries from the same latent vector; or nil
	SeesSame bool     // attention sees the positions that the last layer with an Indexer chose

	Layer, Stored int           // as in Attention
	Rope          *compute.Rope // rotates the last elements of queries; nil: neither queries nor keys are rotated
	SharedRope    *compute.Rope // rotates all of r
	Temperature   compute.Temperature
	Scores        compute.Attention
}

// Attend returns what all heads read. [n, heads·value]
//
// Operations that depend on the same ones are neighbours, so that a GPU waits for them once.
func (a *LatentAttention) Attend(p *Pass, x compute.Tensor) compute.Tensor {
	heads := p.New(x, a.Heads*a.Value)
	scope := p.Scope()
	own, row := a.Key-a.Rotated, a.Latent+a.Rotated
	var q, c, r, down compute.Tensor
	if a.QueryDown.Bound() {
		down, c, r = p.Linear3(x, &a.QueryDown, &a.Down, &a.Shared)
		p.Normalize(down, a.QueryNorm)
	} else {
		q, c, r = p.Linear3(x, &a.Q, &a.Down, &a.Shared)
	}
	p.Normalize(c, a.Norm)
	p.Normalize(r, a.KeyNorm)
	if a.Rope != nil {
		p.verbs.RoPE(r, a.Rotated, a.SharedRope)
	}
	if a.QueryDown.Bound() {
		q = p.Linear(down, &a.Q)
	}
	how := a.Scores
	switch {
	case a.Indexer != nil:
		how.Seen = a.Indexer.Choose(p, x, down)
	case a.SeesSame:
		how.Seen = p.seen
	}
	k := p.New(x, row)
	p.verbs.CopyColumns(k, c, compute.Ranges{}, compute.Ranges{}, a.Latent, 1)
	if a.Rope != nil {
		p.verbs.RoPE(q, a.Key, a.Rope)
	}
	if a.Temperature.Scale != 0 {
		p.verbs.Temper(q, a.Temperature)
	}
	p.verbs.CopyColumns(k, r, compute.Ranges{First: a.Latent}, compute.Ranges{}, a.Rotated, 1)
	switch {
	case a.ExpandedKeys != nil && p.Expanded:
		p.verbs.StoreKV(p.Cache, a.Stored, k, compute.Tensor{})
		p.verbs.AttendLatent(compute.AttendLatent{Out: heads, Q: q, Heads: a.Heads, Keys: a.ExpandedKeys, Values: a.Values, Cache: p.Cache, Layer: a.Stored, How: how})
	default:
		query := p.New(x, a.Heads*own)
		p.verbs.CopyColumns(query, q, compute.Ranges{Step: own}, compute.Ranges{Step: a.Key}, own, a.Heads)
		wide := p.New(x, a.Heads*row)
		p.verbs.CopyColumns(wide, q, compute.Ranges{First: a.Latent, Step: row}, compute.Ranges{First: own, Step: a.Key}, a.Rotated, a.Heads)
		p.verbs.StoreKV(p.Cache, a.Stored, k, compute.Tensor{})
		p.verbs.MatMulByHead(wide, compute.Ranges{Step: row}, query, a.Keys)
		sums := p.New(x, a.Heads*a.Latent)
		p.verbs.Attend(sums, wide, p.Cache, a.Stored, how)
		p.verbs.MatMulByHead(heads, compute.Ranges{Step: a.Value}, sums, a.Values)
	}
	a.Gate.apply(p, heads, x, a.Value)
	p.Leave(scope)
	return heads
}

// LatentShape says how many heads latent attention has, and how wide its vectors are.
type LatentShape struct {
	Heads, Key, Value int // elements of a head's key, with the rotated ones, and of its value
	Latent, Rotated   int // elements of c and of r
	Query             int // elements of the vector that queries follow from; 0: they follow from the input
}

// LatentAttention binds the layer's attention without its last product. Files hold the heads' matrices of keys and
// values as one tensor, attn_kv_b, or as two.
func (b *Binder) LatentAttention(s LatentShape, width int, eps float32) *LatentAttention {
	a := &LatentAttention{LatentShape: s, Layer: b.layer}
	b.parts[b.layer].Latent = a
	if !b.checkLatent(s) {
		return a
	}
	a.Stored = b.Store(compute.KVShape{Heads: 1, Key: s.Latent + s.Rotated, Value: s.Latent, Within: true})
	if s.Query > 0 && b.Has("attn_q_a.weight") {
		a.QueryDown, a.QueryNorm = b.Linear("attn_q_a", s.Query, width, NoBias), b.RMSNorm("attn_q_a_norm", s.Query, eps)
		a.Q = b.Linear("attn_q_b", s.Heads*s.Key, s.Query, NoBias)
	} else {
		a.Q = b.Linear("attn_q", s.Heads*s.Key, width, NoBias)
	}
	if parts := b.slices("attn_kv_a_mqa.weight", width, compute.Precise, s.Latent, s.Rotated); parts != nil {
		a.Down, a.Shared = parts[0], parts[1]
	}
	a.Norm = b.RMSNorm("attn_kv_a_norm", s.Latent, eps)
	own := s.Key - s.Rotated
	if !b.Has("attn_k_b.weight") {
		a.Keys, a.Values, a.ExpandedKeys = b.heads("attn_kv_b.weight", s.Heads, own, s.Value, s.Latent, b.expands())
		return a
	}
	a.Keys = b.Matrix("attn_k_b.weight", s.Heads*s.Latent, own, compute.Precise)
	b.shaped(own, s.Latent, s.Heads)
	a.Values = b.Matrix("attn_v_b.weight", s.Heads*s.Value, s.Latent, compute.Precise)
	b.shaped(s.Latent, s.Value, s.Heads)
	if t := b.tensor("attn_k_b.weight"); b.expands() && b.Err == nil {
		a.ExpandedKeys = b.across(t, s.Heads, s.Latent, own)
	}
	return a
}

// checkLatent reports whether attention of that shape can be computed. Else Err says why not.
func (b *Binder) checkLatent(s LatentShape) bool {
	key := b.key("attention.kv_lora_rank")
	switch {
	case s.Key-s.Rotated < 1:
		b.Fail("key %q: %d rotated elements leave none of a head's %d", b.key("rope.dimension_count"), s.Rotated, s.Key)
	case s.Latent%8 != 0 || s.Rotated%8 != 0 || s.Heads*(s.Latent+s.Rotated) > MaxWidth || s.Heads*max(s.Key, s.Value) > MaxWidth:
		b.Fail("key %q: latent vectors of %d elements for %d heads, with %d rotated ones, are not supported: take multiples of 8 that make %d at most for all heads",
			key, s.Latent, s.Heads, s.Rotated, MaxWidth)
	}
	return b.Err == nil
}

// expands reports whether prompts may expand the layer's keys and values from the cached latent vectors.
func (b *Binder) expands() bool {
	return !b.outline && b.Dev.ExpandsLatent() && !b.plan.Place.Attention
}

// Forward returns the residual and attention of in, as Attention.Forward does. [n, n_embd] of each
func (a *LatentAttention) Forward(p *Pass, residual, in compute.Tensor) (_, out compute.Tensor) {
	heads := a.Attend(p, in)
	x := p.Wanted(a.Layer, residual)
	heads = p.Wanted(a.Layer, heads)
	out = p.reuse(in, residual, heads, a.Out.W.Rows)
	p.LinearTo(out, heads, &a.Out)
	p.pool.giveBack(heads)
	return x, out
}

// across binds t, which has a matrix [rows, cols] for each head, with each matrix transposed. See Transposed for its
// type.
func (b *Binder) across(t *gguf.Tensor, heads, rows, cols int) *compute.Matrix {
	typ, rowBytes := Transposed(t.Type), t.Type.RowBytes(cols)
	out := make([]byte, 0, heads*cols*typ.RowBytes(rows))
	head, column := make([]float32, rows*cols), make([]float32, rows)
	for h := range b.decoded(heads) {
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
// latent]. keys has all K_h transposed, values all V_h, and keyRows, if wanted, all K_h as the file has them. The
// transposed matrices have the type Transposed.
func (b *Binder) heads(name string, heads, own, value, latent int, wanted bool) (keys, values, keyRows *compute.Matrix) {
	t := b.take(name, latent, heads*(own+value))
	if t == nil {
		return nil, nil, nil
	}
	typ, rowBytes := Transposed(t.Type), t.Type.RowBytes(latent)
	if !t.Type.Known() || t.Type.Whole() {
		b.Fail("tensor %q: %s cannot be computed with; these can: %s", t.Name, t.Type, quant.Supported())
		return nil, nil, nil
	}
	var whole []byte
	across, rest := make([]byte, 0, heads*latent*typ.RowBytes(own)), make([]byte, 0, heads*value*rowBytes)
	head, column := make([]float32, own*latent), make([]float32, own)
	for h := range b.decoded(heads) {
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
	if keys = b.made(compute.Source{Name: t.Name, Type: typ, Rows: heads * latent, Cols: own, Data: across}); keys != nil {
		values = b.made(compute.Source{Name: t.Name, Type: t.Type, Rows: heads * value, Cols: latent, Data: rest})
	}
	if wanted && b.Err == nil {
		keyRows = b.made(compute.Source{Name: t.Name, Type: t.Type, Rows: heads * own, Cols: latent, Data: whole})
	}
	b.loaded(t, true)
	return keys, values, keyRows
}

// Transposed returns the type that a matrix of type t has when it is transposed. Floats keep their type. Quantised
// elements are in blocks along the rows, so they become 16-bit floats, which keep 11 bits.
func Transposed(t quant.Type) quant.Type {
	if t.BlockElems() > 1 {
		return quant.F16
	}
	return t
}

// made binds a matrix computed from the file's. It goes whole to the place of the next tensors.
func (b *Binder) made(src compute.Source) *compute.Matrix {
	src.Split = compute.Split{Tier: b.Tier, Bound: b.whole(src.Rows)}
	m, err := b.Dev.Matrix(src, compute.Precise)
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	return m
}
