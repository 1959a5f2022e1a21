package compute

// WKV computes RWKV-7's time mixing over the positions of a sequence. With r, k and v of a head, w =
// exp(−e^(−1/2)·sigmoid(W)), a = sigmoid(A), κ = k·KeyNorm / max(‖k·KeyNorm‖, 1e-12) and l = k·(1 + (a − 1)·KeyRate):
//
//	S = S·diag(w) − (S·κ)·(κ·a)ᵀ + v·lᵀ
//	y = S·r
//	Out = (y − mean)/√(var + Epsilon)·Weight + Bias + v·Σ(r·l·Bonus)
//
// The state holds the heads' S, each [dim, dim], from number At on.
//
// Source: Peng et al. 2025, RWKV-7 "Goose" with Expressive Dynamic State Evolution.
type WKV struct {
	Out        Tensor // [n, heads·dim]
	R, K, V    Tensor
	W, A       Tensor  // [n, heads·dim] each
	KeyNorm    *Vector // [heads·dim]
	KeyRate    *Vector
	Bonus      *Vector
	Scale      *Vector // [2·heads·dim] Weight, then Bias
	Heads, Dim int
	Epsilon    float32
	At         int
	Cache      *Cache
	Layer      int
}

// MaxWKV is the largest Dim.
const MaxWKV = 256

// Size returns the numbers of a sequence's state.
func (o *WKV) Size() int { return o.Heads * o.Dim * o.Dim }

// Fits reports whether the operands' shapes belong together.
func (o *WKV) Fits() bool {
	inner := o.Heads * o.Dim
	for _, t := range [...]Tensor{o.R, o.K, o.V, o.W, o.A} {
		if t.Rows != o.Out.Rows || t.Cols != inner {
			return false
		}
	}
	return o.Heads > 0 && o.Dim > 0 && o.Dim <= MaxWKV && o.Out.Cols == inner && o.KeyNorm.Len == inner && o.KeyRate.Len == inner && o.Bonus.Len == inner &&
		o.Scale.Len == 2*inner && o.At >= 0 && o.At+o.Size() <= o.Cache.Layers[o.Layer].State
}

// Visit implements Op.
func (o *WKV) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.R, Read)
	v.Tensor(&o.K, Read)
	v.Tensor(&o.V, Read)
	v.Tensor(&o.W, Read)
	v.Tensor(&o.A, Read)
	v.Vector(&o.KeyNorm)
	v.Vector(&o.KeyRate)
	v.Vector(&o.Bonus)
	v.Vector(&o.Scale)
	v.Cache(&o.Cache, &o.Layer)
}

// WKV does a WKV.
func (v Verbs) WKV(o WKV) {
	v.calls.wkv = o
	v.Do(&v.calls.wkv)
}
