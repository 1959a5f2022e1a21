package model

import (
	"cmp"
	"math"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// block is one transformer block: a token mixer, and a channel mixer, which works on each token alone.
type block struct {
	shape     Block
	norm      nn.Norm       // of the token mixer's input
	attention *nn.Attention // or nil
	recurrent nn.Recurrent  // in place of attention or in parallel to it, or nil
	after     nn.Norm       // of what the token mixer adds to the residual, or none
	ffnNorm   nn.Norm       // of the feed-forward layer's input; where there is none, it reads the residual
	ffn       *nn.FFN       // or the shared experts; nil: there are none
	experts   *nn.Experts   // or nil
	early     bool          // the experts' router reads the block's input
	ffnAfter  nn.Norm       // of what the feed-forward layer adds to the residual, or none
	input     nn.LayerInput
	scale     float32         // of the residual after the block
	mixing    *nn.AltUpMixing // of streams, or nil
	laurel    nn.LowRank      // with mixing
}

// stream is what goes from block to block.
type stream struct {
	x      compute.Tensor  // [n, n_embd] the residual
	inputs compute.Tensor  // [n, layers·width] layers' embeddings of the tokens, of families that have them
	all    compute.Streams // the residual's streams, of families that have several
}

// forward runs the block. Each part reads the norm of the residual x and is added to it:
//
//	x += attention(norm(x)); x += ffn(norm(x))
//	x = norm(x + attention(x)); x = norm(x + ffn(x))
//
// Some families have a norm after each part, instead of the one before it or besides, and some scale what is added.
func (l *block) forward(p *nn.Pass, m *Model, s *stream, i int) {
	if l.mixing != nil {
		l.alternate(p, m, s, i)
		return
	}
	var rated compute.Tensor // the router's logits
	if l.early {
		rated = l.experts.Rate(p, s.x)
	}
	in := p.Norm(s.x, l.norm)
	switch {
	case l.recurrent != nil && l.attention != nil: // both read the same
		heads := l.attention.Read(p, in)
		y := l.recurrent.Forward(p, in)
		p.Add(y, p.Linear(heads, &l.attention.Out))
		m.join(p, s.x, y, l.after)
		s.x = p.Wanted(i, s.x)
	case l.recurrent != nil:
		m.join(p, s.x, l.recurrent.Forward(p, in), l.after)
		s.x = p.Wanted(i, s.x)
	case l.attention != nil:
		heads := l.attention.Read(p, in)
		s.x = p.Wanted(i, s.x)
		m.join(p, s.x, p.Linear(p.Wanted(i, heads), &l.attention.Out), l.after)
	default:
		s.x = p.Wanted(i, s.x)
	}
	if l.ffn == nil && l.experts == nil {
		return
	}
	in = p.Norm(s.x, l.ffnNorm)
	m.join(p, s.x, l.mix(p, rated, s.x, in), l.ffnAfter)
	if l.input.Bound() {
		p.Add(s.x, l.input.Forward(p, s.x, s.inputs, i))
	}
	p.Scale(s.x, l.scale)
}

// alternate runs a block within streams of the residual. It predicts all streams, computes the active one, and corrects
// the others by how the result differs from the prediction:
//
//	x = (x + attention(norm(x)) + laurel(norm(x))) / √2; x += ffn(norm(x))
func (l *block) alternate(p *nn.Pass, m *Model, s *stream, i int) {
	active := s.all[m.altUp.Active]
	p.Verbs().AltUpPredict(s.all, l.mixing.Route(p, active), l.mixing.Prediction)
	p.Verbs().Slice(s.x, active, 0)

	in := p.Norm(s.x, l.norm)
	laurel := l.laurel.Forward(p, in)
	m.join(p, s.x, p.Linear(l.attention.Read(p, in), &l.attention.Out), l.after)
	p.Add(s.x, laurel)
	p.Scale(s.x, math.Sqrt2/2)

	in = p.Norm(s.x, l.ffnNorm)
	m.join(p, s.x, l.ffn.Forward(p, s.x, in), l.ffnAfter)

	p.Verbs().AltUpCorrect(s.all, s.x, l.mixing.Route(p, s.x), l.mixing.Correction, m.altUp.Active)
	p.Verbs().Multiply(s.x, active, l.mixing.Scale)
	y := l.input.Forward(p, s.x, s.inputs, i)
	for _, other := range s.all[1:] {
		p.Add(other, y)
	}
}

// mix returns the output of the feed-forward layer or the experts for in. rated has the router's logits where it read
// something else.
func (l *block) mix(p *nn.Pass, rated, residual, in compute.Tensor) compute.Tensor {
	if l.experts == nil {
		return l.ffn.Forward(p, residual, in)
	}
	if !l.early {
		rated = l.experts.Rate(p, in)
	}
	return l.experts.Mix(p, rated, residual, in)
}

// join adds a part's output y, which it overwrites, to the residual: x += scale·norm(y).
func (m *Model) join(p *nn.Pass, x, y compute.Tensor, after nn.Norm) {
	if m.Family.NormSum {
		p.Add(x, y)
		p.Normalize(x, after)
		return
	}
	p.Normalize(y, after)
	p.Scale(y, m.Scale.Residual)
	p.Add(x, y)
}

// blockBinder binds one block's tensors by their names after "blk.N.". What the family does not have is nil.
type blockBinder struct {
	*nn.Binder
	m     *Model
	layer int
}

// bound reports whether the block binds a tensor: it must, or it may and the file holds it.
func (b *blockBinder) bound(name string) bool {
	t, ok := b.m.Family.InBlock(name)
	return ok && (!t.Optional || b.Has(name))
}

// presence says whether files hold a tensor of the block.
func (b *blockBinder) presence(name string) nn.Presence {
	switch t, ok := b.m.Family.InBlock(name); {
	case !ok:
		return nn.Absent
	case t.Optional:
		return nn.Optional
	}
	return nn.Required
}

// linear binds a matrix, and bias, which may be empty, the name of its bias.
func (b *blockBinder) linear(name, bias string) nn.Linear {
	if !b.bound(name) {
		return nn.Linear{}
	}
	shape := b.m.Family.Shape(name, b.m.sizes(b.layer))
	l := b.Linear(strings.TrimSuffix(name, ".weight"), shape[0], shape[1], nn.Absent)
	if bias != "" {
		l.B = b.vector(bias)
	}
	return l
}

func (b *blockBinder) vector(name string) *compute.Vector {
	if !b.bound(name) {
		return nil
	}
	return b.Vector(name, b.m.Family.Shape(name, b.m.sizes(b.layer))[0])
}

func (b *blockBinder) norm(name string) nn.Norm {
	return b.m.newNorm(b.vector(b.m.Family.NormWeight(name)), b.vector(name+".bias"))
}

// newNorm returns the family's norm with these weights.
func (m *Model) newNorm(weight, bias *compute.Vector) nn.Norm {
	return nn.Norm{Weight: weight, Bias: bias, Epsilon: m.Eps, Centered: m.Family.LayerNorm}
}

// bindBlock binds layer i.
func (m *Model) bindBlock(in *nn.Binder, i int) {
	b, l := &blockBinder{Binder: in.Layer(i), m: m, layer: i}, &m.layers[i]
	l.norm = b.norm("attn_norm")
	l.shape = m.Blocks[i]
	if l.shape.State > 0 {
		l.recurrent = b.recurrent()
	}
	if l.shape.Heads > 0 {
		l.bindAttention(b)
	} else if m.Family.OnePart && l.shape.State == 0 {
		l.norm, l.ffnNorm = nn.Norm{}, l.norm
	}
	ffnNorm := cmp.Or(m.Family.FFNNorm, "ffn_norm")
	if ffnNorm != "post_attention_norm" {
		l.after = b.norm("post_attention_norm")
	}
	l.ffnAfter = b.norm("post_ffw_norm")
	if m.Family.NormSum {
		l.after, l.ffnAfter = b.norm("attn_output_norm"), b.norm("layer_output_norm")
	}
	if n := b.norm(ffnNorm); n.Bound() {
		l.ffnNorm = n
	}
	if l.shape.Experts {
		l.bindExperts(b)
	} else {
		l.bindFFN(b)
	}
	l.bindMixing(b)
}

// bindAttention binds the layer's attention.
func (l *block) bindAttention(b *blockBinder) {
	m := b.m
	how := b.Scores(m.Scores, nn.HeadShape{Heads: l.shape.Heads, Key: l.shape.Key})
	how.Window, how.Parts = l.shape.Window, m.Family.Parts
	a := b.Attention(nn.HeadShape{Heads: l.shape.Heads, KVHeads: l.shape.KVHeads, Key: l.shape.Key, Value: l.shape.Value})
	a.Reads, a.Gated, a.Rope, a.How = l.shape.KV != b.layer, m.Family.GatedAttention, m.ropes[l.shape.Rotation], how
	l.attention = a
	if a.Rope == nil {
		a.Temperature = m.Temperature
	}
	b.bindQKV(a)
	a.QNorm = nn.HeadNorm{Norm: b.norm("attn_q_norm")}
	if !a.Reads {
		a.KNorm = nn.HeadNorm{Norm: b.norm("attn_k_norm")}
		if m.Family.NormedValues {
			a.VNorm = nn.Norm{Weight: b.Ones(a.Value), Epsilon: m.Eps}
		}
	}
	if m.Family.UnitHeads && m.Experts.Count != m.Family.UnitHeadsBut && l.shape.Rotation != Unrotated {
		a.QNorm.Norm = m.newNorm(b.Ones(a.Key), nil)
		a.KNorm.Norm = a.QNorm.Norm
	}
	a.Out = b.linear("attn_output.weight", "attn_output.bias")
}

// bindQKV binds q, k and v. Any family's files may hold their weights as one tensor, and likewise their biases.
func (b *blockBinder) bindQKV(a *nn.Attention) {
	m := b.m
	if a.Reads { // files may hold what it would need for its own
		a.Q = b.linear("attn_q.weight", "attn_q.bias")
		for _, name := range []string{"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"} {
			b.Ignore(name)
		}
		return
	}
	if t, ok := m.Family.InBlock("attn_v.weight"); ok && t.Optional && !b.Has("attn_v.weight") && !b.Has("attn_qkv.weight") { // values are keys
		a.Q, a.K = b.linear("attn_q.weight", "attn_q.bias"), b.linear("attn_k.weight", "attn_k.bias")
		return
	}
	b.QKV(a, m.Embd, max(b.presence("attn_qkv.bias"), b.presence("attn_q.bias"), nn.Optional))
}

// sizes returns what the shapes of a layer's tensors follow from.
func (c *Config) sizes(layer int) arch.Sizes {
	b := c.Blocks[layer]
	return arch.Sizes{
		Embd: c.Embd, Vocab: c.Vocab, Positions: c.Context, FF: b.FF, Heads: b.Heads, KVHeads: b.KVHeads, Key: b.Key, Value: b.Value,
		Latent: b.Latent, QueryLatent: c.QueryLatent, Rotated: b.Rotated,
		Layers: c.Layers, Input: c.Input,
		Experts: c.Experts.Count, ExpertFF: c.Experts.FF, SharedFF: c.Experts.Shared, ExpertLatent: c.Experts.Latent,
		StateSpace: c.States.StateSpace,
	}
}

// kv returns the shape of the layer's keys and values in the cache, or of its state where it has only that.
func (b Block) kv() compute.KVShape {
	if b.Heads == 0 {
		return b.state()
	}
	if b.Latent > 0 {
		return compute.KVShape{Heads: 1, Key: b.Latent + b.Rotated, Value: b.Latent, Within: true}
	}
	return compute.KVShape{Heads: b.KVHeads, Key: b.Key, Value: b.Value}
}

// state returns the shape of the layer's state in the cache.
func (b Block) state() compute.KVShape { return compute.KVShape{State: b.State} }
