package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// newMiniMaxM3 binds MiniMax M3: the plain decoder with routed and shared experts, scored by a sigmoid, with a bias
// that counts for the choice only, clamped SwiGLUs everywhere, norms of each head of queries and keys, and partly
// rotated heads. In layers with experts, the query heads of a KV head see only the blocks of positions that their index
// head chooses.
//
// Source: MiniMax 2026, MiniMax-M3.
func newMiniMaxM3(k *nn.Keys, b *nn.Binder) Program {
	index := k.BlockIndexer()
	return newMoE(k, b, moeSpec{
		style: compute.Halves, outBias: nn.Optional, act: compute.Activation{Kind: compute.ClampedSwiGLU, Slope: 1.702, Limit: 7},
		experts: nn.ExpertSpec{Routing: compute.Routing{Score: compute.Sigmoid, Normalised: true}, ChoiceBias: nn.Required},
		attention: func(m *moe, b *nn.Binder, a *nn.Attention) {
			a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", a.Key, m.eps), b.HeadNorm("attn_k_norm", a.Key, m.eps)
			if !b.HasExperts() {
				return
			}
			if index.Groups != a.KVHeads {
				b.Fail("key %q: %d index heads are not one for each of %d heads of keys and values", k.Arch+".attention.indexer.head_count", index.Groups, a.KVHeads)
			}
			x := b.Indexer(index, m.rope)
			x.Q, x.K = b.Linear("indexer.q_proj", index.Heads*index.Key, m.embd, nn.NoBias), b.Linear("indexer.k_proj", index.Key, m.embd, nn.NoBias)
			x.QNorm, x.KNorm = b.RMSNorm("indexer.q_norm", index.Key, m.eps), b.RMSNorm("indexer.k_norm", index.Key, m.eps)
			a.Indexer = x
		},
	})
}
