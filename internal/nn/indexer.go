package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Indexer chooses which of the earlier positions attention sees. Its own queries and keys, which are small, score all
// positions; the cache has a part for its keys.
//
// Source: DeepSeek-AI 2025, DeepSeek-V3.2.
type Indexer struct {
	Q       Linear // [groups·heads·key, …]
	K       Linear // [key, n_embd]
	Weights Linear // [groups·heads, n_embd] factors of the heads' products; not bound: 1

	QNorm, KNorm Norm          // norms of each head's query, and of the key
	Rope         *compute.Rope // rotates both
	Mean         Conv          // makes the key of a block's last position the mean of the block's keys; without Taps keys stay unchanged
	MeanRope     *compute.Rope // rotates such a key, to the block's first position; nil: Rope
	Key          int           // elements of a head
	Stored       int           // the part of the cache with the keys
	How          compute.Selection
}

// IndexEpsilon is the usual epsilon of the norm of index keys.
const IndexEpsilon = 1e-6

// IndexerSpec are the sizes of an indexer.
type IndexerSpec struct {
	Heads, Key int
	compute.Selection
}

// maxSelected bounds what may be selected from outside.
const maxSelected = 1 << 20

// Indexer reads the sizes of an indexer that chooses single positions.
func (k *Keys) Indexer() IndexerSpec {
	const in = ".attention.indexer."
	return IndexerSpec{
		Heads: k.RequiredCount(in+"head_count", MaxWidth), Key: k.RequiredCount(in+"key_length", maxHead),
		Selection: compute.Selection{Groups: 1, Block: 1, Top: k.RequiredCount(in+"top_k", maxSelected), Rectified: true},
	}
}

// BlockIndexer reads the sizes of an indexer that chooses blocks of positions for each KV head.
func (k *Keys) BlockIndexer() IndexerSpec {
	const in = ".attention.indexer."
	s := IndexerSpec{Heads: k.RequiredCount(in+"head_count", MaxWidth), Key: k.RequiredCount(in+"key_length", maxHead)}
	s.Selection = compute.Selection{Groups: s.Heads, Block: k.RequiredCount(in+"block_size", maxSelected), Top: k.RequiredCount(in+"top_k", maxSelected)}
	s.Local = min(k.Optional(in+"local_blocks", maxSelected), s.Top)
	return s
}

// Indexer returns the layer's indexer, which has no weights yet.
func (b *Binder) Indexer(s IndexerSpec, rope *compute.Rope) *Indexer {
	if rope != nil && rope.First+rope.Dims > s.Key {
		b.Fail("key %q: %d rotated elements do not fit a head of %d", b.key("attention.indexer.key_length"), rope.Dims, s.Key)
	}
	if s.Key%8 != 0 || s.Heads*s.Key > MaxWidth {
		b.Fail("key %q: %d heads of %d elements are not supported; a multiple of 8 that makes %d at most for all heads is", b.key("attention.indexer.key_length"), s.Heads, s.Key, MaxWidth)
	}
	return &Indexer{Rope: rope, Key: s.Key, How: s.Selection, Stored: b.Store(compute.KVShape{Heads: 1, Key: s.Key, Value: s.Key, Within: true, Floats: true})}
}

// KeepSeen allocates memory for the indexers' choices, so that layers without an indexer can use the last one's. A pass
// calls it before the first layer. All indexers select as how says.
func (p *Pass) KeepSeen(how compute.Selection) { p.seen = how.Seen(p.Tokens(how.Groups * how.Row())) }

// Choose returns what the tokens see, in, the input of attention, and queries, which the index queries follow from. It
// stores the index keys.
func (x *Indexer) Choose(p *Pass, in, queries compute.Tensor) compute.Seen {
	seen := p.seen
	if seen.All() {
		seen = x.How.Seen(p.New(in, x.How.Groups*x.How.Row()))
	}
	scope := p.Scope()
	q, w := p.Linear(queries, &x.Q), compute.Tensor{}
	var k compute.Tensor
	if x.Weights.Bound() {
		k, w = p.Linear2(in, &x.K, &x.Weights)
	} else {
		k = p.Linear(in, &x.K)
	}
	p.Normalize(q.Split(x.Key), x.QNorm)
	rope := x.Rope
	if x.Mean.Taps != nil {
		k, rope = x.Mean.mean(p, k), x.MeanRope
	}
	p.Normalize(k, x.KNorm)
	p.verbs.RoPE(q, x.Key, x.Rope)
	p.verbs.RoPE(k, x.Key, rope)
	p.verbs.StoreKV(p.Cache, x.Stored, k, compute.Tensor{})
	p.verbs.Select(compute.Select{Blocks: seen.Blocks, Q: q, W: w, Cache: p.Cache, Layer: x.Stored, How: x.How})
	p.Leave(scope)
	return seen
}

// LatentIndexer binds an indexer with queries from the latent vector of a's queries.
func (b *Binder) LatentIndexer(s IndexerSpec, a *LatentAttention, width int, eps float32, rope *compute.Rope) *Indexer {
	x := b.Indexer(s, rope)
	if !a.QueryDown.Bound() {
		b.Fail("tensor %q is missing: the queries of an indexer follow from what it gives", "attn_q_a.weight")
	}
	x.Q = b.Linear("indexer.attn_q_b", s.Heads*s.Key, a.Query, NoBias)
	x.K, x.KNorm = b.Linear("indexer.attn_k", s.Key, width, NoBias), b.LayerNorm("indexer.k_norm", s.Key, eps, HasBias)
	x.Weights = b.Linear("indexer.proj", s.Heads, width, NoBias)
	return x
}
