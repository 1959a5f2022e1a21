// Package compute is what a model needs of a processor: weights and activations
// that live on a device, and the verbs that a forward pass is written in.
//
// The comment of each verb is its definition. Activations are float32, row-major, one row per
// token. A verb works on all rows of the tensors it is given; all tensors of one
// call have the same number of rows unless the verb says otherwise.
package compute

import (
	"io"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Tensor is an activation [Rows, Cols] of float32 on a device. It is a view: its
// memory belongs to the device and lives until the device is closed.
type Tensor struct {
	Rows, Cols int
	Mem        any // the device's own handle
}

// First is the view of t's first n rows.
func (t Tensor) First(n int) Tensor { t.Rows = n; return t }

// Split is t seen as rows of cols elements each: [Rows·Cols/cols, cols]. Heads are rows this way.
func (t Tensor) Split(cols int) Tensor {
	return Tensor{Rows: t.Rows * t.Cols / cols, Cols: cols, Mem: t.Mem}
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
	Hot        int     // of a device of several processors: neurons [0, Hot), or all rows, go to a card; others ignore it
	Card       int     // which card that is; what else the layer does is done beside it
}

// Use says what a weight is for, so that the device can choose its layout.
type Use int

// The uses of a matrix.
const (
	Dense   Use = iota // every row is read for every token
	Precise            // as Dense, of attention and the head: products keep all bits of float weights, which perplexity feels most here
	Embed              // single rows are looked up, and every row multiplied, as Precise, if the head is tied
	Rows               // rows are neurons: any subset may be read
	Columns            // columns are neurons: any subset may be read
)

// Activation is the nonlinearity of a feed-forward layer.
type Activation struct {
	Kind      Nonlinearity
	Threshold float32 // FATReLU only: z > Threshold ? z : 0
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
)

func (n Nonlinearity) String() string {
	return [...]string{"silu", "gelu", "relu", "fatrelu", "drelu", "relu2"}[n]
}

// Sparse reports whether the activation is exactly zero for part of its inputs.
func (a Activation) Sparse() bool { return a.Kind >= ReLU }

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
	Dims  int       // rotated elements of a head
	Freqs []float64 // [Dims/2] radians per position, scaling included
	Scale float64   // magnitude of the rotated pair; 1 but for YaRN
}

// Params is what changes from step to step: everything a forward pass branches on lies here.
type Params struct {
	Tokens    []int32   // [n] token ids
	Pos       []int32   // [n] position within the sequence
	Seq       []int32   // [n] index into Pages
	Pages     [][]int32 // [sequence][page] page ids of a sequence's KV; token i attends to positions 0…Pos[i]
	Out       []int32   // [n_out] rows whose logits are wanted
	Threshold float32   // a neuron is predicted active iff its logit >= Threshold
}

// PagePositions is the number of positions in one KV page.
const PagePositions = 64

// CacheSpec is the shape of a KV cache: F16, Pages·PagePositions positions in every layer.
type CacheSpec struct {
	Layers, KVHeads, HeadDim, Pages int
}

// Bytes is the memory the cache takes.
func (s CacheSpec) Bytes() int64 {
	return 2 * 2 * int64(s.Layers) * int64(s.KVHeads) * int64(s.HeadDim) * int64(s.Pages) * PagePositions
}

// Cache holds keys and values of every layer in pages on a device.
type Cache struct {
	CacheSpec
	Mem any // the device's own handle
}

// Set holds, for each of Rows tokens, which of N neurons are computed. With a nil Mem it is all of them.
type Set struct {
	Rows, N int
	Mem     any // the device's own handle
}

// First is the view of the first n tokens' sets.
func (s Set) First(n int) Set { s.Rows = n; return s }

// Product is one output of a MatMul: Out [n, W.Rows] = x·Wᵀ + Bias. A nil W ends the list.
type Product struct {
	Out  Tensor  // [n, W.Rows]
	W    *Matrix // [W.Rows, x.Cols]
	Bias *Vector // [W.Rows] or nil
}

// Products are the outputs of one MatMul; an array, so that a call allocates nothing.
type Products [3]Product

// Segment names a stretch of a forward pass whose verbs are the same for every step of the same shape.
type Segment struct {
	Name string
	Rows int // tokens in the step: the shape
	Out  int // rows of logits in the step
}

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

	// Run executes body's verbs with params p. The body must call the same verbs
	// for every p of the same segment and read no tensor's content.
	Run(seg Segment, p *Params, body func(Verbs)) error
	// Read returns row i of t, valid until the next Run. [t.Cols]
	Read(t Tensor, i int) []float32
	// CopyPage copies page from to page to, in every layer of c.
	CopyPage(c *Cache, to, from int32)

	io.Closer
}

