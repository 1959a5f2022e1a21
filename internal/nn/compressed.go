package nn

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// CompressedAttention is attention with one KV head. Its keys are also the values. Queries see the keys of a window,
// and one key for each block of positions: of all complete blocks, or of those that an indexer chooses. The heads'
// output is rotated back by the query's position, and passes through a product for each group of heads and then a
// product for all.
//
// Source: DeepSeek-AI 2026, DeepSeek-V4.
type CompressedAttention struct {
	QueryDown Linear // [query latent, n_embd]
	QueryNorm Norm   // norm of QueryDown's output
	Q         Linear // [heads·key, query latent]
	HeadNorm  Norm   // [key] of each head's query
	KV        Linear // [key, n_embd]
	KVNorm    Norm
	OutDown   *compute.Matrix // [groups·low, heads/groups·key]
	Out       Linear          // [n_embd, groups·low]

	HeadShape
	Layer, Stored int           // as in Attention
	Rope, Back    *compute.Rope // Rope rotates the last elements of queries and keys, Back those of the heads' output
	Scores        compute.Attention

	Blocks  *Compressor   // nil: queries see only the window
	Indexer *BlockIndexer // nil: they see all blocks
}

// Compressor puts the positions of each block together to a key.
type Compressor struct {
	Content, Score Linear          // [columns, n_embd]
	Position       *compute.Vector // [block·columns] added to scores by the position in the block
	Norm           Norm            // norm of the key
	Rope           *compute.Rope   // rotates the key to the block's first position
	Key            int             // elements of a key
	Block          int             // positions of a block
	Overlap        bool            // see compute.Compress

	Open, Stored int // the parts of the cache with what positions have, and with keys
}

// BlockIndexer chooses the blocks that queries see, with its own keys.
type BlockIndexer struct {
	Q       Linear // [heads·key, query latent]
	Weights Linear // [heads, n_embd]
	Scale   float32
	Rope    *compute.Rope // of queries
	Keys    *Compressor
	How     compute.Selection
}

// CompressedSpec describes compressed attention.
type CompressedSpec struct {
	HeadShape
	Width       int // n_embd
	Query       int // elements of the vector that queries follow from
	Groups, Low int // groups of heads, and elements of each group's product
	Window      int // positions
	Eps         float32
	Rope        RopeSpec

	Block   int // positions of a block; 0: there are none
	Overlap bool
	Index   IndexShape // has no heads if queries see all blocks
}

// IndexShape are the sizes of a BlockIndexer: of its queries, and how many blocks it chooses.
type IndexShape struct{ Heads, Key, Top int }

// CompressedAttention binds the layer's attention.
func (b *Binder) CompressedAttention(s CompressedSpec) *CompressedAttention {
	a := &CompressedAttention{HeadShape: s.HeadShape, Layer: b.layer}
	b.parts[b.layer].Compressed = a
	b.checkHeads(s.HeadShape)
	switch {
	case s.KVHeads != 1 || s.Value != s.Key:
		b.Fail("keys %q, %q and %q: attention has one head of keys, which are values", b.key("attention.head_count_kv"), b.key("attention.key_length"), b.key("attention.value_length"))
	case s.Heads%s.Groups != 0 || s.Groups*s.Low > MaxWidth:
		b.Fail("keys %q and %q: %d heads are not %d groups that become %d elements each", b.key("attention.output_group_count"), b.key("attention.output_lora_rank"), s.Heads, s.Groups, s.Low)
	case s.Rope.Dims > s.Key || s.Rope.Dims%2 != 0 || s.Index.Heads > 0 && s.Rope.Dims > s.Index.Key:
		b.Fail("key %q: %d rotated elements do not fit a head of %d", b.key("rope.dimension_count"), s.Rope.Dims, s.Key)
	}
	if b.Err != nil {
		return a
	}
	last := func(key int) RopeSpec {
		r := s.Rope
		r.First = key - r.Dims
		return r
	}
	a.Rope = b.RopeWith(last(s.Key), nil)
	a.Back = a.Rope.Inverse()
	a.Stored = b.Store(compute.KVShape{Heads: 1, Key: s.Key, Value: s.Key, Within: true, Floats: true})
	a.QueryDown, a.QueryNorm = b.Linear("attn_q_a", s.Query, s.Width, NoBias), b.RMSNorm("attn_q_a_norm", s.Query, s.Eps)
	a.Q, a.HeadNorm = b.Linear("attn_q_b", s.Heads*s.Key, s.Query, NoBias), b.UnitNorm(s.Key, s.Eps)
	a.KV, a.KVNorm = b.Linear("attn_kv", s.Key, s.Width, NoBias), b.RMSNorm("attn_kv_a_norm", s.Key, s.Eps)
	a.OutDown = b.Matrix("attn_output_a.weight", s.Groups*s.Low, s.Heads/s.Groups*s.Key, compute.Precise)
	a.Out = b.Linear("attn_output_b", s.Width, s.Groups*s.Low, NoBias)
	a.Scores = compute.Attention{Scale: float32(1 / math.Sqrt(float64(s.Key))), Window: s.Window, Sinks: b.Vector("attn_sinks.weight", s.Heads)}
	if s.Block == 0 || b.Err != nil {
		return a
	}
	a.Blocks = b.compressor("attn_compressor", s, s.Key, last(s.Key))
	if i := s.Index; i.Heads > 0 && b.Err == nil {
		a.Indexer = &BlockIndexer{
			Q: b.Linear("indexer.attn_q_b", i.Heads*i.Key, s.Query, NoBias), Weights: b.Linear("indexer.proj", i.Heads, s.Width, NoBias),
			Scale: float32(1 / math.Sqrt(float64(i.Heads*i.Key))), Rope: b.RopeWith(last(i.Key), nil),
			Keys: b.compressor("indexer_compressor", s, i.Key, last(i.Key)),
			How:  compute.Selection{Groups: 1, Block: s.Block, Top: i.Top, Ends: true, Rectified: true},
		}
	}
	return a
}

