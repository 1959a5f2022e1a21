package nn

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// NGrams adds rows of a large table to a residual of several streams. Hashes of the last two tokens, of the last three
// and so on choose the rows. Each stream is a query, and a product of the rows is the key: their match weighs what the
// stream takes of the rows. The weighted rows are also convolved over positions.
type NGrams struct {
	Table *compute.Matrix // [rows, n_embd/heads]
	How   *compute.NGrams
	Last  int // the part of the cache with the last tokens

	Key, Value                Linear // [streams·n_embd, n_embd], [n_embd, n_embd]
	KeyNorm, QueryNorm, Taken StreamNorm
	Conv                      Conv
}

// NGramSpec describes the table.
type NGramSpec struct {
	Layer int // the layer that has it; -1: none has
	Width int // elements of a row
	Taps  int // taps of the convolution; its dilation is the length of the longest n-gram
	How   *compute.NGrams

	Picture int32 // the token that rows of pictures count as
}

// NGrams reads the description. Files without the key have no table.
func (k *Keys) NGrams(layers int) NGramSpec {
	const in = ".ple."
	list := func(key string) []uint64 {
		v, _, err := k.File.Uints(k.name(in + key))
		if err != nil && k.Err == nil {
			k.Err = err
		}
		return v
	}
	s := NGramSpec{Layer: -1}
	switch at := list("layers"); {
	case len(at) == 0:
		return s
	case len(at) > 1 || at[0] >= uint64(layers):
		k.Fail("key %q: it is not the number of one of %d layers; embeddings of n-grams in several are not supported", k.name(in+"layers"), layers)
		return s
	default:
		s.Layer = int(at[0])
	}
	n := k.RequiredCount(in+"ngram_size", compute.MostRecent)
	s.Width, s.Taps = k.RequiredCount(".embedding_length_per_layer_input", MaxWidth), k.RequiredCount(in+"conv_kernel", maxTaps)
	g := &compute.NGrams{Heads: k.RequiredCount(in+"heads_per_ngram", MaxWidth)}
	s.How = g
	end, said, err := k.File.Uint(k.name(in + "eos_token_id"))
	if k.Err == nil && (err != nil || !said || end >= compute.MostTokens) {
		k.Fail("key %q: it is no token", k.name(in+"eos_token_id"))
	}
	g.End = uint32(min(end, compute.MostTokens))
	s.Picture = int32(k.Optional(in+"image_token_id", compute.MostTokens))
	if s.Picture == 0 {
		s.Picture = int32(g.End)
	}
	heads := (n - 1) * g.Heads
	factors, first, rows := list("layer_multipliers"), list("head_offsets"), list("head_vocab_sizes")
	switch {
	case k.Err != nil:
		return s
	case n < 2 || s.Taps < 2:
		k.Fail("keys %q and %q: n-grams of %d tokens, convolved over %d, are not supported; 2 and more are", k.name(in+"ngram_size"), k.name(in+"conv_kernel"), n, s.Taps)
		return s
	case heads > MaxWidth || len(factors) < n || len(first) < heads || len(rows) < heads:
		k.Fail("keys %q, %q and %q: %d, %d and %d numbers; n-grams of %d tokens and %d heads need %d, %d and %d", k.name(in+"layer_multipliers"),
			k.name(in+"head_offsets"), k.name(in+"head_vocab_sizes"), len(factors), len(first), len(rows), n, heads, n, heads, heads)
		return s
	}
	g.Factors = factors[:n]
	for h := range heads {
		if first[h] > math.MaxInt32 || rows[h] < 1 || rows[h] > math.MaxInt32 || first[h]+rows[h] > math.MaxInt32 {
			k.Fail("keys %q and %q: head %d has %d rows from %d on, which are none of a table's", k.name(in+"head_offsets"), k.name(in+"head_vocab_sizes"), h, rows[h], first[h])
			return s
		}
		g.First, g.Rows = append(g.First, uint32(first[h])), append(g.Rows, uint32(rows[h]))
	}
	return s
}

// NGramTable binds the table, which is outside of layers. It stays in RAM, where a token reads a few of its rows.
func (b *Binder) NGramTable(s NGramSpec) *compute.Matrix {
	const name = "per_layer_token_embd.weight"
	b.GPU = false
	table := b.Matrix(name, b.Rows(name), s.Width, compute.Lookup)
	b.Place(b.model.Head)
	if table != nil && b.Err == nil && !s.How.Check(table.Rows) {
		b.Fail("tensor %q has %d rows, and key %q names others", name, table.Rows, b.key("ple.head_offsets"))
	}
	return table
}

// NGrams binds the layer's use of the table. width is n_embd.
func (b *Binder) NGrams(s NGramSpec, table *compute.Matrix, streams, width int, eps float32) *NGrams {
	n, wide := len(s.How.Factors), streams*width
	if len(s.How.First)*s.Width != width {
		b.Fail("key %q: %d rows of %d elements are not %d", b.key("embedding_length_per_layer_input"), len(s.How.First), s.Width, width)
	}
	return &NGrams{
		Table: table, How: s.How, Last: b.state(n - 1),
		Key: b.Linear("ple_key", wide, width, NoBias), Value: b.Linear("ple_value", width, width, NoBias),
		KeyNorm: b.StreamNorm("ple_norm_key", streams, width, eps), QueryNorm: b.StreamNorm("ple_norm_query", streams, width, eps),
		Taken: b.StreamNorm("ple_norm_conv", streams, width, eps),
		Conv:  Conv{Taps: b.joinedTaps(wide, s.Taps, n, "ple_conv1d.weight"), Stored: b.state((s.Taps - 1) * n * wide)},
	}
}

// Forward adds to the streams x.
func (g *NGrams) Forward(p *Pass, x compute.Tensor) {
	scope := p.Scope()
	recent, rows := p.New(x, len(g.How.Factors)), p.New(x, g.Value.W.Cols)
	p.verbs.Recent(compute.Recent{Out: recent, Cache: p.Cache, Layer: g.Last})
	p.verbs.EmbedNGrams(compute.EmbedNGrams{Out: rows, Recent: recent, Table: g.Table, How: g.How})
	key, value := p.Linear2(rows, &g.Key, &g.Value)
	taken := p.New(x, x.Cols)
	p.verbs.MatchStreams(compute.MatchStreams{Out: taken, Key: p.NormStreams(key, &g.KeyNorm), Query: p.NormStreams(x, &g.QueryNorm), Value: value})
	p.verbs.Add(x, g.Conv.forward(p, p.NormStreams(taken, &g.Taken), x.Cols, false))
	p.verbs.Add(x, taken)
	p.Leave(scope)
}
