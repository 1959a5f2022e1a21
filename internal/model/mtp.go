package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// mtp are a model's MTP layers. Each predicts one token further than the layer before. The first reads a token x, and the
// model's hidden state h of the position before x, after the last norm. It predicts the token that follows x. Its block
// reads
//
//	M·[norm(embedding(x)), norm(h)]
//
// and the model's head, or one of its own, reads the block's output after a norm. In place of h, the second layer reads
// that output of the first layer at the token before x, and so on. In some families it reads the model's state of one
// token earlier instead. So layer k knows the model's states up to k tokens before x, and drafts token k. All layers
// compute every token. A single layer drafts all tokens: it reads its own output in place of the model's state.
//
// Keys and values are at x's position, in parts of the cache after those of the model's layers. They depend on the tokens
// up to x, as those do.
//
// Source: DeepSeek-AI 2024, DeepSeek-V3, section 2.2. vLLM and llama.cpp take h after the norm. In SGLang MiMo's layers
// read the model's own states, and Step's do not.
type mtp struct {
	width  int
	inputs family.MTPInputs
	layers []mtpLayer
}

// mtpLayer is one MTP layer.
type mtpLayer struct {
	embd       *compute.Matrix // [n_vocab, n_embd]; the model's if the layer has none
	embdNorm   nn.Norm
	hiddenNorm nn.Norm
	join       nn.Linear // [n_embd, 2·n_embd]
	block      family.Block
	norm       nn.Norm   // before the head; the model's if the layer has none
	head       nn.Linear // [n_vocab, n_embd]; the model's if the layer has none
}

// bindMTP binds the MTP layers that b's file has.
func bindMTP(b *nn.Binder, program family.Program, c *Config) *mtp {
	p, ok := program.(family.MTP)
	if !ok {
		b.Fail("the program of the family has no such layer")
		return nil
	}
	if _, output := program.Ends(); output.Norm.Centered {
		b.Fail("the model's norms subtract the mean, and the layer's are RMS norms")
		return nil
	}
	f := &mtp{width: c.Embd}
	if p, ok := program.(family.ReadsMTP); ok {
		f.inputs = p.MTPInputs()
	}
	for i := range c.mtpLayers(b.File) {
		f.layers = append(f.layers, bindMTPLayer(b.Layer(c.Layers+i), p, c, c.Layers+i))
	}
	return f
}

// mtpLayers returns the number of MTP layers in f, c's file. Some files have fewer than they say.
func (c *Config) mtpLayers(f *gguf.File) int {
	n := min(1, c.Further) // binding refuses a file without the first
	for n < c.Further && f.Tensor(fmt.Sprintf("blk.%d.nextn.eh_proj.weight", c.Layers+n)) != nil {
		n++
	}
	return n
}

// bindMTPLayer binds layer l with its binder b. An embedding table of its own stays in RAM.
func bindMTPLayer(b *nn.Binder, p family.MTP, c *Config, l int) mtpLayer {
	embed, output := p.Ends()
	y := mtpLayer{embd: embed.Table, norm: output.Norm, head: nn.Linear{W: output.Head.W}, block: p.BindMTP(b, l)}
	y.embdNorm, y.hiddenNorm = b.RMSNorm("nextn.enorm", c.Embd, c.Eps), b.RMSNorm("nextn.hnorm", c.Embd, c.Eps)
	y.join = b.Linear("nextn.eh_proj", c.Embd, 2*c.Embd, nn.Absent)
	if b.Has("nextn.embed_tokens.weight") {
		y.embd = b.Lookup("nextn.embed_tokens", c.Vocab, c.Embd)
	}
	if b.Has("nextn.shared_head_norm.weight") {
		y.norm = b.RMSNorm("nextn.shared_head_norm", c.Embd, c.Eps)
	} else if b.Has("layer_output_norm.weight") { // as Ling's files have it
		y.norm = b.RMSNorm("layer_output_norm", c.Embd, c.Eps)
	}
	if b.Has("nextn.shared_head_head.weight") {
		y.head = b.Adapted(b.Matrix("nextn.shared_head_head.weight", c.Vocab, c.Embd, compute.Head))
	}
	return y
}

