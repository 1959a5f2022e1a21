// Package compute describes what a model needs of a processor: weights and activations that live on a device, and the
// operations that a forward pass is written in.
//
// The comment of each operation defines it. Activations are float32, row-major, one row per token. An operation works
// on all rows of its tensors, which have the same number of rows unless it says otherwise.
package compute

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Tensor is an activation [Rows, Cols] of float32 on a device. It is a view: its
// memory belongs to the device and lives until the device is closed.
type Tensor struct {
	Rows, Cols int
	Outputs    bool // rows are those that Params.Out names, in that order, not all of the step's tokens
	Mem        any  // the device's own handle
}

// First returns the view of t's first n rows.
func (t Tensor) First(n int) Tensor { t.Rows = n; return t }

// Like returns the view of t's first rows that has as many as x, of the same kind.
func (t Tensor) Like(x Tensor) Tensor {
	t.Rows, t.Outputs = x.Rows, x.Outputs
	return t
}

// Split is t seen as rows of cols elements each: [Rows·Cols/cols, cols]. Heads are rows this way.
func (t Tensor) Split(cols int) Tensor {
	t.Rows, t.Cols = t.Rows*t.Cols/cols, cols
	return t
}

// Matrix is a weight [Rows, Cols] on a device: Rows outputs of Cols inputs each.
type Matrix struct {
	Name       string
	Type       quant.Type
	Rows, Cols int
	Mem        any // the device's own handle
}

// Vector is a one-dimensional float32 weight [Len]: a norm's scale, a bias, frequency factors.
type Vector struct {
	Name string
	Len  int
	Mem  any // the device's own handle
}

// Source is a weight as it lies in a file: rows of Cols elements in GGUF layout.
// Data is only borrowed while the device takes it in, unless Pinned, when it
// stays mapped as long as the device lives and may be computed on in place.
type Source struct {
	Name       string
	Type       quant.Type
	Rows, Cols int
	Data       []byte
	Pinned     bool
	Order      []int32 // neuron i of a matrix for Rows or Columns is the source's Order[i]; nil keeps the source's order
	Split      Split   // which tiers of a device of several the neurons go to; other devices ignore it, and vectors go to Tier whole
	Disk       *OnDisk // where the weight stays on disk, for devices that keep units; else nil. Data is not read then
	Stack      int     // so many matrices, of experts, lie one behind the other, each with neurons of its own, and Split counts rows; 0: one
}

// Stacked returns the number of matrices in s and the rows of each.
func (s *Source) Stacked() (n, rows int) {
	n = max(1, s.Stack)
	return n, s.Rows / n
}

// Check reports whether Data holds Rows rows of Cols elements of a type that devices compute with. The error names the
// tensor.
func (s *Source) Check() error {
	if !s.Type.Known() || s.Type == quant.I32 {
		return fmt.Errorf("tensor %q: %s cannot be computed with; these can: %s", s.Name, s.Type, quant.Supported())
	}
	if s.Stack < 0 || s.Stack > 0 && s.Rows%s.Stack != 0 {
		return fmt.Errorf("tensor %q: %d rows are not those of %d matrices", s.Name, s.Rows, s.Stack)
	}
	if s.Rows < 1 || s.Cols < 1 || s.Cols%s.Type.BlockElems() != 0 || len(s.Data)%s.Rows != 0 || len(s.Data)/s.Rows != s.Type.RowBytes(s.Cols) {
		return fmt.Errorf("tensor %q: %d bytes do not hold %d rows of %d elements of %s", s.Name, len(s.Data), s.Rows, s.Cols, s.Type)
	}
	if s.Disk != nil {
		return s.Disk.Check(s)
	}
	return nil
}

// CheckVector is Check for a weight of one row, whatever Rows says.
func (s *Source) CheckVector() error {
	one := *s
	one.Rows = 1
	return one.Check()
}

// Use says what a weight is for, so that the device can choose its layout.
type Use int

