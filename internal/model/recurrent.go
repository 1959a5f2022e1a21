package model

import (
	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
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
func (c *Config) readStates(m *nn.Keys) {
	if !c.Family.StateSpace || m.Err != nil {
		return
	}
	if c.Family.ShortConv {
		c.readConvolutions(m)
		return
	}
	key := func(s string) string { return c.Arch + ".ssm." + s }
	s := &c.States
	s.Inner, s.StateSize = m.Count(key("inner_size"), 0, nn.MaxWidth), m.Count(key("state_size"), 0, 1<<12)
	s.StateHeads, s.Groups = m.Count(key("time_step_rank"), 0, nn.MaxWidth), m.Count(key("group_count"), 0, nn.MaxWidth)
	s.Taps = m.Count(key("conv_kernel"), 0, maxTaps)
	size := int64(s.Taps-1)*int64(s.Channels()) + int64(s.Inner)*int64(s.StateSize)
	switch {
	case m.Err != nil:
		return
	case s.Taps < 2:
		m.Fail("key %q: a convolution of %d positions is not supported; 2 to %d are", key("conv_kernel"), s.Taps, maxTaps)
	case s.Inner%s.StateHeads != 0 || s.StateHeads%s.Groups != 0:
		m.Fail("keys %q, %q and %q: %d elements of %d heads in %d groups are not all alike", key("inner_size"), key("time_step_rank"), key("group_count"), s.Inner, s.StateHeads, s.Groups)
	case s.Channels() > nn.MaxWidth || size > maxState:
		m.Fail("keys %q and %q: a state of %d numbers, written by %d channels, is larger than %d and %d", key("inner_size"), key("state_size"), size, s.Channels(), maxState, nn.MaxWidth)
	}
	for l := range c.Blocks {
		switch b := &c.Blocks[l]; {
		case c.Family.AllLayers&arch.Recurrent != 0, b.Heads == 0 && (b.FF == 0 || !c.Family.OnePart):
			b.State = int(size)
		case b.Heads > 0 && b.FF > 0 && c.Family.OnePart:
			m.Fail("key %q: layer %d has attention and %d neurons, and a layer of this architecture is one of both", c.Arch+".feed_forward_length", l, b.FF)
		}
	}
}

// readConvolutions reads the size of short convolutions, which layers without KV heads are.
func (c *Config) readConvolutions(m *nn.Keys) {
	key, s := c.Arch+".shortconv.l_cache", &c.States
	s.Inner, s.Taps = c.Embd, m.Count(key, 0, maxTaps)
	if m.Err == nil && s.Taps < 2 {
		m.Fail("key %q: a convolution of %d positions is not supported; 2 to %d are", key, s.Taps, maxTaps)
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
func (c *Config) readRecurrent(m *nn.Keys) []bool {
	if is, said := m.PerLayer(c.Arch+".attention.recurrent_layers", c.Layers); said {
		return is
	}
	is := make([]bool, c.Layers)
	every := m.Count(c.Arch+".full_attention_interval", usualInterval, maxLayers)
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

// recurrent binds the layer's state space, delta net or short convolution.
func (b *blockBinder) recurrent() nn.Recurrent {
	switch {
	case b.m.Family.ShortConv:
		return b.shortConv()
	case b.m.Family.Delta:
		return b.deltaNet()
	}
	return b.mamba2()
}

func (b *blockBinder) shortConv() *nn.ShortConv {
	s := b.m.States
	return &nn.ShortConv{
		In: b.linear("shortconv.in_proj.weight", ""), Out: b.linear("shortconv.out_proj.weight", ""),
		Conv: nn.Conv{Taps: b.Taps("shortconv.conv.weight", s.Channels(), s.Taps), Stored: b.state},
	}
}

func (b *blockBinder) mamba2() *nn.Mamba2 {
	m, s := b.m, b.m.States
	r := &nn.Mamba2{Eps: m.Eps}
	if in := b.Slices("ssm_in.weight", m.Embd, compute.Precise, s.Inner, s.Channels(), s.StateHeads); in != nil {
		r.Gate, r.In, r.Step = in[0], in[1], in[2]
	}
	r.Out = b.linear("ssm_out.weight", "")
	r.Conv = nn.Conv{Taps: b.Taps("ssm_conv1d.weight", s.Channels(), s.Taps), Bias: b.vector("ssm_conv1d.bias"), Stored: b.state}
	r.Scan = compute.Scan{
		A: b.RowsVector("ssm_a", s.StateHeads, 1), D: b.RowsVector("ssm_d", s.StateHeads, 1), Bias: b.vector("ssm_dt.bias"),
		Shape: s.shape(), At: s.convolved(),
	}
	if b.bound("ssm_norm.weight") {
		r.Norm, r.Ones = b.RowsVector("ssm_norm.weight", s.Groups, s.Inner/s.Groups), b.Ones(s.Inner/s.Groups)
	}
	return r
}

// deltaNet binds a delta net, whose epsilon is that of the model's norms.
func (b *blockBinder) deltaNet() *nn.DeltaNet {
	m, s := b.m, b.m.States
	r := &nn.DeltaNet{In: b.linear("attn_qkv.weight", ""), Gate: b.linear("attn_gate.weight", ""), Out: b.linear("ssm_out.weight", "")}
	if r.Step = b.linear("ssm_ba.weight", ""); !r.Step.Bound() {
		r.Step, r.Write = b.linear("ssm_alpha.weight", ""), b.linear("ssm_beta.weight", "")
	}
	r.Conv = nn.Conv{Taps: b.Taps("ssm_conv1d.weight", s.Channels(), s.Taps), Stored: b.state}
	r.Norm = b.vector("ssm_norm.weight")
	r.Delta = compute.Delta{
		A: b.vector("ssm_a"), Bias: b.vector("ssm_dt.bias"), Shape: s.shape(), Tiled: m.Family.Tiled, Epsilon: m.Eps, At: s.convolved(),
	}
	return r
}
