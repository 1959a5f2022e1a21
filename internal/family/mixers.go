package family

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// mixers describes the token mixers of models with Kimi delta attention: layers with KV heads have latent attention
// instead.
type mixers struct {
	embd   int
	eps    float32 // epsilon of the norms
	states nn.StateSpec
	bound  float32 // bound of the decays; 0: none
	latent nn.LatentShape
	rope   *compute.Rope // rotates the last elements of queries; nil: only the states know positions
	shared *compute.Rope // rotates all of the part of keys that heads share
	scores nn.Scores
}

// mixer is a layer's token mixer.
type mixer struct {
	number int
	delta  *nn.DeltaAttention  // or nil
	latent *nn.LatentAttention // if there is no delta attention
}

// readMixers reads what a file says of the token mixers. rotated says that latent attention rotates pairs of
// neighbours.
func readMixers(k *nn.Keys, b *nn.Binder, s *sizes, rotated bool) mixers {
	m := mixers{embd: s.embd, eps: k.RMSEpsilon(1e-5), scores: k.Scores(nn.Scores{})}
	m.states, m.bound = k.DeltaHeads(k.Counts(".attention.head_count", len(s.layers), nil)[0])
	shape, rope := readLatent(k, s, compute.Interleaved)
	if m.latent = shape; rotated {
		factors := b.RopeFactors(rope)
		m.rope, m.shared = b.RopeWith(rope, factors), b.RopeWith(rope.Whole(), factors)
	}
	return m
}

// bind binds the mixer of layer i.
func (m *mixers) bind(b *nn.Binder, i int, l layer) mixer {
	if l.KVHeads == 0 {
		return mixer{number: i, delta: b.DeltaAttention(m.states, m.bound, m.embd, m.eps)}
	}
	a := b.LatentAttention(m.latent, m.embd, m.eps)
	if b.Has("attn_gate.weight") {
		a.Gate = b.HeadGate(a.Heads, a.Value, m.embd, compute.Logistic)
	}
	a.Rope, a.SharedRope, a.Scores = m.rope, m.shared, b.Scores(m.scores, nn.HeadShape{Heads: m.latent.Heads, Key: m.latent.Key})
	a.Out = b.Linear("attn_output", m.embd, m.latent.Heads*m.latent.Value, nn.NoBias)
	return mixer{number: i, latent: a}
}

// Forward returns the residual and the output to add to it, like Attention.Forward. [n, n_embd] of each
func (l *mixer) Forward(p *nn.Pass, residual, in compute.Tensor) (x, y compute.Tensor) {
	if l.delta == nil {
		return l.latent.Forward(p, residual, in)
	}
	y = l.delta.Forward(p, in)
	return p.Wanted(l.number, residual), p.Wanted(l.number, y)
}
