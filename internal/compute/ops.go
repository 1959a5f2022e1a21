package compute

import "math"

// calls holds an operation of each kind, to be filled in for each call.
type calls struct {
	Executor
	embed       Embed
	addPosition AddPosition
	addType     AddType
	rmsNorm     RMSNorm
	layerNorm   LayerNorm
	matMul      MatMul
	byHead      MatMulByHead
	rope        RoPE
	storeKV     StoreKV
	loadKeys    LoadKeys
	attend      Attend
	latent      AttendLatent
	add         Add
	scale       Scale
	softCap     SoftCap
	clamp       Clamp
	copyColumns CopyColumns
	activate    Activate
	temper      Temper
	topK        GaussianTopK
	match       Match
	slice       Slice
	multiply    Multiply
	altUp       AltUpPredict
	correct     AltUpCorrect
	gather      Gather
	precede     Precede
	predict     Predict
	sparseFFN   SparseFFN
	route       Route
	experts     Experts
	gateRows    GateRows
	convolve    Convolve
	scan        Scan
	delta       Delta
}

// Embed writes row Tokens[i] of Table to row i of Dst.
type Embed struct {
	Dst   Tensor  // [n, cols]
	Table *Matrix // [n_vocab, cols]
}

// Visit implements Op.
func (o *Embed) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Matrix(&o.Table)
}

// Embed does an Embed.
func (v Verbs) Embed(dst Tensor, table *Matrix) {
	v.calls.embed = Embed{dst, table}
	v.Do(&v.calls.embed)
}

// AddPosition adds row Pos[i]+Offset of Table to row i of X.
type AddPosition struct {
	X      Tensor  // [n, cols]
	Table  *Matrix // [n_ctx+Offset, cols]
	Offset int
}

// Visit implements Op.
func (o *AddPosition) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Matrix(&o.Table)
}

// AddPosition does an AddPosition.
func (v Verbs) AddPosition(x Tensor, table *Matrix, offset int) {
	v.calls.addPosition = AddPosition{x, table, offset}
	v.Do(&v.calls.addPosition)
}

// AddType adds row Types[i] of Table to row i of X.
type AddType struct {
	X     Tensor  // [n, cols]
	Table *Matrix // [types, cols]
}

// Visit implements Op.
func (o *AddType) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Matrix(&o.Table)
}

// AddType does an AddType.
func (v Verbs) AddType(x Tensor, table *Matrix) {
	v.calls.addType = AddType{x, table}
	v.Do(&v.calls.addType)
}

// RMSNorm computes Dst = X / √(mean(X²)+Eps) · W. Dst may be X.
type RMSNorm struct {
	Dst, X Tensor  // [n, cols]
	W      *Vector // [cols]
	Eps    float32
}

// Visit implements Op.
func (o *RMSNorm) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
	v.Vector(&o.W)
}

// RMSNorm does an RMSNorm.
func (v Verbs) RMSNorm(dst, x Tensor, w *Vector, eps float32) {
	v.calls.rmsNorm = RMSNorm{dst, x, w, eps}
	v.Do(&v.calls.rmsNorm)
}

// LayerNorm computes Dst = (X−mean)/√(var+Eps) · W + B. Dst may be X.
type LayerNorm struct {
	Dst, X Tensor  // [n, cols]
	W      *Vector // [cols]
	B      *Vector // [cols] or nil
	Eps    float32
}

// Visit implements Op.
func (o *LayerNorm) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
	v.Vector(&o.W)
	v.Vector(&o.B)
}

// LayerNorm does a LayerNorm; b may be nil.
func (v Verbs) LayerNorm(dst, x Tensor, w, b *Vector, eps float32) {
	v.calls.layerNorm = LayerNorm{dst, x, w, b, eps}
	v.Do(&v.calls.layerNorm)
}

// MatMul computes products of one X.
type MatMul struct {
	X        Tensor // [n, cols]
	Products Products
}

// Products are the outputs of one MatMul; an array, so that a call allocates nothing.
type Products [3]Product

// Product is one output of a MatMul: Out = X·Wᵀ + Bias. A nil W ends the list.
type Product struct {
	Out  Tensor  // [n, W.Rows]
	W    *Matrix // [W.Rows, cols]
	Bias *Vector // [W.Rows] or nil
}

// Visit implements Op.
func (o *MatMul) Visit(v Visitor) {
	v.Tensor(&o.X, Read)
	for i := range o.Products {
		p := &o.Products[i]
		v.Tensor(&p.Out, Write)
		v.Matrix(&p.W)
		v.Vector(&p.Bias)
	}
}

