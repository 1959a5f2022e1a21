package family

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// Draft is a program that drafts a model's next tokens from the model's states: an MTP layer, or a head in its own
// file. It stores its keys and values in parts of the model's cache, so that prefixes, sequences and rejected drafts
// are handled like the model's own. Package model calls Follow in each step of the model, and Forward in each drafting
// step.
type Draft interface {
	// Shape says what the program reads, and how it drafts.
	Shape() DraftShape
	// Follow computes from a step of the model what drafts read later: it writes the states of the step's rows, and
	// stores the program's keys and values for them.
	Follow(p *nn.Pass, of Followed, states compute.Tensor)
	// Forward returns Head's input for the rows of a step that drafts. It replaces states by the ones for drafting a
	// further token. [n, width]
	Forward(p *nn.Pass, states compute.Tensor) compute.Tensor
	// Head returns the norm of what Forward returned in a step with that Step.Depth, or none, and the head after it.
	// [n_draft, width]
	Head(depth int) (nn.Norm, *nn.Linear)
}

// DraftShape says what a draft program reads of a model, and how it drafts.
type DraftShape struct {
	// What it reads of the model:
	Layers []int // layers with inputs that are Followed.Features; the number of the model's layers stands for the last one's output
	State  int   // width of a row's state, which the row of the next position reads by Precede; 0: there are none
	Hidden bool  // states are the model's hidden states after the last norm: Follow need not write them
	Last   bool  // Follow does nothing, and drafts read only hidden states of rows with logits

	// For a step that drafts:
	Block  int     // rows for one text: its last token and Block-1 times Mask. This one step drafts all tokens; 0: each step drafts one
	Causal bool    // with Block: rows see no later rows of the block; otherwise all see the whole block
	Mask   int32   // with Block: the placeholder of drafted tokens
	First  int     // the first position that rows see: those before have no keys and values
	Still  bool    // all drafted tokens of a text have the position of its last token, and see only the positions before it
	Most   int     // most tokens of a draft, each with its own Step.Depth; 0: any number, with depth 0
	Tokens []int32 // the token that each row of Head stands for; nil: its own number. [n_draft]
}

// Token returns the token that number i of a draft's logits stands for.
func (s *DraftShape) Token(i int32) int32 {
	if s.Tokens == nil {
		return i
	}
	return s.Tokens[i]
}

// Bounded reports whether rows of a step that drafts see others than all positions up to their own.
func (s *DraftShape) Bounded() bool { return s.Block > 0 || s.First > 0 || s.Still }

// Sees returns the positions that a row at pos sees; last is the last position of its text in the step.
func (s *DraftShape) Sees(pos, last int32) compute.Bounds {
	to := pos + 1
	switch {
	case s.Block > 0 && !s.Causal:
		to = last + 1
	case s.Still:
		to = pos
	}
	to = max(to, 1) // rehearsals have no texts
	return compute.Bounds{From: min(int32(s.First), to-1), To: to}
}

// Followed is what a step of a model gives to a draft program.
type Followed struct {
	X        compute.Tensor // [n, n_embd] what the last layer gives
	Hidden   compute.Tensor // [n, n_embd] that after the last norm
	Features compute.Tensor // [n, len(Layers)·n_embd] see DraftShape.Layers
}

// Target is the model that a head drafts for.
type Target struct {
	Embd, Layers, Vocab int
	Embedding           *nn.Embedding // nil where only shapes are wanted: see nn.NewLister
	Output              *nn.Output    // likewise
	Parts               []nn.Parts    // the model's layers; a head may attend to their keys and values
}

// drafts are the programs of heads by general.architecture.
var drafts = map[string]func(*nn.Keys, *nn.Binder, *Target) Draft{
	"eagle3":           newEagle3,
	"gemma4-assistant": newGemma4Assistant,
	"dflash":           newDFlash,
}

// IsDraft reports whether an architecture is a head that drafts for a model of another architecture.
func IsDraft(arch string) bool { return drafts[arch] != nil }

// OpenDraft returns the program of the head that keys describe, with its tensors bound by b. The binder's plan has the
// parts of the model's cache. A head that does not fit the model is an error in the binder or the keys.
func OpenDraft(k *nn.Keys, b *nn.Binder, of *Target) Draft {
	d := drafts[k.Arch](k, b, of)
	if k.Err == nil {
		k.Err = b.Err
	}
	return d
}

// draftEnds are the table of tokens and the head of a draft program: its own, or the model's where its file has none.
type draftEnds struct {
	embed  *compute.Matrix // [n_vocab, n_embd]
	norm   nn.Norm
	head   nn.Linear // [n_draft, n_embd]
	tokens []int32   // see DraftShape.Tokens
}

// bindDraftEnds binds them, of so wide a program.
func bindDraftEnds(b *nn.Binder, of *Target, width int, norm nn.Norm) draftEnds {
	e := draftEnds{norm: norm, tokens: b.TokenMap("d2t", of.Vocab)}
	own := b.Has("token_embd.weight")
	if own {
		if n := b.Rows("token_embd.weight"); n != of.Vocab && n > 1 {
			b.Fail("the head has embeddings of %d tokens, and the model has %d: take the head that was made for the model", n, of.Vocab)
		}
		e.embed = b.Lookup("token_embd", of.Vocab, width)
	}
	rows := of.Vocab
	if e.tokens != nil {
		rows = len(e.tokens)
	}
	switch {
	case b.Has("output.weight"):
		e.head = b.Adapted(b.Matrix("output.weight", rows, width, compute.Head))
	case e.tokens != nil:
		b.Fail("the head names %d tokens that it drafts, and has no matrix of logits for them: the file is damaged; convert it again", rows)
	case of.Output != nil:
		e.head = nn.Linear{W: of.Output.Head.W}
	}
	if of.Embedding != nil && (e.embed == nil || e.head.W != nil && e.head.W == of.Output.Head.W) && of.Embd != width {
		b.Fail("the head is %d wide and reads the model's table of tokens or its logits' matrix, which are %d wide: take the head that was made for the model", width, of.Embd)
	}
	if e.embed == nil && of.Embedding != nil {
		e.embed = of.Embedding.Table
	}
	return e
}

// Head implements Draft.
func (e *draftEnds) Head(int) (nn.Norm, *nn.Linear) { return e.norm, &e.head }

// readFeatures reads which of the model's layers a head reads, and checks that the model has them.
func readFeatures(k *nn.Keys, of *Target) []int {
	const key = ".target_layers"
	list, _, err := k.File.Int32s(k.Arch + key)
	if err != nil || len(list) == 0 {
		k.Fail("key %q: it is not a list of the model's layers that the head reads", k.Arch+key)
		return nil
	}
	var layers []int
	for _, l := range list {
		if l < 0 || int(l) > of.Layers || slices.Contains(layers, int(l)) {
			k.Fail("key %q: the head reads layers %v, and the model has %d: take the head that was made for the model", k.Arch+key, list, of.Layers)
			return nil
		}
		layers = append(layers, int(l))
	}
	return layers
}
