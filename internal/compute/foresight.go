package compute

// Foreseer takes predictions of what the next layer reads. A device that waits in every layer, for another processor or
// for a disk, brings it into a cache or into RAM ahead of time. No result depends on a prediction.
type Foreseer interface {
	// Foresee says, before a layer's SparseFFN, how to predict the next layer's set. After that SparseFFN the content
	// of g.H, g.Set, g.Hidden and g.Logits is lost.
	Foresee(g Guess)
	// ForeseeExperts says, before a layer's Experts, how to predict the choice of the next layer with experts.
	ForeseeExperts(g ExpertGuess)
}

// Unforeseeing is a Foreseer that ignores predictions.
type Unforeseeing struct{}

// Foresee does nothing.
func (Unforeseeing) Foresee(Guess) {}

// ForeseeExperts does nothing.
func (Unforeseeing) ForeseeExperts(ExpertGuess) {}

// Guess is the next layer's predictor applied to this layer's residual, which differs little from its own input; n is
// at most FewTokens.
type Guess struct {
	X              Tensor  // [n, n_embd] the residual
	Norm           *Vector // [n_embd] weight of the RMSNorm before the predictor; nil: the predictor reads X
	Eps            float32
	H              Tensor // [n, n_embd] scratch
	Set            Set    // scratch, like the two below
	Hidden, Logits Tensor // [n, FC1.Rows], [n, FC2.Rows]
	FC1, FC2       *Matrix
	Weights        SparseWeights // the next layer's
}

// Visit passes the operands that live on a device to v, as Op.Visit does.
func (g *Guess) Visit(v Visitor) {
	p := Predict{g.Set, g.X, g.Hidden, g.Logits, g.FC1, g.FC2}
	p.Visit(v)
	g.Set, g.X, g.Hidden, g.Logits, g.FC1, g.FC2 = p.Set, p.X, p.Hidden, p.Logits, p.FC1, p.FC2
	v.Tensor(&g.H, Write)
	v.Vector(&g.Norm)
}

// ExpertGuess is the router of the next layer with experts applied to this layer's residual, which differs little from
// the residual that that router reads.
type ExpertGuess struct {
	X          Tensor  // [n, n_embd] the residual
	Norm       *Vector // [n_embd] weight of the RMSNorm that the router reads, or of the LayerNorm if Centered; nil: it reads X
	Shift      *Vector // [n_embd] added to the norm, or nil
	Centered   bool
	Eps        float32
	Router     *Matrix // [experts, n_embd]
	RouterBias *Vector // [experts] or nil
	Bias       *Vector // [experts] as Route's, or nil
	Used       int     // experts of a token
	Count      int     // the layer's experts
	How        Routing
	Weights    ExpertWeights // the next layer's
	// Due says that X is the very residual that the router reads, before attention: these experts are computed next, and
	// are read while attention computes.
	Due bool
}