// MatMul does a MatMul.
func (v Verbs) MatMul(x Tensor, p Products) {
	v.calls.matMul = MatMul{x, p}
	v.Do(&v.calls.matMul)
}

// MatMulByHead computes a product for each head, whose matrices W [rows, cols] lie one below the other:
// Out[t, To.First + h·To.Step + r] = Σ_c W[h·rows + r, c]·X[t, h·cols + c].
type MatMulByHead struct {
	Out Tensor  // [n, at least heads·rows]
	To  Ranges  // where the heads' results begin in a row of Out, whose other columns keep what they hold
	X   Tensor  // [n, heads·cols]
	W   *Matrix // [heads·rows, cols]
}

// Heads returns the number of heads, and the rows that each has of W.
func (o *MatMulByHead) Heads() (n, rows int) {
	n = o.X.Cols / o.W.Cols
	return n, o.W.Rows / n
}

// Fits reports whether the operands' shapes belong together.
func (o *MatMulByHead) Fits() bool {
	if o.X.Cols < o.W.Cols || o.X.Cols%o.W.Cols != 0 || o.X.Rows != o.Out.Rows {
		return false
	}
	n, rows := o.Heads()
	return o.W.Rows == n*rows && o.To.First >= 0 && o.To.Step >= rows && o.To.First+(n-1)*o.To.Step+rows <= o.Out.Cols
}

// Visit implements Op.
func (o *MatMulByHead) Visit(v Visitor) {
	access := Write
	if o.Out.Cols > o.W.Rows {
		access = ReadWrite
	}
	v.Tensor(&o.Out, access)
	v.Tensor(&o.X, Read)
	v.Matrix(&o.W)
}

// MatMulByHead does a MatMulByHead.
func (v Verbs) MatMulByHead(out Tensor, to Ranges, x Tensor, w *Matrix) {
	v.calls.byHead = MatMulByHead{out, to, x, w}
	v.Do(&v.calls.byHead)
}

// RoPE rotates, in place, every head of X to its token's position: that of Params.Turn.
type RoPE struct {
	X       Tensor // [n, heads·HeadDim]
	HeadDim int
	Rope    *Rope
}

// Visit implements Op.
func (o *RoPE) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// RoPE does a RoPE.
func (v Verbs) RoPE(x Tensor, headDim int, r *Rope) {
	v.calls.rope = RoPE{x, headDim, r}
	v.Do(&v.calls.rope)
}

// StoreKV writes keys and values to the tokens' positions in a layer of a cache.
type StoreKV struct {
	Cache *Cache
	Layer int
	K     Tensor // [n, kv_heads·key]
	V     Tensor // [n, kv_heads·value]; without Mem where values lie within keys, or are to stay as they are
}

// Visit implements Op.
func (o *StoreKV) Visit(v Visitor) {
	v.Cache(&o.Cache, &o.Layer)
	v.Tensor(&o.K, Read)
	v.Tensor(&o.V, Read)
}

// StoreKV does a StoreKV.
func (v Verbs) StoreKV(c *Cache, layer int, key, value Tensor) {
	v.calls.storeKV = StoreKV{c, layer, key, value}
	v.Do(&v.calls.storeKV)
}

// LoadKeys reads the keys at the tokens' positions in a layer of a cache: K is what attention takes them for.
type LoadKeys struct {
	Cache *Cache
	Layer int
	K     Tensor // [n, kv_heads·key]
}

// Visit implements Op.
func (o *LoadKeys) Visit(v Visitor) {
	v.Cache(&o.Cache, &o.Layer)
	v.Tensor(&o.K, Write)
}

// LoadKeys does a LoadKeys.
func (v Verbs) LoadKeys(c *Cache, layer int, key Tensor) {
	v.calls.loadKeys = LoadKeys{c, layer, key}
	v.Do(&v.calls.loadKeys)
}

// Attend computes attention over the sequence of each token, causal unless How says otherwise: Out = softmax(score(Q·Kᵀ))·V, with the scores that How says. With
// Cache.Layers[Layer] = {kv_heads, key, value}, query head h reads KV head h·kv_heads/heads.
type Attend struct {
	Out   Tensor // [n, heads·value]
	Q     Tensor // [n, heads·key]
	Cache *Cache
	Layer int
	How   Attention
}

// Visit implements Op.
func (o *Attend) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.Q, Read)
	v.Cache(&o.Cache, &o.Layer)
	v.Vector(&o.How.Slopes)
	v.Vector(&o.How.Sinks)
}

