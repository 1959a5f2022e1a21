package compute

import "fmt"

// Score names the function that makes an expert's score of its logit.
type Score int

// The scores.
const (
	Softmax       Score = iota // over all experts
	Sigmoid                    // sigmoid of each expert's logit
	SoftmaxChosen              // experts are ranked by their logits, and the softmax is over the chosen ones
	RootSoftplus               // √ln(1+e^logit)
)

// GatingFunctions returns what the values of a file's key expert_gating_func mean, from 1.
func GatingFunctions() []Score { return []Score{Softmax, Sigmoid, SoftmaxChosen, RootSoftplus} }

// Routing says how the experts of a token follow from its logits.
type Routing struct {
	Score Score
	// Experts form Groups groups of as many neighbours each, and only experts of GroupsUsed groups are chosen. These
	// are the groups with the largest sum of their two best experts, or with GroupsByBest the ones with the best
	// expert. 0: there are no groups.
	Groups, GroupsUsed int
	GroupsByBest       bool
	// Normalised divides the weights by their sum, or by MinSum where the sum is less.
	Normalised bool
	MinSum     float32
	Scale      float32 // factor of the weights
}

// Ranked reports whether experts are ranked by something else than their logits: biased says whether there is a bias.
func (r *Routing) Ranked(biased bool) bool {
	return (biased || r.Groups > 0) && r.Score != SoftmaxChosen
}

// GroupBest returns how many of a group's best experts are added up to rank it, where groups have size experts.
func (r *Routing) GroupBest(size int) int {
	if r.GroupsByBest {
		return 1
	}
	return min(2, size)
}

// Check reports whether used of n experts can be chosen so. The error is what follows the name of a file.
func (r *Routing) Check(used, n int) error {
	switch {
	case n < 1 || used < 1 || used > n:
		return fmt.Errorf("%d of %d experts cannot be chosen for a token", used, n)
	case r.Groups == 0 && r.GroupsUsed == 0:
	case r.Groups < 1 || n%r.Groups != 0:
		return fmt.Errorf("%d experts do not lie in %d groups of as many each", n, r.Groups)
	case r.GroupsUsed < 1 || r.GroupsUsed > r.Groups || r.GroupsUsed*(n/r.Groups) < used:
		return fmt.Errorf("%d experts cannot be chosen from %d of %d groups of %d", used, r.GroupsUsed, r.Groups, n/r.Groups)
	}
	return nil
}

// Route chooses each token's experts. How.Score turns an expert's logit into its score. Experts are ranked by their
// logits, but by score plus Bias if there is a bias or there are groups (by logit plus Bias with SoftmaxChosen). Among
// equals the expert with the lower number is ranked higher, and NaN is ranked as -∞. The Used highest are chosen. Their
// weights are their scores, without Bias, normalised and scaled as How says, times their Factors, if there are some.
//
// With Chosen, these experts are chosen instead, whatever their scores, and an expert may be chosen twice. A number
// that is not an expert's stands for the nearest expert.
//
// A token with a NaN among its logits has NaN for all its weights, so that results computed from them show the fault.
type Route struct {
	Choice Choice  // [n, Used of N]
	Logits Tensor  // [n, N]
	Bias   *Vector // [N] or nil
	// Factors multiply the experts' weights, after these are normalised. [N] or nil
	Factors *Vector
	How     Routing
	Chosen  Tensor // [n, Used] experts' numbers, or without Mem
}

// Visit implements Op.
func (o *Route) Visit(v Visitor) {
	v.Choice(&o.Choice, Write)
	v.Tensor(&o.Logits, Read)
	v.Vector(&o.Bias)
	v.Vector(&o.Factors)
	v.Tensor(&o.Chosen, Read)
}

// Route does a Route; bias and factors may be nil.
func (v Verbs) Route(c Choice, logits Tensor, bias, factors *Vector, how Routing) {
	v.calls.route = Route{Choice: c, Logits: logits, Bias: bias, Factors: factors, How: how}
	v.Do(&v.calls.route)
}

// RouteTo does a Route to experts that were chosen before.
func (v Verbs) RouteTo(c Choice, logits, chosen Tensor, how Routing) {
	v.calls.route = Route{Choice: c, Logits: logits, How: how, Chosen: chosen}
	v.Do(&v.calls.route)
}

