package compute

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

// MatMulByHead computes a product for each head. The heads' matrices W [rows, cols] are stored one below the other:
// Out[t, To.First + h·To.Step + r] = Σ_c W[h·rows + r, c]·X[t, h·cols + c].
type MatMulByHead struct {
	Out Tensor  // [n, at least heads·rows]
	To  Ranges  // where the heads' results begin in a row of Out; its other columns keep their content
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
