package compute

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