// Fits reports whether the operands' shapes belong together.
func (o *Route) Fits() bool {
	c := o.Choice
	return o.Logits.Cols == c.N && o.Logits.Rows == c.Rows && (o.Bias == nil || o.Bias.Len == c.N) && (o.Factors == nil || o.Factors.Len == c.N) && (o.Chosen.Mem == nil || o.Chosen.Cols == c.Used && o.Chosen.Rows == c.Rows)
}

// Experts computes the chosen experts' feed-forward layers: Out = Σ_k w_k·(Down_e·a_k + DownBias_e) with e the k-th
// expert of a token's choice, w_k its weight and a_k = act(Gate_e·X + GateBias_e, Up_e·X + UpBias_e), or act(Up_e·X +
// UpBias_e) without a gate. If Weights.Before is set, w_k·X takes the place of X, and Out is Σ_k Down_e·a_k +
// DownBias_e. If Weights.Exact is set, a neuron with a zero act(gate), or act(up) without a gate, adds nothing, and its
// other weights need not be read.
//
// Weights.Skip may leave some of a token's experts out of the sums.
//
// With a predictor, neuron i of an expert counts only if its logit, element i of FC2_e·relu(FC1_e·X), is at least
// Params.Threshold. Other neurons add nothing.
type Experts struct {
	Out, X  Tensor // [n, n_embd]
	Choice  Choice // [n, Used of N]
	Weights ExpertWeights
}

// ExpertWeights are the weights of a layer's N experts, stored one after the other: expert e has rows [e·n_ff,
// (e+1)·n_ff) of Gate and Up and [e·n_embd, (e+1)·n_embd) of Down. With a Table, matrices hold only Table.Held experts,
// and expert e's rows are at place Table.At[e] instead of e; vectors hold all experts by number.
type ExpertWeights struct {
	Gate     *Matrix // [N·n_ff, n_embd], or nil in ungated layers and where Fused
	Up       *Matrix // [N·n_ff, n_embd], or where Fused [N·2·n_ff, n_embd]
	Down     *Matrix // [N·n_embd, n_ff]; see Exact
	GateBias *Vector // [N·n_ff] or nil
	UpBias   *Vector // as Up has rows, or nil
	DownBias *Vector // [N·n_embd] or nil
	FC1      *Matrix // [N·rank, n_embd] of predictors, loaded for Rows, or nil; if it is set, FC2 and Exact are set
	FC2      *Matrix // [N·n_ff, rank]
	Table    *ExpertTable
	Fused    bool // Up holds an expert's gate rows and after them its up rows; so does UpBias
	Before   bool // weights multiply the experts' inputs instead of their outputs
	Exact    bool // neurons that are zero are left out; Down was loaded for Columns, as a stack of experts, Gate and Up for Rows
	Act      Activation
	Count    *NeuronCount // counts neurons of the experts that were computed, and bytes, or nil
	Bins     *NeuronBins  // count how often each expert was chosen, held or not, or nil
	Prior    *Prior       // for devices that place experts by it, or nil
	Skip     Skip         // which experts of a token may add nothing
	Active   *Activity    // learns of neurons' activations, or nil; not where Exact
}

// Skip says which of a token's chosen experts may be left out. They then add nothing, and the others keep their
// weights. The zero value leaves out none. Only experts on disk and not in RAM are left out, only in steps of up to
// FewTokens tokens, and only if no other token of the step needs them. The result then depends on the content of RAM.
type Skip struct {
	After  int     // experts of each token that always stay, the highest ranked, 1 or more; 0: all do
	Below  float32 // others may be left out if their weight is less than this share of the sum of the token's weights
	Always bool    // they are left out wherever they are, in all steps: to measure what that changes at most. Only processors do so
}

// Leaves returns which experts of a token may be left out, by their weights in the order of their ranks. leave is as long
// as weights.
func (s Skip) Leaves(weights []float32, leave []bool) {
	sum := float32(0)
	for _, w := range weights {
		sum += w
	}
	for k, w := range weights {
		leave[k] = s.After > 0 && k >= s.After && w < s.Below*sum
	}
}

// Activity counts the tokens for which each neuron of a layer's experts was active, its activation not zero, and sums
// the squares of activations. Only processors do, of the experts that they hold.
type Activity struct {
	Counts  []uint32  // [N·n_ff] or nil
	Squares []float64 // [N·n_ff] or nil
}

// Add adds a token's activations of expert e, from its neuron first on; experts have ff neurons. a may be nil.
func (a *Activity) Add(e, ff, first int, activations []float32) {
	if a == nil {
		return
	}
	if at := e*ff + first; a.Counts != nil {
		counts := a.Counts[at:][:len(activations)]
		for i, v := range activations {
			if v != 0 {
				counts[i]++
			}
		}
	}
	if at := e*ff + first; a.Squares != nil {
		squares := a.Squares[at:][:len(activations)]
		for i, v := range activations {
			squares[i] += float64(v) * float64(v)
		}
	}
}

