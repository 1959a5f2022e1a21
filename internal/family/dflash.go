package family

import (
	"cmp"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// dflash is a DFlash head: block diffusion that drafts a whole block of tokens in one pass. From the inputs of some of
// the model's layers at a position it computes
//
//	g = norm(fc·[features])
//
// and each layer's keys and values for that position. A draft is [x, mask, mask, ...], with x the text's last token.
// Its rows see the positions before by these keys and values, and each other, before and after. The head's output at a
// mask is the token there.
//
// Blocks are Qwen 3's. Some heads have norms after attention and the feed-forward layer, as Gemma has, a factor of each
// layer's output, sinks, and sliding windows.
//
// Source: Chen et al. 2026, DFlash: Block Diffusion for Flash Speculative Decoding.
type dflash struct {
	shape  DraftShape
	fc     nn.Linear // [n_embd, features]
	fcNorm nn.Norm
	scale  float32 // factor of the embeddings; 0: 1
	blocks []dflashBlock

	draftEnds
}

type dflashBlock struct {
	nn.Sandwich
	attn  *nn.Attention
	scale *compute.Vector // factor of the block's output, or nil
}

func newDFlash(k *nn.Keys, b *nn.Binder, of *Target) Draft {
	s, eps := readSizes(k), k.RMSEpsilon(1e-6)
	for tensor, what := range map[string]string{"markov_w1.weight": "a Markov head (DSpark)", "selector_hidden.weight": "a selector of candidates (DFlash 2)", "blk.0.attn_kv.weight": "the blocks of DeepSeek V4"} {
		if b.Has(tensor) {
			k.Fail("a DFlash head with %s is not supported; take one without, or leave the head out", what)
		}
	}
	m := &dflash{scale: float32(k.Within(".embedding_scale", 0, 0, nn.MaxScale))}
	m.shape = DraftShape{Layers: readFeatures(k, of), Block: k.Count(".block_size", 16, mostBlock), Mask: readMask(k, of)}
	if m.shape.Block < 2 {
		k.Fail("key %q: a block of 1 token drafts none", k.Arch+".block_size")
	}
	m.shape.Causal = k.Flag(".attention.causal", false)
	wide := len(m.shape.Layers) * of.Embd
	if n := b.Cols("fc.weight"); n > 1 && n != wide {
		b.Fail("the head reads %d elements of hidden states, and %d layers of the model give %d: take the head that was made for the model", n, len(m.shape.Layers), wide)
	}
	m.fc, m.fcNorm = b.Linear("fc", s.embd, wide, nn.NoBias), b.RMSNorm("enc.output_norm", s.embd, eps)
	m.draftEnds = bindDraftEnds(b, of, s.embd, b.RMSNorm("output_norm", s.embd, eps))
	m.shape.Tokens = m.tokens

	spec := k.Rope(nn.RopeSpec{Style: compute.Halves, Dims: s.key(), Trained: s.context})
	spec.Sections = nil // in heads for models with pictures, all pairs are rotated by time
	rope := b.Rope(spec)
	act := k.Activation(compute.SiLU)
	scores := k.Scores(nn.Scores{})
	scores.Later = false // what rows see is DraftShape's
	window, windowed := k.Windows(nn.WindowSpec{}, len(s.layers), s.context)
	for i, l := range s.layers {
		b := b.Layer(i)
		a := b.Attention(l.HeadShape)
		b.QKVOrQK(a, s.embd, nn.MayHaveBias)
		if !a.V.Bound() && b.Err == nil {
			a.VNorm = b.UnitNorm(l.Value, eps)
		}
		a.QNorm, a.KNorm = b.HeadNorm("attn_q_norm", l.Key, eps), b.HeadNorm("attn_k_norm", l.Key, eps)
		a.Rope, a.Scores = rope, b.Scores(scores, l.HeadShape)
		if windowed[i] {
			a.Scores.Window = window
		}
		if b.Has("attn_sinks.weight") {
			a.Scores.Sinks = b.Vector("attn_sinks.weight", l.Heads)
		}
		a.Out = b.Linear("attn_output", s.embd, l.Heads*l.Value, nn.MayHaveBias)
		block := dflashBlock{attn: a, Sandwich: nn.Sandwich{PreNorm: nn.PreNorm{
			AttnNorm: b.RMSNorm("attn_norm", s.embd, eps), Attn: a,
			FFNNorm: b.RMSNorm("ffn_norm", s.embd, eps),
			FFN:     b.FFN(nn.FFNSpec{Width: s.embd, Neurons: l.ff, Gated: true, Act: act}),
		}}}
		if b.Has("post_attention_norm.weight") {
			block.AttnPost = b.RMSNorm("post_attention_norm", s.embd, eps)
		}
		if b.Has("post_ffw_norm.weight") {
			block.FFNPost = b.RMSNorm("post_ffw_norm", s.embd, eps)
		}
		if b.Has("layer_output_scale.weight") {
			block.scale = b.Spread("layer_output_scale.weight", s.embd)
		}
		m.blocks = append(m.blocks, block)
	}
	return m
}

// mostBlock bounds the tokens of a block.
const mostBlock = 256

// readMask reads the token that stands for drafted ones.
func readMask(k *nn.Keys, of *Target) int32 {
	const key = "tokenizer.ggml.mask_token_id"
	id, ok, err := k.File.Uint(key)
	if err != nil || !ok || id >= uint64(of.Vocab) {
		k.Fail("key %q: it is no token of the model, which has %d: take the head that was made for the model", key, of.Vocab)
		return 0
	}
	return int32(id)
}

func (m *dflash) Shape() DraftShape { return m.shape }

func (m *dflash) Follow(p *nn.Pass, of Followed, _ compute.Tensor) {
	g := p.Linear(of.Features, &m.fc)
	p.Normalize(g, m.fcNorm)
	for i := range m.blocks {
		m.blocks[i].attn.Store(p, g)
	}
}

func (m *dflash) Forward(p *nn.Pass, _ compute.Tensor) compute.Tensor {
	x := p.Lookup(m.embed)
	p.Scale(x, cmp.Or(m.scale, 1))
	for i := range m.blocks {
		scope := p.Scope()
		x = m.blocks[i].Forward(p, x)
		p.MultiplyBy(x, m.blocks[i].scale)
		p.Leave(scope)
	}
	return x
}
