package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Config is what a model consists of and how it is to be computed. It follows from an outline of the model: what the
// family's program binds.
type Config struct {
	Arch     string  // general.architecture
	Name     string  // general.name
	Context  int     // positions the model was trained for
	Embd     int     // width of the residual stream
	Vocab    int     // rows of the token embedding
	Types    int     // token types, as BERT's texts have; 0: none
	Eps      float32 // epsilon of the norms
	Act      compute.Activation
	Later    bool // tokens see later positions, too
	Headless bool // there are no logits: hidden states are the result
	Layers   int
	Blocks   []Block // [Layers]
	Largest
	Experts Experts // of the layers with experts
	// ExpertUse counts which experts the tokens of some texts used, numbered as the file has them; nil: the file does
	// not say.
	ExpertUse *neuron.Experts
	Pictures
	MTP

	Transposed bool // down projections are stored one row per neuron
	// Predictors says that the file carries predictors: it is an original PowerInfer file or a prepared one.
	Predictors bool
	// ExpertPredictors says that some layer's experts have predictors of their neurons.
	ExpertPredictors bool
	Prepared         *prepared.Info // what a prepared file states
	Sparsity

	perToken, perOutput int                   // elements of the activations of a step, for each of its tokens and rows of logits
	purposes            map[string]nn.Purpose // purposes of the loaded tensors, by name
}

// Largest are sizes of layers, the largest where layers differ.
type Largest struct {
	FF      int
	Heads   int
	KVHeads int
	HeadDim int // elements of a key
}

// Pictures says how a model takes rows of pictures.
type Pictures struct {
	Given int  // numbers that are given for a row of a picture, see nn.Embedding
	Axes  bool // rotations tell the axes of a picture's positions apart
	Back  int  // by how many positions such rotations go back, at most
}

// MTP describes the file's layers for multi-token prediction, or a draft head in their place. Only drafting computes
// them.
type MTP struct {
	Further       int    // their number; they follow the model's layers
	FurtherCached bool   // the KV cache has parts of the MTP layers, or of the head
	mtp           *Block // the MTP layers as one layer with all their parts of the cache, or the head; nil: there are none, or mtpErr
	mtpErr        error  // why the MTP layers cannot be computed
	head          *head  // nil: there is none
	draftPerToken int    // elements of activations that drafting adds for each token of a step
}

// Sparsity says how a model's neurons are computed.
type Sparsity struct {
	Sparse     SparseMode      // Auto until the model is loaded
	Curve      *prepared.Curve // settings and what they cost; nil: the file has none
	Chosen     string          // a line about how the model is computed to keep a bound; empty where nothing was chosen
	Skip       compute.Skip    // which experts may be left out
	AlwaysOn   float64         // share of a layer's neurons, the hottest, that mode Predict computes for every token, if it is more than the prepared file's
	Threshold  float32         // the file's powerinfer.sparse_threshold: a predicted neuron's logit is at least this
	Predicting []bool          // [layers] layers in which mode Predict uses predictors; the others run exact; nil: all layers with predictors
	// Magnitudes are the layers' thresholds of mode Threshold, 0 where a layer has none; nil in other modes. [layers]
	Magnitudes []float32
}

// uniform reports whether all layers have as many neurons.
func (c *Config) uniform() bool {
	return !slices.ContainsFunc(c.Blocks, func(b Block) bool { return b.FF != c.FF })
}

// ReadConfig outlines the model in f and checks its hyperparameters. activation, when not empty, overrides the file's.
func ReadConfig(f *gguf.File, activation string) (Config, error) {
	k := &nn.Keys{File: f, Act: activation}
	c := Config{Arch: k.Text("general.architecture", ""), Name: k.Text("general.name", "")}
	if k.Err != nil {
		return c, k.Err
	}
	if c.Arch == "" {
		return c, fmt.Errorf("%s: key %q is missing: this is no model's file, or its first part is another one", f.Path, "general.architecture")
	}
	if c.Arch == "clip" {
		return c, setting.Errorf("%s: the file holds a tower for pictures, not a text model: name the model's file, and this one with %s", f.Path, setting.Tower)
	}
	if family.IsDraft(c.Arch) {
		return c, setting.Errorf("%s: the file holds a head that drafts for a model (%s), not a model: name the model's file, and this one with %s", f.Path, c.Arch, setting.DraftModel)
	}
	if c.Arch == bundle.Architecture {
		return c, fmt.Errorf("%s: it has the neurons of a model and nothing else of it: name the model's file", f.Path)
	}
	if names := family.Names(); !slices.Contains(names, c.Arch) {
		return c, fmt.Errorf("%s: architecture %q is not supported; supported are %s", f.Path, c.Arch, strings.Join(names, ", "))
	}
	if f.Tensor("token_embd.weight") == nil {
		return c, fmt.Errorf("%s: tensor \"token_embd.weight\" is missing; this file holds no model", f.Path)
	}
	k.Arch = c.Arch
	c.Threshold = float32(k.Within("powerinfer.sparse_threshold", 0, math.Inf(-1), math.Inf(1)))
	original := f.Magic == "PWRI"
	if _, err := prepared.OriginalActivation(c.Arch); original && err != nil {
		k.Fail("original PowerInfer files of architecture %q do not exist; supported are %s", c.Arch, prepared.Originals())
	}
	info, ok, err := prepared.Read(f)
	if err != nil {
		return c, err
	}
	if ok {
		c.Prepared = &info
	}
	c.Predictors, c.Transposed = original || ok, original || ok
	if c.outline(k); k.Err != nil {
		return c, k.Err
	}
	if err := c.readExpertUse(f); err != nil {
		return c, err
	}
	if c.Curve, err = prepared.ReadCurve(f, c.Layers); err != nil {
		return c, err
	}
	for l := range c.Blocks {
		if c.Blocks[l].Experts && f.Tensor(expertPredictor(l, 1)) != nil {
			c.ExpertPredictors = true
		}
	}
	if c.Transposed {
		return c, c.checkByNeuron(k)
	}
	return c, nil
}

