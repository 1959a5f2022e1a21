package model

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// maxExperts bounds the experts of a layer.
const maxExperts = 1 << 12

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
func (c *Config) readExperts(m *metadata) {
	key := func(s string) string { return c.Arch + "." + s }
	router := func(l int) string { return fmt.Sprintf("blk.%d.ffn_gate_inp.weight", l) }
	n, said, err := m.f.Uint(key("expert_count"))
	f := c.Family.Experts
	switch {
	case m.err != nil:
		return
	case err != nil:
		m.err = err
		return
	case f == nil && n > 0:
		m.fail("key %q: %d experts in a family that has none", key("expert_count"), n)
		return
	case n == 0 && (f == nil || f.Optional):
		if used, _, _ := m.f.Uint(key("expert_used_count")); used > 0 && !said { // as --experts-used has it of a model without experts
			m.fail("key %q: %d experts are to be used, and the model has none", key("expert_used_count"), used)
		}
		return
	}
	e := &c.Experts
	e.Count = m.count(key("expert_count"), 0, maxExperts)
	e.Used = m.count(key("expert_used_count"), 0, e.Count)
	def := c.FF
	if f.Divided {
		def = max(1, c.FF/e.Used)
	}
	e.FF = m.count(key("expert_feed_forward_length"), def, maxWidth)
	e.Shared = m.optional(key("expert_shared_feed_forward_length"), maxWidth)
	if _, said := m.f.Lookup(key("expert_shared_feed_forward_length")); e.Shared == 0 && f.Shared && (!said || c.hasShared(m.f)) {
		e.Shared = c.FF
	}
	if e.Shared == 0 { // each as wide as a routed one
		e.Shared = min(m.optional(key("expert_shared_count"), maxExperts)*e.FF, maxWidth)
	}
	if e.Shared == 0 && f.SharedAsWide {
		e.Shared = e.FF
	}
	if f.Latent {
		e.Latent = m.optional(key("moe_latent_size"), maxWidth)
	}
	e.Routing = c.readRouting(m)
	lead, _, err := m.f.Uint(key("leading_dense_block_count"))
	if err != nil && m.err == nil {
		m.err = err
	}
	with := 0
	for l := range c.Blocks {
		b := &c.Blocks[l]
		if m.f.Tensor(router(l)) == nil {
			if down := fmt.Sprintf("blk.%d.ffn_down_exps.weight", l); m.f.Tensor(down) != nil {
				m.fail("tensor %q is missing, the router of the experts in %q: the file is incomplete; download or convert it again", router(l), down)
			}
			if b.FF == 0 && !c.Family.OnePart {
				m.fail("key %q: layer %d has neither neurons nor experts", key("feed_forward_length"), l)
			}
			continue
		}
		if uint64(l) < lead {
			m.fail("tensor %q gives layer %d experts, and key %q says that the first %d layers have none", router(l), l, key("leading_dense_block_count"), lead)
		}
		b.Experts, b.FF = true, e.Shared
		with++
	}
	if with == 0 {
		m.fail("key %q: %d experts, and no layer has a router (tensor \"blk.N.ffn_gate_inp.weight\")", key("expert_count"), e.Count)
	}
	c.FF = 0
	for _, b := range c.Blocks {
		c.FF = max(c.FF, b.FF)
	}
}

