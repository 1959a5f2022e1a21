package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// qwen4Exp is Qwen3.8-Flash-Next: Qwen3.5's gated delta nets, gated attention and experts with a shared one, in a
// residual of several streams. No norm comes before a part: each part reads the streams through low-rank gates, and its
// output is added to each stream with the stream's weight. Delta nets' outputs are gated by a sigmoid. Attention sees
// blocks of positions that an indexer chooses, with the mean of the positions' keys as a block's key, and the positions
// after the last complete block. One layer adds rows of a large table for the last tokens.
//
// Source: Qwen Team 2026, the configuration and model card of Qwen3.8-Flash-Next.
type qwen4Exp struct {
	sizes
	eps     float32 // epsilon of the norms
	act     compute.Activation
	rope    *compute.Rope
	scores  nn.Scores
	experts nn.ExpertSpec
	states  nn.StateSpec

	streams nn.GatedSpec
	seen    []nn.MeanIndexerSpec // [layers] for layers with attention; Block is 0 if the layer sees all positions
	grams   nn.NGramSpec
	table   *compute.Matrix // table of n-grams, or nil

	ends
	last   nn.GatedConnection // by which the head reads the streams
	blocks []qwen4ExpBlock
}

type qwen4ExpBlock struct {
	number int
	grams  *nn.NGrams // or nil
	mix    nn.GatedConnection
	delta  *nn.DeltaNet // or nil: there is attention
	attn   *nn.Attention
	ffnMix nn.GatedConnection
	ffn    nn.FeedForward
}

func newQwen4Exp(k *nn.Keys, b *nn.Binder) Program {
	m := &qwen4Exp{sizes: readSizes(k), eps: k.RMSEpsilon(1e-6), act: k.Activation(compute.SiLU), scores: k.Scores(nn.Scores{}), states: k.States()}
	for i, recurrent := range k.Recurrent(len(m.layers)) {
		if recurrent {
			m.layers[i].HeadShape = nn.HeadShape{}
		}
	}
	m.rope = b.Rope(k.Rope(nn.RopeSpec{Style: compute.Halves, Mixed: true, Dims: m.key(), Trained: m.context}))
	m.experts = k.Experts(nn.ExpertSpec{
		Width: m.embd, Gated: true, Act: m.act, Gate: true, Plain: true, Routing: compute.Routing{Normalised: true, MinSum: nn.LeastSum},
		Neurons: max(1, m.ff()/k.Same(".expert_used_count", 1, nn.MaxExperts)), // for files that say the neurons of a token's experts together
		Shared:  m.ff(),                                                        // for files that do not say it
	})
	m.streams, m.seen, m.grams = k.GatedConnections(m.embd, m.eps), k.MeanIndexers(len(m.layers)), k.NGrams(len(m.layers))

	m.embed = b.Embedding(m.embd)
	if m.grams.Layer >= 0 {
		m.table = b.NGramTable(m.grams)
		m.embed.Picture = m.grams.Picture
	}
	m.last = b.LastGatedConnection("output_hc", m.streams)
	m.output = b.Output(&m.embed, nn.Norm{}, 0)
	m.blocks = bindBlocks(b, len(m.layers), m.block)
	return m
}

// block binds block i.
func (m *qwen4Exp) block(b *nn.Binder, i int) qwen4ExpBlock {
	l := m.layers[i]
	block := qwen4ExpBlock{number: i, mix: b.GatedConnection("hc_attn", m.streams), ffnMix: b.GatedConnection("hc_ffn", m.streams)}
	if l.KVHeads == 0 {
		block.delta = b.DeltaNet(m.states, m.embd, m.eps, true)
		block.delta.Act = compute.Logistic
	} else {
		a := b.Attention(l.HeadShape)
		a.Gated = true
		b.QKV(a, m.embd, nn.MayHaveBias)
		a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, m.eps), b.HeadNorm("attn_k_norm", l.Key, m.eps)
		a.Rope, a.Scores = m.rope, b.Scores(m.scores, l.HeadShape)
		a.Out = b.Linear("attn_output", m.embd, l.Heads*l.Value, nn.MayHaveBias)
		a.Indexer = b.MeanIndexer(m.seen[i], m.rope, m.embd, m.eps)
		block.attn = a
	}
	if i == m.grams.Layer {
		block.grams = b.NGrams(m.grams, m.table, m.streams.Streams, m.embd, m.eps)
	}
	block.ffn = b.FFNOrExperts(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, Parallel: true}, m.experts)
	return block
}

func (m *qwen4Exp) Forward(p *nn.Pass) compute.Tensor {
	h, _ := m.last.Read(p, through(p, p.Streams(m.embed.Forward(p), m.streams.Streams), m.blocks))
	return h
}

func (l *qwen4ExpBlock) Forward(p *nn.Pass, x compute.Tensor) compute.Tensor {
	if l.grams != nil {
		l.grams.Forward(p, x)
	}
	in, weights := l.mix.Read(p, x)
	var y compute.Tensor
	if l.delta != nil {
		y = p.Wanted(l.number, l.delta.Forward(p, in))
		x = p.Wanted(l.number, x)
	} else {
		x, y = l.attn.Forward(p, x, in)
	}
	l.mix.Write(p, x, y, p.Wanted(l.number, weights))

	in, weights = l.ffnMix.Read(p, x)
	l.ffnMix.Write(p, x, l.ffn.Forward(p, in, in), weights)
	return x
}
