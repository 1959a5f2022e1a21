package nn

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// DeltaAttention is a gated delta net in which each element of a head's key has a decay of its
// own.
//
// Source: Kimi Team 2025, Kimi Linear: An Expressive, Efficient Attention Architecture.
type DeltaAttention struct {
	Q, K, V Linear // [inner, n_embd]
	Conv    Conv   // of queries, keys and values, in this order
	Step    Factored
	Write   Linear // [heads, n_embd]
	Gate    Factored
	Out     Linear          // [n_embd, inner]
	Delta   compute.Delta   // weights and sizes
	Norm    *compute.Vector // [dim] of each head
}

// Factored is a linear layer that may be the product of two.
type Factored struct {
	Down Linear // [rank, in]; not bound where Up reads the input
	Up   Linear // [out, rank or in]
}

// down returns what Up reads: Down·x, or x.
func (f *Factored) down(p *Pass, x compute.Tensor) compute.Tensor {
	if f.Down.Bound() {
		return p.Linear(x, &f.Down)
	}
	return x
}

// factored binds up and, where the file has both, down, which gives a vector of rank elements. Of a layer that is no
// product, files may hold the matrix by either name.
func (b *Binder) factored(down, up string, out, rank, in int) Factored {
	switch {
	case b.Has(down+".weight") && b.Has(up+".weight"):
		return Factored{Down: b.Linear(down, rank, in, NoBias), Up: b.Linear(up, out, rank, NoBias)}
	case b.Has(down + ".weight"):
		up = down
	}
	return Factored{Up: b.Linear(up, out, in, NoBias)}
}

// DeltaHeads reads the sizes of delta attention of that many heads, and the bound of its decays.
func (k *Keys) DeltaHeads(heads int) (s StateSpec, bound float32) {
	dim := k.RequiredCount(".kda.head_dim", maxState)
	s = StateSpec{StateSpace: compute.StateSpace{Heads: heads, Dim: dim, State: dim, Groups: heads}, Taps: k.Taps(".ssm.conv_kernel")}
	if k.Err == nil && (s.channels() > MaxWidth || s.size() > maxStateSize) {
		k.Fail("key %q: states of %d heads of %d elements are not supported", k.name(".kda.head_dim"), heads, dim)
	}
	const key, least = ".kda.gate_lower_bound", -1e3
	if !k.Flag(".kda.safe_gate", true) {
		return s, 0
	}
	return s, float32(k.Within(key, 0, least, 0))
}

// DeltaAttention binds the layer's delta attention. bound limits the decays; 0: it does not.
func (b *Binder) DeltaAttention(s StateSpec, bound float32, width int, eps float32) *DeltaAttention {
	inner, d := s.inner(), &DeltaAttention{}
	d.Q, d.K, d.V = b.qkv(width, inner, inner, inner)
	d.Step = b.factored("ssm_f_a", "ssm_f_b", inner, s.Dim, width)
	if b.Has("ssm_g.weight") {
		d.Gate.Up = b.Linear("ssm_g", inner, width, NoBias)
	} else {
		d.Gate = b.factored("ssm_g_a", "ssm_g_b", inner, s.Dim, width)
	}
	d.Write = b.Linear("ssm_beta", s.Heads, width, NoBias)
	d.Out = b.Linear("attn_output", width, inner, NoBias)
	d.Conv = Conv{Taps: b.joinedTaps(inner, s.Taps, 1, "ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight"), Stored: b.state(s.size())}
	d.Norm = b.Vector("ssm_norm.weight", s.Dim)
	d.Delta = compute.Delta{A: b.rates(s.Heads, bound), Bias: b.Vector("ssm_dt.bias", inner), Bound: bound, Shape: s.StateSpace, Epsilon: eps, At: s.convolved()}
	b.parts[b.layer].Recurrent = d
	return d
}

// rates binds how fast heads forget. Files store the rates with either sign; here those of bounded decays are positive,
// others negative.
func (b *Binder) rates(heads int, bound float32) *compute.Vector {
	const name = "ssm_a"
	cols, sign := heads, -1.0
	if t := b.tensor(name); sized(t) && t.Shape[0] == 1 {
		cols = 1
	}
	t := b.take(name, cols, heads/max(1, cols))
	if t == nil {
		return nil
	}
	if !b.Has("ssm_g.weight") { // as files have it
		b.shaped(1, heads)
	}
	if t.Type.BlockElems() != 1 || t.Type.Whole() {
		b.Fail("tensor %q: a vector of type %s is not supported", t.Name, t.Type)
		return nil
	}
	if bound < 0 {
		sign = 1
	}
	rates := make([]float32, heads)
	if !b.outline {
		quant.Decode(t.Type, rates, t.Data)
	}
	for i, r := range rates {
		rates[i] = float32(math.Copysign(float64(r), sign))
	}
	b.loaded(t, true)
	return b.numbers(t.Name, rates)
}

// Forward returns [n, n_embd]
//
//	Out·(norm(delta(convolve(Q·x, K·x, V·x), Write·x, Step·x))·sigmoid(Gate·x))
//
// with a norm over each head.
func (d *DeltaAttention) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	out := p.New(x, d.Out.W.Rows)
	scope := p.Scope()
	// Operations that depend on the same ones are neighbours, so that a GPU waits for them once.
	q, k, v := p.Linear3(x, &d.Q, &d.K, &d.V)
	write, step, gate := p.Linear(x, &d.Write), d.Step.down(p, x), d.Gate.down(p, x)
	in := p.Beside(q, k, v)
	step, gate = p.Linear(step, &d.Step.Up), p.Linear(gate, &d.Gate.Up)
	conv := d.Conv.forward(p, in, in.Cols, false)
	delta := d.Delta
	delta.Out, delta.X, delta.Write, delta.Step = p.New(x, d.Out.W.Cols), conv, write, step
	delta.Cache, delta.Layer = p.Cache, d.Conv.Stored
	p.verbs.Delta(delta)
	heads := delta.Out.Split(d.Norm.Len)
	p.verbs.RMSNorm(heads, heads, d.Norm, delta.Epsilon)
	p.Activate(gate, delta.Out, compute.Activation{Kind: compute.Logistic})
	p.LinearTo(out, gate, &d.Out)
	p.Leave(scope)
	return out
}