// The uses of a matrix.
const (
	Dense   Use = iota // every row is read for every token
	Precise            // as Dense, of attention: products keep all bits of float weights, which perplexity feels most here
	Head               // as Precise, of rows whose logits are wanted: prompts' rows have the arithmetic of single tokens
	Lookup             // single rows are looked up, and every row multiplied, as Head, if the head is tied
	Rows               // rows are neurons: any subset may be read
	Columns            // columns are neurons: any subset may be read
)

// Activation is the nonlinearity of a feed-forward layer.
type Activation struct {
	Kind      Nonlinearity
	Threshold float32 // FATReLU: z > Threshold ? z : 0; SiLU and GELU: act(g) of a magnitude below it is taken as 0
	Slope     float32 // of ClampedSwiGLU: of the sigmoid's input; of SiTU: its β; of XIELU: b
	Limit     float32 // of the last kinds: what g, or of CappedSwiGLU its SiLU, and u are kept within; of XIELU: e
	Above     float32 // of XIELU: p
	Below     float32 // of XIELU: n
}

// Nonlinearity names the function in an Activation.
type Nonlinearity int

// The nonlinearities; g is the gate's output (or up's, in ungated layers), u is up's.
const (
	SiLU    Nonlinearity = iota // g·sigmoid(g)·u
	GELU                        // 0.5·g·(1+tanh(√(2/π)(g+0.044715g³)))·u
	ReLU                        // max(g,0)·u
	FATReLU                     // (g > t ? g : 0)·u
	DReLU                       // max(g,0)·max(u,0)
	ReLU2                       // max(g,0)²·u

	// ClampedSwiGLU is min(g,l)·sigmoid(s·min(g,l))·(1+min(max(u,-l),l)), with s Slope and l Limit.
	//
	// Source: OpenAI 2025, gpt-oss-120b & gpt-oss-20b model card; reference implementation.
	ClampedSwiGLU
	Logistic // sigmoid(g)·u, of what attention is multiplied by; no feed-forward layer has it

	LimitedSwiGLU // min(g,l)·sigmoid(min(g,l))·min(max(u,-l),l), with l Limit
	CappedSwiGLU  // min(g·sigmoid(g),l)·min(max(u,-l),l)

	// SiTU is β·tanh(g/β)·sigmoid(g)·l·tanh(u/l), with β Slope and l Limit, which is 0 where u stays as it is.
	SiTU

	Softplus // ln(1+exp(g))·u, of what attention is multiplied by, as Logistic
	Identity // g·u, likewise

	// XIELU is (p·g² + b·g)·u above 0, and (n·(expm1(min(g,e)) − g) + b·g)·u elsewhere. Only Activate computes it.
	//
	// Source: Huang and Schlag 2025, Deriving Activation Functions Using Integration.
	XIELU

	GELUErf   // 0.5·g·(1+erf(g/√2))·u. Only Activate computes it, as the next
	GELUQuick // g·sigmoid(1.702g)·u
)

func (n Nonlinearity) String() string {
	return [...]string{"silu", "gelu", "relu", "fatrelu", "drelu", "relu2", "clamped_swiglu", "logistic", "limited_swiglu", "capped_swiglu", "situ", "softplus", "identity", "xielu", "gelu_erf", "gelu_quick"}[n]
}

// Limited reports whether a nonlinearity has limits, which files say or families have.
func (n Nonlinearity) Limited() bool { return n == ClampedSwiGLU || n >= LimitedSwiGLU && n <= SiTU }

// Nonlinearities returns all that feed-forward layers may have.
func Nonlinearities() []Nonlinearity {
	return []Nonlinearity{SiLU, GELU, ReLU, FATReLU, DReLU, ReLU2, ClampedSwiGLU, LimitedSwiGLU, CappedSwiGLU, SiTU}
}

// Sparse reports whether the activation is exactly zero for part of its inputs.
func (a Activation) Sparse() bool { return a.Kind >= ReLU && a.Kind <= ReLU2 || a.Small() }