// Attend does an Attend.
func (v Verbs) Attend(out, q Tensor, c *Cache, layer int, how Attention) {
	v.calls.attend = Attend{out, q, c, layer, how}
	v.Do(&v.calls.attend)
}

// Add computes Dst += X.
type Add struct {
	Dst, X Tensor // [n, cols]
}

// Visit implements Op.
func (o *Add) Visit(v Visitor) {
	v.Tensor(&o.Dst, ReadWrite)
	v.Tensor(&o.X, Read)
}

// Add does an Add.
func (v Verbs) Add(dst, x Tensor) {
	v.calls.add = Add{dst, x}
	v.Do(&v.calls.add)
}

// Scale computes X = Factor·X.
type Scale struct {
	X      Tensor // [n, cols]
	Factor float32
}

// Visit implements Op.
func (o *Scale) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// Scale does a Scale.
func (v Verbs) Scale(x Tensor, factor float32) {
	v.calls.scale = Scale{x, factor}
	v.Do(&v.calls.scale)
}

// SoftCap computes X = Limit·tanh(X/Limit).
type SoftCap struct {
	X     Tensor // [n, cols]
	Limit float32
}

// Visit implements Op.
func (o *SoftCap) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// SoftCap does a SoftCap.
func (v Verbs) SoftCap(x Tensor, limit float32) {
	v.calls.softCap = SoftCap{x, limit}
	v.Do(&v.calls.softCap)
}

// Clamp brings every element of X into [−Limit, Limit].
type Clamp struct {
	X     Tensor // [n, cols]
	Limit float32
}

// Visit implements Op.
func (o *Clamp) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// Clamp does a Clamp.
func (v Verbs) Clamp(x Tensor, limit float32) {
	v.calls.clamp = Clamp{x, limit}
	v.Do(&v.calls.clamp)
}

// CopyColumns copies Count ranges of Width columns: Dst[t, To.First + i·To.Step + j] = Src[t, From.First + i·From.Step + j].
type CopyColumns struct {
	Dst, Src     Tensor // [n, cols of each]
	To, From     Ranges
	Width, Count int
}

// Ranges says where ranges of columns begin: at First, and each Step behind the one before it; with a step of 0 all are the same.
type Ranges struct{ First, Step int }

// Visit implements Op.
func (o *CopyColumns) Visit(v Visitor) {
	v.Tensor(&o.Dst, ReadWrite) // other columns keep what they hold
	v.Tensor(&o.Src, Read)
}

// CopyColumns does a CopyColumns.
func (v Verbs) CopyColumns(dst, src Tensor, to, from Ranges, width, count int) {
	v.calls.copyColumns = CopyColumns{dst, src, to, from, width, count}
	v.Do(&v.calls.copyColumns)
}

// Activate computes Dst = act(Gate)·Up. Dst may be Gate.
type Activate struct {
	Dst, Gate Tensor // [n, n_ff]
	Up        Tensor // [n, n_ff]; without Mem in ungated layers: Dst = act(Gate)
	Act       Activation
}

// Visit implements Op.
func (o *Activate) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.Gate, Read)
	v.Tensor(&o.Up, Read)
}

// Activate does an Activate.
func (v Verbs) Activate(dst, gate, up Tensor, act Activation) {
	v.calls.activate = Activate{dst, gate, up, act}
	v.Do(&v.calls.activate)
}

// Temper multiplies row i of X by 1 + Scale·ln(1 + ⌊(Pos[i]+Offset)/Length⌋): queries that see many positions attend more sharply.
type Temper struct {
	X   Tensor // [n, cols]
	How Temperature
}

// Temperature holds the parameters of a Temper.
type Temperature struct {
	Scale  float32
	Length int // positions after which the factor grows
	Offset int // of positions
}

// Factor returns the factor at a position.
func (t Temperature) Factor(pos int) float64 {
	return 1 + float64(t.Scale)*math.Log(float64(1+(pos+t.Offset)/t.Length))
}

// Visit implements Op.
func (o *Temper) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// Temper does a Temper.
func (v Verbs) Temper(x Tensor, how Temperature) {
	v.calls.temper = Temper{x, how}
	v.Do(&v.calls.temper)
}

// GaussianTopK computes X = max(0, X − mean − Deviations·σ), with each row's mean and standard deviation σ (over n): of normally distributed
// numbers the largest part stays, the others become exactly zero.
type GaussianTopK struct {
	X          Tensor // [n, cols]
	Deviations float32
}

// Visit implements Op.
func (o *GaussianTopK) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// GaussianTopK does a GaussianTopK.
func (v Verbs) GaussianTopK(x Tensor, deviations float32) {
	v.calls.topK = GaussianTopK{x, deviations}
	v.Do(&v.calls.topK)
}

