package compute

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

// Clamp brings every element of X into [Low, High].
type Clamp struct {
	X         Tensor // [n, cols]
	Low, High float32
}

// Visit implements Op.
func (o *Clamp) Visit(v Visitor) { v.Tensor(&o.X, ReadWrite) }

// Clamp does a Clamp.
func (v Verbs) Clamp(x Tensor, low, high float32) {
	v.calls.clamp = Clamp{x, low, high}
	v.Do(&v.calls.clamp)
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

// GaussianTopK computes X = max(0, X − mean − Deviations·σ), with each row's mean and standard deviation σ (over n): of
// normally distributed numbers the largest part stays, the others become exactly zero.
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

// Shift computes X = X + B, column by column.
type Shift struct {
	X Tensor  // [n, cols]
	B *Vector // [cols]
}

// Visit implements Op.
func (o *Shift) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Vector(&o.B)
}

// Shift does a Shift.
func (v Verbs) Shift(x Tensor, b *Vector) {
	v.calls.shift = Shift{x, b}
	v.Do(&v.calls.shift)
}
