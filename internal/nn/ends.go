package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Embedding turns a step's tokens into the residual.
type Embedding struct {
	Table     *compute.Matrix // [n_vocab, n_embd]
	Scale     float32         // factor of the table's rows; 0: 1
	Positions *compute.Matrix // [n_ctx+Before, n_embd] learned positions that are added, or nil
	Before    int             // rows of Positions before position 0
	Types     *compute.Matrix // [types, n_embd] added by the type of a token, or nil
	Norm      Norm            // norm of the sum, or none
	Picture   int32           // the token that rows of pictures are for layers that look tokens up
	Deep      int             // the first Deep layers have features of pictures added to their outputs, see Pass.InsertDeep
}

// Given returns how many numbers are given for a row of a picture: its embedding, and what layers add.
func (e *Embedding) Given() int { return (1 + e.Deep) * e.Table.Cols }

// Deep reads how many of the first layers, out of layers, have features of pictures added.
func (k *Keys) Deep(layers int) int {
	if layers < 2 {
		return 0
	}
	return k.Optional(".n_deepstack_layers", layers-1)
}

// Forward returns the embeddings of the step's tokens, with pictures' embeddings in place of theirs. [n, n_embd]
func (e *Embedding) Forward(p *Pass) compute.Tensor {
	x := p.Lookup(e.Table)
	if e.Scale != 0 {
		p.Scale(x, e.Scale)
	}
	p.Insert(x, 0)
	if e.Positions != nil {
		p.verbs.AddPosition(x, e.Positions, e.Before)
	}
	if e.Types != nil {
		p.verbs.AddType(x, e.Types)
	}
	p.Normalize(x, e.Norm)
	return x
}

// Embedding binds the table of tokens, token_embd. A table that is the head, too, goes where the head goes, others stay
// in RAM.
func (b *Binder) Embedding(width int) Embedding {
	b.Place(b.model.Head)
	return Embedding{Table: b.lookup("token_embd.weight", b.Rows("token_embd.weight"), width, b.tied())}
}

// tied reports whether the head is the table of tokens.
func (b *Binder) tied() bool { return !b.Has("output.weight") }

// Lookups binds another table with rows that are added to embeddings. It goes where the head goes if the head is the
// token table and was bound before.
func (b *Binder) Lookups(name string, width int) *compute.Matrix {
	b.Place(b.model.Head)
	return b.lookup(name+".weight", b.Rows(name+".weight"), width, b.tiedHead)
}

// Lookup binds a table of rows that stays in RAM.
func (b *Binder) Lookup(name string, rows, cols int) *compute.Matrix {
	return b.lookup(name+".weight", rows, cols, false)
}

// lookup binds a table of rows. It goes where the head goes, or stays in RAM.
func (b *Binder) lookup(name string, rows, cols int, withHead bool) *compute.Matrix {
	t := b.as(InTable)
	if withHead {
		t.role = InHead
	}
	t.GPU = t.GPU && withHead
	return t.Matrix(name, rows, cols, compute.Lookup)
}

// Output turns the residual into logits:
//
//	softcap(Scale·(Head·norm(x)))
type Output struct {
	Norm    Norm
	Head    Linear  // [n_vocab, n_embd]; not bound if there are no logits
	Scale   float32 // 0: 1
	SoftCap float32 // 0: none
	Ranking Ranking
}

// Output binds the head: output, or the table of tokens where the file has none. limit is SoftCap.
func (b *Binder) Output(e *Embedding, norm Norm, limit float32) Output {
	o := Output{Norm: norm, SoftCap: limit}
	if b.tiedHead = b.tied(); b.tiedHead {
		o.Head = Linear{W: e.Table}
	} else if e.Table != nil {
		o.Head = b.Adapted(b.Matrix("output.weight", e.Table.Rows, e.Table.Cols, compute.Head))
	}
	return o
}

// Logits computes the logits of x's rows.
func (o *Output) Logits(p *Pass, logits, x compute.Tensor) {
	p.Normalize(x, o.Norm)
	p.LinearTo(logits, x, &o.Head)
	if o.Scale != 0 {
		p.Scale(logits, o.Scale)
	}
	p.SoftCap(logits, o.SoftCap)
}
