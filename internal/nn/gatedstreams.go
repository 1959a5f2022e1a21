package nn

import "github.com/powerinfer-go/powerinfer/internal/compute"

// StreamNorm is an RMSNorm of each of several streams, which are side by side in a row and have weights of their own.
type StreamNorm struct {
	Weight  *compute.Vector // [streams·n_embd]
	Ones    *compute.Vector // [n_embd]
	Epsilon float32
}

// StreamNorm binds name.weight [streams·width].
func (b *Binder) StreamNorm(name string, streams, width int, eps float32) StreamNorm {
	t, n := b.tensor(name+".weight"), StreamNorm{Ones: b.ones(width), Epsilon: eps}
	if t != nil && len(t.Shape) > 1 { // files may hold a row for each stream
		n.Weight = b.rowsVector(name+".weight", streams, width)
	} else {
		n.Weight = b.Vector(name+".weight", streams*width)
	}
	return n
}

// NormStreams returns the norm of the streams x. [n, streams·n_embd]
func (p *Pass) NormStreams(x compute.Tensor, n *StreamNorm) compute.Tensor {
	y := p.New(x, x.Cols)
	if x.Rows > 0 {
		p.verbs.RMSNorm(y.Split(n.Ones.Len), x.Split(n.Ones.Len), n.Ones, n.Epsilon)
		p.verbs.Multiply(y, y, n.Weight)
	}
	return y
}

// GatedConnection says how a part of a block reads a residual of several streams, and how its output is added to them.
// Two low-rank products of all streams give a gate for every element of a stream. Every stream has a weight for the
// output.
//
// Source: Zhu et al. 2024, Hyper-Connections; the gates are Qwen3.8's.
type GatedConnection struct {
	Norm     StreamNorm
	Down, Up Linear // [rank, streams·n_embd], [streams·n_embd, rank]
	Inject   Linear // [streams, streams·n_embd]; not bound where nothing is added
	Streams  int
}

// GatedSpec are the sizes of a model's gated connections.
type GatedSpec struct {
	Streams, Rank, Width int
	Epsilon              float32 // of the norms
}

// GatedConnections reads them; width is n_embd.
func (k *Keys) GatedConnections(width int, eps float32) GatedSpec {
	s := GatedSpec{
		Streams: k.RequiredCount(".hyper_connection.count", compute.MostStreams), Rank: k.RequiredCount(".hyper_connection.low_rank", MaxWidth), Width: width, Epsilon: eps,
	}
	if k.Err == nil && s.Streams*width > MaxWidth {
		k.Fail("key %q: %d streams of %d elements are wider than %d", k.name(".hyper_connection.count"), s.Streams, width, MaxWidth)
	}
	return s
}

// GatedConnection binds a connection. The names of its tensors begin with name.
func (b *Binder) GatedConnection(name string, s GatedSpec) GatedConnection {
	c := b.LastGatedConnection(name, s)
	c.Inject = b.Linear(name+"_inject", s.Streams, s.Streams*s.Width, NoBias)
	return c
}

// LastGatedConnection binds the connection by which the head reads the streams.
func (b *Binder) LastGatedConnection(name string, s GatedSpec) GatedConnection {
	wide := s.Streams * s.Width
	return GatedConnection{
		Norm: b.StreamNorm(name+"_norm", s.Streams, s.Width, s.Epsilon), Streams: s.Streams,
		Down: b.Linear(name+"_down", s.Rank, wide, NoBias), Up: b.Linear(name+"_up", wide, s.Rank, NoBias),
	}
}

// Read returns a part's input, computed from the streams x, and the weights for adding its output to them: see Write.
// With N the streams' norms, they are
//
//	Σ_c N_c·σ(Up·silu(Down·N/streams))_c / streams,  2·σ(Inject·N/streams)
//
// [n, n_embd], [n, streams]
func (c *GatedConnection) Read(p *Pass, x compute.Tensor) (in, weights compute.Tensor) {
	in, weights = p.New(x, x.Cols/c.Streams), p.New(x, c.Streams)
	if x.Rows == 0 {
		return in, weights
	}
	scope, part := p.Scope(), 1/float32(c.Streams)
	n := p.NormStreams(x, &c.Norm)
	low := p.Linear(n, &c.Down)
	p.Scale(low, part)
	p.Activate(low, compute.Tensor{}, compute.Activation{Kind: compute.SiLU})
	p.verbs.ReadGated(in, n, p.Linear(low, &c.Up))
	if c.Inject.Bound() {
		p.LinearTo(weights, n, &c.Inject)
		p.Scale(weights, part)
		p.Activate(weights, compute.Tensor{}, compute.Activation{Kind: compute.Logistic})
		p.Scale(weights, 2)
	}
	p.Leave(scope)
	return in, weights
}

// Write adds y, what the part gives, to the streams x. It gives y back.
func (c *GatedConnection) Write(p *Pass, x, y, weights compute.Tensor) {
	if x.Rows > 0 {
		p.verbs.WriteStreams(x, y, weights, c.Streams)
	}
	p.pool.giveBack(y)
}
