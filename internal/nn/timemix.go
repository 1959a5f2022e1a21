package nn

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// TimeMix mixes tokens by a state that each token decays, corrects and writes. Each of its products reads its own
// mixture of a position's input and the input before it.
//
// Source: Peng et al. 2025, RWKV-7 "Goose" with Expressive Dynamic State Evolution.
type TimeMix struct {
	Mixtures                    [6]Shift   // inputs of R, Decay, K, V, Rate and Gate
	R, K, V                     Linear     // [n_embd, n_embd]
	Decay, Rate, Residual, Gate Bottleneck // Residual is not bound in the first layer
	Out                         Linear     // [n_embd, n_embd]
	WKV                         compute.WKV
	Values                      *compute.Tensor // the first layer's values, which it computes. [n, n_embd]
	Stored                      int             // the part of the cache with the layer's state
}

// Bottleneck is a product through a narrower vector.
type Bottleneck struct {
	Down Linear // [rank, in]
	Up   Linear // [out, rank]
}

// Shift mixes a row with the row of the position before, which the layer's state holds: x + (before − x)·share.
type Shift struct {
	Shares *compute.Vector // [2·n_embd] factors of the row before, then of the row
	Stored int
	At     int  // place of the row before in the state
	Peek   bool // another Shift of the same rows follows
}

// Shift returns s of x.
func (p *Pass) Shift(x compute.Tensor, s *Shift) compute.Tensor {
	y := p.New(x, x.Cols)
	p.verbs.Convolve(compute.Convolve{Out: y, X: x, W: s.Shares, Cache: p.Cache, Layer: s.Stored, At: s.At, Plain: true, Peek: s.Peek})
	return y
}

// TimeMixSpec are the sizes of time mixing.
type TimeMixSpec struct {
	Width int // n_embd
	Head  int // elements of a head
}

// TimeMixing reads the sizes of time mixing.
func (k *Keys) TimeMixing(width int) TimeMixSpec {
	const key = ".wkv.head_size"
	s := TimeMixSpec{width, k.RequiredCount(key, compute.MaxWKV)}
	if k.Err == nil && width%s.Head != 0 {
		k.Fail("key %q: heads of %d elements do not make up %d", k.name(key), s.Head, width)
	}
	return s
}

// TimeMix binds the layer's time mixing, and the Shift of its channel mixing, which share a state. values are the first
// layer's.
func (b *Binder) TimeMix(s TimeMixSpec, values *compute.Tensor) (*TimeMix, Shift) {
	d, heads := s.Width, s.Width/s.Head
	t := &TimeMix{Values: values, Stored: b.state(2*d + d*s.Head)}
	shares := b.vectorsFloats("time_mix_lerp_fused.weight", d, len(t.Mixtures))
	for i := range t.Mixtures {
		t.Mixtures[i] = Shift{Shares: b.shares(shares[i]), Stored: t.Stored, Peek: i+1 < len(t.Mixtures)}
	}
	t.R, t.K, t.V = b.Linear("time_mix_receptance", d, d, NoBias), b.Linear("time_mix_key", d, d, NoBias), b.Linear("time_mix_value", d, d, NoBias)
	t.Decay, t.Rate, t.Gate = b.lowRank("time_mix_w", d), b.lowRank("time_mix_a", d), b.lowRank("time_mix_g", d)
	t.Decay.Up.B, t.Rate.Up.B = b.Vector("time_mix_w0.weight", d), b.Vector("time_mix_a0.weight", d)
	if b.layer == 0 { // files may hold copies of another's
		rank := b.Rows("time_mix_v1.weight")
		b.Ignore("time_mix_v0.weight", d)
		b.Ignore("time_mix_v1.weight", d, rank)
		b.Ignore("time_mix_v2.weight", rank, d)
	} else {
		t.Residual = b.lowRank("time_mix_v", d)
		t.Residual.Up.B = b.Vector("time_mix_v0.weight", d)
	}
	t.Out = b.Linear("time_mix_output", d, d, NoBias)
	t.WKV = compute.WKV{
		KeyNorm: b.Vector("time_mix_k_k.weight", d), KeyRate: b.Vector("time_mix_k_a.weight", d), Bonus: b.Vector("time_mix_r_k.weight", d),
		Scale: b.numbers("norm of heads", slices.Concat(b.Floats("time_mix_ln.weight", d), b.Floats("time_mix_ln.bias", d))),
		Heads: heads, Dim: s.Head, Epsilon: 64e-5, At: 2 * d,
	}
	b.parts[b.layer].Recurrent = t
	return t, Shift{Shares: b.shares(b.vectorsFloats("channel_mix_lerp_k.weight", d, 1)[0]), Stored: t.Stored, At: d}
}

