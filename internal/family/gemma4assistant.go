package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// gemma4Assistant is the draft model that Google publishes with each Gemma 4: a few narrower blocks without keys and
// values. They read the target's: those of its last sliding-window layer, or of its last layer without a window. From
// the target's embedding of a token x, and the target's output h before x, after the last norm, it computes
//
//	Pre·[embedding(x), h]
//
// and passes it through the blocks. The head reads the norm of their output, and Post turns that norm into the h for
// drafting another token. All drafted tokens have the position of the text's last token.
//
// Source: transformers' Gemma4AssistantForCausalLM. The small models are published with groups of tokens, and the head
// chooses a group first, which is faster and may miss the likeliest token. Here the head computes all tokens, as in
// llama.cpp.
type gemma4Assistant struct {
	gemma4Shape
	shape     DraftShape
	embedding *nn.Embedding // the model's
	pre, post nn.Linear     // [n_embd, 2·n_embd of the model], [n_embd of the model, n_embd]
	blocks    []gemma4Block

	draftEnds
}

func newGemma4Assistant(k *nn.Keys, b *nn.Binder, of *Target) Draft {
	k.AllDraft = true
	m := &gemma4Assistant{gemma4Shape: readGemma4(k, b), shape: DraftShape{State: of.Embd, Hidden: true, Last: true, Still: true}, embedding: of.Embedding}
	const width = ".embedding_length_out"
	if n := k.RequiredCount(width, nn.MaxWidth); n != of.Embd {
		k.Fail("key %q: the draft model reads hidden states of %d elements, and the model's have %d: take the draft model that was made for the model", k.Arch+width, n, of.Embd)
	}
	embed := b.Embedding(m.embd)
	output := b.Output(&embed, b.RMSNorm("output_norm", m.embd, m.eps), 0)
	if embed.Table != nil && embed.Table.Rows > of.Vocab {
		b.Fail("the draft model has %d tokens, and the model %d: take the draft model that was made for the model", embed.Table.Rows, of.Vocab)
	}
	m.draftEnds = draftEnds{head: output.Head}
	m.norm = output.Norm
	m.pre = b.Linear("nextn.pre_projection", m.embd, 2*of.Embd, nn.NoBias)
	m.post = b.Linear("nextn.post_projection", of.Embd, m.embd, nn.NoBias)
	b.Ignore("masked_embd_centroids.weight")
	b.Ignore("masked_embd_ordering")
	for i := range m.layers {
		m.blocks = append(m.blocks, m.block(b.Layer(i), i, of))
	}
	return m
}

// block binds block i.
func (m *gemma4Assistant) block(b *nn.Binder, i int, of *Target) gemma4Block {
	l := m.layers[i]
	read := of.lastAttention(m.windowed[i])
	if read == nil && of.Parts != nil {
		b.Fail("layer %d reads keys and values of a kind of layer that the model does not have: take the draft model that was made for the model", i)
	}
	block := m.gemma4Shape.block(b, i, b.QueriesToTarget(read, l.HeadShape, m.embd, nn.NoBias))
	block.attn.Onward = false
	if m.windowed[i] && read != nil { // older positions may be gone
		if block.attn.Scores.Window = min(m.window, read.Scores.Window); block.attn.Scores.Window < 2 {
			b.Fail("layer %d has a window of 1 position, in which no token is before the last: the file is damaged; download or convert it again", i)
		}
	}
	block.ffn = b.FFN(nn.FFNSpec{Width: m.embd, Neurons: l.ff, Gated: true, Act: m.act, InputNorm: block.ffnNorm})
	return block
}

// lastAttention returns the attention of the model's last layer with a window, or of its last without one; nil: it has
// none.
func (of *Target) lastAttention(windowed bool) (last *nn.Attention) {
	for i := range of.Parts {
		if a := of.Parts[i].Attention; a != nil && windowed == (a.Scores.Window > 0) {
			last = a
		}
	}
	return last
}

func (m *gemma4Assistant) Shape() DraftShape { return m.shape }

// Follow implements Draft: all that drafts read is the model's.
func (m *gemma4Assistant) Follow(*nn.Pass, Followed, compute.Tensor) {}

func (m *gemma4Assistant) Forward(p *nn.Pass, states compute.Tensor) compute.Tensor {
	before := p.Tokens(m.shape.State)
	p.Verbs().Precede(before, states)
	x := p.Linear(p.Beside(m.embedding.Forward(p), before), &m.pre)
	for i := range m.blocks {
		scope := p.Scope()
		x = m.blocks[i].forward(p, x, compute.Tensor{})
		p.Leave(scope)
	}
	p.Normalize(x, m.norm)
	p.LinearTo(states, x, &m.post)
	return x
}

// Head implements Draft. Its input is already normed.
func (m *gemma4Assistant) Head(int) (nn.Norm, *nn.Linear) { return nn.Norm{}, &m.head }