// hasShared reports whether some layer of f has an expert that all tokens use.
func (c *Config) hasShared(f *gguf.File) bool {
	for l := range c.Layers {
		if f.Tensor(fmt.Sprintf("blk.%d.ffn_down_shexp.weight", l)) != nil {
			return true
		}
	}
	return false
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

// readRouting reads how experts are chosen.
func (c *Config) readRouting(m *metadata) compute.Routing {
	key := func(s string) string { return c.Arch + "." + s }
	f := c.Family.Experts
	r := compute.Routing{
		Score: f.Score, MinSum: f.MinSum, Normalised: m.flag(key("expert_weights_norm"), f.Normalised),
		Scale: float32(m.within(key("expert_weights_scale"), 1, 0, maxScale)),
	}
	if r.Scale == 0 { // as llama.cpp has it
		r.Scale = 1
	}
	functions := arch.GatingFunctions()
	if v, ok, err := m.f.Uint(key("expert_gating_func")); err != nil || v > uint64(len(functions)) {
		m.fail("key %q: it is none of 1 (softmax), 2 (sigmoid), 3 (softmax of those chosen)", key("expert_gating_func"))
	} else if ok && v > 0 {
		r.Score = functions[v-1]
	}
	if n, ok, err := m.f.Uint(key("expert_group_count")); err != nil || ok && n > 1 {
		r.Groups = m.count(key("expert_group_count"), 0, maxExperts)
		r.GroupsUsed = m.count(key("expert_group_used_count"), 0, maxExperts)
	}
	if m.err == nil {
		if err := r.Check(c.Experts.Used, c.Experts.Count); err != nil {
			m.fail("keys %q and %q: %v", key("expert_used_count"), key("expert_group_used_count"), err)
		}
	}
	return r
}

// experts is a layer's experts, beside which the block's ffn may be one that all tokens use.
type experts struct {
	router     *compute.Matrix // [experts, n_embd]; nil: the layer has none
	routerBias *compute.Vector // [experts] of logits, or nil
	choiceBias *compute.Vector // [experts] that counts for the choice only, or nil
	sharedGate *compute.Matrix // [1, n_embd] whose sigmoid weighs the shared experts, or nil
	narrow     *compute.Matrix // [latent, n_embd] of what experts read, or nil
	widen      *compute.Matrix // [n_embd, latent] of what they write, or nil
	weights    compute.ExpertWeights
	routing    compute.Routing
	early      bool // the router reads the block's input; its logits cross to another GPU, which a choice cannot
	count      compute.NeuronCount
	bins       compute.NeuronBins
	observe    func(v compute.Verbs, s *buffers) // tells an ExpertObserver, or nil
}

func (x *experts) bind(b *blockBinder) {
	m := b.m
	if !m.Blocks[b.layer].Experts {
		return
	}
	e := &m.Experts
	x.router, x.routerBias = b.matrix("ffn_gate_inp.weight"), b.own("ffn_gate_inp.bias", e.Count)
	for _, name := range []string{"exp_probs_b.weight", "exp_probs_b.bias"} { // files have either
		if x.choiceBias == nil {
			x.choiceBias = b.own(name, e.Count)
		}
	}
	x.routing, x.early = e.Routing, m.Family.Experts.Early
	w := &x.weights
	w.Act, w.Before, w.Exact = m.Act, m.Family.Experts.Before, m.ExpertMode() != Off
	width := m.Embd // of what experts read and write
	if e.Latent > 0 {
		width = e.Latent
		x.narrow, x.widen = b.matrix("ffn_latent_down.weight"), b.matrix("ffn_latent_up.weight")
	}
	if b.has(b.name("ffn_gate_up_exps.weight")) {
		w.Fused = true
		w.Up, w.UpBias = b.stack("ffn_gate_up_exps.weight", 2*e.FF, width, false), b.own("ffn_gate_up_exps.bias", e.Count*2*e.FF)
	} else {
		if m.Family.Gated {
			w.Gate, w.GateBias = b.stack("ffn_gate_exps.weight", e.FF, width, false), b.own("ffn_gate_exps.bias", e.Count*e.FF)
		}
		w.Up, w.UpBias = b.stack("ffn_up_exps.weight", e.FF, width, false), b.own("ffn_up_exps.bias", e.Count*e.FF)
	}
	w.Down, w.DownBias = b.stack("ffn_down_exps.weight", width, e.FF, true), b.own("ffn_down_exps.bias", e.Count*width)
	x.bindPredictors(b, width)
	w.Count, w.Bins, w.Prior = &x.count, &x.bins, &compute.Prior{Shares: m.Prior(b.layer)}
	if _, ok := m.Family.InBlock("ffn_gate_inp_shexp.weight"); ok {
		x.sharedGate = b.binder.matrix(b.name("ffn_gate_inp_shexp.weight"), 1, m.Embd, compute.Precise)
	}
}

// expertPredictor returns the name of the first or second matrix of the predictors of layer l's experts.
func expertPredictor(l, matrix int) string { return fmt.Sprintf("blk.%d.fc%d_exps.weight", l, matrix) }

// bindPredictors takes in the predictors of the layer's experts, or leaves them in the file where the mode does not use
// them.
func (x *experts) bindPredictors(b *blockBinder, width int) {
	m := b.m
	one, two := expertPredictor(b.layer, 1), expertPredictor(b.layer, 2)
	t := b.f.Tensor(one)
	if t == nil && b.f.Tensor(two) == nil {
		return
	}
	if m.ExpertMode() != Predict {
		b.ignore(one)
		b.ignore(two)
		return
	}
	rank := 1 // it only names the tensor if that is missing
	if t != nil {
		rank = max(1, t.Rows()/m.Experts.Count)
	}
	x.weights.FC1, x.weights.FC2 = b.stack("fc1_exps.weight", rank, width, false), b.stack("fc2_exps.weight", m.Experts.FF, rank, false)
}

// stack binds the matrices [rows, cols] of all experts, which lie in one tensor, one behind the other. Their rows are
// neurons, but of down, whose columns are.
func (b *blockBinder) stack(name string, rows, cols int, down bool) *compute.Matrix {
	n := b.m.Experts.Count
	name = b.name(name)
	if t := b.f.Tensor(name); t != nil && (len(t.Shape) != 3 && n > 1 || t.Shape[0] != cols || t.Rows() != n*rows || len(t.Shape) == 3 && t.Shape[2] != n) {
		b.fail("tensor %q has shape %v, and keys %q and %q make it [%d %d %d]", name, t.Shape,
			b.m.Arch+".expert_count", b.m.Arch+".expert_feed_forward_length", cols, rows, n)
		return nil
	}
	use, hot := compute.Dense, min(b.m.place(b.layer).Bound, n)
	exact := b.m.ExpertMode() != Off
	if hot > 0 && hot < n || exact {
		use = compute.Rows
	}
	src := compute.Source{Name: name, Rows: n * rows, Cols: cols, Split: compute.Split{Tier: b.tier, Bound: hot * rows, Slots: b.m.place(b.layer).Slots && !exact}, Stack: n}
	if exact && down {
		use = compute.Columns
	}
	return b.bind(src, use)
}

// own returns a vector of n numbers, which may be one for each row of stacked matrices; nil where the file lacks it and
// may.
func (b *blockBinder) own(name string, n int) *compute.Vector {
	required := b.requires(name)
	name = b.name(name)
	t := b.f.Tensor(name)
	if t == nil {
		if required {
			b.take(name, n, 1)
		}
		return nil
	}
	elems := 1
	for _, d := range t.Shape {
		elems *= d
	}
	if elems != n {
		b.fail("tensor %q has shape %v, and key %q makes it %d numbers", name, t.Shape, b.m.Arch+".expert_count", n)
		return nil
	}
	return b.flat(name, t.Rows(), t.Shape[0])
}

// rate computes s.router, the logits of the experts, from what the router reads.
func (x *experts) rate(v compute.Verbs, m *Model, s *buffers, in compute.Tensor) {
	m.product(v, in, compute.Products{{Out: s.router, W: x.router, Bias: x.routerBias}})
}

// forward computes s.ffnOut from the input in: the chosen experts, and those that all tokens use.
func (x *experts) forward(v compute.Verbs, m *Model, s *buffers, f *ffn, in compute.Tensor) {
	if !x.early {
		x.rate(v, m, s, in)
	}
	v.Route(s.choice, s.router, x.choiceBias, x.routing)
	if f.up == nil {
		x.compute(v, m, s, s.ffnOut, in)
		return
	}
	x.compute(v, m, s, s.expertsOut, in)
	if x.sharedGate != nil {
		m.product(v, in, compute.Products{{Out: s.sharedGate, W: x.sharedGate}})
	}
	f.forward(v, m, s, in)
	if x.sharedGate != nil {
		v.GateRows(s.ffnOut, s.sharedGate)
	}
	v.Add(s.ffnOut, s.expertsOut)
}

// compute computes the chosen experts, which may read and write latent vectors.
func (x *experts) compute(v compute.Verbs, m *Model, s *buffers, out, in compute.Tensor) {
	if x.narrow == nil {
		v.Experts(out, in, s.choice, x.weights)
	} else {
		m.product(v, in, compute.Products{{Out: s.expertsIn, W: x.narrow}})
		v.Experts(s.expertsLatent, s.expertsIn, s.choice, x.weights)
		m.product(v, s.expertsLatent, compute.Products{{Out: out, W: x.widen}})
	}
	if x.observe != nil {
		x.observe(v, s)
	}
}

// expertBuffers makes what layers with experts need.
func (m *Model) expertBuffers(b *buffers, n int, tensor func(rows, cols int) compute.Tensor) error {
	if m.Experts.Count == 0 {
		return nil
	}
	b.router, b.expertsOut, b.sharedGate = tensor(n, m.Experts.Count), tensor(n, m.Embd), tensor(n, 1)
	b.expertsIn, b.expertsLatent = tensor(n, m.Experts.Latent), tensor(n, m.Experts.Latent)
	var err error
	b.choice, err = m.dev.Choice(n, m.Experts.Used, m.Experts.Count)
	return err
}
