package model

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// mtp is an MTP layer, a layer that predicts a token further: from the last layer's output h at a position, after the
// last norm, and the token x that follows it, what follows x. Its block reads
//
//	M·[norm(embedding(x)), norm(h)]
//
// and the model's head, or one of its own, reads the block's output after a norm. That output stands for h where still
// another token is predicted. Keys and values are at x's position, in a part of the cache after the layers': what they
// follow from are the tokens up to x, as theirs.
//
// Source: DeepSeek-AI 2024, DeepSeek-V3, section 2.2. That h is taken after the norm is as in DeepSeek's own weights'
// users, vLLM and llama.cpp.
type mtp struct {
	width      int
	embd       *compute.Matrix // [n_vocab, n_embd]; the model's if the layer has none
	embdNorm   nn.Norm
	hiddenNorm nn.Norm
	join       nn.Linear // [n_embd, 2·n_embd]
	block      family.Block
	norm       nn.Norm   // before the head; the model's if the layer has none
	head       nn.Linear // [n_vocab, n_embd]; the model's if the layer has none
	plain      bool      // h is taken before the last norm, and so is the block's output that stands for it
}

// bindMTP binds the first layer after the last, with its binder b. An embedding table of its own stays in RAM.
func bindMTP(b *nn.Binder, program family.Program, c *Config) *mtp {
	p, ok := program.(family.MTP)
	if !ok {
		b.Fail("the program of the family has no such layer")
		return nil
	}
	embed, output := program.Ends()
	if output.Norm.Centered {
		b.Fail("the model's norms subtract the mean, and the layer's are RMS norms")
		return nil
	}
	f := &mtp{width: c.Embd, embd: embed.Table, norm: output.Norm, head: nn.Linear{W: output.Head.W}, block: p.BindMTP(b)}
	if p, ok := program.(family.PlainMTP); ok {
		f.plain = p.PlainMTP()
	}
	f.embdNorm, f.hiddenNorm = b.RMSNorm("nextn.enorm", c.Embd, c.Eps), b.RMSNorm("nextn.hnorm", c.Embd, c.Eps)
	f.join = b.Linear("nextn.eh_proj", c.Embd, 2*c.Embd, nn.Absent)
	if b.Has("nextn.embed_tokens.weight") {
		f.embd = b.Lookup("nextn.embed_tokens", c.Vocab, c.Embd)
	}
	if b.Has("nextn.shared_head_norm.weight") {
		f.norm = b.RMSNorm("nextn.shared_head_norm", c.Embd, c.Eps)
	} else if b.Has("layer_output_norm.weight") { // as Ling's files have it
		f.norm = b.RMSNorm("layer_output_norm", c.Embd, c.Eps)
	}
	if b.Has("nextn.shared_head_head.weight") {
		f.head = b.Adapted(b.Matrix("nextn.shared_head_head.weight", c.Vocab, c.Embd, compute.Head))
	}
	return f
}

// Shape implements family.Draft.
func (f *mtp) Shape() family.DraftShape { return family.DraftShape{State: f.width, Hidden: !f.plain} }

// Follow implements family.Draft. It computes the layer's attention for its keys and values.
func (f *mtp) Follow(p *nn.Pass, of family.Followed, states compute.Tensor) {
	if f.plain {
		p.Replace(states, of.X)
	}
	f.block.Store(p, f.input(p, states))
}

// Forward implements family.Draft.
func (f *mtp) Forward(p *nn.Pass, states compute.Tensor) compute.Tensor {
	x := f.block.Forward(p, f.input(p, states))
	if f.plain {
		p.Replace(states, x)
		return x
	}
	p.NormTo(states, x, f.norm)
	return states
}

// Head implements family.Draft.
func (f *mtp) Head() (norm nn.Norm, head *nn.Linear) {
	if f.plain {
		norm = f.norm
	}
	return norm, &f.head
}

// input returns the residual that the layer's block reads. [n, n_embd]
func (f *mtp) input(p *nn.Pass, states compute.Tensor) compute.Tensor {
	before, pair := p.Tokens(f.width), p.Tokens(2*f.width)
	p.Verbs().Precede(before, states)
	e := p.Norm(p.Lookup(f.embd), f.embdNorm)
	p.Verbs().CopyColumns(pair, e, compute.Ranges{}, compute.Ranges{}, f.width, 1)
	h := p.Norm(before, f.hiddenNorm)
	p.Verbs().CopyColumns(pair, h, compute.Ranges{First: f.width}, compute.Ranges{}, f.width, 1)
	return p.Linear(pair, &f.join)
}
