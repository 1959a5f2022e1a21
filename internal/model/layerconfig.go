package model

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"

	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// Block is one layer's hyperparameters.
type Block struct {
	FF         int // neurons of the feed-forward layer; in layers with experts those of the shared experts, 0 if no expert is shared
	Experts    bool
	Heads      int
	KVHeads    int
	Key, Value int // elements of a head's key and of its value
	Window     int // positions that a token attends to; 0: all
	Rotation   Rotation
	KV         int      // the layer whose keys and values it reads: its own, or an earlier one that has some
	Latent     int      // width of the latent vector of keys and values, in latent attention; else 0
	Rotated    int      // elements of a key that are rotated and the same for all heads, there
	State      int      // numbers of a sequence's state; not 0 in recurrent layers, which may have attention besides
	TopK       *float32 // gates that are not above their mean by so many deviations are zero; nil: all stay
}

// readBlocks reads what files may say for each layer.
func (c *Config) readBlocks(m *nn.Keys) {
	key := func(s string) string { return c.Arch + "." + s }
	if m.Err != nil {
		return
	}
	least, leastKV := int32(1), int32(1)
	leastHeads := int32(1)
	if c.Family.OnlyRecurrent() {
		least, leastHeads = 0, 0
	}
	if c.Family.OnePart {
		least = 0
	}
	if c.Family.StateSpace {
		leastKV = 0
	}
	var usualFF func(layer int) int
	if c.Family.Experts != nil && m.Optional(key("expert_count"), maxExperts) > 0 && m.Optional(key("expert_feed_forward_length"), nn.MaxWidth) > 0 {
		usualFF = func(int) int { return 0 } // all layers may have experts
	}
	ff := m.CountsFrom(least, key("feed_forward_length"), c.Layers, usualFF)
	heads := m.CountsFrom(leastHeads, key("attention.head_count"), c.Layers, nil)
	kvHeads := m.CountsFrom(leastKV, key("attention.head_count_kv"), c.Layers, func(l int) int { return heads[l] })
	keys := m.Counts(key("attention.key_length"), c.Layers, func(l int) int { return max(1, c.Embd/max(1, heads[l])) })
	values := m.Counts(key("attention.value_length"), c.Layers, func(l int) int {
		if c.Family.Latent {
			return max(1, c.Embd/heads[l])
		}
		return keys[l]
	})
	if c.Family.KeysByHead() { // the keys above are of the cache's rows
		cached, stored := keys, values
		keys = m.Counts(key("attention.key_length_mla"), c.Layers, func(l int) int { return cached[l] })
		values = m.Counts(key("attention.value_length_mla"), c.Layers, func(l int) int { return stored[l] })
	}
	if c.Family.Delta {
		for l, is := range m.Recurrent(c.Layers) {
			if is {
				kvHeads[l] = 0
			}
		}
	}
	if c.Family.OnlyRecurrent() {
		clear(kvHeads)
		clear(ff)
	}
	window, windowed := 0, make([]bool, c.Layers)
	if f := &c.Family; f.Window {
		window, windowed = m.Windows(nn.WindowSpec{Window: f.UsualWindow, FullEvery: f.FullEvery, FullFirst: f.FullFirst}, c.Layers, c.Context)
	}
	unrotated := c.Family.PerhapsRotated && !m.Flag(key("rope.scaling.finetuned"), true)
	c.Blocks = make([]Block, c.Layers)
	for l := range c.Blocks {
		b := Block{FF: ff[l], Heads: heads[l], KVHeads: kvHeads[l], Key: keys[l], Value: values[l], KV: l}
		if windowed[l] {
			b.Window, b.Rotation = window, Locally
			if c.Family.WindowHeads {
				b.Key = m.Count(key("attention.key_length_swa"), b.Key, nn.MaxWidth)
				b.Value = m.Count(key("attention.value_length_swa"), b.Value, nn.MaxWidth)
			}
		} else if c.Family.UnrotatedFull && slices.Contains(windowed, true) {
			b.Rotation = Unrotated
		}
		if unrotated {
			b.Rotation = Unrotated
		}
		if b.KVHeads == 0 { // there is no attention
			b.Heads, b.Key, b.Value = 0, 0, 0
			c.Blocks[l] = b
			c.FF = max(c.FF, b.FF)
			continue
		}
		c.Blocks[l] = b
		c.FF, c.Heads, c.KVHeads, c.HeadDim = max(c.FF, b.FF), max(c.Heads, b.Heads), max(c.KVHeads, b.KVHeads), max(c.HeadDim, b.Key)
		if b.Heads%b.KVHeads != 0 {
			m.Fail("%d attention heads do not share %d KV heads evenly", b.Heads, b.KVHeads)
		}
		for _, n := range []int{b.Key, b.Value} {
			if n%8 != 0 || n > 512 {
				m.Fail("heads of %d elements are not supported; a multiple of 8 up to 512 is", n)
			}
		}
		if c.Family.GatedAttention && b.Key != b.Value {
			m.Fail("heads of %d elements of keys and %d of values are not supported: each has a gate as wide as its query", b.Key, b.Value)
		}
		if b.Heads*max(b.Key, b.Value) > nn.MaxWidth {
			m.Fail("%d heads of %d elements are wider than %d", b.Heads, max(b.Key, b.Value), nn.MaxWidth)
		}
	}
}

// readInputs reads what layers have beside their own weights: keys and values of other layers, a part of their gates.
func (c *Config) readInputs(m *nn.Keys) {
	key := func(s string) string { return c.Arch + "." + s }
	f := &c.Family
	if f.SharedKV && m.Err == nil {
		c.shareKV(m, key("attention.shared_kv_layers"))
	}
	if f.TopK && m.Err == nil {
		for l, cut := range m.TopK(c.Layers) {
			c.Blocks[l].TopK = cut
		}
	}
}

// shareKV has the last layers read keys and values of the last layer before them that has some and a window if they
// have one.
func (c *Config) shareKV(m *nn.Keys, key string) {
	own := m.OwnKV(c.Layers, c.Family.UsualKV)
	for l := own; l < c.Layers; l++ {
		b := &c.Blocks[l]
		if b.KV = own - 1; b.Rotation == Locally {
			b.KV = own - 2 // as families with shared layers have it: the last two that have their own are one of each kind
		}
		if b.KV < 0 || c.Blocks[b.KV].Rotation != b.Rotation || c.Blocks[b.KV].kv() != b.kv() {
			m.Fail("key %q: layer %d finds no layer of its kind whose keys and values it could read", key, l)
			return
		}
	}
}

// kv returns the shape of the layer's keys and values in the cache, or of its state where it has only that.
func (b Block) kv() compute.KVShape {
	if b.Heads == 0 {
		return b.state()
	}
	if b.Latent > 0 {
		return compute.KVShape{Heads: 1, Key: b.Latent + b.Rotated, Value: b.Latent, Within: true}
	}
	return compute.KVShape{Heads: b.KVHeads, Key: b.Key, Value: b.Value}
}

// state returns the shape of the layer's state in the cache.
func (b Block) state() compute.KVShape { return compute.KVShape{State: b.State} }
