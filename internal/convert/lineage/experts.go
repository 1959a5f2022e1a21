package lineage

import (
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Experts says how a family's layers with experts choose among them, where its files do not say otherwise.
type Experts struct {
	Optional   bool // there are models of the family without experts
	Score      compute.Score
	Normalised bool    // weights are divided by their sum,
	MinSum     float32 // or by this where the sum is less
	// Divided says that feed_forward_length, where files tell no width of experts, is what all experts of a token have
	// together.
	Divided bool
	// Shared says that files which tell no width of shared experts have one of feed_forward_length; of other families
	// such files have none.
	Shared bool
	Latent bool // files may say that experts read and write vectors narrower than the residual
	// Counted says that files tell how many experts all tokens use, each as wide as the others.
	Counted bool
	// SharedAsWide says that files which tell nothing of shared experts have one as wide as the others.
	SharedAsWide bool
	Before       bool   // weights multiply the experts' input, not their output
	Predictor    string // name of an expert's predictor on Hugging Face, where folders may hold some, %d its number; "": they never do
	Early        bool   // routers read the layer's input, before the norm of attention
	Beside       bool   // layers with experts have a feed-forward layer, too, with its own names
}

// Gating returns the value of the key expert_gating_func.
func (e *Experts) Gating() uint32 {
	return uint32(slices.Index(compute.GatingFunctions(), e.Score) + 1)
}

// leastSum is the least divisor of weights: the smallest normal F16. Softmax stays far above it.
const leastSum = 1.0 / (1 << 14)

// OfExperts reports whether a tensor, by its name in GGUF after "blk.N.", is of layers with experts only.
func OfExperts(name string) bool {
	return NormOfExperts(name) || strings.HasPrefix(name, "ffn_gate_inp") || strings.HasPrefix(name, "exp_probs_b") || strings.HasPrefix(name, "ffn_latent_") || strings.HasPrefix(name, "ffn_routed_") || strings.Contains(name, "_exps.") || strings.Contains(name, "_chexps.") || strings.Contains(name, "_shexp.")
}

// NormOfExperts reports whether a tensor, by its name after "blk.N.", is a norm of layers with experts that belongs to
// no single expert.
func NormOfExperts(name string) bool {
	return slices.Contains([]string{"ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"}, name)
}

// insteadOfExperts are patterns of tensors of layers without experts only.
var insteadOfExperts = []string{"ffn_gate.*", "ffn_up.*", "ffn_down.*", "ffn_down_t.*"}

// InsteadOfExperts reports whether a tensor, by its name after "blk.N.", is only in layers without experts. name may
// end before ".weight".
func InsteadOfExperts(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	return matches(stem+".", insteadOfExperts)
}

// withExperts returns block with a router and experts, by their names on Hugging Face: %d stands for an expert.
func withExperts(block []Tensor, router, gate, up, down string) []Tensor {
	return with(block,
		Tensor{Name: "ffn_gate_inp.weight", Source: router},
		Tensor{Name: "ffn_gate_exps.weight", Source: gate, Change: Stacked},
		Tensor{Name: "ffn_up_exps.weight", Source: up, Change: Stacked},
		Tensor{Name: "ffn_down_exps.weight", Source: down, Change: Stacked})
}

// mixtralExperts returns block with a router and experts, by the names of Mixtral.
func mixtralExperts(block []Tensor) []Tensor {
	const experts = "block_sparse_moe.experts.%d."
	return withExperts(block, "block_sparse_moe.gate.weight", experts+"w1.weight", experts+"w3.weight", experts+"w2.weight")
}

// mlpExperts returns block with a router and experts, by the names of most families.
func mlpExperts(block []Tensor) []Tensor {
	return withExperts(block, "mlp.gate.weight", "mlp.experts.%d.gate_proj.weight", "mlp.experts.%d.up_proj.weight", "mlp.experts.%d.down_proj.weight")
}

// wholeExperts returns block with experts that newer folders hold as one tensor of gates and ups and one of downs.
func wholeExperts(block []Tensor) []Tensor {
	return each(block, func(t *Tensor) {
		all, _, _ := strings.Cut(t.Source, "%d.")
		if t.Name == "ffn_down_exps.weight" {
			t.Source += " " + all + "down_proj"
		} else {
			t.Source += " " + all + "gate_up_proj"
		}
	}, "ffn_*_exps.weight")
}

// sharedExpert returns block with an expert that all tokens use; names are its alternative ones on Hugging Face.
func sharedExpert(block []Tensor, names ...string) []Tensor {
	block = slices.Clone(block)
	for _, part := range []string{"gate", "up", "down"} {
		var sources []string
		for _, name := range names {
			sources = append(sources, name+"."+part+"_proj.weight")
		}
		block = append(block, Tensor{Name: "ffn_" + part + "_shexp.weight", Source: strings.Join(sources, " "), Optional: true})
	}
	return block
}

// Mixture holds what config.json says of experts. Config.mixture reads the names that most families use; families with
// others fill it in.
type Mixture struct {
	Count  int // experts of a layer; 0: the model has none
	Used   int // experts of a token
	Width  int // neurons of an expert
	Shared int // neurons of the shared experts, together; 0: no expert is shared
	First  int // layers before this one have no experts
	Every  int // of the others, layer l has experts if Every divides l+1; 0: all have
	Dense  []int
	Scale  float64 // factor of the weights; 0: 1
	Latent int     // width of the experts' inputs and outputs; 0: the residual's
	// Normalised says whether weights are divided by their sum; nil: as the family has it.
	Normalised *bool
	Score      *compute.Score // nil: the family's
	// Experts are chosen from GroupsUsed of Groups groups; 0: from all experts.
	Groups, GroupsUsed int
	Grove              *Grove // nil: experts share no small ones
}

// In reports whether layer l has experts.
func (m *Mixture) In(l int) bool {
	return m.Count > 0 && l >= m.First && (m.Every < 2 || (l+1)%m.Every == 0) && !slices.Contains(m.Dense, l)
}

// mixture sets c.Mixture by the usual keys; width is the number of an expert's neurons.
func (c *Config) mixture(width int) {
	c.Mixture = Mixture{
		Count: c.NumExperts, Used: c.ExpertsPerToken, Width: width, Shared: c.SharedWidth, Every: c.SparseStep, Dense: c.DenseLayers, Normalised: c.NormTopK,
	}
	if c.Mixture.Count == 0 {
		c.Mixture.Count = c.LocalExperts
	}
}

// grouped takes the groups that experts are chosen from.
func (c *Config) grouped() {
	if c.ExpertGroups > 1 {
		c.Mixture.Groups, c.Mixture.GroupsUsed = c.ExpertGroups, c.GroupsUsed
	}
}

// routed reads the keys of DeepSeek's configuration and of similar ones.
func (c *Config) routed() error {
	c.mixture(c.ExpertWidth)
	m := &c.Mixture
	m.Count, m.Shared, m.First, m.Scale = c.RoutedExperts, c.SharedExperts*c.ExpertWidth, c.FirstDense, c.ExpertScale
	if len(c.ExpertEvery) > 0 {
		m.Every = c.ExpertEvery[0]
	}
	c.grouped()
	switch {
	case m.Count == 0:
	case c.SharedExperts < 0 || c.SharedExperts > 1<<10 || c.FirstDense < 0 || c.FirstDense > c.Layers:
		return c.Errorf("n_shared_experts", "%d, with %d layers before those with experts, are not supported", c.SharedExperts, c.FirstDense)
	case m.Every > 1:
		return c.Errorf("moe_layer_freq", "experts in every %dth layer are not supported", m.Every)
	}
	return nil
}