// Foreseer are Verbs of two processors, one of which waits for the other in every layer: a guess at the next layer's neurons lets it
// bring their rows into its cache meanwhile. Nothing that is computed depends on the guess.
type Foreseer interface {
	// Foresee says, before a layer's SparseFFN, how the next layer's set can be guessed. Once that SparseFFN is done, what
	// g.H, g.Set, g.Hidden and g.Logits hold is lost.
	Foresee(g Guess)
}

// Guess is the next layer's predictor for this layer's residual, which is much like its own input; n is 1.
type Guess struct {
	X              Tensor  // [n, n_embd] the residual
	Norm           *Vector // [n_embd] of the RMSNorm before the predictor; nil: it reads X
	Eps            float32
	H              Tensor // [n, n_embd] scratch
	Set            Set    // scratch, like the two below
	Hidden, Logits Tensor // [n, FC1.Rows], [n, FC2.Rows]
	FC1, FC2       *Matrix
	Weights        SparseWeights // the next layer's
}

// Verbs are the operations of a forward pass. Shapes are those of the arguments'
// comments; n is the number of tokens in the step.
type Verbs interface {
	// Embed writes row Tokens[i] of table [n_vocab, cols] to row i of dst [n, cols].
	Embed(dst Tensor, table *Matrix)
	// AddPosition adds row Pos[i]+offset of table [n_ctx+offset, cols] to row i of x [n, cols].
	AddPosition(x Tensor, table *Matrix, offset int)
	// RMSNorm: dst = x / √(mean(x²)+eps) · w. dst and x [n, cols] may be the same; w [cols].
	RMSNorm(dst, x Tensor, w *Vector, eps float32)
	// LayerNorm: dst = (x−mean)/√(var+eps) · w + b. b may be nil.
	LayerNorm(dst, x Tensor, w, b *Vector, eps float32)
	// MatMul computes every product of x [n, cols].
	MatMul(x Tensor, p Products)
	// RoPE rotates, in place, every head of x [n, heads·headDim] to its token's position.
	RoPE(x Tensor, headDim int, r *Rope)
	// StoreKV writes k, v [n, kv_heads·head_dim] to the tokens' positions in layer of c.
	StoreKV(c *Cache, layer int, k, v Tensor)
	// Attention: causal softmax(scale·q·Kᵀ)·V over the sequence of each token. q, out [n, heads·head_dim];
	// query head h reads KV head h·kv_heads/heads.
	Attention(out, q Tensor, c *Cache, layer int, scale float32)
	// Add: dst += x.
	Add(dst, x Tensor)
	// Activate: dst = act(gate)·up; up.Mem is nil in ungated layers. dst may be gate.
	Activate(dst, gate, up Tensor, act Activation)
	// Gather copies row Out[i] of x to row i of dst [n_out, cols].
	Gather(dst, x Tensor)

	// Predict: s = {i < always} ∪ {always+i : logits[i] >= Threshold} with logits = fc2·relu(fc1·x) and always = s.N − fc2.Rows.
	// fc1 [rank, cols], fc2 [n_ff − always, rank]; hidden [n, rank] and logits [n, n_ff − always] are scratch.
	Predict(s Set, x, hidden, logits Tensor, fc1, fc2 *Matrix)
	// SparseFFN: out = Σ_{i∈s} a_i·down[i], a_i = act(gate[i]·x)·(up[i]·x), or act(up[i]·x+upBias[i]) where gate is nil; plus downBias.
	// gate, up [n_ff, cols]; out [n, cols]. A neuron outside a token's set adds nothing, whichever way the device computes.
	SparseFFN(out, x Tensor, s Set, f SparseWeights)

	// Host ends what a device may have queued and calls f, which may Read tensors: for observers, not for the token's path.
	Host(f func())
}

// SparseWeights are the weights of a feed-forward layer by neuron.
type SparseWeights struct {
	Gate     *Matrix // [n_ff, n_embd] or nil
	Up       *Matrix // [n_ff, n_embd]
	Down     *Matrix // [n_ff, n_embd], row i is neuron i's down column; or [n_embd, n_ff], taken in for Columns
	UpBias   *Vector // [n_ff] or nil
	DownBias *Vector // [n_embd] or nil
	Act      Activation
	Count    *NeuronCount // counts what was computed, or nil
}

// NeuronCount counts (token, neuron) pairs of one layer, and what they cost. The device adds to it when a segment has run.
type NeuronCount struct {
	Steps     int64 // calls
	Tokens    int64 // tokens that passed
	Predicted int64 // neurons in the sets
	Gated     int64 // of those, the ones whose act(gate), in ungated layers act(up), was not zero
	Active    int64 // of those, the ones whose a_i was not zero
	Bytes     int64 // of weights that were read for them
}

// Join adds what a part of the layer's neurons counted of the same steps, and starts part anew. c may be nil.
func (c *NeuronCount) Join(part *NeuronCount) {
	if c != nil {
		c.Predicted += part.Predicted
		c.Gated += part.Gated
		c.Active += part.Active
		c.Bytes += part.Bytes
	}
	*part = NeuronCount{}
}
