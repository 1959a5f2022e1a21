package model

import (
	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// StateSpace are the sizes of recurrent layers.
type StateSpace struct{ arch.StateSpace }

// shape returns the sizes of the scan.
func (s StateSpace) shape() compute.StateSpace {
	return compute.StateSpace{Heads: s.StateHeads, Dim: s.Inner / s.StateHeads, State: s.StateSize, Groups: s.Groups}
}

// convolved returns the numbers of a state that the convolution has: the inputs of the positions before the next.
func (s StateSpace) convolved() int { return (s.Taps - 1) * s.Channels() }

// maxTaps bounds the positions that a convolution sees, maxState the numbers of a layer's state.
const (
	maxTaps  = 16
	maxState = 1 << 28
)

// readStates reads the sizes of recurrent layers: those without KV heads and, in families whose layers are one part,
// without neurons.
func (c *Config) readStates(m *metadata) {
	if !c.Family.StateSpace || m.err != nil {
		return
	}
	if c.Family.ShortConv {
		c.readConvolutions(m)
		return
	}
	key := func(s string) string { return c.Arch + ".ssm." + s }
	s := &c.States
	s.Inner, s.StateSize = m.count(key("inner_size"), 0, maxWidth), m.count(key("state_size"), 0, 1<<12)
	s.StateHeads, s.Groups = m.count(key("time_step_rank"), 0, maxWidth), m.count(key("group_count"), 0, maxWidth)
	s.Taps = m.count(key("conv_kernel"), 0, maxTaps)
	size := int64(s.Taps-1)*int64(s.Channels()) + int64(s.Inner)*int64(s.StateSize)
	switch {
	case m.err != nil:
		return
	case s.Taps < 2:
		m.fail("key %q: a convolution of %d positions is not supported; 2 to %d are", key("conv_kernel"), s.Taps, maxTaps)
	case s.Inner%s.StateHeads != 0 || s.StateHeads%s.Groups != 0:
		m.fail("keys %q, %q and %q: %d elements of %d heads in %d groups are not all alike", key("inner_size"), key("time_step_rank"), key("group_count"), s.Inner, s.StateHeads, s.Groups)
	case s.Channels() > maxWidth || size > maxState:
		m.fail("keys %q and %q: a state of %d numbers, written by %d channels, is larger than %d and %d", key("inner_size"), key("state_size"), size, s.Channels(), maxState, maxWidth)
	}
	for l := range c.Blocks {
		switch b := &c.Blocks[l]; {
		case c.Family.AllLayers&arch.Recurrent != 0, b.Heads == 0 && (b.FF == 0 || !c.Family.OnePart):
			b.State = int(size)
		case b.Heads > 0 && b.FF > 0 && c.Family.OnePart:
			m.fail("key %q: layer %d has attention and %d neurons, and a layer of this architecture is one of both", c.Arch+".feed_forward_length", l, b.FF)
		}
	}
}

// readConvolutions reads the size of short convolutions, which layers without KV heads are.
func (c *Config) readConvolutions(m *metadata) {
	key, s := c.Arch+".shortconv.l_cache", &c.States
	s.Inner, s.Taps = c.Embd, m.count(key, 0, maxTaps)
	if m.err == nil && s.Taps < 2 {
		m.fail("key %q: a convolution of %d positions is not supported; 2 to %d are", key, s.Taps, maxTaps)
	}
	for l := range c.Blocks {
		if c.Blocks[l].Heads == 0 {
			c.Blocks[l].State = s.convolved()
		}
	}
}

// usualInterval is how far apart layers with attention are in files of delta nets that do not say it.
const usualInterval = 4

// readRecurrent tells which layers of a family with delta nets are one.
func (c *Config) readRecurrent(m *metadata) []bool {
	if is, said := m.perLayer(c.Arch+".attention.recurrent_layers", c.Layers); said {
		return is
	}
	is := make([]bool, c.Layers)
	every := m.count(c.Arch+".full_attention_interval", usualInterval, maxLayers)
	for l := range is {
		is[l] = (l+1)%every != 0
	}
	return is
}

// Recurrent reports whether some layers keep states instead of keys and values.
func (c *Config) Recurrent() bool {
	for _, b := range c.Blocks {
		if b.State > 0 {
			return true
		}
	}
	return false
}

// recurrent is a selective state space (Mamba-2), a gated delta net or a short convolution with gates, a block's token
// mixer in place of attention or beside it.
type recurrent struct {
	gate  *compute.Matrix // [inner, n_embd] of what leaves the state
	mixed *compute.Matrix // [channels, n_embd] of what is convolved and then written to the state, and of how it is written and read
	step  *compute.Matrix // [heads, n_embd]
	out   *compute.Matrix // [n_embd, inner]
	taps  *compute.Vector // [taps·channels] of the convolution
	bias  *compute.Vector // [channels] or nil
	scan  compute.Scan    // its weights and sizes
	norm  *compute.Vector // [inner] of groups, or none; in delta nets [dim] of each head
	ones  *compute.Vector // [inner/groups]

	stored int // the part of the cache in which its state lies

	delta compute.Delta   // likewise, of a delta net
	write *compute.Matrix // [heads, n_embd] of a delta net whose step does not hold it
}

func (r *recurrent) bind(b *blockBinder) {
	m := b.m
	s := m.States
	switch {
	case m.Family.ShortConv:
		r.mixed, r.out = b.matrix("shortconv.in_proj.weight"), b.matrix("shortconv.out_proj.weight")
		r.taps = b.taps("shortconv.conv.weight", s.Channels(), s.Taps)
		return
	case m.Family.Delta:
		r.bindDelta(b)
		return
	}
	if in := b.slices(b.name("ssm_in.weight"), m.Embd, compute.Precise, s.Inner, s.Channels(), s.StateHeads); in != nil {
		r.gate, r.mixed, r.step = in[0], in[1], in[2]
	}
	r.out = b.matrix("ssm_out.weight")
	r.taps, r.bias = b.taps("ssm_conv1d.weight", s.Channels(), s.Taps), b.vector("ssm_conv1d.bias")
	r.scan = compute.Scan{
		A: b.rowsVector(b.name("ssm_a"), s.StateHeads, 1), D: b.rowsVector(b.name("ssm_d"), s.StateHeads, 1), Bias: b.vector("ssm_dt.bias"),
		Shape: s.shape(), At: s.convolved(),
	}
	if b.bound("ssm_norm.weight") {
		r.norm, r.ones = b.rowsVector(b.name("ssm_norm.weight"), s.Groups, s.Inner/s.Groups), b.ones(s.Inner/s.Groups)
	}
}

// bindDelta binds a delta net, of which epsilon is that of the model's norms.
func (r *recurrent) bindDelta(b *blockBinder) {
	m := b.m
	s := m.States
	r.mixed, r.gate, r.out = b.matrix("attn_qkv.weight"), b.matrix("attn_gate.weight"), b.matrix("ssm_out.weight")
	if r.step = b.matrix("ssm_ba.weight"); r.step == nil {
		r.step, r.write = b.matrix("ssm_alpha.weight"), b.matrix("ssm_beta.weight")
	}
	r.taps, r.norm = b.taps("ssm_conv1d.weight", s.Channels(), s.Taps), b.vector("ssm_norm.weight")
	r.delta = compute.Delta{
		A: b.vector("ssm_a"), Bias: b.vector("ssm_dt.bias"), Shape: s.shape(), Tiled: m.Family.Tiled, Epsilon: m.Eps, At: s.convolved(),
	}
}

// taps binds the weights of a convolution of each channel, [channels, taps] in files, the oldest position's first.
func (b *blockBinder) taps(name string, channels, taps int) *compute.Vector {
	name = b.name(name)
	t := b.take(name, taps, channels)
	if t == nil {
		return nil
	}
	if t.Type.BlockElems() != 1 || t.Type == quant.I32 {
		b.fail("tensor %q: a convolution of type %s is not supported", name, t.Type)
		return nil
	}
	data := make([]float32, taps*channels)
	quant.Decode(t.Type, data, t.Data)
	turned := make([]float32, len(data))
	for c := range channels {
		for k := range taps {
			turned[k*channels+c] = data[c*taps+k]
		}
	}
	b.loaded(t, true)
	return b.numbers(name, turned)
}

// forward computes s.h from the block's input:
//
//	Wout·norm(scan(convolve(Wmixed·in), Wstep·in) · silu(Wgate·in))
//
// with a norm for each group of heads, where the model has one. Of a short convolution it is Wout·convolve(Wmixed·in),
// with gates within.
func (r *recurrent) forward(v compute.Verbs, m *Model, s *buffers, in compute.Tensor) {
	switch {
	case m.Family.ShortConv:
		m.product(v, in, compute.Products{{Out: s.entering, W: r.mixed}})
		v.Convolve(r.convolve(m, s))
		m.product(v, s.convolved, compute.Products{{Out: s.h, W: r.out}})
		return
	case m.Family.Delta:
		r.forwardDelta(v, m, s, in)
		return
	}
	m.product(v, in, compute.Products{{Out: s.leaving, W: r.gate}, {Out: s.entering, W: r.mixed}, {Out: s.steps, W: r.step}})
	v.Convolve(r.convolve(m, s))
	scan := r.scan
	scan.Out, scan.X, scan.Step, scan.Cache, scan.Layer = s.scanned, s.convolved, s.steps, m.cache, r.stored
	v.Scan(scan)
	v.Activate(s.leaving, s.leaving, s.scanned, compute.Activation{Kind: compute.SiLU})
	if r.norm != nil {
		groups := s.leaving.Split(m.States.Inner / m.States.Groups)
		v.RMSNorm(groups, groups, r.ones, m.Eps)
		v.Multiply(s.leaving, s.leaving, r.norm)
	}
	m.product(v, s.leaving, compute.Products{{Out: s.h, W: r.out}})
}

// convolve is the convolution of what enters a layer.
func (r *recurrent) convolve(m *Model, s *buffers) compute.Convolve {
	return compute.Convolve{Out: s.convolved, X: s.entering, W: r.taps, Bias: r.bias, Cache: m.cache, Layer: r.stored, Gated: m.Family.ShortConv}
}

// forwardDelta computes s.h from the block's input:
//
//	Wout·(norm(delta(convolve(Wmixed·in), Wwrite·in, Wstep·in)) · silu(Wgate·in))
//
// with a norm for each head.
func (r *recurrent) forwardDelta(v compute.Verbs, m *Model, s *buffers, in compute.Tensor) {
	products, writes := compute.Products{{Out: s.leaving, W: r.gate}, {Out: s.entering, W: r.mixed}, {Out: s.steps, W: r.step}}, s.steps
	m.product(v, in, products)
	if r.write != nil {
		writes = s.writes
		m.product(v, in, compute.Products{{Out: writes, W: r.write}})
	}
	v.Convolve(r.convolve(m, s))
	delta := r.delta
	delta.Out, delta.X, delta.Write, delta.Step, delta.Cache, delta.Layer = s.scanned, s.convolved, writes, s.steps, m.cache, r.stored
	v.Delta(delta)
	heads := s.scanned.Split(m.States.Inner / m.States.StateHeads)
	v.RMSNorm(heads, heads, r.norm, m.Eps)
	v.Activate(s.leaving, s.leaving, s.scanned, compute.Activation{Kind: compute.SiLU})
	m.product(v, s.leaving, compute.Products{{Out: s.h, W: r.out}})
}

// recurrentBuffers makes what recurrent layers need.
func (m *Model) recurrentBuffers(b *buffers, n int, tensor func(rows, cols int) compute.Tensor) {
	if !m.Recurrent() {
		return
	}
	s := m.States
	if m.Family.ShortConv {
		b.entering, b.convolved = tensor(n, 3*s.Channels()), tensor(n, s.Channels())
		return
	}
	gates := s.StateHeads
	if _, joined := m.Family.InBlock("ssm_ba.weight"); joined {
		gates *= 2
	} else if m.Family.Delta {
		b.writes = tensor(n, s.StateHeads)
	}
	b.leaving, b.scanned, b.steps = tensor(n, s.Inner), tensor(n, s.Inner), tensor(n, gates)
	b.entering, b.convolved = tensor(n, s.Channels()), tensor(n, s.Channels())
}
