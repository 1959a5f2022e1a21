package model

import (
	"cmp"
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// Experts are the hyperparameters of layers with experts.
type Experts struct {
	Count   int // experts of a layer; 0: no layer has any
	Used    int // experts that a token uses
	FF      int // neurons of an expert
	Shared  int // neurons of the experts that all tokens use, together; 0: no expert is shared
	Latent  int // width of experts' inputs and outputs; 0: the residual's
	Routing compute.Routing
}

// takeExperts describes the experts of the layers that have some, from these layers' parts, and checks that the file's
// keys agree.
func (c *Config) takeExperts(k *nn.Keys, parts []nn.Parts) {
	key := func(s string) string { return c.Arch + "." + s }
	lead, _, err := k.File.Uint(key("leading_dense_block_count"))
	k.Err = cmp.Or(k.Err, err)
	for l := range c.Blocks {
		x := parts[l].Experts
		if x == nil {
			continue
		}
		if uint64(l) < lead {
			k.Fail("tensor \"blk.%d.ffn_gate_inp.weight\" gives layer %d experts, and key %q says that the first %d layers have none", l, l, key("leading_dense_block_count"), lead)
		}
		e := &c.Experts
		e.Count, e.Used, e.FF, e.Routing = x.Count, x.Used, x.Neurons(), x.Routing
		if x.Narrow.Bound() {
			e.Latent = x.Narrow.W.Rows
		}
		e.Shared = max(e.Shared, c.Blocks[l].FF)
	}
	n, said, err := k.File.Uint(key("expert_count"))
	k.Err = cmp.Or(k.Err, err)
	switch used, _, _ := k.File.Uint(key("expert_used_count")); {
	case c.Experts.Count > 0:
	case n > 0:
		k.Fail("key %q: %d experts, and no layer has a router (tensor \"blk.N.ffn_gate_inp.weight\")", key("expert_count"), n)
	case used > 0 && !said: // as --experts-used has it of a model without experts
		k.Fail("key %q: %d experts are to be used, and the model has none", key("expert_used_count"), used)
	}
}

// readExpertUse reads the file's counts of its experts' uses, and checks that they belong to this model.
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
// [experts], 0…1; nil if the layer has no experts or the file has no counts
func (c *Config) Prior(l int) []float64 {
	if c.ExpertUse == nil {
		return nil
	}
	return c.ExpertUse.Prior(l)
}

// expertPredictor returns the name of the first or second matrix of the predictors of layer l's experts.
func expertPredictor(l, matrix int) string { return fmt.Sprintf("blk.%d.fc%d_exps.weight", l, matrix) }
