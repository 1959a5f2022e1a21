package nn

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Recurrent is a token mixer that keeps a state of fixed size for each sequence, where attention keeps keys and values.
type Recurrent interface {
	// Forward returns the block's output for x, to be added to the residual. [n, n_embd]
	Forward(p *Pass, x compute.Tensor) compute.Tensor
}

// StateSpec are the sizes of a recurrent layer.
type StateSpec struct {
	compute.StateSpace
	Taps int // positions that the convolution sees
}

// inner returns the width of what the state is written with and read as.
func (s StateSpec) inner() int { return s.Heads * s.Dim }

// channels returns the number of convolved channels.
func (s StateSpec) channels() int { return s.inner() + 2*s.Groups*s.State }

// convolved returns the numbers of a state that the convolution has: the inputs of the positions before the next.
func (s StateSpec) convolved() int { return (s.Taps - 1) * s.channels() }

// size returns the numbers of a state: the convolution's, and a matrix [dim, state] for each head.
func (s StateSpec) size() int { return s.convolved() + s.inner()*s.State }

// Bounds of a convolution's positions, of the columns of a head's state, and of the numbers of a layer's state.
const (
	maxTaps      = 16
	maxState     = 1 << 12
	maxStateSize = 1 << 28
)

// States reads the sizes of recurrent layers.
func (k *Keys) States() StateSpec {
	inner, heads := k.RequiredCount(".ssm.inner_size", MaxWidth), k.RequiredCount(".ssm.time_step_rank", MaxWidth)
	s := StateSpec{
		StateSpace: compute.StateSpace{
			Heads: heads, Dim: inner / heads, State: k.RequiredCount(".ssm.state_size", maxState), Groups: k.RequiredCount(".ssm.group_count", MaxWidth),
		},
		Taps: k.Taps(".ssm.conv_kernel"),
	}
	switch {
	case k.Err != nil:
	case inner%heads != 0 || heads%s.Groups != 0:
		k.Fail("keys %q, %q and %q: %d elements of %d heads in %d groups are not all alike", k.name(".ssm.inner_size"), k.name(".ssm.time_step_rank"),
			k.name(".ssm.group_count"), inner, heads, s.Groups)
	case s.channels() > MaxWidth || s.size() > maxStateSize:
		k.Fail("keys %q and %q: a state of %d numbers, written by %d channels, is larger than %d and %d", k.name(".ssm.inner_size"), k.name(".ssm.state_size"),
			s.size(), s.channels(), maxStateSize, MaxWidth)
	}
	return s
}

// Taps reads the number of positions that a convolution sees.
func (k *Keys) Taps(key string) int {
	taps := k.RequiredCount(key, maxTaps)
	if k.Err == nil && taps < 2 {
		k.Fail("key %q: a convolution of %d positions is not supported; 2 to %d are", k.name(key), taps, maxTaps)
	}
	return taps
}

// state reserves a state of n numbers in the cache, and returns its part.
func (b *Binder) state(n int) int { return b.Store(compute.KVShape{State: n}) }

// usualInterval is how far apart layers with attention are in files that do not say it.
const usualInterval = 4

// Recurrent returns which of n layers are recurrent, for models with files without a number of KV heads for each layer.
func (k *Keys) Recurrent(n int) []bool { return k.RecurrentBut(usualInterval, n) }

// RecurrentBut is Recurrent with attention in one of each usual layers, for files that do not say it.
func (k *Keys) RecurrentBut(usual, n int) []bool {
	if is, said := k.PerLayer(".attention.recurrent_layers", n); said {
		return is
	}
	is := make([]bool, n)
	every := k.Count(".full_attention_interval", usual, MaxLayers)
	for l := range is {
		is[l] = (l+1)%every != 0
	}
	return is
}

// ShortConvTaps reads the number of positions that short convolutions see.
func (k *Keys) ShortConvTaps() int { return k.Taps(".shortconv.l_cache") }

// ShortConv binds the layer's short convolution, which sees as many positions as taps.
func (b *Binder) ShortConv(width, taps int) *ShortConv {
	s := &ShortConv{
		In: b.Linear("shortconv.in_proj", 3*width, width, NoBias), Out: b.Linear("shortconv.out_proj", width, width, NoBias),
		Conv: Conv{Taps: b.taps("shortconv.conv.weight", width, taps), Stored: b.state((taps - 1) * width)},
	}
	b.parts[b.layer].Recurrent = s
	return s
}

