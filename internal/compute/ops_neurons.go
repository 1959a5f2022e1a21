package compute

// Predict computes Set = {i < always} ∪ {always+i : Logits[i] >= Threshold} for each token, with Logits =
// FC2·relu(FC1·X) and always = Set.N − FC2.Rows.
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

// SparseFFN computes a feed-forward layer by neuron: Out = Σ_{i∈Set} a_i·Down[i] + DownBias with a_i =
// act(Gate[i]·X)·(Up[i]·X), or act(Up[i]·X+UpBias[i]) without a gate. A neuron outside a token's set adds nothing,
// however the device computes. Adapters of gate and up apply before the activation: see NeuronAdapter.
type SparseFFN struct {
	Out, X  Tensor // [n, n_embd]
	Set     Set    // [n, n_ff]
	Weights SparseWeights
}

// SparseWeights are the weights of a feed-forward layer by neuron.
type SparseWeights struct {
	Gate     *Matrix // [n_ff, n_embd] or nil
	Up       *Matrix // [n_ff, n_embd]
	Down     *Matrix // [n_ff, n_embd], row i is neuron i's down column; or [n_embd, n_ff], loaded for Columns
	UpBias   *Vector // [n_ff] or nil
	DownBias *Vector // [n_embd] or nil
	Act      Activation
	Cut      *float32     // GaussianTopK with this many deviations is applied to the gates before the activation, and the set is every neuron; nil: it is not
	Count    *NeuronCount // counts what was computed, or nil
	Bins     *NeuronBins  // count which neurons were needed, or nil
	First    int          // the layer's number of neuron 0, in Bins
	EveryRow int          // see Place
	Hot      bool         // an approximate result is enough: if a layer is divided between processors, only the neurons on a GPU are computed
	Adapter  NeuronAdapter
}

// NeuronAdapter holds the low-rank adapters of a SparseFFN's matrices: Gate[i]·X becomes Gate[i]·X + GateB[i]·GateLow,
// and Up[i]·X likewise. Next to Down·a, the operation computes the narrow product DownLow = DownA·a; the caller widens
// and adds it. Each matrix may be nil.
type NeuronAdapter struct {
	GateB, UpB     *Matrix // [n_ff, rank]
	DownA          *Matrix // [rank, n_ff], loaded for Columns
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