// Match gives each row of X the size that Like's has: X = X·√mean(Like²) / √max(mean(X²), Floor).
type Match struct {
	X, Like Tensor // [n, cols]
	Floor   float32
}

// Visit implements Op.
func (o *Match) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Tensor(&o.Like, Read)
}

// Match does a Match.
func (v Verbs) Match(x, like Tensor, floor float32) {
	v.calls.match = Match{x, like, floor}
	v.Do(&v.calls.match)
}

// Slice copies columns of X from From on to Dst.
type Slice struct {
	Dst  Tensor // [n, some]
	X    Tensor // [n, cols]
	From int
}

// Visit implements Op.
func (o *Slice) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
}

// Slice does a Slice.
func (v Verbs) Slice(dst, x Tensor, from int) {
	v.calls.slice = Slice{dst, x, from}
	v.Do(&v.calls.slice)
}

// Multiply computes Dst = X·W, column by column. Dst may be X.
type Multiply struct {
	Dst, X Tensor  // [n, cols]
	W      *Vector // [cols]
}

// Visit implements Op.
func (o *Multiply) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
	v.Vector(&o.W)
}

// Multiply does a Multiply.
func (v Verbs) Multiply(dst, x Tensor, w *Vector) {
	v.calls.multiply = Multiply{dst, x, w}
	v.Do(&v.calls.multiply)
}

// AltUpStreams is the number of residual streams that the operations of AltUp take.
const AltUpStreams = 4

// Streams are the residual streams of AltUp, which widen the residual without widening the blocks. [n, cols] each
type Streams [AltUpStreams]Tensor

// First returns the views of the streams' first n rows.
func (s Streams) First(n int) Streams {
	for i := range s {
		s[i] = s[i].First(n)
	}
	return s
}

func (s *Streams) visit(v Visitor) {
	for i := range s {
		v.Tensor(&s[i], ReadWrite)
	}
}

// AltUpPredict adds to each stream a mix of all: X[i] += Σ_j c_ij·X[j] with c_ij = Σ_m W[(4i+j)·4+m]·M[m] for each token.
//
// Source: Baykal et al. 2023, Alternating Updates for Efficient Transformers.
type AltUpPredict struct {
	X Streams
	M Tensor  // [n, 4] modalities of a token
	W *Vector // [64]
}

// Visit implements Op.
func (o *AltUpPredict) Visit(v Visitor) {
	o.X.visit(v)
	v.Tensor(&o.M, Read)
	v.Vector(&o.W)
}

// AltUpPredict does an AltUpPredict.
func (v Verbs) AltUpPredict(x Streams, m Tensor, w *Vector) {
	v.calls.altUp = AltUpPredict{x, m, w}
	v.Do(&v.calls.altUp)
}

// AltUpCorrect adds to each stream what a block's output Y differs by from the active stream's prediction, to an extent of its own:
// X[i] += (1 + Σ_m W[4i+m]·M[m])·(Y − X[Active]).
type AltUpCorrect struct {
	X      Streams
	Y      Tensor  // [n, cols]
	M      Tensor  // [n, 4]
	W      *Vector // [16]
	Active int
}

// Visit implements Op.
func (o *AltUpCorrect) Visit(v Visitor) {
	o.X.visit(v)
	v.Tensor(&o.Y, Read)
	v.Tensor(&o.M, Read)
	v.Vector(&o.W)
}

// AltUpCorrect does an AltUpCorrect.
func (v Verbs) AltUpCorrect(x Streams, y, m Tensor, w *Vector, active int) {
	v.calls.correct = AltUpCorrect{x, y, m, w, active}
	v.Do(&v.calls.correct)
}

// Gather copies row Out[i] of X to row i of Dst.
type Gather struct {
	Dst Tensor // [n_out, cols]
	X   Tensor // [n, cols]
}

// Visit implements Op.
func (o *Gather) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
}

// Gather does a Gather.
func (v Verbs) Gather(dst, x Tensor) {
	v.calls.gather = Gather{dst, x}
	v.Do(&v.calls.gather)
}

// Precede copies row i-1 of X to row i of Dst, where it is of the same sequence and the position before. Other rows of Dst become what Params.Before has of
// their sequence, or zeros where it has nothing.
type Precede struct {
	Dst, X Tensor // [n, cols]
}

// Visit implements Op.
func (o *Precede) Visit(v Visitor) {
	v.Tensor(&o.Dst, Write)
	v.Tensor(&o.X, Read)
}

