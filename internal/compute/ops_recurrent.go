package compute

import (
	"fmt"
	"slices"
)

// Recurrent layers keep a state of fixed size for each sequence instead of keys and values of all its positions. The
// state is stored in a slot of the layer's part of the cache, which Params.States names, and these operations read and
// write it. A sequence with its first row of the step at position 0 begins with a state of zeros, whatever its slot
// holds.

// Run is the rows [From, To) of a step that belong to one sequence, at consecutive positions.
type Run struct {
	From, To int
	Slot     int32
	Fresh    bool // it begins at position 0
}

// slot returns the slot of a sequence's state.
func (p *Params) slot(seq int32) int32 {
	if p.States == nil {
		return seq
	}
	return p.States[seq]
}

// AppendRuns appends the step's runs to list, which makes no garbage where list has room.
func (p *Params) AppendRuns(list []Run) []Run {
	for i := 0; i < len(p.Seq); {
		r := Run{From: i, To: i + 1, Slot: p.slot(p.Seq[i]), Fresh: p.Pos[i] == 0}
		for r.To < len(p.Seq) && p.Seq[r.To] == p.Seq[i] {
			r.To++
		}
		list = append(list, r)
		i = r.To
	}
	return list
}

// CheckRuns reports a step that a device must not run: its slot is not in the cache, two sequences share a slot, or the
// rows of a sequence are not in order.
func (p *Params) CheckRuns(slots int) error {
	if len(p.Seq) != len(p.Pos) {
		return fmt.Errorf("%d positions of %d rows", len(p.Pos), len(p.Seq))
	}
	var taken []int32 // by runs before
	for i, seq := range p.Seq {
		switch {
		case seq < 0 || p.States != nil && int(seq) >= len(p.States) || p.slot(seq) < 0 || int(p.slot(seq)) >= slots:
			return fmt.Errorf("row %d of sequence %d has none of the %d slots for states", i, seq, slots)
		case i > 0 && p.Seq[i-1] == seq && p.Pos[i] != p.Pos[i-1]+1:
			return fmt.Errorf("rows of sequence %d are not in order: position %d follows %d", seq, p.Pos[i], p.Pos[i-1])
		case i > 0 && p.Seq[i-1] == seq:
		case slices.Contains(taken, p.slot(seq)):
			return fmt.Errorf("row %d of sequence %d begins a second run in slot %d", i, seq, p.slot(seq))
		default:
			taken = append(taken, p.slot(seq))
		}
	}
	return nil
}

// Convolve computes a causal convolution of each channel over the positions of a sequence, and its SiLU: Out[t, c] =
// silu(Bias[c] + Σ_k W[k·channels + c]·x[t − (width−1) + k, c]). The state holds the positions before the step:
// (width−1)·channels numbers from At on, the oldest position first.
//
// A Plain convolution has no SiLU. One that Peeks leaves the state unchanged for another convolution of the same rows.
//
// If it is Gated, a row of X holds input gates, output gates and x, each [channels], in this order. x·gate is
// convolved, and the result is multiplied by its output gate instead of going through SiLU.
type Convolve struct {
	Out   Tensor  // [n, channels]
	X     Tensor  // [n, channels], or [n, 3·channels] if it is gated
	W     *Vector // [width·channels], at least 2 wide
	Bias  *Vector // [channels] or nil
	Cache *Cache
	Layer int
	At    int // the number of the state that the positions before the step begin at
	Gated bool
	Plain bool
	Peek  bool
}

// Width returns how many positions an output depends on.
func (o *Convolve) Width() int { return o.W.Len / max(1, o.Out.Cols) }

// Fits reports whether the operands' shapes belong together.
func (o *Convolve) Fits() bool {
	w, c, columns := o.Width(), o.Out.Cols, o.Out.Cols
	if o.Gated {
		columns *= 3
	}
	return columns == o.X.Cols && o.Out.Rows == o.X.Rows && w >= 2 && o.W.Len == w*c && (o.Bias == nil || o.Bias.Len == c) && o.At >= 0 && o.At+(w-1)*c <= o.Cache.Layers[o.Layer].State
}

