package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// deepseek32 is DeepSeek V3.2 and GLM 5: DeepSeek V3 with attention to only the positions that an indexer chooses. A
// layer without an indexer sees the positions that the last one chose. The MTP layer sees all.
//
// Sources: DeepSeek-AI 2025, DeepSeek-V3.2; GLM-5 Team 2026, GLM-5.
type deepseek32 struct {
	*deepseek2
	index nn.IndexerSpec
	rope  compute.RopeStyle // rotates the first elements of index queries and keys
	owns  []bool            // which layers have an indexer
}

func newDeepSeek32(k *nn.Keys, b *nn.Binder) Program {
	m := &deepseek32{index: k.Indexer(), rope: compute.Halves}
	m.deepseek2 = bindDeepSeek2(k, b, deepseek2Spec{inBoth: true, attention: m.attention})
	return m
}

// newGLMDSA binds GLM 5, 5.1 and 5.2. Index queries and keys are rotated as the others, by neighbours. In 5.2, which is
// for longer contexts, one of four layers has an indexer, after three at the beginning.
func newGLMDSA(k *nn.Keys, b *nn.Binder) Program {
	const long = 1 << 20 // positions
	m := &deepseek32{index: k.Indexer(), rope: compute.Interleaved}
	owns, said := k.PerLayer(".attention.indexer.types", k.Layers())
	if !said && k.Context() >= long {
		owns = make([]bool, k.Layers())
		for i := range owns {
			owns[i] = i < 2 || (i-2)%4 == 0
		}
	}
	if owns != nil && !owns[0] {
		k.Fail("key %q: the first layer has no indexer, and there is none before it", k.Arch+".attention.indexer.types")
	}
	m.owns = owns
	m.deepseek2 = bindDeepSeek2(k, b, deepseek2Spec{inBoth: true, score: compute.Sigmoid, attention: m.attention})
	return m
}

// attention gives layer i its indexer.
func (m *deepseek32) attention(of *deepseek2, b *nn.Binder, a *nn.LatentAttention, i int) {
	switch {
	case i >= len(of.layers): // the MTP layer's indexer is not used
		for _, name := range []string{"attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias", "proj.weight"} {
			b.Ignore("indexer." + name)
		}
		return
	case m.owns != nil && !m.owns[i]:
		a.SeesSame = true
		return
	}
	rope := of.ropeSpec.Whole()
	rope.Style = m.rope
	a.Indexer = b.LatentIndexer(m.index, a, of.embd, nn.IndexEpsilon, b.RopeWith(rope, nil))
}

func (m *deepseek32) Forward(p *nn.Pass) compute.Tensor {
	p.KeepSeen(m.index.Selection)
	return through(p, m.embed.Forward(p), m.blocks)
}
