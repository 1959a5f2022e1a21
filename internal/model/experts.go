package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// maxExperts bounds the experts of a layer.
const maxExperts = nn.MaxExperts

// Experts are the hyperparameters of layers with experts.
type Experts struct {
	Count   int // of a layer; 0: no layer has any
	Used    int // of them, by a token
	FF      int // neurons of an expert
	Shared  int // neurons of the experts that all tokens use, together; 0: no expert is shared
	Latent  int // width of what experts read and write; 0: that of the residual
	Routing compute.Routing
}

// readExperts reads what files say of experts. Layers with a router have some.
func (c *Config) readExperts(m *nn.Keys) {
	key := func(s string) string { return c.Arch + "." + s }
	router := func(l int) string { return fmt.Sprintf("blk.%d.ffn_gate_inp.weight", l) }
	n, said, err := m.File.Uint(key("expert_count"))
	f := c.Family.Experts
	switch {
	case m.Err != nil:
		return
	case err != nil:
		m.Err = err
		return
	case f == nil && n > 0:
		m.Fail("key %q: %d experts in a family that has none", key("expert_count"), n)
		return
	case n == 0 && (f == nil || f.Optional):
		if used, _, _ := m.File.Uint(key("expert_used_count")); used > 0 && !said { // as --experts-used has it of a model without experts
			m.Fail("key %q: %d experts are to be used, and the model has none", key("expert_used_count"), used)
		}
		return
	}
	e := &c.Experts
	def := c.FF
	if f.Divided {
		def = max(1, c.FF/m.Count(key("expert_used_count"), 0, maxExperts))
	}
	m.Count(key("expert_count"), 0, maxExperts) // it must have some
	usual := nn.ExpertSpec{Neurons: def, Routing: compute.Routing{Score: f.Score, Normalised: f.Normalised, MinSum: f.MinSum}}
	if f.Shared {
		usual.Shared = c.FF
	}
	x := m.Experts(usual)
	e.Count, e.Used, e.FF, e.Shared, e.Routing = x.Count, x.Used, x.Neurons, x.Shared, x.Routing
	if e.Shared == 0 && f.SharedAsWide {
		e.Shared = e.FF
	}
	if f.Latent {
		e.Latent = m.Optional(key("moe_latent_size"), nn.MaxWidth)
	}
	lead, _, err := m.File.Uint(key("leading_dense_block_count"))
	if err != nil && m.Err == nil {
		m.Err = err
	}
	with := 0
	for l := range c.Blocks {
		b := &c.Blocks[l]
		if m.File.Tensor(router(l)) == nil {
			if down := fmt.Sprintf("blk.%d.ffn_down_exps.weight", l); m.File.Tensor(down) != nil {
				m.Fail("tensor %q is missing, the router of the experts in %q: the file is incomplete; download or convert it again", router(l), down)
			}
			if b.FF == 0 && !c.Family.OnePart {
				m.Fail("key %q: layer %d has neither neurons nor experts", key("feed_forward_length"), l)
			}
			continue
		}
		if uint64(l) < lead {
			m.Fail("tensor %q gives layer %d experts, and key %q says that the first %d layers have none", router(l), l, key("leading_dense_block_count"), lead)
		}
		b.Experts, b.FF = true, e.Shared
		with++
	}
	if with == 0 {
		m.Fail("key %q: %d experts, and no layer has a router (tensor \"blk.N.ffn_gate_inp.weight\")", key("expert_count"), e.Count)
	}
	c.FF = 0
	for _, b := range c.Blocks {
		c.FF = max(c.FF, b.FF)
	}
}

// readExpertUse reads what the file says of the uses of its experts, and checks that it is of this model.
func (c *Config) readExpertUse(f *gguf.File) error {
	x, _, err := prepared.ReadExperts(f)
	if x == nil || err != nil {
		return err
	}
	if len(x.Layers) != c.Layers {
		return fmt.Errorf("%s: uses of experts in %d layers for a model of %d", f.Path, len(x.Layers), c.Layers)
	}
	for l := range x.Layers {
		y, n := &x.Layers[l], 0
		if c.Blocks[l].Experts {
			n = c.Experts.Count
		}
		switch {
		case y.Count() != n:
			return fmt.Errorf("%s: uses of %d experts in layer %d, which has %d", f.Path, y.Count(), l, n)
		case y.Active != nil && len(y.Active[0]) != c.Experts.FF:
			return fmt.Errorf("%s: counts of %d neurons of each expert of layer %d, which have %d", f.Path, len(y.Active[0]), l, c.Experts.FF)
		}
	}
	c.ExpertUse = x
	return nil
}

// Prior returns the share of tokens that are expected to use each expert of layer l, as profile or prepare counted it.
// [experts], 0…1; nil where the layer has no experts or the file does not say
func (c *Config) Prior(l int) []float64 {
	if c.ExpertUse == nil {
		return nil
	}
	return c.ExpertUse.Prior(l)
}

// expertPredictor returns the name of the first or second matrix of the predictors of layer l's experts.
func expertPredictor(l, matrix int) string { return fmt.Sprintf("blk.%d.fc%d_exps.weight", l, matrix) }