// Visit implements Op.
func (o *Convolve) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.X, Read)
	v.Vector(&o.W)
	v.Vector(&o.Bias)
	v.Cache(&o.Cache, &o.Layer)
}

// Convolve does a Convolve. Out is not X.
func (v Verbs) Convolve(o Convolve) {
	v.calls.convolve = o
	v.Do(&v.calls.convolve)
}

// StateSpace is the shape of a selective state space: for each head a matrix [Dim, State]. Groups of heads share what
// writes to the state and reads it.
type StateSpace struct{ Heads, Dim, State, Groups int }

// Size returns the numbers of a sequence's state.
func (s StateSpace) Size() int { return s.Heads * s.Dim * s.State }

// Channels returns the columns of Scan.X.
func (s StateSpace) Channels() int { return s.Heads*s.Dim + 2*s.Groups*s.State }

// Scan computes a selective state space over the positions of a sequence. X's row holds the heads' x [heads·dim] and
// the groups' B and C [groups·state] each, in this order. With x of a head, B and C of its group, and Δ =
// softplus(Step[h] + Bias[h]):
//
//	S = exp(Δ·A[h])·S + Δ·x·Bᵀ
//	Out = S·C + D[h]·x
//
// The state holds the heads' S, each [dim, state], from number At on. If the scan is Fine, each row of S has its own Δ
// and D, and each element its own A.
//
// Without a step Δ is 1, and S is the sum of linear attention with the decays exp(A[h]): x are values, B keys and C
// queries.
//
// Sources: Dao and Gu 2024, Transformers are SSMs (Mamba-2); Gu and Dao 2023, Mamba (the fine scan); Qin et al. 2024,
// Lightning Attention-2.
type Scan struct {
	Out   Tensor  // [n, heads·dim]
	X     Tensor  // [n, Shape.Channels()], or [n, heads·dim] where BC has the rest
	BC    Tensor  // [n, 2·groups·state]; without Mem: X has B and C
	Step  Tensor  // [n, heads], fine: [n, heads·dim], or without Mem
	A     *Vector // [heads]; fine: [heads·dim·state]
	D     *Vector // [heads], fine: [heads·dim], or nil: 0
	Bias  *Vector // as Step, or nil without a step
	Shape StateSpace
	At    int
	Cache *Cache
	Layer int
	Fine  bool
}

// Stepped reports whether there is a step.
func (o *Scan) Stepped() bool { return o.Step.Mem != nil }

// Apart reports whether B and C are in a tensor of their own.
func (o *Scan) Apart() bool { return o.BC.Mem != nil }

// Fits reports whether the operands' shapes belong together.
func (o *Scan) Fits() bool {
	s := o.Shape
	inner, written := s.Heads*s.Dim, 2*s.Groups*s.State
	steps, decays, columns := s.Heads, s.Heads, inner+written
	if o.Fine {
		steps, decays = inner, inner*s.State
		if !o.Stepped() || o.D == nil {
			return false
		}
	}
	if o.Apart() {
		columns = inner
		if o.BC.Cols != written || o.BC.Rows != o.Out.Rows {
			return false
		}
	}
	return s.Groups > 0 && s.Heads%s.Groups == 0 && o.Out.Cols == inner && o.X.Cols == columns && o.X.Rows == o.Out.Rows &&
		(!o.Stepped() && o.Bias == nil || o.Stepped() && o.Step.Cols == steps && o.Step.Rows == o.Out.Rows && o.Bias != nil && o.Bias.Len == steps) &&
		o.A.Len == decays && (o.D == nil || o.D.Len == steps) &&
		o.At >= 0 && o.At+s.Size() <= o.Cache.Layers[o.Layer].State
}

// Visit implements Op.
func (o *Scan) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.X, Read)
	v.Tensor(&o.BC, Read)
	v.Tensor(&o.Step, Read)
	v.Vector(&o.A)
	v.Vector(&o.D)
	v.Vector(&o.Bias)
	v.Cache(&o.Cache, &o.Layer)
}

