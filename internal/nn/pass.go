// Package nn has the layers that models are written with: weights that are bound from a file, and functions that
// compute activations from activations. It knows no model.
package nn

import (
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Step says what a pass computes. A device may record a pass and replay the recording for equal Steps only.
type Step struct {
	Kind     Kind
	Whole    bool   // every neuron is computed although there are predictors
	Depth    int    // of kind OnlyMTP: the number of the drafted token, see family.DraftShape.Most
	Draft    bool   // a draft of tokens: divided layers compute only their neurons on GPUs, and nothing is counted in Bins
	Pictures bool   // Params.Given has rows of pictures
	Bounded  bool   // layers see the positions of Params.Bounds
	Expanded bool   // latent attention computes keys and values from the latent vectors, in layers that can
	Scales   string // the adapters' scales, see ScalesKey
}

// Kind says which results of a step are wanted.
type Kind int

// The kinds of steps.
const (
	Logits     Kind = iota // only logits: the last layer may continue with their rows only, see Pass.Wanted
	States                 // the hidden states of all rows, and logits
	WithMTP                // as States, and keys and values of the MTP layers
	OnlyMTP                // logits and outputs of an MTP layer
	RotateKeys             // keys in the cache, rotated to other positions
	LastStates             // as Logits, and the hidden states of the rows of logits
)

func (s Step) String() string {
	name := [...]string{"logits", "states", "logits and MTP", "MTP", "rotate keys", "logits and their states"}[s.Kind]
	for _, part := range []struct {
		is   bool
		name string
	}{{s.Whole, " whole"}, {s.Draft, " draft"}, {s.Pictures, " pictures"}, {s.Bounded, " bounded"}, {s.Expanded, " expanded"}} {
		if part.is {
			name += part.name
		}
	}
	if s.Depth > 0 {
		name += " " + strconv.Itoa(s.Depth)
	}
	return name + s.Scales
}

// ScalesKey returns the text of adapters' scales that Step.Scales holds.
func ScalesKey(scales []float32) string {
	if len(scales) == 0 {
		return ""
	}
	var b strings.Builder
	for _, s := range scales {
		b.WriteByte(' ')
		b.WriteString(strconv.FormatFloat(float64(s), 'g', -1, 32))
	}
	return b.String()
}

// Pass computes one step. Its methods return activations from a pool; an activation is valid until the scope ends in
// which it was taken. Methods do nothing for activations without rows.
type Pass struct {
	Step
	Params    *compute.Params // of the current step
	Cache     *compute.Cache
	Scales    []float32       // [adapters]
	Recall    bool            // layers with predictors also compute every neuron, and FFN.Found counts what predictors found
	Begins    func(layer int) // called for each layer before its operations; may be nil
	LastLayer int             // steps of kinds Logits and LastStates drop all rows without wanted logits in this layer; -1: in none
	Features  Features        // what a draft head reads of the model's layers

	verbs compute.Verbs
	pool  *Pool
	rows  int          // tokens
	outs  int          // rows of logits
	outer int          // the scope that layers are in
	seen  compute.Seen // the indexers' choice, if layers share it: see KeepSeen
}

// Begin begins a pass over that many tokens (rows) and rows of logits (outputs). It gives back all activations of the
// last pass.
func (p *Pass) Begin(v compute.Verbs, pool *Pool, rows, outputs int) {
	p.verbs, p.pool, p.rows, p.outs, p.seen = v, pool, rows, outputs, compute.Seen{}
	pool.release(0)
}

// Verbs returns the device's operations, for what no function of Pass does.
func (p *Pass) Verbs() compute.Verbs { return p.verbs }

// Rows returns the numbers of tokens and of rows of logits.
func (p *Pass) Rows() (tokens, outputs int) { return p.rows, p.outs }

// Scope begins a scope. Leave, called with its result, ends it.
func (p *Pass) Scope() int { return len(p.pool.taken) }

// Leave gives back the activations that were taken since Scope returned scope.
func (p *Pass) Leave(scope int) { p.pool.release(scope) }

// Layer begins layer i with input x. It stores x if a draft head reads it, and gives back all activations that the
// previous layer took.
func (p *Pass) Layer(i int, x compute.Tensor) {
	p.Features.keep(p, i, x)
	if i == 0 {
		p.outer = p.Scope()
	}
	p.Leave(p.outer)
	if p.Begins != nil {
		p.Begins(i)
	}
}

// Stop drops the pass's further operations; its results are then undefined. It is for devices that compute operations
// at once: a recording would lack them.
func (p *Pass) Stop() { p.verbs = compute.NewVerbs(Nothing{}) }

// Nothing does no operation. A pass over it shows which activations the pass needs.
type Nothing struct{ compute.Unforeseeing }

// Do implements compute.Executor.
func (Nothing) Do(compute.Op) {}

// Host implements compute.Executor.
func (Nothing) Host(func() error) {}

// New returns an activation of cols columns for the rows of like. Its content is undefined.
func (p *Pass) New(like compute.Tensor, cols int) compute.Tensor { return p.pool.take(like, cols) }

// Tokens returns an activation of cols columns for the step's tokens. Its content is undefined.
func (p *Pass) Tokens(cols int) compute.Tensor { return p.New(compute.Tensor{Rows: p.rows}, cols) }

// Lookup returns the table's rows for the step's tokens. [n, n_embd]
func (p *Pass) Lookup(table *compute.Matrix) compute.Tensor {
	x := p.Tokens(table.Cols)
	p.verbs.Embed(x, table)
	return x
}

// Insert makes rows of pictures in x what Params.Given has for them, from its column first on.
func (p *Pass) Insert(x compute.Tensor, first int) {
	if p.Pictures && x.Rows > 0 {
		p.verbs.Insert(x, first, false)
	}
}

// InsertMore adds to x what Params.Given has for rows of pictures, from its column first on.
func (p *Pass) InsertMore(x compute.Tensor, first int) {
	if p.Pictures && x.Rows > 0 {
		p.verbs.Insert(x, first, true)
	}
}

// InsertDeep adds, for rows of pictures, the features for layer i to x, the residual after that layer. The first deep
// layers have features: Params.Given has them after the rows' embeddings.
//
// Source: Meng et al. 2024, DeepStack: Deeply Stacking Visual Tokens is Surprisingly Simple and Effective for LMMs.
func (p *Pass) InsertDeep(x compute.Tensor, i, deep int) {
	if i < deep {
		p.InsertMore(x, (i+1)*x.Cols)
	}
}

// Add does x += y. It gives y back: y is not valid afterwards.
func (p *Pass) Add(x, y compute.Tensor) {
	p.AddKeeping(x, y)
	p.pool.giveBack(y)
}

// AddKeeping is Add that keeps y.
func (p *Pass) AddKeeping(x, y compute.Tensor) {
	if x.Rows > 0 {
		p.verbs.Add(x, y)
	}
}

// reuse returns an activation of cols columns for the rows of like: in, if that has this shape and is not the residual,
// else a new one. Nobody reads in any more.
func (p *Pass) reuse(in, residual, like compute.Tensor, cols int) compute.Tensor {
	if in.Cols == cols && in.Outputs == like.Outputs && in.Mem != residual.Mem {
		return in
	}
	return p.New(like, cols)
}

// Scale multiplies x by factor.
func (p *Pass) Scale(x compute.Tensor, factor float32) {
	if x.Rows > 0 && factor != 1 {
		p.verbs.Scale(x, factor)
	}
}

// SoftCap brings x smoothly below limit in magnitude: limit·tanh(x/limit). A limit of 0 leaves x as it is.
func (p *Pass) SoftCap(x compute.Tensor, limit float32) {
	if x.Rows > 0 && limit > 0 {
		p.verbs.SoftCap(x, limit)
	}
}

// Activate replaces gate by act(gate)·up, or by act(gate) where up has no memory.
func (p *Pass) Activate(gate, up compute.Tensor, act compute.Activation) {
	if gate.Rows > 0 {
		p.verbs.Activate(gate, gate, up, act)
	}
}

// Multiply multiplies each row of x by w.
func (p *Pass) Multiply(x compute.Tensor, w *compute.Vector) {
	if x.Rows > 0 {
		p.verbs.Multiply(x, x, w)
	}
}

// MultiplyBy is Multiply, if there is a w.
func (p *Pass) MultiplyBy(x compute.Tensor, w *compute.Vector) {
	if w != nil {
		p.Multiply(x, w)
	}
}

// ShiftBy adds b, if there is one, to each row of x.
func (p *Pass) ShiftBy(x compute.Tensor, b *compute.Vector) {
	if b != nil && x.Rows > 0 {
		p.verbs.Shift(x, b)
	}
}

// Replace makes x what y is.
func (p *Pass) Replace(x, y compute.Tensor) {
	if x.Rows > 0 {
		p.verbs.CopyColumns(x, y, compute.Ranges{}, compute.Ranges{}, x.Cols, 1)
	}
}

// Slice returns cols columns of x, from the given one.
func (p *Pass) Slice(x compute.Tensor, from, cols int) compute.Tensor {
	y := p.New(x, cols)
	if x.Rows > 0 {
		p.verbs.Slice(y, x, from)
	}
	return y
}

// Beside returns the columns of several activations in one, one after the other.
func (p *Pass) Beside(parts ...compute.Tensor) compute.Tensor {
	cols, at := 0, 0
	for _, x := range parts {
		cols += x.Cols
	}
	y := p.New(parts[0], cols)
	for _, x := range parts {
		if x.Rows > 0 {
			p.verbs.CopyColumns(y, x, compute.Ranges{First: at}, compute.Ranges{}, x.Cols, 1)
		}
		at += x.Cols
	}
	return y
}

// Outputs returns the rows of x with wanted logits.
func (p *Pass) Outputs(x compute.Tensor) compute.Tensor {
	if x.Outputs {
		return x
	}
	y := p.New(compute.Tensor{Rows: p.outs, Outputs: true}, x.Cols)
	if p.outs > 0 {
		p.verbs.Gather(y, x)
	}
	return y
}

// narrows reports whether only the rows with wanted logits go on after the attention of a layer.
func (p *Pass) narrows(layer int) bool {
	return (p.Kind == Logits || p.Kind == LastStates) && layer == p.LastLayer && p.outs < p.rows
}

// Wanted returns the rows of x with which a layer continues after it has stored keys, values and states: in the last
// layer those with wanted logits, else all.
func (p *Pass) Wanted(layer int, x compute.Tensor) compute.Tensor {
	if !p.narrows(layer) {
		return x
	}
	return p.Outputs(x)
}
