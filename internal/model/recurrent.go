package model

import (
	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// StateSpace are the sizes of recurrent layers.
type StateSpace struct{ arch.StateSpace }

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

// Recurrent reports whether some layers keep states instead of keys and values.
func (c *Config) Recurrent() bool {
	for _, b := range c.Blocks {
		if b.State > 0 {
			return true
		}
	}
	return false
}
