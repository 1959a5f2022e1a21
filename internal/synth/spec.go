// Package synth writes GGUF models of any shape with random weights. Their feed-forward layers are as sparse as asked.
//
// The residual stream is the sum of a fixed direction m̂ (the "mean" that trained models have too) and a vector in a
// subspace of a few dimensions. A gate row reads the subspace along a random direction, and m̂ with an offset, so that
// on any input the gate is N(offset, 1) over neurons. The offset sets how often a neuron is active. Which neurons are
// active depends on the input and is predictable at the subspace's rank. Attention and down projections write only to
// the subspace, with a known energy, so that the share of m̂ is known at every depth. Nothing is trained: generated
// text is noise.
package synth

import (
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Spec describes a model. Zero values take the defaults that their comments name; Arch, Layers, Embd, FF and Heads have
// none.
type Spec struct {
	Arch    string     `json:"arch"`            // a general.architecture
	Magic   string     `json:"magic,omitempty"` // "GGUF"; "PWRI": the original PowerInfer's form, with predictors
	Layers  int        `json:"layers"`
	Embd    int        `json:"embd"`                   // n_embd, a multiple of 32
	FF      int        `json:"ff"`                     // n_ff, a multiple of 32; with experts, that of each expert
	Experts int        `json:"experts,omitempty"`      // experts of each layer; 8 in families that always have some
	Used    int        `json:"experts_used,omitempty"` // experts that a token uses; default a quarter of them, at most 8
	Heads   int        `json:"heads"`
	KVHeads int        `json:"kv_heads,omitempty"` // Heads
	HeadDim int        `json:"head_dim,omitempty"` // Embd/Heads
	Vocab   int        `json:"vocab,omitempty"`    // 512
	Context int        `json:"context,omitempty"`  // default: the family's description
	Type    quant.Type `json:"-"`                  // type of the matrices; norms and biases are F32
	Tied    bool       `json:"tied,omitempty"`     // no output.weight: the head is the embedding; always so in opt

	// Activation is relu, fatrelu, drelu, relu2, silu, gelu or clamped_swiglu, as in the key powerinfer.activation;
	// default the family's own if that leaves zeros, else relu.
	Activation string `json:"activation,omitempty"`
	// Sparsity is the share of (token, neuron) pairs with an activation of exactly zero, in [0, 0.999]. 0 leaves gates
	// without an offset: half of them are positive. Only the ReLU family can be sparse.
	Sparsity float64 `json:"sparsity,omitempty"`
	// PowerLaw is s in P(active) ∝ rank^-s, cut off at alwaysOn. 0: all neurons are equally active.
	PowerLaw float64 `json:"power_law,omitempty"`
	Seed     uint64  `json:"seed"`
	// Labels makes a reranker with a classification head of Labels numbers; 0: there is none.
	Labels int `json:"labels,omitempty"`
	// Rank of the predictors in PWRI files. By default it is twice the subspace's dimension and one, rounded up to 32;
	// predictors are then exact except for rounding. A smaller rank sees part of the subspace.
	Rank int `json:"rank,omitempty"`

	Mixing
	Form
	Latents
	Rope
	Keys []gguf.KV `json:"-"` // additional metadata, such as rope scaling
}

// Mixing says how layers have experts.
type Mixing struct {
	Dense  int `json:"dense_layers,omitempty"`   // the number of first layers without experts
	Shared int `json:"shared_experts,omitempty"` // experts that all tokens use, each as wide as the others; 1 in families that only have one
	// ExpertLaw is s in P(used by a token) ∝ rank^-s of a layer's experts, cut off at alwaysOn. ExpertRanks returns the
	// experts' ranks. Biases that affect choices, and groups of experts, bend the law. 0: all experts are equally used.
	ExpertLaw float64 `json:"expert_law,omitempty"`
}

// Form says which tensors hold a block's weights.
type Form struct {
	AttnNorm2  bool `json:"attn_norm_2,omitempty"`
	Transposed bool `json:"transposed,omitempty"` // ffn_down_t, one row a neuron, instead of ffn_down; always so in PWRI files
}

// Latents are the sizes of latent attention.
type Latents struct {
	// DirectQueries makes queries follow from the input in families that may have a latent vector of queries, as in
	// DeepSeek V2 Lite.
	DirectQueries bool `json:"direct_queries,omitempty"`
	// Latent is the width of the latent vector of keys and values, and QueryLatent that of queries, in latent
	// attention; default about a quarter of Embd.
	Latent      int `json:"latent,omitempty"`
	QueryLatent int `json:"query_latent,omitempty"`
}

// Rope says how heads are rotated.
type Rope struct {
	RopeDims    int       `json:"rope_dims,omitempty"`    // rotated elements of a head: HeadDim
	RopeFactors []float32 `json:"rope_factors,omitempty"` // rope_freqs.weight [RopeDims/2], as in Llama 3
	RopeLong    []float32 `json:"rope_long,omitempty"`    // rope_factors_long.weight [RopeDims/2], as in Phi-3; with RopeShort
	RopeShort   []float32 `json:"rope_short,omitempty"`   // rope_factors_short.weight [RopeDims/2]
}

// usual returns the activation of synthetic models of the family: its own if that leaves zeros, else ReLU.
func usual(f lineage.Family) string {
	if (compute.Activation{Kind: f.Activation}).Sparse() {
		return f.Activation.String()
	}
	return compute.ReLU.String()
}

// complete fills in defaults and refuses specs that cannot be made.
func (s Spec) complete() (Spec, error) {
	fam, ok := lineage.Named(s.Arch)
	if !ok || fam.Drafts {
		return s, fmt.Errorf("architecture %q: only %s can be made", s.Arch, lineage.Names(nil))
	}
	for _, v := range []struct {
		name string
		n    int
	}{{"layers", s.Layers}, {"width", s.Embd}, {"neurons", s.FF}, {"heads", s.Heads}} {
		if v.n < 1 || v.n > 1<<20 {
			return s, fmt.Errorf("%d %s: give 1 to %d", v.n, v.name, 1<<20)
		}
	}
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if fam.Compresses() { // there is one head of keys
		s.KVHeads = 1
	}
	if def(&s.KVHeads, s.Heads); fam.OwnHeads {
		s.KVHeads = s.Heads
	}
	def(&s.HeadDim, s.Embd/s.Heads)
	def(&s.Vocab, 512)
	def(&s.Context, fam.MaxContext)
	if fam.Compresses() {
		def(&s.RopeDims, s.HeadDim/2/8*8)
		def(&s.QueryLatent, max(1, s.Embd/128)*32)
	}
	if fam.Latent {
		def(&s.RopeDims, s.HeadDim/2/8*8)
		def(&s.Latent, max(1, s.Embd/128)*32)
		def(&s.QueryLatent, s.Latent)
	}
	def(&s.RopeDims, s.HeadDim)
	if fam.Experts != nil && !fam.Experts.Optional {
		def(&s.Experts, 8)
	}
	if s.Experts > 0 {
		def(&s.Used, min(8, max(1, s.Experts/4)))
		def(&s.Shared, 1)
	}
	if s.Magic == "" {
		s.Magic = "GGUF"
	}
	if s.Activation == "" {
		s.Activation = usual(fam)
	}
	s.Tied = s.Tied || fam.AlwaysTied
	if fam.WindowHeads && s.RopeFactors == nil { // a quarter of a head is rotated in layers without a window
		s.RopeFactors = slices.Repeat([]float32{1e30}, s.RopeDims/2)
		for i := range s.RopeDims / 8 {
			s.RopeFactors[i] = 1
		}
	}
	if s.Magic == "PWRI" {
		s.Transposed = true
		def(&s.Rank, (2*newSpace(s.Embd).k+1+31)/32*32)
	}
	return s, s.check(fam)
}

// directQueries reports whether queries of a family may follow from the input.
func directQueries(f lineage.Family) bool {
	_, ok := f.InBlock("attn_q.weight")
	return ok
}

// leadsDense reports whether a family's first layers may be without experts.
func leadsDense(f lineage.Family) bool {
	_, ok := f.InBlock("ffn_up.weight")
	return ok && f.Experts != nil
}

func hasSecondNorm(f lineage.Family) bool {
	_, ok := f.InBlock("attn_norm_2.weight")
	return ok
}

// Check returns why Write would refuse s, or nil.
func (s Spec) Check() error {
	if _, err := s.complete(); err != nil {
		return fmt.Errorf("synthetic model: %w", err)
	}
	return nil
}

func (s Spec) check(fam lineage.Family) error {
	act, ok := activations()[s.Activation]
	switch {
	case s.Labels < 0 || s.Labels > 1<<16:
		return fmt.Errorf("a classification head of %d numbers: give up to %d", s.Labels, 1<<16)
	case s.Embd%32 != 0 || s.FF%32 != 0:
		return fmt.Errorf("width %d and neurons %d must be multiples of 32", s.Embd, s.FF)
	case s.Experts != 0 && (fam.Experts == nil || s.Magic == "PWRI"):
		return fmt.Errorf("%d experts: %s has none, nor have the original PowerInfer's files", s.Experts, s.Arch)
	case s.Experts < 0 || s.Experts > 1<<12 || s.Used < 0 || s.Used > s.Experts:
		return fmt.Errorf("%d experts of which %d are used: give up to %d, and as many or fewer", s.Experts, s.Used, 1<<12)
	case s.Dense < 0 || s.Dense > 0 && (s.Dense >= s.Layers || s.Experts == 0 || !leadsDense(fam)):
		return fmt.Errorf("%d layers of %d without experts are not possible in %s", s.Dense, s.Layers, s.Arch)
	case s.Shared < 0 || s.Shared > 64 || s.Shared > 1 && (s.Experts == 0 || !fam.Experts.Counted):
		return fmt.Errorf("%d shared experts are not possible in %s", s.Shared, s.Arch)
	case s.KVHeads < 1 || s.Heads%s.KVHeads != 0:
		return fmt.Errorf("%d heads do not share %d KV heads evenly", s.Heads, s.KVHeads)
	case s.HeadDim < 8 || s.HeadDim%8 != 0 || s.HeadDim > 512:
		return fmt.Errorf("heads of %d elements: give a multiple of 8 up to 512", s.HeadDim)
	case s.Vocab < leastVocab || s.Vocab > mostVocab:
		return fmt.Errorf("a vocabulary of %d: give %d to %d", s.Vocab, leastVocab, mostVocab)
	case s.Context < 1 || s.Context > 1<<30:
		return fmt.Errorf("a context of %d positions: give at least 1", s.Context)
	case !ok:
		return fmt.Errorf("activation %q is not one of relu, fatrelu, drelu, relu2, silu, gelu, clamped_swiglu, situ", s.Activation)
	case act.gated && !fam.Gated:
		return fmt.Errorf("activation %s needs a gate, which %s has not", s.Activation, s.Arch)
	case !(s.ExpertLaw >= 0 && s.ExpertLaw <= 10) || s.ExpertLaw > 0 && (s.Experts == 0 || s.Used == s.Experts):
		return fmt.Errorf("a power law of %g of %d experts of which %d are used: give 0 to 10, and experts of which some are not used", s.ExpertLaw, s.Experts, s.Used)
	case !(s.Sparsity >= 0 && s.Sparsity <= 0.999) || !(s.PowerLaw >= 0 && s.PowerLaw <= 10):
		return fmt.Errorf("sparsity %g and power law %g: give 0 to 0.999 and 0 to 10", s.Sparsity, s.PowerLaw)
	case s.Sparsity > 0 && s.Sparsity < 1-alwaysOn:
		return fmt.Errorf("sparsity %g: give 0 or at least %.3g", s.Sparsity, 1-alwaysOn)
	case s.Sparsity > 0 && !act.sparse:
		return fmt.Errorf("activation %s is never zero: give a sparsity of 0", s.Activation)
	case s.Magic != "GGUF" && s.Magic != "PWRI":
		return fmt.Errorf("magic %q is neither GGUF nor PWRI", s.Magic)
	case len(s.RopeLong) != len(s.RopeShort) || s.RopeLong != nil && (len(s.RopeLong) != s.RopeDims/2 || s.Arch != "phi3"):
		return fmt.Errorf("%d long and %d short rope factors of %d rotated elements: phi3 has half as many of each", len(s.RopeLong), len(s.RopeShort), s.RopeDims)
	case s.RopeFactors != nil && len(s.RopeFactors) != s.RopeDims/2:
		return fmt.Errorf("%d rope factors for heads of %d elements: give half as many", len(s.RopeFactors), s.HeadDim)
	case s.RopeDims < 2 || s.RopeDims%2 != 0 || s.RopeDims > s.HeadDim || s.RopeDims < s.HeadDim && !fam.PartialRotary:
		return fmt.Errorf("%d rotated elements of heads of %d are not possible in %s", s.RopeDims, s.HeadDim, s.Arch)
	case fam.Latent && s.KVHeads != s.Heads:
		return fmt.Errorf("%d heads of %s have keys and values of their own, not %d", s.Heads, s.Arch, s.KVHeads)
	case fam.Latent && (min(s.Latent, s.QueryLatent) < 32 || max(s.Latent, s.QueryLatent) > 1<<20 || s.Latent%32 != 0 || s.QueryLatent%32 != 0):
		return fmt.Errorf("latent vectors of %d and %d elements: give multiples of 32", s.Latent, s.QueryLatent)
	case s.DirectQueries && !directQueries(fam):
		return fmt.Errorf("queries of %s follow from a latent vector", s.Arch)
	case fam.Latent && s.RopeDims == s.HeadDim:
		return fmt.Errorf("heads of %d elements that are all rotated are not possible in %s", s.HeadDim, s.Arch)
	case s.AttnNorm2 && !hasSecondNorm(fam):
		return fmt.Errorf("attn_norm_2 is falcon's, not %s's", s.Arch)
	case s.Tied && !fam.AlwaysTied && s.Magic == "PWRI":
		return fmt.Errorf("the original PowerInfer needs an output.weight in %s files", s.Arch)
	}
	return s.checkTypes(fam)
}

// checkTypes holds the original's limits and the types' block sizes.
func (s Spec) checkTypes(fam lineage.Family) error {
	if !slices.Contains(quant.Types(), s.Type) {
		return fmt.Errorf("type %s cannot be written; these can: %s", s.Type, quant.Supported())
	}
	cols := []int{s.Embd, s.Heads * s.HeadDim, s.FF}
	if s.Magic == "PWRI" {
		if _, err := prepared.OriginalActivation(s.Arch); err != nil || s.Type != quant.F16 && s.Type != quant.Q4_0 {
			return fmt.Errorf("the original PowerInfer runs %s in F16 or Q4_0, not %s in %s", prepared.Originals(), s.Arch, s.Type)
		}
		if s.Rank < 1 || s.Rank > 1<<20 {
			return fmt.Errorf("a predictor rank of %d: give at least 1", s.Rank)
		}
		cols = append(cols, s.Rank)
	}
	for _, n := range cols {
		if n%s.Type.BlockElems() != 0 {
			return fmt.Errorf("rows of %d elements do not fill %s's blocks of %d", n, s.Type, s.Type.BlockElems())
		}
	}
	return nil
}