// compressor binds a compressor for keys with that many elements. The names of its tensors begin with name.
func (b *Binder) compressor(name string, s CompressedSpec, key int, rope RopeSpec) *Compressor {
	columns, reach := key, s.Block
	if s.Overlap {
		columns, reach = 2*key, 2*s.Block
	}
	c := &Compressor{
		Content: b.Linear(name+"_kv", columns, s.Width, NoBias), Score: b.Linear(name+"_gate", columns, s.Width, NoBias),
		Position: b.positions(name+"_ape.weight", s.Block, columns), Norm: b.RMSNorm(name+"_norm", key, s.Eps), Key: key, Block: s.Block, Overlap: s.Overlap,
	}
	c.Open = b.Store(compute.KVShape{Heads: 1, Key: columns, Value: columns, Reach: reach, Exact: true})
	c.Stored = b.Store(compute.KVShape{Heads: 1, Key: key, Value: key, Within: true, Floats: true, Every: s.Block})
	if r := b.RopeWith(rope, nil); r != nil {
		turn := *r
		turn.Every = s.Block
		c.Rope = &turn
	}
	return c
}

// positions binds name [n, cols], of any type, as one vector, row after row.
func (b *Binder) positions(name string, n, cols int) *compute.Vector {
	rows := b.tableOf(name, cols, n)
	if len(rows) != n*cols {
		b.Fail("tensor %q has %d elements, not %d rows of %d: the file is damaged, or its keys are those of another model; convert it again", b.prefix+name, len(rows), n, cols)
		return nil
	}
	return b.numbers(b.prefix+name, rows)
}

// Forward returns the residual and attention of in, as Attention.Forward does. [n, n_embd] of the latter
func (a *CompressedAttention) Forward(p *Pass, residual, in compute.Tensor) (_, out compute.Tensor) {
	heads := a.Attend(p, in)
	x := p.Wanted(a.Layer, residual)
	heads = p.Wanted(a.Layer, heads)
	out = p.New(heads, a.Out.W.Rows)
	if heads.Rows > 0 {
		scope := p.Scope()
		low := p.New(heads, a.OutDown.Rows)
		p.verbs.MatMulByHead(low, compute.Ranges{Step: a.OutDown.Rows * a.OutDown.Cols / heads.Cols}, heads, a.OutDown)
		p.LinearTo(out, low, &a.Out)
		p.Leave(scope)
	}
	p.pool.giveBack(heads)
	return x, out
}

// Attend returns what all heads read. [n, heads·key]
func (a *CompressedAttention) Attend(p *Pass, x compute.Tensor) compute.Tensor {
	heads := p.New(x, a.Heads*a.Key)
	scope := p.Scope()
	down, kv := p.Linear2(x, &a.QueryDown, &a.KV)
	p.Normalize(down, a.QueryNorm)
	q := p.Linear(down, &a.Q)
	p.Normalize(q.Split(a.Key), a.HeadNorm)
	p.Normalize(kv, a.KVNorm)
	p.verbs.RoPE(q, a.Key, a.Rope)
	p.verbs.RoPE(kv, a.Key, a.Rope)
	p.verbs.StoreKV(p.Cache, a.Stored, kv, compute.Tensor{})
	if a.Blocks == nil {
		p.verbs.Attend(heads, q, p.Cache, a.Stored, a.Scores)
	} else {
		a.Blocks.Store(p, x)
		o := compute.AttendBlocks{Out: heads, Q: q, Cache: p.Cache, Layer: a.Stored, Blocks: a.Blocks.Stored, How: a.Scores}
		if a.Indexer != nil {
			o.Chosen = a.Indexer.Choose(p, x, down)
		}
		p.verbs.AttendBlocks(o)
	}
	p.verbs.RoPE(heads, a.Key, a.Back)
	p.Leave(scope)
	return heads
}

// Store keeps what the step's positions have, and the keys of blocks that end at them.
func (c *Compressor) Store(p *Pass, x compute.Tensor) {
	scope := p.Scope()
	content, score := p.Linear2(x, &c.Content, &c.Score)
	p.verbs.StoreKV(p.Cache, c.Open, content, score)
	key := p.New(x, c.Key)
	p.verbs.Compress(compute.Compress{Out: key, Cache: p.Cache, Layer: c.Open, Bias: c.Position, Block: c.Block, Overlap: c.Overlap})
	p.Normalize(key, c.Norm)
	p.verbs.RoPE(key, c.Key, c.Rope)
	p.verbs.StoreKV(p.Cache, c.Stored, key, compute.Tensor{})
	p.Leave(scope)
}

// Choose returns the blocks that queries see, which follow from the same vector as the index queries do.
func (i *BlockIndexer) Choose(p *Pass, x, queries compute.Tensor) compute.Tensor {
	i.Keys.Store(p, x)
	chosen := p.New(x, i.How.Row())
	scope := p.Scope()
	q, w := p.Linear(queries, &i.Q), p.Linear(x, &i.Weights)
	p.Scale(w, i.Scale)
	p.verbs.RoPE(q, i.Keys.Key, i.Rope)
	p.verbs.Select(compute.Select{Blocks: chosen, Q: q, W: w, Cache: p.Cache, Layer: i.Keys.Stored, How: i.How})
	p.Leave(scope)
	return chosen
}
