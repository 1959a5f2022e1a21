package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// qwen3 is Qwen 3, and the text part of Qwen3-VL: pre-norm blocks, grouped-query attention with a norm of every head of
// queries and keys, and SwiGLU. Heads are rotated as NeoX does (x[i] with x[i+n/2]).
//
// Source: Qwen Team 2025, Qwen3 Technical Report.
type qwen3 struct {
	sizes          // the width, and the heads and neurons of each layer
	eps    float32 // epsilon of the norms
	act    compute.Activation
	rope   *compute.Rope
	scores nn.Scores

	ends   // the embedding, and the last norm with the head
	blocks []nn.PreNorm
}

func newQwen3(k *nn.Keys, b *nn.Binder) Program {
	m := &qwen3{sizes: readSizes(k), eps: k.RMSEpsilon(1e-5), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{})}
	rope := k.Rope(nn.RopeSpec{
		Style: compute.Halves, Dims: m.key(), Trained: m.context,
		Mixed: true, // only Qwen3-VL: M-RoPE's axes take turns
	})
	m.rope = b.Rope(rope)

	m.embed = b.Embedding(m.embd)
	m.embed.Deep = k.Deep(len(m.layers)) // Qwen3-VL's DeepStack; 0 in text models
	m.output = b.Output(&m.embed, b.RMSNorm("output_norm", m.embd, m.eps), k.LogitCap(0))
	m.output.Ranking.Softmax = true // Qwen3-Reranker's scores are a softmax
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds a block like layer i's.
func (m *qwen3) block(b *nn.Binder, i int) nn.PreNorm {
	l := m.at(i)
	a := b.Attention(l.HeadShape)
	b.QKV(a, m.embd, nn.MayHaveBias)
	a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
	a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
	a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)

	ffnNorm := b.RMSNorm("ffn_norm", m.embd, m.eps)
	return nn.PreNorm{
		AttnNorm: b.RMSNorm("attn_norm", m.embd, m.eps),
		Attn:     a,
		FFNNorm:  ffnNorm,
		FFN:      b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: ffnNorm}),
	}
}

func (m *qwen3) Forward(p *nn.Pass) compute.Tensor {
	x := m.embed.Forward(p)
	for i := range m.blocks {
		p.Layer(i, x) // gives back what the layer before took of the pool of activations
		x = m.blocks[i].Forward(p, x)
		p.InsertDeep(x, i, m.embed.Deep) // adds features of pictures, only in Qwen3-VL
	}
	return x
}

func (m *qwen3) BindMTP(b *nn.Binder, l int) Block { return new(m.block(b, l)) }
