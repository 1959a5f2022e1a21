package compute

// AttendResiduals mixes a residual with checkpoints of it. x_j are the checkpoints in Stack and X itself:
//
//	Out = Σ_j p_j·x_j
//
// where p is the softmax over j of Σ_i W[i]·x_j[i]/√(mean(x_j²)+Epsilon).
//
// Source: Kimi Team 2026, Attention Residuals.
type AttendResiduals struct {
	Out     Tensor // [n, width], not X
	Stack   Tensor // [n, at least Count·width]: the checkpoints, one after the other
	X       Tensor // [n, width]
	W       *Vector
	Count   int // number of checkpoints, at most MostCheckpoints
	Epsilon float32
}

// MostCheckpoints bounds the checkpoints of a residual.
const MostCheckpoints = 255

// Fits reports whether the operands' shapes belong together.
func (o *AttendResiduals) Fits() bool {
	return o.Count >= 0 && o.Count <= MostCheckpoints && o.Out.Cols == o.X.Cols && o.W.Len == o.X.Cols && o.Stack.Cols >= o.Count*o.X.Cols &&
		o.Out.Rows == o.X.Rows && o.Stack.Rows == o.X.Rows
}

// Visit implements Op.
func (o *AttendResiduals) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.Stack, Read)
	v.Tensor(&o.X, Read)
	v.Vector(&o.W)
}

// AttendResiduals does an AttendResiduals.
func (v Verbs) AttendResiduals(o AttendResiduals) {
	v.calls.residuals = o
	v.Do(&v.calls.residuals)
}
