package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// HyperConnection says how a part of a block reads the residual, which is several streams side by side in a row, and
// how its output is added to them.
//
// Source: Zhu et al. 2024, Hyper-Connections; Xie et al. 2025, mHC: Manifold-Constrained Hyper-Connections.
type HyperConnection struct {
	Norm        Norm   // norm of all streams together, without weights
	Mix         Linear // [weights, streams·n_embd] of the norm
	Scale, Base *compute.Vector
	How         compute.Connections
}

// ConnectionSpec describes the hyper-connections of a model.
type ConnectionSpec struct {
	compute.Connections
	Mixes bool // streams are mixed where a part is added
	Width int  // n_embd
	Norm  float32
}

// maxRounds bounds in how many rounds mixes are balanced.
const maxRounds = 1 << 10

// Connections adds to usual what the file says of hyper-connections.
func (k *Keys) Connections(usual ConnectionSpec) ConnectionSpec {
	s := usual
	s.Streams = k.RequiredCount(".hyper_connection.count", compute.MostStreams)
	s.Eps = float32(k.Within(".hyper_connection.epsilon", float64(usual.Eps), 0, 1))
	s.Written = float32(k.Within(".hyper_connection.magnitude", float64(usual.Written), 0, MaxScale))
	if s.Mixes {
		s.Rounds = k.RequiredCount(".hyper_connection.sinkhorn_iterations", maxRounds)
	}
	return s
}

// HyperConnection binds a connection. The names of its tensors begin with name.
func (b *Binder) HyperConnection(name string, s ConnectionSpec) HyperConnection {
	weights, parts := 2*s.Streams, 2
	if s.Mixes {
		weights, parts = (2+s.Streams)*s.Streams, 3
	}
	return b.connection(name, s, weights, parts)
}

// LastConnection binds the connection by which the head reads the streams.
func (b *Binder) LastConnection(name string, s ConnectionSpec) HyperConnection {
	return b.connection(name, s, s.Streams, 1)
}

func (b *Binder) connection(name string, s ConnectionSpec, weights, parts int) HyperConnection {
	return HyperConnection{
		Norm: b.UnitNorm(s.Streams*s.Width, s.Norm), Mix: b.Linear(name+"_fn", weights, s.Streams*s.Width, NoBias),
		Scale: b.Vector(name+"_scale.weight", parts), Base: b.Vector(name+"_base.weight", weights), How: s.Connections,
	}
}

// Streams returns a residual of as many copies of x. [n, streams·n_embd]
func (p *Pass) Streams(x compute.Tensor, streams int) compute.Tensor {
	y := p.New(x, streams*x.Cols)
	if x.Rows > 0 {
		p.verbs.CopyColumns(y, x, compute.Ranges{Step: x.Cols}, compute.Ranges{}, x.Cols, streams)
	}
	return y
}

// Read returns a part's input, computed from the streams x, and the weights for adding its output to them: see Write.
// [n, n_embd], [n, weights]
func (h *HyperConnection) Read(p *Pass, x compute.Tensor) (in, weights compute.Tensor) {
	in, weights = p.New(x, x.Cols/h.How.Streams), p.New(x, h.Mix.W.Rows)
	if x.Rows == 0 {
		return in, weights
	}
	scope := p.Scope()
	p.LinearTo(weights, p.Norm(x, h.Norm), &h.Mix)
	p.Leave(scope)
	p.verbs.ConnectionWeights(weights, h.Scale, h.Base, h.How)
	p.verbs.ReadStreams(in, x, weights, h.How.Streams)
	return in, weights
}

// Write adds y, what the part gives, to the streams x. It gives y back.
func (h *HyperConnection) Write(p *Pass, x, y, weights compute.Tensor) {
	if x.Rows > 0 {
		p.verbs.WriteStreams(x, y, weights, h.How.Streams)
	}
	p.pool.giveBack(y)
}