// Mamba2 binds the layer's selective state space. Files may lack the norm if it is optional.
func (b *Binder) Mamba2(s StateSpec, width int, eps float32, norm Presence) *Mamba2 {
	m := &Mamba2{Eps: eps}
	if in := b.slices("ssm_in.weight", width, compute.Precise, s.inner(), s.channels(), s.Heads); in != nil {
		m.Gate, m.In, m.Step = in[0], in[1], in[2]
	}
	m.Out = b.Linear("ssm_out", width, s.inner(), NoBias)
	m.Conv = Conv{Taps: b.taps("ssm_conv1d.weight", s.channels(), s.Taps), Bias: b.Bias("ssm_conv1d", s.channels(), Optional), Stored: b.state(s.size())}
	m.Scan = compute.Scan{
		A: b.rowsVector("ssm_a", s.Heads, 1), D: b.rowsVector("ssm_d", s.Heads, 1), Bias: b.Vector("ssm_dt.bias", s.Heads),
		Shape: s.StateSpace, At: s.convolved(),
	}
	if b.Present("ssm_norm.weight", norm) {
		m.Norm, m.Ones = b.rowsVector("ssm_norm.weight", s.Groups, s.inner()/s.Groups), b.ones(s.inner()/s.Groups)
	}
	b.parts[b.layer].Recurrent = m
	return m
}

// DeltaNet binds the layer's gated delta net. In tiled files head h uses group h modulo the number of groups; otherwise
// a group's heads are neighbours. A group's heads share queries and keys.
func (b *Binder) DeltaNet(s StateSpec, width int, eps float32, tiled bool) *DeltaNet {
	d := &DeltaNet{
		In: b.Linear("attn_qkv", s.channels(), width, NoBias), Gate: b.Linear("attn_gate", s.inner(), width, NoBias),
		Out: b.Linear("ssm_out", width, s.inner(), NoBias),
	}
	if b.Has("ssm_ba.weight") {
		d.Step = b.Linear("ssm_ba", 2*s.Heads, width, NoBias)
	} else {
		d.Step, d.Write = b.Linear("ssm_alpha", s.Heads, width, NoBias), b.Linear("ssm_beta", s.Heads, width, NoBias)
	}
	d.Conv = Conv{Taps: b.taps("ssm_conv1d.weight", s.channels(), s.Taps), Stored: b.state(s.size())}
	d.Norm = b.Vector("ssm_norm.weight", s.Dim)
	d.Delta = compute.Delta{A: b.Vector("ssm_a", s.Heads), Bias: b.Vector("ssm_dt.bias", s.Heads), Shape: s.StateSpace, Tiled: tiled, Epsilon: eps, At: s.convolved()}
	b.parts[b.layer].Recurrent = d
	return d
}

// Conv is a causal convolution over positions, separate for each channel.
type Conv struct {
	Taps   *compute.Vector // [taps·channels]
	Bias   *compute.Vector // [channels] or nil
	Stored int             // the part of the cache with the layer's state, which begins with the convolution's
}

func (c *Conv) forward(p *Pass, x compute.Tensor, channels int, gated bool) compute.Tensor {
	y := p.New(x, channels)
	p.verbs.Convolve(compute.Convolve{Out: y, X: x, W: c.Taps, Bias: c.Bias, Cache: p.Cache, Layer: c.Stored, Gated: gated})
	return y
}

// mean returns the mean of each row of x and the rows before it, over as many as there are taps. [n, columns of x]
func (c *Conv) mean(p *Pass, x compute.Tensor) compute.Tensor {
	y := p.New(x, x.Cols)
	p.verbs.Convolve(compute.Convolve{Out: y, X: x, W: c.Taps, Cache: p.Cache, Layer: c.Stored, Plain: true})
	return y
}

// ShortConv is a short convolution with gates before and after it.
//
// Source: Liquid AI 2025, LFM2 Technical Report.
type ShortConv struct {
	In   Linear // [3·channels, n_embd]
	Out  Linear // [n_embd, channels]
	Conv Conv
}

// Forward returns Out·convolve(In·x), with the gates in In's output. [n, n_embd]
func (s *ShortConv) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	out := p.New(x, s.Out.W.Rows)
	scope := p.Scope()
	y := s.Conv.forward(p, p.Linear(x, &s.In), s.Out.W.Cols, true)
	p.LinearTo(out, y, &s.Out)
	p.Leave(scope)
	return out
}