// Small reports whether small activations are taken as zero, on either side of it.
//
// Source: Lee et al. 2024, CATS: Contextually-Aware Thresholding for Sparsity in Large Language Models.
func (a Activation) Small() bool { return (a.Kind == SiLU || a.Kind == GELU) && a.Threshold > 0 }

// RopeStyle says which elements of a head form a rotated pair.
type RopeStyle int

// The two styles in use.
const (
	Interleaved RopeStyle = iota // (x[2i], x[2i+1]): llama
	Halves                       // (x[i], x[i+n/2]): NeoX, falcon, qwen
)

// Rope describes rotary position embedding over the first Dims elements of a head.
type Rope struct {
	Style RopeStyle
	First int       // the first rotated element of a head
	Dims  int       // rotated elements of a head
	Freqs []float64 // [Dims/2] radians per position, scaling included
	Scale float64   // magnitude of the rotated pair; 1 but for YaRN
	Back  int       // positions that are taken off a row's own, which may so become negative
	Every int       // positions are rounded down to a multiple of it; 0: they are not
	Axes  []uint8   // [Dims/2] the axis of Params.Axes by which a pair turns; nil: all turn by Params.Turn
}

// At returns the position that a position is rotated to.
func (r *Rope) At(pos int32) int {
	at := int(pos)
	if r.Every > 0 {
		at = at / r.Every * r.Every
	}
	return at - r.Back
}

// Angles fills at with the angle of each pair of row i. [Dims/2]
func (p *Params) Angles(at []float64, r *Rope, i int) {
	pos := float64(r.At(p.Turn()[i]))
	for j, f := range r.Freqs {
		if r.Axes != nil && p.Axes != nil {
			pos = float64(r.At(p.Axes[r.Axes[j]][i]))
		}
		at[j] = pos * f
	}
}

// Inverse returns the rotation that undoes r; nil for nil.
func (r *Rope) Inverse() *Rope {
	if r == nil {
		return nil
	}
	back := *r
	back.Scale, back.Freqs = 1/r.Scale, make([]float64, len(r.Freqs))
	for i, f := range r.Freqs {
		back.Freqs[i] = -f
	}
	return &back
}

