package compute

import "slices"

// Params holds the inputs that change from step to step. A forward pass branches on nothing else.
//
// A row's arithmetic may depend on whether it is one of the first Decode rows, and on its own numbers, but not on how
// many rows share the step. So a sequence gets the same bytes alone and among others, and a prompt gets them however it
// is cut. Devices that cannot guarantee this say so in their documentation.
type Params struct {
	Decode    int       // the first Decode rows are single tokens of running sequences or parts of short prompts, the others are parts of longer prompts
	Tokens    []int32   // [n] token ids
	Pos       []int32   // [n] position within the sequence
	Turns     []int32   // [n] the positions that RoPE rotates rows to, if they differ from Pos; may be negative; nil: Pos
	Axes      [][]int32 // [axis][n] the positions of rows along several axes, for rotations that tell axes apart (M-RoPE); nil: each axis has Turn's
	Behind    [][]int32 // [axis][sequence·k] with Axes, the positions along the axes of the k positions before the sequence's first row, for rotations that go Back by k or less; negative before the text's start
	Types     []int32   // [n] which of BERT's types a token has; nil: all have the first
	Seq       []int32   // [n] index into Pages
	Pages     [][]int32 // [sequence][page] page ids of a sequence's KV; token i attends to positions 0…Pos[i]
	Near      [][]int32 // the same for a cache's Windowed layers; pages that no window reaches are 0. May be nil where there are none
	States    []int32   // [sequence] slot of its recurrent state; the rows of such a sequence follow one another in the step and in position. nil: sequence i has slot i
	Out       []int32   // [n_out] rows to compute logits for, in ascending order; the first DecodeOut are below Decode
	Threshold float32   // a neuron is predicted active iff its logit >= Threshold

	Scales []float32 // scales of the model's adapters, for all rows of the step; nil: the model's own scales

	Before [][]float32 // [sequence][family.DraftShape.State] states of the position before the sequence's first row, where a model predicts further tokens; nil: they are not known

	Uses []ExpertUse // [sequence] devices add each sequence's uses of experts in layers with slots; empty: not counted

	Given  [][]float32 // [n] numbers from outside for rows that are no tokens but parts of pictures, see Insert; nil: for the other rows, or for none
	Bounds []Bounds    // [n] the positions that rows see in layers with Bounded attention; nil: no layer has it

	Draft bool // the step drafts tokens: a model loaded for this computes fewer neurons than in other steps
	Depth int  // with Draft: the number of tokens that the draft has so far

	Everything bool // whoever sets Threshold has every neuron predicted active, as in a dense model
}

// Segment returns the segment of p's rows, without padding.
func (p *Params) Segment(name string) Segment {
	return Segment{Name: name, Rows: len(p.Tokens), Decode: p.Decode, Out: len(p.Out), DecodeOut: p.DecodeOut()}
}

// DecodeOut returns how many rows of Out are among the first Decode rows.
func (p *Params) DecodeOut() int {
	n, _ := slices.BinarySearch(p.Out, int32(p.Decode))
	return n
}

// Row returns the step's row that row i of a tensor is.
func (p *Params) Row(i int, outputs bool) int {
	if outputs {
		return int(p.Out[i])
	}
	return i
}

// Turn returns the positions that RoPE turns rows to. [n]
func (p *Params) Turn() []int32 {
	if p.Turns != nil {
		return p.Turns
	}
	return p.Pos
}

// Type returns the type of row i's token.
func (p *Params) Type(i int) int32 {
	if p.Types == nil {
		return 0
	}
	return p.Types[i]
}

// Insert does an Insert to rows of a step, which x returns. [cols]
func (p *Params) Insert(x func(row int) []float32, first int, add bool) {
	for i, given := range p.Given {
		if given == nil {
			continue
		}
		to := x(i)
		given = given[first:][:len(to)]
		if !add {
			copy(to, given)
			continue
		}
		for j, v := range given {
			to[j] += v
		}
	}
}

// Precede computes the operation Precede. dst and x return a row of the step. [cols]
func (p *Params) Precede(dst, x func(row int) []float32) {
	for i, q := range p.Seq {
		var from []float32
		if i > 0 && p.Seq[i-1] == q && p.Pos[i-1] == p.Pos[i]-1 {
			from = x(i - 1)
		} else if int(q) < len(p.Before) {
			from = p.Before[q]
		}
		to := dst(i)
		clear(to[copy(to, from):])
	}
}

// ShortPrompt is the number of tokens from which on a prompt's rows may use arithmetic that pays only for many rows. It
// compares the whole prompt, not its part in a step, so results do not depend on how a prompt is cut.
const ShortPrompt = 64

// FewTokens is the largest number of tokens in a step that every device computes as it computes single tokens: weights
// by matrix-vector products, neurons by lists for each token, attention over a sequence in parallel splits. More tokens
// go through matrix-matrix products on the processor; GPUs have a larger bound for single tokens of running sequences.
// Both ways give the same bytes.
const FewTokens = 8

// Segment names a stretch of a forward pass with the same operations in every step of the same shape.
//
// A step may have fewer rows of each kind than the segment that it runs as; see Device.Shape. The rows before Lead, and
// those after the step's last, are then padding: nothing reads them, no cache stores anything for them, and their
// neurons are neither computed nor counted. The same holds for rows of logits and LeadOut.
type Segment struct {
	Name      string
	Rows      int // tokens in the step: the shape
	Decode    int // of Rows, as Params.Decode
	Out       int // rows of logits in the step
	DecodeOut int // of Out, as Params.DecodeOut
}

// Lead returns the row of the segment that holds a step's first row. The padding of single tokens comes before it, so
// that the step's rows are contiguous.
func (s Segment) Lead(p *Params) int { return s.Decode - p.Decode }

// LeadOut returns the row of the segment's logits that holds the step's first.
func (s Segment) LeadOut(p *Params) int { return s.DecodeOut - p.DecodeOut() }