// lowRank binds name1.weight [rank, width] and name2.weight [width, rank].
func (b *Binder) lowRank(name string, width int) Bottleneck {
	rank := b.Rows(name + "1.weight")
	return Bottleneck{b.Linear(name+"1", rank, width, NoBias), b.Linear(name+"2", width, rank, NoBias)}
}

// vectorsFloats reads count vectors of n elements, which are one tensor, into host memory.
func (b *Binder) vectorsFloats(name string, n, count int) [][]float32 {
	out, all := make([][]float32, count), b.tableOf(name, n, count)
	if count > 1 { // as files have them
		b.shaped(n, 1, 1, count)
	} else {
		b.shaped(n, 1, 1)
	}
	if b.Err == nil && len(all) != n*count {
		b.Fail("tensor %q does not hold %d vectors of %d: the file is damaged; convert it again", b.prefix+name, count, n)
	}
	if b.Err == nil {
		for i := range out {
			out[i] = all[i*n:][:n]
		}
	}
	return out
}

// shares binds a Shift's factors, computed from the factors of the row before.
func (b *Binder) shares(before []float32) *compute.Vector {
	own := make([]float32, len(before))
	for i, e := range before {
		own[i] = 1 - e
	}
	return b.numbers("shares of rows", slices.Concat(before, own))
}

// Forward returns [n, n_embd]
//
//	Out·(wkv(R·x, K·x, V·x, decay(x), rate(x))·gate(x))
//
// where each product reads its mixture of x and the row before, and V·x moves towards the first layer's values by a
// share of its own.
func (t *TimeMix) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	out := p.New(x, x.Cols)
	scope := p.Scope()
	var in [6]compute.Tensor
	for i := range in {
		in[i] = p.Shift(x, &t.Mixtures[i])
	}
	// Operations that depend on the same ones are neighbours, so that a GPU waits for them once.
	first, v, share := !t.Residual.Down.Bound(), *t.Values, compute.Tensor{}
	if !first {
		v = p.New(x, t.V.W.Rows)
	}
	r, k := p.Linear(in[0], &t.R), p.Linear(in[2], &t.K)
	p.LinearTo(v, in[3], &t.V)
	w, a, g := p.Linear(in[1], &t.Decay.Down), p.Linear(in[4], &t.Rate.Down), p.Linear(in[5], &t.Gate.Down)
	if !first {
		share = p.Linear(in[3], &t.Residual.Down)
	}
	p.SoftCap(w, 1) // tanh
	p.Activate(g, compute.Tensor{}, compute.Activation{Kind: compute.Logistic})
	w, a, g = p.Linear(w, &t.Decay.Up), p.Linear(a, &t.Rate.Up), p.Linear(g, &t.Gate.Up)
	if !first {
		t.mixValues(p, v, p.Linear(share, &t.Residual.Up))
	}
	wkv := t.WKV
	wkv.Out, wkv.R, wkv.K, wkv.V, wkv.W, wkv.A, wkv.Cache, wkv.Layer = p.New(x, x.Cols), r, k, v, w, a, p.Cache, t.Stored
	p.verbs.WKV(wkv)
	p.Activate(g, wkv.Out, compute.Activation{Kind: compute.Identity})
	p.LinearTo(out, g, &t.Out)
	p.Leave(scope)
	return out
}

// mixValues makes v, which is V·x, v + (Values − v)·sigmoid(share).
func (t *TimeMix) mixValues(p *Pass, v, share compute.Tensor) {
	difference := p.Slice(v, 0, v.Cols)
	p.Scale(difference, -1)
	p.verbs.Add(difference, *t.Values)
	p.Activate(share, difference, compute.Activation{Kind: compute.Logistic})
	p.Add(v, share)
}
