package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// Experts is a layer of experts with a router that chooses some for each token (Shazeer et al. 2017). In addition there
// may be a feed-forward layer for all tokens, the shared experts.
type Experts struct {
	Router     Linear          // [experts, n_embd]; not bound: the layer has no experts
	ChoiceBias *compute.Vector // [experts] added for the choice only, or nil
	Factors    *compute.Vector // [experts] factors of the experts' outputs, or nil
	Routing    compute.Routing
	Given      *compute.Matrix // [n_vocab, used] the experts of each token, or nil: they are chosen by the router
	Used       int             // experts of a token
	Count      int             // the layer's experts

	Narrow Linear // [latent, n_embd] makes the experts' input; not bound if they read the residual's width
	Norm   Norm   // [latent] norm of the experts' output, or none
	Widen  Linear // [n_embd, latent] widens that output

	Weights    compute.ExpertWeights
	Group      compute.ExpertWeights // small experts, each shared by as many neighbours of the others, or none
	GroupScale float32               // factor of the small experts' output
	Shared     *FFN                  // the shared experts, or nil
	SharedGate Linear                // [1, n_embd]: its sigmoid weighs the shared experts' output; not bound: 1

	Next     *Experts // the next layer's with experts, if their choice can be predicted, or nil
	Guessed  bool     // they are another layer's Next
	Foretell bool     // Expect announces to a device which experts it will use
	reads    *Norm    // see Reads

	Uses compute.NeuronCount
	Bins compute.NeuronBins

	// Observe, if it is set, sees each step's choice after the experts were computed.
	Observe func(p *Pass, choice compute.Choice)
}

// Bound reports whether there are experts.
func (e *Experts) Bound() bool { return e.Router.Bound() }

// Reads says what the router reads, so that an earlier layer can predict its choice: a norm of the residual, or without
// a norm the residual. It returns e.
func (e *Experts) Reads(n Norm) *Experts {
	e.reads = &n
	return e
}

// Rate returns the router's logits for x. [n, experts]
func (e *Experts) Rate(p *Pass, x compute.Tensor) compute.Tensor { return p.Linear(x, &e.Router) }

// Forward returns the output of the chosen experts and of the shared ones for x, the norm of the residual. [n, n_embd]
func (e *Experts) Forward(p *Pass, residual, x compute.Tensor) compute.Tensor {
	return e.Mix(p, e.Rate(p, x), residual, x)
}

// Mix is Forward with the router's logits, which may have read something else: [n, n_embd]
//
//	Σ_k w_k·(expert_k(x) + GroupScale·group_k(x)) + sigmoid(SharedGate·x)·shared(x)
//
// with the experts k and weights w_k that Routing makes of logits, the router's.
func (e *Experts) Mix(p *Pass, logits, residual, x compute.Tensor) compute.Tensor {
	out := p.New(x, residual.Cols)
	if x.Rows == 0 {
		return out
	}
	choice := p.pool.takeChoice(x, e.Used, e.Count)
	if e.Given != nil {
		scope := p.Scope()
		given := p.Lookup(e.Given)
		if x.Outputs {
			given = p.Outputs(given)
		}
		p.verbs.RouteTo(choice, logits, given, e.Routing)
		p.Leave(scope)
	} else {
		p.verbs.Route(choice, logits, e.ChoiceBias, e.Factors, e.Routing)
	}
	e.foresee(p, residual)
	e.compute(p, out, x, choice)
	if e.Group.Up != nil {
		scope := p.Scope()
		y := p.New(x, residual.Cols)
		p.verbs.Experts(y, x, choice, e.Group)
		p.Scale(y, e.GroupScale)
		p.Add(out, y)
		p.Leave(scope)
	}
	if e.Shared == nil {
		return out
	}
	var gate compute.Tensor
	if e.SharedGate.Bound() {
		gate = p.Linear(x, &e.SharedGate)
	}
	shared := e.Shared.Forward(p, residual, x)
	if e.SharedGate.Bound() {
		p.verbs.GateRows(shared, gate)
	}
	p.Add(shared, out)
	return shared
}

// foresee tells a device that keeps experts on disk how to predict the choice of the next layer with experts: the
// residual changes little from layer to layer.
func (e *Experts) foresee(p *Pass, residual compute.Tensor) {
	if e.Next != nil && residual.Rows <= compute.FewTokens {
		p.verbs.ForeseeExperts(e.Next.guess(residual))
	}
}

// Expect tells a device that keeps experts on disk which ones this layer will use, if the router reads the residual
// before attention: they are read during attention.
func (e *Experts) Expect(p *Pass, residual compute.Tensor) {
	if e.Foretell && residual.Rows > 0 && residual.Rows <= compute.FewTokens {
		g := e.guess(residual)
		g.Due = true
		p.verbs.ForeseeExperts(g)
	}
}

// guess returns how to predict the router's choice from a residual.
func (e *Experts) guess(residual compute.Tensor) compute.ExpertGuess {
	return compute.ExpertGuess{
		X: residual, Norm: e.reads.Weight, Shift: e.reads.Bias, Centered: e.reads.Centered, Eps: e.reads.Epsilon,
		Router: e.Router.W, RouterBias: e.Router.B, Bias: e.ChoiceBias, Used: e.Used, Count: e.Count, How: e.Routing, Weights: e.Weights,
	}
}

// compute makes out the chosen experts' output.
func (e *Experts) compute(p *Pass, out, x compute.Tensor, choice compute.Choice) {
	if e.Narrow.Bound() {
		scope := p.Scope()
		low := p.Linear(x, &e.Narrow)
		sum := p.New(x, e.Widen.W.Cols)
		p.verbs.Experts(sum, low, choice, e.Weights)
		p.Normalize(sum, e.Norm)
		p.LinearTo(out, sum, &e.Widen)
		p.Leave(scope)
	} else {
		p.verbs.Experts(out, x, choice, e.Weights)
	}
	if e.Observe != nil {
		e.Observe(p, choice)
	}
}

// Neurons returns the neurons of an expert.
func (e *Experts) Neurons() int {
	n := e.Weights.Up.Rows / e.Count
	if e.Weights.Fused {
		n /= 2
	}
	return n
}

// Bytes returns what reading all experts takes.
func (e *Experts) Bytes() int64 {
	return bytesOf(e.Weights.Gate) + bytesOf(e.Weights.Up) + bytesOf(e.Weights.Down)
}

// UsedBytes returns the bytes of the experts that a step's tokens use on average where none uses another's: all at
// most.
func (e *Experts) UsedBytes() int64 {
	all := e.Bytes()
	tokens := max(1, e.Uses.Tokens/max(1, e.Uses.Steps))
	return min(all, all/int64(e.Count)*int64(e.Used)*tokens)
}
