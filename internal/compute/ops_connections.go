package compute

// Hyper-connections widen the residual to several streams, stored side by side in a row: [n, streams·width]. A part of
// a block reads a weighted sum of the streams, and its output is added to each stream with a weight. The weights are
// computed from the token's streams.
//
// Source: Zhu et al. 2024, Hyper-Connections; Xie et al. 2025, mHC: Manifold-Constrained Hyper-Connections.

// Connections say how the weights of a hyper-connection follow from products of the streams.
type Connections struct {
	Streams int
	Eps     float32 // added to the weights of reading, and to what mixes are divided by
	Written float32 // the largest weight of writing, without Floor
	Floor   float32 // added to the weights of writing
	Rounds  int     // rounds that normalise rows and columns of mixes to the sum 1; at least 1
}

// ConnectionWeights replaces products by weights. With C streams, a row of W becomes
//
//	read  [C]     σ(w·Scale[0] + Base) + Eps
//	write [C]     Written·σ(w·Scale[1] + Base) + Floor
//	mix   [C, C]  softmax(w·Scale[2] + Base) over each row, plus Eps, with columns and then rows divided by their sums plus Eps
//
// Each round divides a mix's columns by their sums; each round but the first divides its rows before that. The rows of
// a mix are the source streams, the columns the target streams. W may hold the read weights alone, or lack the mix.
type ConnectionWeights struct {
	W     Tensor  // [n, C], [n, 2·C] or [n, (2+C)·C]
	Scale *Vector // [1], [2] or [3]
	Base  *Vector // [W.Cols]
	How   Connections
}

// Fits reports whether the operands' shapes belong together.
func (o *ConnectionWeights) Fits() bool {
	c, parts := o.How.Streams, 0
	switch o.W.Cols {
	case c:
		parts = 1
	case 2 * c:
		parts = 2
	case (2 + c) * c:
		parts = 3
	}
	return c >= 1 && c <= MostStreams && parts > 0 && o.Scale.Len == parts && o.Base.Len == o.W.Cols
}

// MostStreams bounds the streams of hyper-connections.
const MostStreams = 8

// Visit implements Op.
func (o *ConnectionWeights) Visit(v Visitor) {
	v.Tensor(&o.W, ReadWrite)
	v.Vector(&o.Scale)
	v.Vector(&o.Base)
}

// ConnectionWeights does a ConnectionWeights.
func (v Verbs) ConnectionWeights(w Tensor, scale, base *Vector, how Connections) {
	v.calls.connections = ConnectionWeights{w, scale, base, how}
	v.Do(&v.calls.connections)
}

// ReadStreams computes what a part of a block reads: Out = Σ_c W[c]·X_c, with the streams X_c of a token.
type ReadStreams struct {
	Out     Tensor // [n, width]
	X       Tensor // [n, streams·width]
	W       Tensor // from ConnectionWeights
	Streams int
}

// Visit implements Op.
func (o *ReadStreams) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.X, Read)
	v.Tensor(&o.W, Read)
}

// Fits reports whether the operands' shapes belong together.
func (o *ReadStreams) Fits() bool {
	return o.Streams >= 1 && o.Streams <= MostStreams && o.X.Cols == o.Streams*o.Out.Cols && o.W.Cols >= o.Streams && o.X.Rows == o.Out.Rows && o.W.Rows == o.Out.Rows
}

// ReadStreams does a ReadStreams.
func (v Verbs) ReadStreams(out, x, w Tensor, streams int) {
	v.calls.readStreams = ReadStreams{out, x, w, streams}
	v.Do(&v.calls.readStreams)
}

// ReadGated computes what a part of a block reads of streams that have a gate for each element: Out = Σ_c X_c·σ(Gate_c) /
// streams.
type ReadGated struct {
	Out     Tensor // [n, width]
	X, Gate Tensor // [n, streams·width]; Gate may be overwritten
}

// Streams returns their number.
func (o *ReadGated) Streams() int { return o.X.Cols / max(1, o.Out.Cols) }

// Fits reports whether the operands' shapes belong together.
func (o *ReadGated) Fits() bool {
	return o.Streams() >= 1 && o.Streams() <= MostStreams && o.X.Cols == o.Streams()*o.Out.Cols && o.Gate.Cols == o.X.Cols && o.X.Rows == o.Out.Rows && o.Gate.Rows == o.Out.Rows
}

// Visit implements Op.
func (o *ReadGated) Visit(v Visitor) {
	v.Tensor(&o.Out, Write)
	v.Tensor(&o.X, Read)
	v.Tensor(&o.Gate, ReadWrite)
}

// ReadGated does a ReadGated.
func (v Verbs) ReadGated(out, x, gate Tensor) {
	v.calls.readGated = ReadGated{out, x, gate}
	v.Do(&v.calls.readGated)
}

// WriteStreams adds what a part of a block gives to the streams: X_c = W[C+c]·Y + Σ_s W[2·C + C·s + c]·X_s, or, where W
// has no weights of mixing, X_c + W[C+c]·Y. A W of C columns has the weights of writing alone.
type WriteStreams struct {
	X       Tensor // [n, streams·width]
	Y       Tensor // [n, width]
	W       Tensor // from ConnectionWeights
	Streams int
}

// Visit implements Op.
func (o *WriteStreams) Visit(v Visitor) {
	v.Tensor(&o.X, ReadWrite)
	v.Tensor(&o.Y, Read)
	v.Tensor(&o.W, Read)
}

// Mixes reports whether streams are mixed.
func (o *WriteStreams) Mixes() bool { return o.W.Cols == (2+o.Streams)*o.Streams }

// First returns the column of W with the first weight of writing.
func (o *WriteStreams) First() int {
	if o.W.Cols == o.Streams {
		return 0
	}
	return o.Streams
}

// Fits reports whether the operands' shapes belong together.
func (o *WriteStreams) Fits() bool {
	return o.Streams >= 1 && o.Streams <= MostStreams && o.X.Cols == o.Streams*o.Y.Cols && (o.Mixes() || o.W.Cols == 2*o.Streams || o.W.Cols == o.Streams) && o.X.Rows == o.Y.Rows && o.W.Rows == o.Y.Rows
}

// WriteStreams does a WriteStreams.
func (v Verbs) WriteStreams(x, y, w Tensor, streams int) {
	v.calls.writeStreams = WriteStreams{x, y, w, streams}
	v.Do(&v.calls.writeStreams)
}
