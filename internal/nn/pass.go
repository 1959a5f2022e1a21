// Package nn has the layers that models are written with: weights that are bound from a file, and functions that
// compute activations from activations. It knows no model.
package nn

import (
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Step says what a pass computes. Steps that differ in it are different segments of a device.
type Step struct {
	Kind     Kind
	Whole    bool   // every neuron is computed although there are predictors
	Draft    bool   // tokens are guessed: in divided layers only the neurons on GPUs are computed, and nothing is counted in bins
	Expanded bool   // latent attention makes keys and values of the latent vectors, where a layer can
	Scales   string // of the adapters; see Scales
}

// Kind says which results of a step are wanted.
type Kind int

// The kinds of steps.
const (
	Logits     Kind = iota // logits alone: the last layer may go on with their rows only, see Pass.Wanted
	States                 // the hidden states of all rows, and logits
	WithMTP                // as States, and the MTP layer's keys and values
	OnlyMTP                // the MTP layer's logits and outputs
	RotateKeys             // keys in the cache, rotated to other positions
)

func (s Step) String() string {
	name := [...]string{"logits", "states", "logits and MTP", "MTP", "rotate keys"}[s.Kind]
	for _, part := range []struct {
		is   bool
		name string
	}{{s.Whole, " whole"}, {s.Draft, " draft"}, {s.Expanded, " expanded"}} {
		if part.is {
			name += part.name
		}
	}
	return name + s.Scales
}

// ScalesKey returns adapters' scales as Step.Scales has them.
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

// Pass computes one step. Its functions return activations from a pool, which are valid until the scope ends in which
// they were taken. Functions on activations of no rows do nothing.
type Pass struct {
	Step
	Params    *compute.Params // of the step that runs
	Cache     *compute.Cache
	Scales    []float32 // of the adapters
	Recall    bool      // layers with predictors compute every neuron too: FFN.Found counts what predictors found
	LastLayer int       // the layer after which only rows whose logits are wanted go on, in steps of kind Logits; -1: none

	verbs compute.Verbs
	pool  *Pool
	rows  int // tokens
	outs  int // rows of logits
	outer int // the scope that layers are in
}

// Begin makes p a pass over a segment's rows. All activations of the pass before are given back.
func (p *Pass) Begin(v compute.Verbs, pool *Pool, rows, outputs int) {
	p.verbs, p.pool, p.rows, p.outs = v, pool, rows, outputs
	pool.release(0)
}

// Verbs returns the device's operations, for what no function of Pass does.
func (p *Pass) Verbs() compute.Verbs { return p.verbs }

// Rows returns the numbers of tokens and of rows of logits.
func (p *Pass) Rows() (tokens, outputs int) { return p.rows, p.outs }

// Scope returns what Leave takes to end the scope that begins here.
func (p *Pass) Scope() int { return len(p.pool.taken) }

// Leave gives back the activations that were taken since Scope returned scope.
func (p *Pass) Leave(scope int) { p.pool.release(scope) }

// Layer begins layer i. All activations are given back that the layer before took.
func (p *Pass) Layer(i int) {
	if i == 0 {
		p.outer = p.Scope()
	}
	p.Leave(p.outer)
}

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

// Add does x += y.
func (p *Pass) Add(x, y compute.Tensor) {
	if x.Rows > 0 {
		p.verbs.Add(x, y)
	}
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

// Slice returns cols columns of x, from the given one.
func (p *Pass) Slice(x compute.Tensor, from, cols int) compute.Tensor {
	y := p.New(x, cols)
	if x.Rows > 0 {
		p.verbs.Slice(y, x, from)
	}
	return y
}

// Outputs returns the rows of x whose logits are wanted.
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

// narrows reports whether after the attention of a layer only the rows whose logits are wanted go on.
func (p *Pass) narrows(layer int) bool {
	return p.Kind == Logits && layer == p.LastLayer && p.outs < p.rows
}

// Wanted returns the rows of x that a layer goes on with after it has stored keys, values and states: in the last layer
// those whose logits are wanted, else all.
func (p *Pass) Wanted(layer int, x compute.Tensor) compute.Tensor {
	if !p.narrows(layer) {
		return x
	}
	return p.Outputs(x)
}