// outline binds the family's program to the shapes of the file's tensors, and describes it.
func (c *Config) outline(k *nn.Keys) {
	b := nn.NewOutline(k.File, nn.Plan{Layer: func(i int) nn.LayerPlan {
		p := nn.LayerPlan{Neurons: nn.NeuronPlan{Transposed: c.Transposed}, Experts: nn.ExpertPlan{Used: true}}
		r := &p.Neurons.Predictor
		r.Held = c.Predictors
		r.Used = r.Held && k.File.Tensor(fmt.Sprintf("blk.%d.fc1.weight", i)) != nil // some layers of a prepared file have none
		if c.Prepared != nil && i < len(c.Prepared.Layers) {
			r.Rank, r.AlwaysOn = c.Prepared.Layers[i].Rank, c.Prepared.Layers[i].AlwaysOn
		}
		return p
	}})
	program := family.Open(k, b)
	c.Layers, c.Context = k.Layers(), k.Context()
	c.Further = k.Extra
	if k.Err == nil {
		k.Err = b.Err
	}
	if k.Err != nil {
		return
	}
	embed, output := program.Ends()
	c.Vocab, c.Embd, c.Given = embed.Table.Rows, embed.Table.Cols, embed.Given()
	c.Headless = !output.Head.Bound()
	c.Eps = cmp.Or(output.Norm.Epsilon, embed.Norm.Epsilon)
	if embed.Types != nil {
		c.Types = embed.Types.Rows
	}
	b.ChainExperts()
	parts := b.Parts()
	if len(parts) < c.Layers {
		k.Fail("key %q: the model has %d layers, and its program binds %d", c.Arch+".block_count", c.Layers, len(parts))
		return
	}
	known := false
	for l := range c.Layers {
		p := &parts[l]
		c.Blocks = append(c.Blocks, newBlock(l, p))
		y := &c.Blocks[l]
		c.FF, c.Heads, c.KVHeads, c.HeadDim = max(c.FF, y.FF), max(c.Heads, y.Heads), max(c.KVHeads, y.KVHeads), max(c.HeadDim, y.Key)
		if a := p.Attention; a != nil {
			c.Later = a.Scores.Later
			c.Axes = c.Axes || a.Rope != nil && a.Rope.Axes != nil
			if x := a.Indexer; x != nil && x.MeanRope != nil {
				c.Back = max(c.Back, x.MeanRope.Back)
			}
			if r := a.Rope; r != nil && (r.First+r.Dims > a.Key || r.Dims%2 != 0) {
				k.Fail("key %q: %d rotated elements do not fit a head of %d", c.Arch+".rope.dimension_count", r.Dims, a.Key)
			}
			if of := &c.Blocks[y.KV]; of.KVHeads != y.KVHeads || of.Key != y.Key || of.Value != y.Value {
				k.Fail("key %q: layer %d finds no layer of its kind whose keys and values it could read", c.Arch+".attention.shared_kv_layers", l)
			}
		}
		switch {
		case known:
		case p.Experts != nil:
			c.Act, known = p.Experts.Weights.Act, true
		case p.FFN != nil:
			c.Act, known = p.FFN.Act, true
		}
	}
	if !known { // no layer has neurons
		c.Act = k.Activation(compute.SiLU)
	}
	c.takeExperts(k, parts)
	var head Head // after pooling
	head.bind(b, c, output.Ranking)
	k.Err = cmp.Or(k.Err, b.Err)
	if k.Err == nil {
		c.measure(program, b.Dev)
	}
	c.outlineFurther(k, b, program)
	c.purposes = b.Purposes()
	c.ignoreFurther(b)
	for _, name := range b.Left() { // surplus tensors: counted here, refused by loading
		c.purposes[name] = nn.Purpose{Role: nn.InTable, Layer: -1}
	}
}

// measure finds the size of a step's activations. It records steps on a device that computes nothing.
func (c *Config) measure(program family.Program, dev compute.Device) {
	spec := c.CacheSpec(compute.CacheSpec{Pages: 1, States: 1}, compute.CacheTypes{})
	pass := nn.Pass{Params: &compute.Params{}, Cache: &compute.Cache{CacheSpec: spec}, LastLayer: -1}
	pool := nn.NewPool(dev, 1, 1)
	for {
		for _, expanded := range []bool{false, c.Latent()} {
			pass.Step = nn.Step{Kind: nn.States, Expanded: expanded}
			pass.Begin(compute.NewVerbs(nn.Nothing{}), pool, 1, 1)
			pass.Outputs(program.Forward(&pass))
		}
		if !pool.Grown() {
			break
		}
	}
	c.perToken, c.perOutput = pool.Widths()
}

// ActivationBytes returns the bytes of the activations of a step of n tokens, without logits.
func (c *Config) ActivationBytes(n int) int64 {
	each := c.perToken + c.perOutput
	if c.FurtherCached {
		each += c.draftPerToken
	}
	return 4 * int64(n) * int64(each)
}

// checkByNeuron refuses a file with down projections stored by neuron if its layers cannot be computed by neuron.
func (c *Config) checkByNeuron(k *nn.Keys) error {
	if c.Experts.Count > 0 {
		return fmt.Errorf("%s: predictors of models with experts are not supported", k.File.Path)
	}
	if !c.uniform() {
		return fmt.Errorf("%s: key %q: predictors of layers that differ in their number of neurons are not supported", k.File.Path, c.Arch+".feed_forward_length")
	}
	return nil
}