// Scan does a Scan.
func (v Verbs) Scan(o Scan) {
	v.calls.scan = o
	v.Do(&v.calls.scan)
}

// Delta computes a gated delta rule over the positions of a sequence. X's row holds the queries of all groups
// [groups·state], their keys [groups·state] and the heads' values [heads·dim], in this order. q and k of a head's group
// are each divided by √(Σx²+Epsilon), and q also by √state. With v of the head, β = sigmoid(Write[h]) and the head's
// decay g:
//
//	S = g·S
//	S = S + β·(v − S·k)·kᵀ
//	Out = S·q
//
// g is exp(A[h]·softplus(Step[h] + Bias[h])), or with a Bound exp(Bound·sigmoid(A[h]·(Step[h] + Bias[h]))). If Step has
// a column for each column of a head's S, so has g, and it multiplies S column by column.
//
// The state holds the heads' S, each [dim, state], from number At on.
//
// Sources: Yang, Kautz and Hatamizadeh 2024, Gated Delta Networks; Kimi Team 2025, Kimi Linear (a decay per column).
type Delta struct {
	Out   Tensor  // [n, heads·dim]
	X     Tensor  // [n, Shape.Channels()]
	Write Tensor  // [n, heads]
	Step  Tensor  // [n, heads], or [n, heads·state]; may be Write, with 2·heads columns: for each group its heads' Write, then their Step
	A     *Vector // [heads]
	Bias  *Vector // [heads], or [heads·state] with as many columns of Step
	Bound float32 // the least logarithm of a decay; 0: none
	Shape StateSpace
	// Tiled says that head h is of group h mod groups; else neighbouring heads are of one group.
	Tiled   bool
	Epsilon float32
	At      int
	Cache   *Cache
	Layer   int
}

// Joined reports whether Write and Step are one tensor.
func (o *Delta) Joined() bool { return o.Write == o.Step }

// ByColumn reports whether the columns of a head's S have separate decays.
func (o *Delta) ByColumn() bool { return o.Bias.Len > o.Shape.Heads }

// Group returns the group of head h.
func (o *Delta) Group(h int) int {
	if o.Tiled {
		return h % o.Shape.Groups
	}
	return h * o.Shape.Groups / o.Shape.Heads
}

// Columns returns where Write and Step have head h.
func (o *Delta) Columns(h int) (write, step int) {
	if !o.Joined() {
		return h, h
	}
	each := o.Shape.Heads / o.Shape.Groups
	write = h/each*2*each + h%each
	return write, write + each
}

// Fits reports whether the operands' shapes belong together.
func (o *Delta) Fits() bool {
	s := o.Shape
	writes, steps, decays := s.Heads, s.Heads, s.Heads
	switch {
	case o.ByColumn():
		steps, decays = s.Heads*s.State, s.Heads*s.State
	case o.Joined():
		writes, steps = 2*writes, 2*steps
	}
	return s.Groups > 0 && s.Heads%s.Groups == 0 && o.Out.Cols == s.Heads*s.Dim && o.X.Cols == s.Channels() &&
		o.Write.Cols == writes && o.Step.Cols == steps && o.Bound <= 0 &&
		o.X.Rows == o.Out.Rows && o.Write.Rows == o.Out.Rows && o.Step.Rows == o.Out.Rows && o.A.Len == s.Heads && o.Bias.Len == decays &&
		o.At >= 0 && o.At+s.Size() <= o.Cache.Layers[o.Layer].State
}

// Visit implements Op.
func (o *Delta) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.X, Read)
	v.Tensor(&o.Write, Read)
	v.Tensor(&o.Step, Read)
	v.Vector(&o.A)
	v.Vector(&o.Bias)
	v.Cache(&o.Cache, &o.Layer)
}

// Delta does a Delta.
func (v Verbs) Delta(o Delta) {
	v.calls.delta = o
	v.Do(&v.calls.delta)
}
