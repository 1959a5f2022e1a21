package compute

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

// AltUpPredict adds to each stream a mix of all: X[i] += Σ_j c_ij·X[j] with c_ij = Σ_m W[(4i+j)·4+m]·M[m] for each
// token.
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

// AltUpCorrect adds to each stream the difference between a block's output Y and the active stream's prediction, times
// the stream's own factor: X[i] += (1 + Σ_m W[4i+m]·M[m])·(Y − X[Active]).
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