// Params holds the inputs that change from step to step: everything a forward pass branches on lies here.
//
// A row's arithmetic may depend on whether it is one of the first Decode rows, and on its own numbers, but not on how
// many rows share the step: a sequence gets the same bytes alone and among others, and a prompt however it is cut.
// Devices that cannot hold to this say so in their documentation.
type Params struct {
	Decode    int       // the first Decode rows are single tokens of running sequences or parts of short prompts, the others are parts of longer prompts
	Tokens    []int32   // [n] token ids
	Pos       []int32   // [n] position within the sequence
	Turns     []int32   // [n] the positions that RoPE turns rows to, where they are others than Pos, negative ones too; nil: Pos
	Axes      [][]int32 // [axis][n] the positions of rows along several axes, for rotations that tell axes apart (M-RoPE); nil: each axis has those of Turn
	Types     []int32   // [n] which of BERT's types a token has; nil: all have the first
	Seq       []int32   // [n] index into Pages
	Pages     [][]int32 // [sequence][page] page ids of a sequence's KV; token i attends to positions 0…Pos[i]
	Near      [][]int32 // the same for a cache's Windowed layers; pages that no window reaches are 0. May be nil where there are none
	States    []int32   // [sequence] slot of its recurrent state; the rows of such a sequence follow one another in the step and in position. nil: sequence i has slot i
	Out       []int32   // [n_out] rows whose logits are wanted, in ascending order: those below Decode come first
	Threshold float32   // a neuron is predicted active iff its logit >= Threshold

	Scales []float32 // of the model's adapters, for all the step's rows; nil: the model's own

	Before [][]float32 // [sequence][n_embd] hidden state of the position before the sequence's first row, where a model predicts further tokens; nil: it is not known

	Uses []ExpertUse // [sequence] devices add what each has used of experts in layers with slots; empty: nobody asks

	Given  [][]float32 // [n] numbers from outside for rows that are no tokens but parts of pictures, see Insert; nil: for the other rows, or for none
	Bounds []Bounds    // [n] the positions that rows see in layers whose Attention is Bounded; nil where none is

	Draft bool // the step guesses tokens: a model that was loaded for this computes fewer neurons than in other steps

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

// Precede does a Precede whose rows of a step dst and x return. [cols]
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

// ShortPrompt is the number of tokens from which on a prompt's rows may be computed by arithmetic that pays for many
// rows only. What counts is the prompt, not the part of it in a step, so that results do not depend on how it is cut.
const ShortPrompt = 64

// FewTokens is the largest number of tokens in a step that every device computes as it computes single tokens: weights
// by matrix-vector products, neurons by lists for each token, attention over a sequence in parallel splits. More tokens
// go through matrix-matrix products on the processor; GPUs have a larger bound for single tokens of running sequences.
// Both ways give the same bytes.
const FewTokens = 8

// Set holds, for each of Rows tokens, which of N neurons are computed. With a nil Mem it is all of them.
type Set struct {
	Rows, N int
	Outputs bool // as Tensor.Outputs
	Mem     any  // the device's own handle
}

// First returns the view of the first n tokens' sets.
func (s Set) First(n int) Set { s.Rows = n; return s }

// Segment names a stretch of a forward pass whose operations are the same for every step of the same shape.
//
// A step may have fewer rows of each kind than the segment that it runs as; see Device.Shape. The rows before Lead, and those
// behind the step's last, are then padding: nobody reads what they hold, nothing is stored in a cache for them, and
// none of their neurons is computed or counted. The same goes for rows of logits and LeadOut.
type Segment struct {
	Name      string
	Rows      int // tokens in the step: the shape
	Decode    int // of them, those that Params.Decode counts
	Out       int // rows of logits in the step
	DecodeOut int // of them, those that Params.DecodeOut counts
}

// Lead returns the row of the segment that a step's first row is. The padding of single tokens comes before them, so
// that the step's rows lie together.
func (s Segment) Lead(p *Params) int { return s.Decode - p.Decode }

// LeadOut returns the row of logits of the segment that a step's first is.
func (s Segment) LeadOut(p *Params) int { return s.DecodeOut - p.DecodeOut() }

// Device owns weights, activations and caches, and runs segments over them.
// A device is used by one goroutine at a time.
type Device interface {
	Name() string

	// Matrix takes a weight in. Errors name the tensor.
	Matrix(src Source, use Use) (*Matrix, error)
	Vector(src Source) (*Vector, error)
	Tensor(rows, cols int) (Tensor, error)
	Cache(spec CacheSpec) (*Cache, error)
	Set(rows, n int) (Set, error)
	// Choice allocates choices of used of n experts for each of rows tokens.
	Choice(rows, used, n int) (Choice, error)

	// Bundle says that units of parts, which are matrices on disk, are read and kept together. Parts have the same number
	// of units, and unit u of each part belongs to the same expert or neuron. prior is the share of tokens that are
	// expected to use each unit, or nil. [units]
	Bundle(prior []float64, parts ...*Matrix) error
	// Keep makes room in RAM for units, once all bundles are known, and reads those that are expected to be used most,
	// as far as there is room. progress learns of the bytes that were read; it may be nil.
	Keep(ctx context.Context, progress func(done, total int64)) error
	// Tune chooses, by measuring, among kernels that give the same bytes, for the weights that the device holds. It is
	// called once they are loaded.
	Tune()
	// ExpandsLatent reports whether layers may have AttendLatent, if their part of the cache lies in RAM.
	ExpandsLatent() bool

	// Shape returns the segment to run a step of seg's rows as: one with room for as many of each kind or more, where
	// the device would rather run a recording with rows to spare than make another. Where seg has none of a kind, it has
	// none either. No step is larger than most in tokens and rows of logits.
	Shape(seg, most Segment) Segment
	// Spare returns how many rows a segment that Shape returns may have beyond most, the tokens of the largest step.
	Spare(most int) int
	// Steps returns the numbers of tokens, at most most, of the steps that together need what any step does; the largest
	// is the first.
	Steps(most int) []int
	// Rehearse prepares the segments that f runs, without running them. It does not call f where nothing needs to be
	// prepared.
	Rehearse(f func() error) error

	// Step says that a step of so many tokens begins. The runs that follow count their uses of units for it.
	Step(tokens int)
	// Run does body's operations with params p. The body must call the same ones for every p of the same segment and
	// read no tensor's content.
	Run(seg Segment, p *Params, body func(Verbs)) error
	// Read returns row i of t, of the rows that the last step has, valid until the next Run: [t.Cols]. It fails where a
	// GPU does.
	Read(t Tensor, i int) ([]float32, error)
	// CopyPage copies page from to page to, in every layer of c that both have.
	CopyPage(c *Cache, to, from Page)
	// ReadPage writes the keys and values of a page's first positions to layers, for each of c's layers as many as
	// KVShape.Positions says of its slice: none of layers that the page has none in. Of a layer with recurrent states
	// the slice is empty, or has room for the slot's. The order is the same on every device. It may be called between
	// runs.
	ReadPage(c *Cache, page Page, layers [][]byte) error
	// WritePage makes a page's first positions those that ReadPage gave. What lies behind them is lost.
	WritePage(c *Cache, page Page, layers [][]byte) error

	// Watch has what is computed added to w's work as long as w is on.
	Watch(w *Watch)
	// Usage says what the device did until now. It is called between runs.
	Usage() Usage

	io.Closer
}

// Plain answers for a device what it has no answer of its own to: it keeps no weights on disk, records no segments and
// counts nothing. A device that passes calls on to others has no Plain, so that it forgets none.
type Plain struct{}

// Bundle fails.
func (Plain) Bundle(_ []float64, parts ...*Matrix) error {
	return fmt.Errorf("tensor %q: this device cannot compute with weights on disk", parts[0].Name)
}

// Keep does nothing: there are no units.
func (Plain) Keep(context.Context, func(done, total int64)) error { return nil }

// Tune does nothing.
func (Plain) Tune() {}

// ExpandsLatent returns false.
func (Plain) ExpandsLatent() bool { return false }

// Shape returns seg.
func (Plain) Shape(seg, _ Segment) Segment { return seg }

// Spare returns 0.
func (Plain) Spare(int) int { return 0 }

// Steps returns the largest step.
func (Plain) Steps(most int) []int { return []int{most} }

// Rehearse does nothing.
func (Plain) Rehearse(func() error) error { return nil }

// Step does nothing.
func (Plain) Step(int) {}

// Watch does nothing.
func (Plain) Watch(*Watch) {}

// Usage returns nothing.
func (Plain) Usage() Usage { return Usage{} }

// NeuronCount counts (token, neuron) pairs of one layer, and what they cost. The device adds to it when a segment has
// run.
type NeuronCount struct {
	Steps     int64 // calls
	Tokens    int64 // tokens that passed
	Predicted int64 // neurons in the sets
	Gated     int64 // of those, the ones whose act(gate), in ungated layers act(up), was not zero
	Active    int64 // of those, the ones whose a_i was not zero
	Bytes     int64 // of weights that were read for them; a row that several tokens of a step need is counted once where it is read once
	RAM       int64 // of Bytes, those that the processor read

	PredictedRAM, ActiveRAM int64 // of Predicted and Active, the neurons that the processor computed
}

// Join adds what a part of the layer's neurons counted of the same steps, and starts part anew. c may be nil.
func (c *NeuronCount) Join(part *NeuronCount) {
	if c != nil {
		c.Predicted += part.Predicted
		c.Gated += part.Gated
		c.Active += part.Active
		c.Bytes += part.Bytes
		c.RAM += part.RAM
		c.PredictedRAM += part.PredictedRAM
		c.ActiveRAM += part.ActiveRAM
	}
	*part = NeuronCount{}
}