// Shape implements family.Draft. A row's states are the inputs of all layers, side by side.
func (f *mtp) Shape() family.DraftShape {
	s := family.DraftShape{State: f.width * len(f.layers), Hidden: !f.inputs.Plain && len(f.layers) == 1}
	if len(f.layers) > 1 {
		s.Most = len(f.layers)
	}
	return s
}

// Follow implements family.Draft. The last layer computes its attention alone, for its keys and values.
func (f *mtp) Follow(p *nn.Pass, of family.Followed, states compute.Tensor) {
	h := of.Hidden
	if f.inputs.Plain {
		h = of.X
	}
	if !f.Shape().Hidden {
		f.put(p, states, 0, h)
	}
	f.follow(p, states, 0)
}

// Forward implements family.Draft. Layers after the one that drafts follow.
func (f *mtp) Forward(p *nn.Pass, states compute.Tensor) compute.Tensor {
	k := p.Depth
	before := f.before(p, states, k)
	x, y := f.layers[k].block.Forward(p, f.input(p, k, before)), states
	switch {
	case f.inputs.Plain:
		y = x
	case len(f.layers) == 1:
		p.NormTo(y, x, f.layers[k].norm)
	default:
		y = p.Norm(x, f.layers[k].norm)
	}
	switch next := k + 1; {
	case len(f.layers) == 1 && f.inputs.Plain:
		p.Replace(states, y)
	case next == len(f.layers):
	case f.inputs.Model:
		f.put(p, states, next, before)
		f.follow(p, states, next)
	default:
		f.put(p, states, next, y)
		f.follow(p, states, next)
	}
	return y
}

// follow computes the layers from k on. states has the input of layer k, and follow writes those of the layers after it.
func (f *mtp) follow(p *nn.Pass, states compute.Tensor, k int) {
	for ; k < len(f.layers); k++ {
		y, scope := &f.layers[k], p.Scope()
		before := f.before(p, states, k)
		x := f.input(p, k, before)
		switch next := k + 1; {
		case next == len(f.layers):
			y.block.Store(p, x)
		case f.inputs.Model:
			y.block.Store(p, x)
			f.put(p, states, next, before)
		default:
			if x = y.block.Forward(p, x); !f.inputs.Plain {
				x = p.Norm(x, y.norm)
			}
			f.put(p, states, next, x)
		}
		p.Leave(scope)
	}
}

// Head implements family.Draft.
func (f *mtp) Head(depth int) (norm nn.Norm, head *nn.Linear) {
	y := &f.layers[depth]
	if f.inputs.Plain {
		norm = y.norm
	}
	return norm, &y.head
}

// put copies x to layer k's part of states.
func (f *mtp) put(p *nn.Pass, states compute.Tensor, k int, x compute.Tensor) {
	p.Verbs().CopyColumns(states, x, compute.Ranges{First: k * f.width}, compute.Ranges{}, f.width, 1)
}

// before returns layer k's part of the states of each row's position before. [n, n_embd]
func (f *mtp) before(p *nn.Pass, states compute.Tensor, k int) compute.Tensor {
	before := p.Tokens(states.Cols)
	p.Verbs().Precede(before, states)
	if len(f.layers) == 1 {
		return before
	}
	return p.Slice(before, k*f.width, f.width)
}

// input returns the residual that layer k's block reads, made of the rows' tokens and of before. [n, n_embd]
func (f *mtp) input(p *nn.Pass, k int, before compute.Tensor) compute.Tensor {
	y, pair := &f.layers[k], p.Tokens(2*f.width)
	e := p.Norm(p.Lookup(y.embd), y.embdNorm)
	p.Verbs().CopyColumns(pair, e, compute.Ranges{}, compute.Ranges{}, f.width, 1)
	h := p.Norm(before, y.hiddenNorm)
	p.Verbs().CopyColumns(pair, h, compute.Ranges{First: f.width}, compute.Ranges{}, f.width, 1)
	return p.Linear(pair, &y.join)
}
