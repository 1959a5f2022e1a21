package nn

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Mamba is a selective state space with a state, a step and decays for each channel.
//
// Source: Gu and Dao 2023, Mamba: Linear-Time Sequence Modeling with Selective State Spaces.
type Mamba struct {
	In, Gate Linear // [inner, n_embd]
	Low      Linear // [rank, inner] for the steps
	BC       Linear // [2·state, inner] of the vectors that write to the state and read it
	Step     Linear // [inner, rank]; Scan has its bias
	Out      Linear // [n_embd, inner]
	Conv     Conv
	Scan     compute.Scan // weights and sizes

	LowNorm Norm            // [rank], or none
	BCNorm  Norm            // [state] of B and of C, or none
	BCScale *compute.Vector // [2·state] with BCNorm, or nil
}

// MambaSpec are the sizes of Mamba layers.
type MambaSpec struct{ Inner, State, Rank, Taps int }

// size returns the numbers of a state: the convolution's, and a row for each channel.
func (s MambaSpec) size() int { return (s.Taps-1)*s.Inner + s.Inner*s.State }

// Mamba reads the sizes of Mamba layers.
func (k *Keys) Mamba() MambaSpec {
	s := MambaSpec{
		Inner: k.RequiredCount(".ssm.inner_size", MaxWidth), State: k.RequiredCount(".ssm.state_size", maxState),
		Rank: k.RequiredCount(".ssm.time_step_rank", MaxWidth), Taps: k.Taps(".ssm.conv_kernel"),
	}
	if k.Err == nil && s.size() > maxStateSize {
		k.Fail("keys %q and %q: a state of %d numbers is larger than %d", k.name(".ssm.inner_size"), k.name(".ssm.state_size"), s.size(), maxStateSize)
	}
	return s
}

// Mamba binds the layer's state space.
func (b *Binder) Mamba(s MambaSpec, width int) *Mamba {
	m := &Mamba{}
	if in := b.slices("ssm_in.weight", width, compute.Precise, s.Inner, s.Inner); in != nil {
		m.In, m.Gate = in[0], in[1]
	}
	if x := b.slices("ssm_x.weight", s.Inner, compute.Precise, s.Rank, 2*s.State); x != nil {
		m.Low, m.BC = x[0], x[1]
	}
	m.Step = b.Linear("ssm_dt", s.Inner, s.Rank, NoBias)
	m.Out = b.Linear("ssm_out", width, s.Inner, NoBias)
	stored := b.state(s.size())
	m.Conv = Conv{Taps: b.taps("ssm_conv1d.weight", s.Inner, s.Taps), Bias: b.Bias("ssm_conv1d", s.Inner, Optional), Stored: stored}
	m.Scan = compute.Scan{
		A: b.rowsVector("ssm_a", s.Inner, s.State), D: b.Vector("ssm_d", s.Inner), Bias: b.Vector("ssm_dt.bias", s.Inner),
		Shape: compute.StateSpace{Heads: 1, Dim: s.Inner, State: s.State, Groups: 1}, Fine: true, At: (s.Taps - 1) * s.Inner,
	}
	b.parts[b.layer].Recurrent = m
	return m
}

// MambaNorms binds the norms of m's steps, before they are spread, of B and of C. Norms without weights have none in the
// file.
func (b *Binder) MambaNorms(m *Mamba, s MambaSpec, eps float32, weights Presence) {
	m.BCNorm = b.UnitNorm(s.State, eps)
	if weights == Absent {
		m.LowNorm = b.UnitNorm(s.Rank, eps)
		return
	}
	m.LowNorm = b.RMSNorm("ssm_dt_norm", s.Rank, eps)
	m.BCScale = b.numbers("norms of B and C", slices.Concat(b.Floats("ssm_b_norm.weight", s.State), b.Floats("ssm_c_norm.weight", s.State)))
}

// Forward returns [n, n_embd], with u = convolve(In·x)
//
//	Out·(scan(u, norm(BC·u), Step·norm(Low·u))·silu(Gate·x))
func (m *Mamba) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	out := p.New(x, m.Out.W.Rows)
	scope := p.Scope()
	in, gate := p.Linear2(x, &m.In, &m.Gate)
	u := m.Conv.forward(p, in, in.Cols, false)
	low, bc := p.Linear2(u, &m.Low, &m.BC)
	p.Normalize(low, m.LowNorm)
	if m.BCNorm.Bound() {
		p.Normalize(bc.Split(m.Scan.Shape.State), m.BCNorm)
	}
	if m.BCScale != nil {
		p.Multiply(bc, m.BCScale)
	}
	scan := m.Scan
	scan.Out, scan.X, scan.BC, scan.Step, scan.Cache, scan.Layer = in, u, bc, p.Linear(low, &m.Step), p.Cache, m.Conv.Stored
	p.verbs.Scan(scan)
	p.Activate(gate, scan.Out, compute.Activation{Kind: compute.SiLU})
	p.LinearTo(out, gate, &m.Out)
	p.Leave(scope)
	return out
}