// ExpertTable says which of a layer's N experts a device's matrices hold, and where. It may change between runs, and
// recordings go by what it says when they run.
type ExpertTable struct {
	Held int     // experts that the matrices have room for
	At   []int32 // [N] each one's place among them. What is no such place, as Absent, is an expert that is not there: it adds nothing
}

// Absent is the place of an expert that is in none.
const Absent = -1

// NewExpertTable returns the table of matrices that hold experts [from, from+held) of n.
func NewExpertTable(n, from, held int) *ExpertTable {
	t := &ExpertTable{Held: held, At: make([]int32, n)}
	for e := range t.At {
		t.At[e] = Absent
		if e >= from && e < from+held {
			t.At[e] = int32(e - from)
		}
	}
	return t
}

// Prior has the share of tokens that are expected to use each expert, as a profile measured it. [N]
type Prior struct{ Shares []float64 }

// Holds returns how many of n experts the matrices have room for.
func (w *ExpertWeights) Holds(n int) int {
	if w.Table != nil {
		return w.Table.Held
	}
	return n
}

// At returns the place of expert e, or Absent.
func (w *ExpertWeights) At(e int) int {
	if w.Table == nil {
		return e
	}
	if at := int(w.Table.At[e]); at >= 0 && at < w.Table.Held {
		return at
	}
	return Absent
}

// Neurons returns the number of neurons of an expert of n.
func (w *ExpertWeights) Neurons(n int) int {
	n = w.Holds(n)
	if w.Fused {
		n *= 2
	}
	return w.Up.Rows / n
}

// Gates returns the matrix that holds gate rows and the vector that holds their biases; each may be nil.
func (w *ExpertWeights) Gates() (*Matrix, *Vector) {
	if w.Fused {
		return w.Up, w.UpBias
	}
	return w.Gate, w.GateBias
}

// Fits reports whether the shapes of w match those of the experts of choice c with input x and output out.
func (w *ExpertWeights) Fits(out, x Tensor, c Choice) bool {
	n, ff := w.Holds(c.N), w.Neurons(c.N)
	gate, _ := w.Gates()
	return w.Up.Cols == x.Cols && w.Down.Rows == n*out.Cols && w.Down.Cols == ff && c.Rows == x.Rows && out.Rows == x.Rows && (gate == nil || gate.Rows == w.Up.Rows) &&
		(w.FC1 == nil || w.Exact && w.FC1.Cols == x.Cols && w.FC1.Rows == n*w.FC2.Cols && w.FC2.Rows == n*ff)
}

// First returns the first gate row and the first up row of the expert at place e, which has ff neurons.
func (w *ExpertWeights) First(e, ff int) (gate, up int) {
	if w.Fused {
		return 2 * e * ff, (2*e + 1) * ff
	}
	return e * ff, e * ff
}

// Visit implements Op.
func (o *Experts) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.X, Read)
	v.Choice(&o.Choice, Read)
	w := &o.Weights
	v.Matrix(&w.Up)
	v.Matrix(&w.Gate)
	v.Matrix(&w.Down)
	v.Matrix(&w.FC1)
	v.Matrix(&w.FC2)
	v.Vector(&w.GateBias)
	v.Vector(&w.UpBias)
	v.Vector(&w.DownBias)
}

// Experts does an Experts.
func (v Verbs) Experts(out, x Tensor, c Choice, w ExpertWeights) {
	v.calls.experts = Experts{out, x, c, w}
	v.Do(&v.calls.experts)
}

// GateRows computes X = act(Logits)·X, row by row: how much a shared expert counts for a token, or what a head reads.
type GateRows struct {
	X      Tensor       // [n, cols]
	Logits Tensor       // [n, 1]
	Act    Nonlinearity // Logistic or Softplus
}

// Visit implements Op.
func (o *GateRows) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Tensor(&o.Logits, Read)
}

// GateRows does a GateRows by the sigmoid.
func (v Verbs) GateRows(x, logits Tensor) { v.GateRowsBy(x, logits, Logistic) }

// GateRowsBy does a GateRows.
func (v Verbs) GateRowsBy(x, logits Tensor, act Nonlinearity) {
	v.calls.gateRows = GateRows{x, logits, act}
	v.Do(&v.calls.gateRows)
}
