package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// MeanIndexerSpec are the sizes of an Indexer that chooses blocks of positions, each by the mean of its keys.
type MeanIndexerSpec struct{ IndexerSpec }

// maxBlock bounds the positions of such a block.
const maxBlock = 64

// MeanIndexers reads the indexers of n layers. The Block of one that has none is 0.
func (k *Keys) MeanIndexers(n int) []MeanIndexerSpec {
	const key = ".attention.compress_ratios"
	out := make([]MeanIndexerSpec, n)
	ratios, _, err := k.File.Int32s(k.name(key))
	if err != nil || ratios != nil && len(ratios) < n {
		k.Fail("key %q: it is no list of numbers for %d layers", k.name(key), n)
	}
	for l, r := range ratios[:min(n, len(ratios))] {
		if r == 0 {
			continue
		}
		s := k.Indexer()
		s.Block, s.Ends, s.Open = int(r), true, true
		if r < 0 || r > maxBlock || s.Top < int(r) {
			k.Fail("keys %q and %q: blocks of %d positions in layer %d, of %d that are chosen, are not supported", k.name(key), k.name(".attention.indexer.top_k"), r, l, s.Top)
			return out
		}
		s.Top /= int(r)
		out[l] = MeanIndexerSpec{s}
	}
	return out
}

// MeanIndexer binds the layer's indexer. width is n_embd, rope rotates the queries. It returns nil if s has no indexer;
// the file may hold its weights all the same.
func (b *Binder) MeanIndexer(s MeanIndexerSpec, rope *compute.Rope, width int, eps float32) *Indexer {
	const in = "indexer."
	if s.Block == 0 {
		for _, name := range []string{"q_proj", "k_proj", "q_norm", "k_norm"} {
			b.Ignore(in + name + ".weight")
		}
		return nil
	}
	x := b.Indexer(s.IndexerSpec, rope)
	x.Q, x.K = b.Linear(in+"q_proj", s.Heads*s.Key, width, NoBias), b.Linear(in+"k_proj", s.Key, width, NoBias)
	x.QNorm, x.KNorm = b.RMSNorm(in+"q_norm", s.Key, eps), b.RMSNorm(in+"k_norm", s.Key, eps)
	if s.Block == 1 || rope == nil {
		return x
	}
	taps := make([]float32, s.Block*s.Key)
	for i := range taps {
		taps[i] = 1 / float32(s.Block)
	}
	x.Mean = Conv{Taps: b.numbers("means of keys", taps), Stored: b.state((s.Block - 1) * s.Key)}
	first := *rope
	first.Back = s.Block - 1
	x.MeanRope = &first
	return x
}