// Precede does a Precede.
func (v Verbs) Precede(dst, x Tensor) {
	v.calls.precede = Precede{dst, x}
	v.Do(&v.calls.precede)
}

// Predict computes Set = {i < always} ∪ {always+i : Logits[i] >= Threshold} for each token, with Logits = FC2·relu(FC1·X) and
// always = Set.N − FC2.Rows.
type Predict struct {
	Set    Set     // [n, n_ff]
	X      Tensor  // [n, cols]
	Hidden Tensor  // [n, rank] scratch
	Logits Tensor  // [n, n_ff − always] scratch
	FC1    *Matrix // [rank, cols]
	FC2    *Matrix // [n_ff − always, rank]
}

// Visit implements Op.
func (o *Predict) Visit(v Visitor) {
	v.Set(&o.Set, Write)
	v.Tensor(&o.X, Read)
	v.Tensor(&o.Hidden, Write)
	v.Tensor(&o.Logits, Write)
	v.Matrix(&o.FC1)
	v.Matrix(&o.FC2)
}

// Predict does a Predict.
func (v Verbs) Predict(s Set, x, hidden, logits Tensor, fc1, fc2 *Matrix) {
	v.calls.predict = Predict{s, x, hidden, logits, fc1, fc2}
	v.Do(&v.calls.predict)
}

// SparseFFN computes a feed-forward layer by neuron: Out = Σ_{i∈Set} a_i·Down[i] + DownBias with a_i = act(Gate[i]·X)·(Up[i]·X), or
// act(Up[i]·X+UpBias[i]) where there is no gate. A neuron outside a token's set adds nothing, whichever way the device computes.
// What an adapter adds to the products of gate and up counts before the activation: see NeuronAdapter.
type SparseFFN struct {
	Out, X  Tensor // [n, n_embd]
	Set     Set    // [n, n_ff]
	Weights SparseWeights
}

// SparseWeights are the weights of a feed-forward layer by neuron.
type SparseWeights struct {
	Gate     *Matrix // [n_ff, n_embd] or nil
	Up       *Matrix // [n_ff, n_embd]
	Down     *Matrix // [n_ff, n_embd], row i is neuron i's down column; or [n_embd, n_ff], taken in for Columns
	UpBias   *Vector // [n_ff] or nil
	DownBias *Vector // [n_embd] or nil
	Act      Activation
	Cut      *float32     // gates are cut by GaussianTopK with so many deviations before they are activated, and the set is every neuron; nil: they stay
	Count    *NeuronCount // counts what was computed, or nil
	Bins     *NeuronBins  // count which neurons were needed, or nil
	First    int          // the layer's number of neuron 0, in Bins
	Hot      bool         // a guess at the result is enough: a device of several processors computes the neurons of a divided layer that lie on a GPU, and no others
	Adapter  NeuronAdapter
}

// NeuronAdapter is what low-rank adapters have beside the matrices of a SparseFFN: Gate[i]·X becomes Gate[i]·X + GateB[i]·GateLow, and Up[i]·X
// likewise. Beside Down·a only the narrow sum is computed, DownLow = DownA·a: it is for the caller to widen and add. Each matrix may be nil.
type NeuronAdapter struct {
	GateB, UpB     *Matrix // [n_ff, rank]
	DownA          *Matrix // [rank, n_ff], taken in for Columns
	GateLow, UpLow Tensor  // [n, rank]
	DownLow        Tensor  // [n, rank], written
}

// Any reports whether a has a matrix.
func (a *NeuronAdapter) Any() bool { return a.GateB != nil || a.UpB != nil || a.DownA != nil }

// Zeros reports whether some neurons of every token are expected to be exactly zero.
func (w *SparseWeights) Zeros() bool { return w.Cut != nil || w.Act.Sparse() }

// Visit implements Op.
func (o *SparseFFN) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.X, Read)
	v.Set(&o.Set, Read)
	w := &o.Weights
	v.Matrix(&w.Up)
	v.Matrix(&w.Gate)
	v.Matrix(&w.Down)
	v.Vector(&w.UpBias)
	v.Vector(&w.DownBias)
	a := &w.Adapter
	v.Matrix(&a.GateB)
	v.Matrix(&a.UpB)
	v.Matrix(&a.DownA)
	v.Tensor(&a.GateLow, Read)
	v.Tensor(&a.UpLow, Read)
	v.Tensor(&a.DownLow, Write)
}

// SparseFFN does a SparseFFN.
func (v Verbs) SparseFFN(out, x Tensor, s Set, f SparseWeights) {
	v.calls.sparseFFN = SparseFFN{out, x, s, f}
	v.Do(&v.calls.sparseFFN)
}
