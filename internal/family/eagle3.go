package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// eagle3 is an EAGLE-3 head. Of what three layers of the model read at a position it makes
//
//	g = fc·[low, middle, high]
//
// and from g and the token x that follows, by one decoder block, the token after x. The block's attention reads
// [norm(embedding(x)), norm(g)], and its residual is g. What the block gives stands for g where a further token is
// drafted. The head may know a part of the vocabulary alone, the most frequent tokens.
//
// Keys and values are at x's position. The text's first token follows from nothing, so position 0 has none. Published
// programs count positions from g's, one less; rotations only tell differences, so nothing else changes.
//
// Source: Li et al. 2025, EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test.
type eagle3 struct {
	shape  DraftShape
	fcNorm nn.Norm   // norm of fc's input, or none
	fc     nn.Linear // [n_embd, 3·n_embd of the model]

	embdNorm, stateNorm nn.Norm
	attn                *nn.Attention // reads 2·n_embd
	ffnNorm             nn.Norm
	ffn                 *nn.FFN
	normed              bool // the residual is norm(g)

	draftEnds
}

func newEagle3(k *nn.Keys, b *nn.Binder, of *Target) Draft {
	s, eps := readSizes(k), k.RMSEpsilon(1e-5)
	if len(s.layers) != 1 {
		k.Fail("key %q: an EAGLE-3 head of %d layers is not supported; one has 1", k.Arch+".block_count", len(s.layers))
	}
	const hidden = ".target_hidden_size"
	if n := k.RequiredCount(hidden, nn.MaxWidth); n != of.Embd {
		k.Fail("key %q: the head reads hidden states of %d elements, and the model's have %d: take the head that was made for the model", k.Arch+hidden, n, of.Embd)
	}
	m := &eagle3{normed: k.Flag(".norm_before_residual", false)}
	m.shape = DraftShape{Layers: readFeatures(k, of), State: s.embd, First: 1}
	wide := len(m.shape.Layers) * of.Embd
	if k.Flag(".norm_before_fc", false) {
		m.fcNorm = b.RMSNorm("enc.output_norm", wide, eps)
	}
	m.fc = b.Linear("fc", s.embd, wide, nn.NoBias)
	m.draftEnds = bindDraftEnds(b, of, s.embd, b.RMSNorm("output_norm", s.embd, eps))
	m.shape.Tokens = m.tokens

	l := s.layers[0]
	rope := k.Rope(nn.RopeSpec{Style: compute.Interleaved, Dims: l.Key, Trained: s.context})
	factors := b.RopeFactors(rope)
	b = b.Layer(0)
	m.attn = b.Attention(l.HeadShape)
	b.QKV(m.attn, 2*s.embd, nn.MayHaveBias)
	m.attn.Rope, m.attn.Scores = b.RopeWith(rope, factors), b.Scores(k.Scores(nn.Scores{}), l.HeadShape)
	m.attn.Out = b.Linear("attn_output", s.embd, l.Heads*l.Value, nn.MayHaveBias)
	m.embdNorm, m.stateNorm = b.RMSNorm("attn_norm", s.embd, eps), b.RMSNorm("attn_norm_2", s.embd, eps)
	m.ffnNorm = b.RMSNorm("ffn_norm", s.embd, eps)
	m.ffn = b.FFN(nn.FFNSpec{Width: s.embd, Neurons: l.ff, Gated: true, Act: k.Activation(compute.SiLU)})
	return m
}

func (m *eagle3) Shape() DraftShape { return m.shape }

func (m *eagle3) Follow(p *nn.Pass, of Followed, states compute.Tensor) {
	p.Normalize(of.Features, m.fcNorm)
	p.LinearTo(states, of.Features, &m.fc)
	_, in := m.input(p, states)
	m.attn.Store(p, in)
}

// input returns the residual and what attention reads. [n, n_embd], [n, 2·n_embd]
func (m *eagle3) input(p *nn.Pass, states compute.Tensor) (x, in compute.Tensor) {
	x = p.Tokens(m.shape.State)
	p.Verbs().Precede(x, states)
	g := p.Norm(x, m.stateNorm)
	in = p.Beside(p.Norm(p.Lookup(m.embed), m.embdNorm), g)
	if m.normed {
		x = g
	}
	return x, in
}

func (m *eagle3) Forward(p *nn.Pass, states compute.Tensor) compute.Tensor {
	x, in := m.input(p, states)
	x, y := m.attn.Forward(p, x, in)
	p.Add(x, y)
	p.Add(x, m.ffn.Forward(p, x, p.Norm(x, m.ffnNorm)))
	p.Replace(states, x)
	return x
}
