package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// Config is a model's hyperparameters, read from the file's metadata.
type Config struct {
	Arch    string // general.architecture: Family.Name
	Name    string // general.name
	Context int    // positions the model was trained for
	Embd    int    // width of the residual stream
	Layers  int
	Further int // layers of the file behind these, which predict further tokens than the next and are not computed, but for guesses
	// FurtherCached says that the KV cache has a part of the first of these.
	FurtherCached bool
	Family        arch.Family
	Blocks        []Block // [Layers]; where they differ, the four below are the largest
	Experts       Experts // of the layers that have any
	// ExpertUse counts which experts the tokens of some texts used, numbered as the file has them; nil: the file does
	// not say.
	ExpertUse *neuron.Experts
	FF        int
	Heads     int
	KVHeads   int
	HeadDim   int     // of keys
	Vocab     int     // rows of the token embedding
	Eps       float32 // of the norms
	Rope      nn.RopeSpec
	Later     bool // tokens see later positions, too
	Types     int  // of tokens, as BERT's texts have; 0: none
	// QueryLatent is the width of the latent vector of queries, in latent attention; 0: queries are products of the
	// input.
	QueryLatent int
	Act         compute.Activation
	States      StateSpace // of recurrent layers
	// Predictors says that the file carries predictors: it is an original PowerInfer file or a prepared one.
	Predictors bool
	// ExpertPredictors says that some layer's experts have predictors of their neurons.
	ExpertPredictors bool
	Transposed       bool           // down projections are stored one row per neuron
	Prepared         *prepared.Info // of a prepared file
	Sparse           SparseMode     // Auto until the model is loaded
	// Threshold is the file's powerinfer.sparse_threshold; a predicted neuron's logit is at least this.
	Threshold  float32
	Curve      *prepared.Curve // of settings and what they cost; nil: the file has none
	Chosen     string          // a line about how the model is computed to keep a bound; empty where nothing was chosen
	AlwaysOn   float64         // share of a layer's neurons, the hottest, that mode Predict computes for every token, where it is more than the prepared file's
	Predicting []bool          // [layers] those that mode Predict runs by their predictors, the others exact; nil: all that have one
	// Magnitudes are the layers' thresholds of mode Threshold, 0 where a layer has none; nil in other modes. [layers]
	Magnitudes []float32
}

// Rotation says how a layer's heads are rotated to their positions.
type Rotation int

// The rotations of layers.
const (
	Rotated   Rotation = iota // as Config.Rope says
	Locally                   // as Config.Local says
	Unrotated                 // not at all
)

// uniform reports whether all layers have as many neurons.
func (c *Config) uniform() bool {
	return !slices.ContainsFunc(c.Blocks, func(b Block) bool { return b.FF != c.FF })
}

