package lineage

import (
	"cmp"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// smallThinkerFullEvery is the period of SmallThinker's layers that see all positions, of models with windows.
const smallThinkerFullEvery = 4

// smallThinker describes SmallThinker: experts with ReLU, so that many neurons are zero, chosen before attention from
// the layer's input. In models with sliding windows the first of four layers sees all positions and is not rotated.
func smallThinker() Family {
	f := llama()
	f.Name, f.HuggingFace = "smallthinker", []string{"SmallThinkerForCausalLM"}
	f.Rotation, f.Activation, f.MaxContext = HalvesApart, compute.ReLU, 16384
	f.Window, f.FullEvery, f.FullFirst = true, smallThinkerFullEvery, true
	f.Experts = &Experts{Score: compute.Sigmoid, Normalised: true, MinSum: leastSum, Early: true}
	const experts = "block_sparse_moe.experts.%d."
	f.Block = withExperts(llamaBlock(Same), "block_sparse_moe.primary_router.weight", experts+"gate.weight", experts+"up.weight", experts+"down.weight")
	f.Read = readSmallThinker
	return f
}

func readSmallThinker(c *Config) error {
	t := &c.SmallThinker
	c.FF = cmp.Or(t.Width, c.ExpertWidth)
	c.Mixture = Mixture{Count: cmp.Or(t.Experts, c.NumExperts), Used: cmp.Or(t.Used, c.ExpertsPerToken), Width: c.FF}
	if t.Softmax {
		score := compute.Softmax
		c.Mixture.Score = &score
	}
	switch {
	case slices.Contains(t.Mixed, 0):
		return c.Errorf("moe_layer_layout", "layers without experts are not supported, as GGUF files have it")
	case t.Shared != 0:
		return c.Errorf("moe_shared_primary_experts", "%d is not supported; 0 is, as GGUF files have it", t.Shared)
	case t.Secondary:
		return c.Errorf("moe_enable_secondary_experts", "experts of experts are not supported")
	case !or(t.Early, true):
		return c.Errorf("moe_enable_early_router", "routers behind attention are not supported in SmallThinker, as GGUF files have it")
	}
	c.refuse(c.QueryNorm, "use_qk_norm", "norms of queries and keys are not supported in SmallThinker, as GGUF files have it")
	if err := c.smallThinkerWindows(); err != nil {
		return err
	}
	c.epsilon("rms_norm_eps", c.RMSEps, 1e-6)
	c.nonlinearity("hidden_act", "", "relu") // whatever the configuration calls it
	c.TiedHead = or(c.Tied, true)
	return nil
}

// smallThinkerWindows takes the window, and refuses layouts of layers that GGUF files cannot tell.
func (c *Config) smallThinkerWindows() error {
	t := &c.SmallThinker
	for _, layout := range []struct {
		key string
		of  []int
	}{{"sliding_window_layout", t.Windows}, {"rope_layout", t.Rotated}} {
		if layout.of != nil && len(layout.of) != c.Layers {
			return c.Errorf(layout.key, "%d numbers for %d layers", len(layout.of), c.Layers)
		}
	}
	windows := t.WindowSize > 0 && slices.Contains(t.Windows, 1)
	if c.Window = 0; windows {
		c.Window = t.WindowSize
		for l, v := range t.Windows {
			if (v != 0) != (l%smallThinkerFullEvery != 0) {
				return c.Errorf("sliding_window_layout", "layer %d: every %dth layer must be without a window, the first included, and only those, as GGUF files have it",
					l, smallThinkerFullEvery)
			}
		}
	}
	for l, v := range t.Rotated {
		if (v != 0) != (!windows || l%smallThinkerFullEvery != 0) {
			return c.Errorf("rope_layout", "layer %d: layers with windows must be rotated and those between them not, and all of models without windows, as GGUF files have it", l)
		}
	}
	return nil
}