// Mamba2 is a selective state space.
//
// Source: Dao and Gu 2024, Transformers are SSMs.
type Mamba2 struct {
	Gate Linear // [inner, n_embd] of what the state gives
	In   Linear // [channels, n_embd] of the vectors that are convolved and then write to the state and read it
	Step Linear // [heads, n_embd]
	Out  Linear // [n_embd, inner]
	Conv Conv
	Scan compute.Scan // weights and sizes

	Norm *compute.Vector // [inner] of groups of heads, or nil
	Ones *compute.Vector // [inner/groups] with Norm
	Eps  float32
}

// Forward returns [n, n_embd]
//
//	Out·norm(scan(convolve(In·x), Step·x)·silu(Gate·x))
//
// with a norm over each group of heads, where the model has one.
func (m *Mamba2) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	out := p.New(x, m.Out.W.Rows)
	scope := p.Scope()
	gate, in, step := p.Linear3(x, &m.Gate, &m.In, &m.Step)
	conv := m.Conv.forward(p, in, in.Cols, false)
	scan := m.Scan
	scan.Out, scan.X, scan.Step, scan.Cache, scan.Layer = p.New(x, m.Out.W.Cols), conv, step, p.Cache, m.Conv.Stored
	p.verbs.Scan(scan)
	p.Activate(gate, scan.Out, compute.Activation{Kind: compute.SiLU})
	if m.Norm != nil {
		groups := gate.Split(m.Ones.Len)
		p.verbs.RMSNorm(groups, groups, m.Ones, m.Eps)
		p.Multiply(gate, m.Norm)
	}
	p.LinearTo(out, gate, &m.Out)
	p.Leave(scope)
	return out
}

// DeltaNet is a gated delta net.
//
// Source: Yang et al. 2024, Gated Delta Networks.
type DeltaNet struct {
	Gate  Linear // [inner, n_embd] of what the state gives
	In    Linear // [channels, n_embd] of the vectors that are convolved and then write to the state and read it
	Step  Linear // [heads, n_embd], or with Write's rows [2·heads, n_embd]
	Write Linear // [heads, n_embd]; not bound where Step has its rows
	Out   Linear // [n_embd, inner]
	Conv  Conv
	Delta compute.Delta        // weights and sizes
	Norm  *compute.Vector      // [dim] of each head
	Act   compute.Nonlinearity // activation of Gate's output: SiLU, or Logistic
}

// Forward returns [n, n_embd]
//
//	Out·(norm(delta(convolve(In·x), Write·x, Step·x))·act(Gate·x))
//
// with a norm over each head.
func (d *DeltaNet) Forward(p *Pass, x compute.Tensor) compute.Tensor {
	out := p.New(x, d.Out.W.Rows)
	scope := p.Scope()
	gate, in, step := p.Linear3(x, &d.Gate, &d.In, &d.Step)
	write := step
	if d.Write.Bound() {
		write = p.Linear(x, &d.Write)
	}
	conv := d.Conv.forward(p, in, in.Cols, false)
	delta := d.Delta
	delta.Out, delta.X, delta.Write, delta.Step, delta.Cache, delta.Layer = p.New(x, d.Out.W.Cols), conv, write, step, p.Cache, d.Conv.Stored
	p.verbs.Delta(delta)
	heads := delta.Out.Split(d.Norm.Len)
	p.verbs.RMSNorm(heads, heads, d.Norm, delta.Epsilon)
	p.Activate(gate, delta.Out, compute.Activation{Kind: d.Act})
	p.LinearTo(out, gate, &d.Out)
	p.Leave(scope)
	return out
}

// taps binds the weights of a convolution of each channel, [channels, taps] in files, the oldest position's first.
func (b *Binder) taps(name string, channels, taps int) *compute.Vector {
	return b.joinedTaps(channels, taps, 1, name)
}

// joinedTaps is taps for several convolutions with that many channels each, one after the other, and with dilation
// apart.
func (b *Binder) joinedTaps(channels, taps, apart int, names ...string) *compute.Vector {
	data, all := make([]float32, taps*channels), channels*len(names)
	turned := make([]float32, ((taps-1)*apart+1)*all)
	for i, name := range names {
		t := b.take(name, taps, channels)
		if t == nil {
			return nil
		}
		if len(names) > 1 { // as files have them
			b.shaped(taps, 1, channels)
		}
		if t.Type.BlockElems() != 1 || t.Type == quant.I32 {
			b.Fail("tensor %q: a convolution of type %s is not supported", t.Name, t.Type)
			return nil
		}
		if !b.outline {
			quant.Decode(t.Type, data, t.Data)
		}
		for c := range b.decoded(channels) {
			for k := range taps {
				turned[k*apart*all+i*channels+c] = data[c*taps+k]
			}
		}
		b.loaded(t, true)
	}
	return b.numbers(b.prefix+names[0], turned)
}