// ReadConfig reads and checks the hyperparameters of f. activation, when not empty, overrides the file's.
func ReadConfig(f *gguf.File, activation string) (Config, error) {
	m := &nn.Keys{File: f, Act: activation}
	c := Config{Arch: m.Text("general.architecture", ""), Name: m.Text("general.name", "")}
	if m.Err != nil {
		return c, m.Err
	}
	if c.Arch == "" {
		return c, fmt.Errorf("%s: key %q is missing: this is no model's file, or its first part is another one", f.Path, "general.architecture")
	}
	var ok bool
	if c.Family, ok = arch.Named(c.Arch); !ok {
		return c, fmt.Errorf("%s: architecture %q is not supported; supported are %s", f.Path, c.Arch, arch.Names(nil))
	}
	m.Arch = c.Arch
	key := func(s string) string { return c.Arch + "." + s }
	c.Context = m.Context()
	c.Embd = m.Count(key("embedding_length"), 0, nn.MaxWidth)
	c.Layers = m.Layers()
	c.Further = m.Extra
	c.readBlocks(m)
	c.readStates(m)
	c.readExperts(m)
	c.readInputs(m)
	if eps := cmp.Or(c.Family.UsualEps, 1e-5); c.Family.LayerNorm {
		c.Eps = m.LayerNormEpsilon(eps)
	} else {
		c.Eps = m.RMSEpsilon(eps)
	}
	if v := m.Text(key("rope.scaling.type"), "none"); v != "none" && v != "linear" && v != "yarn" && v != "longrope" && v != "dynamic" {
		m.Fail("key %q: rope scaling %q is not supported; supported are none, linear, yarn, longrope, dynamic", key("rope.scaling.type"), v)
	}
	c.Rope = readRope(m, &c)
	c.readPositions(m)
	c.Threshold = float32(m.Within("powerinfer.sparse_threshold", 0, math.Inf(-1), math.Inf(1)))
	original := f.Magic == "PWRI"
	if original && c.Family.Original == "" {
		m.Fail("original PowerInfer files of architecture %q do not exist; supported are %s", c.Arch, arch.Originals())
	}
	if m.Err != nil {
		return c, m.Err
	}
	embd := f.Tensor("token_embd.weight")
	if embd == nil {
		return c, fmt.Errorf("%s: tensor \"token_embd.weight\" is missing; this file holds no model", f.Path)
	}
	c.Vocab = embd.Rows()
	c.Act = m.ActivationOr(compute.Activation{Kind: c.Family.Activation, Slope: c.Family.Slope, Limit: c.Family.Limit}, c.Family.Original)
	if m.Err != nil {
		return c, m.Err
	}
	var err error
	if err := c.readExpertUse(f); err != nil {
		return c, err
	}
	if c.Curve, err = prepared.ReadCurve(f, c.Layers); err != nil {
		return c, err
	}
	info, ok, err := prepared.Read(f)
	if ok {
		c.Prepared = &info
	}
	c.Predictors, c.Transposed = original || ok, original || ok
	for l := range c.Blocks {
		if c.Blocks[l].Experts && f.Tensor(expertPredictor(l, 1)) != nil {
			c.ExpertPredictors = true
		}
	}
	if err == nil && c.Transposed {
		err = c.checkByNeuron(m)
	}
	return c, err
}

// checkByNeuron refuses a file whose down projections are stored by neuron where layers cannot be computed so.
func (c *Config) checkByNeuron(m *nn.Keys) error {
	if c.Experts.Count > 0 {
		return fmt.Errorf("%s: predictors of models with experts are not supported", m.File.Path)
	}
	if !c.uniform() {
		return fmt.Errorf("%s: key %q: predictors of layers that differ in their number of neurons are not supported", m.File.Path, c.Arch+".feed_forward_length")
	}
	return nil
}

// readPositions reads how scores depend on positions besides the rotation, and what keys and values are computed from.
func (c *Config) readPositions(m *nn.Keys) {
	f := &c.Family
	c.Later = !m.Flag(".attention.causal", !f.Later)
	if t := m.File.Tensor("token_types.weight"); t != nil {
		c.Types = t.Rows()
	}
	if f.Latent && m.Err == nil {
		c.readLatent(m)
	}
}

// readLatent reads what latent attention computes with: in all layers the same.
func (c *Config) readLatent(m *nn.Keys) {
	key := c.Arch + ".attention.kv_lora_rank"
	width := m.Count(key, 0, nn.MaxWidth)
	c.QueryLatent = m.Optional(c.Arch+".attention.q_lora_rank", nn.MaxWidth)
	if c.Rope.First = c.HeadDim - c.Rope.Dims; c.Rope.First < 1 {
		m.Fail("key %q: %d rotated elements leave none of a head's %d", c.Arch+".rope.dimension_count", c.Rope.Dims, c.HeadDim)
	}
	for l := range c.Blocks {
		b, first := &c.Blocks[l], &c.Blocks[0]
		b.Latent, b.Rotated = width, c.Rope.Dims
		switch {
		case b.Heads != first.Heads || b.Key != first.Key || b.Value != first.Value:
			m.Fail("layer %d has other heads than layer 0, which attention with a latent vector does not allow", l)
		case width%8 != 0 || c.Rope.Dims%8 != 0 || b.Heads*(width+c.Rope.Dims) > nn.MaxWidth:
			m.Fail("key %q: latent vectors of %d elements for %d heads, with %d rotated ones, are not supported: take multiples of 8 that make %d at most for all heads",
				key, width, b.Heads, c.Rope.Dims, nn.MaxWidth)
		}
	}
}
