package nn

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// MaxExperts bounds the experts of a layer from outside.
const MaxExperts = 1 << 12

// LeastSum is the least divisor of weights in models that normalise them: the smallest normal F16. Softmax stays far
// above it.
const LeastSum = 1.0 / (1 << 14)

// ExpertSpec describes a layer's experts. Their tensors are ffn_gate_exps, ffn_up_exps and ffn_down_exps, or
// ffn_gate_up_exps, and the router's is ffn_gate_inp.
type ExpertSpec struct {
	Width      int     // n_embd
	Count      int     // experts of the layer
	Used       int     // experts of a token
	Neurons    int     // neurons of an expert
	Shared     int     // neurons of the shared experts, together
	Latent     int     // width of the experts' inputs and outputs; 0: n_embd
	Eps        float32 // epsilon of the norm of latent outputs, which files may lack
	Gated      bool
	Act        compute.Activation
	Routing    compute.Routing
	Before     bool     // see compute.ExpertWeights
	Biases     Presence // of the router and of experts; with Absent, files may still have some
	ChoiceBias Presence // bias for the choice; with Absent, files may still have one
	Gate       bool     // the shared experts have one
	Plain      bool     // the router reads the residual, or the block's input, without a norm
}

// Experts reads what the file says of experts. usual has the rest, with the neurons of experts and of shared experts
// for files that do not say them. Count is 0 if the file has none.
func (k *Keys) Experts(usual ExpertSpec) ExpertSpec {
	s := usual
	if s.Count = k.Optional(".expert_count", MaxExperts); s.Count == 0 {
		return s
	}
	s.Used = k.Same(".expert_used_count", 0, s.Count)
	s.Neurons = k.Same(".expert_feed_forward_length", usual.Neurons, MaxWidth)
	s.Shared = k.sharedExperts(usual.Shared, s.Neurons)
	s.Routing = k.routing(usual.Routing, s.Used, s.Count)
	return s
}

// ShareOne says that files without a width of shared experts have one that is as wide as the others.
func (s *ExpertSpec) ShareOne() { s.Shared = cmp.Or(s.Shared, s.Neurons) }

// sharedExperts returns the neurons of the shared experts. There may be several, each as wide as the others.
func (k *Keys) sharedExperts(usual, width int) int {
	const key = ".expert_shared_feed_forward_length"
	if n := k.Optional(key, MaxWidth); n > 0 {
		return n
	}
	_, said := k.File.Lookup(k.name(key))
	if usual > 0 && (!said || slices.ContainsFunc(k.File.Tensors, func(t *gguf.Tensor) bool { return strings.HasSuffix(t.Name, ".ffn_down_shexp.weight") })) {
		return usual
	}
	return min(k.Optional(".expert_shared_count", MaxExperts)*width, MaxWidth)
}

// routing reads how some of n experts are chosen.
func (k *Keys) routing(usual compute.Routing, used, n int) compute.Routing {
	r := usual
	r.Normalised = k.Flag(".expert_weights_norm", usual.Normalised)
	if r.Scale = float32(k.Within(".expert_weights_scale", 1, 0, MaxScale)); r.Scale == 0 { // as llama.cpp has it
		r.Scale = 1
	}
	functions := compute.GatingFunctions()
	if v, ok, err := k.File.Uint(k.name(".expert_gating_func")); err != nil || v > uint64(len(functions)) {
		k.Fail("key %q: it is none of 1 (softmax), 2 (sigmoid), 3 (softmax of those chosen), 4 (root of softplus)", k.name(".expert_gating_func"))
	} else if ok && v > 0 {
		r.Score = functions[v-1]
	}
	if groups, ok, err := k.File.Uint(k.name(".expert_group_count")); err != nil || ok && groups > 1 {
		r.Groups = k.RequiredCount(".expert_group_count", MaxExperts)
		r.GroupsUsed = k.RequiredCount(".expert_group_used_count", MaxExperts)
	}
	if k.Err == nil {
		if err := r.Check(used, n); err != nil {
			k.Fail("keys %q and %q: %v", k.name(".expert_used_count"), k.name(".expert_group_used_count"), err)
		}
	}
	return r
}

// FFNBesideExperts binds the feed-forward layer, ffn_gate, ffn_up and ffn_down, of a layer that has experts, too. It goes
// where attention goes.
func (b *Binder) FFNBesideExperts(s FFNSpec) *FFN {
	return b.ffn(s, "", InLayer, b.whole(s.Neurons))
}

// GivenExperts binds name [n_vocab, used], which has the numbers of the experts that each token uses.
func (b *Binder) GivenExperts(name string, vocab, used, n int) *compute.Matrix {
	t := b.take(name, used, vocab)
	if t == nil {
		return nil
	}
	if b.held != nil {
		t.Type = quant.I32
	}
	if t.Type != quant.I32 {
		b.Fail("tensor %q: experts' numbers of type %s are not supported; I32 is", t.Name, t.Type)
		return nil
	}
	data := make([]byte, 0, 4*vocab*used)
	for i := range b.decoded(vocab * used) {
		e := int32(binary.LittleEndian.Uint32(t.Data[4*i:]))
		if e < 0 || int(e) >= n {
			b.Fail("tensor %q: token %d uses expert %d of %d: the file is damaged; download or convert it again", t.Name, i/used, e, n)
			return nil
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(e)))
	}
	m, err := b.Dev.Matrix(compute.Source{Name: t.Name, Type: quant.F32, Rows: vocab, Cols: used, Data: data, Split: compute.Split{Tier: b.Tier, Bound: b.whole(vocab)}}, compute.Lookup)
	if err != nil {
		b.Fail("%w", err)
		return nil
	}
	b.loaded(t, true)
	return m
}

// HasExperts reports whether the layer has a router, and so experts.
func (b *Binder) HasExperts() bool { return b.Has("ffn_gate_inp.weight") }

// FFNOrExperts binds the layer's experts with the shared ones, or its feed-forward layer if the file has no router for
// it. ffn describes the feed-forward layer and, except for the number of neurons, the shared experts.
func (b *Binder) FFNOrExperts(ffn FFNSpec, experts ExpertSpec) FeedForward {
	if !b.HasExperts() {
		if down := "ffn_down_exps.weight"; b.Has(down) {
			b.Fail("tensor %q is missing, the router of the experts in %q: the file is incomplete; download or convert it again",
				b.prefix+"ffn_gate_inp.weight", b.prefix+down)
		}
		return b.FFN(ffn)
	}
	ffn.Neurons, ffn.UpBias, ffn.DownBias = experts.Shared, Absent, Absent
	if t := b.tensor("ffn_down_shexp.weight"); sized(t) { // its columns, whatever keys say of counts and widths
		ffn.Neurons = t.Shape[0]
	}
	parts := &b.parts[b.layer]
	e := b.Experts(experts, b.SharedExperts(ffn))
	parts.FFNNorm = ffn.InputNorm
	switch {
	case experts.Plain:
		e.Reads(Norm{})
	case ffn.InputNorm.Bound():
		e.Reads(ffn.InputNorm)
	}
	return e
}

// mostAhead is the largest distance between two layers with experts at which the earlier one predicts the later one's
// choice. Beyond it their residuals differ too much.
const mostAhead = 3

// ChainExperts links each layer's experts to those of the next layer with experts, so that a device can predict which
// experts it will have to read.
func (b *Binder) ChainExperts() {
	var last *Experts
	at := 0
	for i := range b.parts {
		next := b.parts[i].Experts
		if next == nil || !next.Bound() {
			continue
		}
		next.Foretell = next.reads != nil && next.Given == nil && next.Router.clip == nil
		if last != nil && i-at <= mostAhead && next.Foretell {
			last.Next, next.Guessed = next, true
		}
		last, at = next, i
	}
}

// Experts binds the layer's experts. shared are the shared experts, or nil.
func (b *Binder) Experts(s ExpertSpec, shared *FFN) *Experts {
	x := &Experts{Count: s.Count, Used: s.Used, Routing: s.Routing, Shared: shared}
	b.parts[b.layer].Experts = x
	if s.Count == 0 {
		b.Fail("key %q is missing, or 0, and layer %d has a router", b.key("expert_count"), b.layer)
		return x
	}
	x.Router = b.Adapted(b.Matrix("ffn_gate_inp.weight", s.Count, s.Width, compute.Precise))
	x.Router.B = b.perExpert("ffn_gate_inp.bias", s.Count, 1, s.Biases)
	for _, name := range []string{"exp_probs_b.weight", "exp_probs_b", "exp_probs_b.bias"} { // files have one of these names
		if x.ChoiceBias == nil && (b.Has(name) || name == "exp_probs_b.bias") {
			x.ChoiceBias = b.perExpert(name, s.Count, 1, s.ChoiceBias)
		}
	}
	w, plan := &x.Weights, &b.plan.Experts
	w.Act, w.Before, w.Exact, w.Skip = s.Act, s.Before, plan.Exact, plan.Skip
	width := s.Width
	if s.Latent > 0 {
		width = s.Latent
		of := "ffn_latent"
		if b.Has("ffn_routed_down.weight") {
			of = "ffn_routed"
		}
		x.Narrow, x.Widen = b.Linear(of+"_down", width, s.Width, NoBias), b.Linear(of+"_up", s.Width, width, NoBias)
		if b.Has("ffn_routed_norm.weight") {
			x.Norm = b.RMSNorm("ffn_routed_norm", width, s.Eps)
		}
	}
	of := b.as(OfExperts)
	if b.Has("ffn_gate_up_exps.weight") {
		w.Fused = true
		w.Up, w.UpBias = of.stack("ffn_gate_up_exps.weight", s.Count, 2*s.Neurons, width, false), of.perExpert("ffn_gate_up_exps.bias", s.Count, 2*s.Neurons, Optional)
	} else {
		if s.Gated {
			w.Gate, w.GateBias = of.stack("ffn_gate_exps.weight", s.Count, s.Neurons, width, false), of.perExpert("ffn_gate_exps.bias", s.Count, s.Neurons, s.Biases)
		}
		w.Up, w.UpBias = of.stack("ffn_up_exps.weight", s.Count, s.Neurons, width, false), of.perExpert("ffn_up_exps.bias", s.Count, s.Neurons, s.Biases)
	}
	w.Down, w.DownBias = of.stack("ffn_down_exps.weight", s.Count, width, s.Neurons, true), of.perExpert("ffn_down_exps.bias", s.Count, width, s.Biases)
	if name := "ffn_down_exps" + FactorSuffix; !b.bound(name) { // else the matrix contains them
		x.Factors = b.perExpert(name, s.Count, 1, Optional)
	}
	b.bindExpertPredictors(w, s, width)
	if plan.Disk {
		b.bundle(plan.Prior, w.Gate, w.Up, w.Down, w.FC1, w.FC2)
	}
	w.Count, w.Bins, w.Prior = &x.Uses, &x.Bins, &compute.Prior{Shares: plan.Prior}
	if s.Gate {
		x.SharedGate = b.Adapted(b.Matrix("ffn_gate_inp_shexp.weight", 1, s.Width, compute.Precise))
		b.shaped(s.Width)
	}
	return x
}

// GroupExperts binds e's small experts, which have that many neurons: ffn_gate_chexps, ffn_up_chexps and
// ffn_down_chexps. Each per neighbouring experts share one small expert. They go where attention goes, like shared
// experts.
func (b *Binder) GroupExperts(e *Experts, width, neurons, per int, act compute.Activation, scale float32) {
	if e.Count%per != 0 {
		b.Fail("key %q: groups of %d do not divide %d experts", b.key("experts_per_group"), per, e.Count)
		return
	}
	n := e.Count / per
	table := &compute.ExpertTable{Held: n, At: make([]int32, e.Count)}
	for i := range table.At {
		table.At[i] = int32(i / per)
	}
	stack := func(name string, rows, cols int) *compute.Matrix {
		return b.bind(compute.Source{Name: name, Rows: n * rows, Cols: cols, Split: compute.Split{Tier: b.Tier, Bound: b.whole(n * rows)}, Stack: n}, compute.Dense)
	}
	e.Group = compute.ExpertWeights{
		Gate: stack("ffn_gate_chexps.weight", neurons, width), Up: stack("ffn_up_chexps.weight", neurons, width),
		Down: stack("ffn_down_chexps.weight", width, neurons), Act: act, Table: table,
	}
	e.GroupScale = scale
}

// bindExpertPredictors binds the predictors of experts' neurons, or leaves them in the file if they are not used.
func (b *Binder) bindExpertPredictors(w *compute.ExpertWeights, s ExpertSpec, width int) {
	const fc1, fc2 = "fc1_exps.weight", "fc2_exps.weight"
	switch {
	case !b.Has(fc1) && !b.Has(fc2):
	case !b.plan.Experts.Used:
		b.Ignore(fc1)
		b.Ignore(fc2)
	default:
		b = b.as(PredictsExperts)
		rank := max(1, b.Rows(fc1)/s.Count)
		w.FC1, w.FC2 = b.stack(fc1, s.Count, rank, width, false), b.stack(fc2, s.Count, s.Neurons, rank, false)
	}
}

// stack binds the matrices [rows, cols] of n experts, which are in one tensor, one after the other. Their rows are
// neurons, but in down, where columns are.
func (b *Binder) stack(name string, n, rows, cols int, down bool) *compute.Matrix {
	if t := b.tensor(name); sized(t) && (len(t.Shape) != 3 && n > 1 || t.Shape[0] != cols || t.Rows() != n*rows || len(t.Shape) == 3 && t.Shape[2] != n) {
		b.Fail("tensor %q has shape %v, and keys %q and %q make it [%d %d %d]", t.Name, t.Shape,
			b.key("expert_count"), b.key("expert_feed_forward_length"), cols, rows, n)
		return nil
	}
	use, hot, exact := compute.Dense, min(b.plan.Place.Bound, n), b.plan.Experts.Exact
	if hot > 0 && hot < n || exact {
		use = compute.Rows
	}
	if exact && down {
		use = compute.Columns
	}
	src := compute.Source{
		Name: name, Rows: n * rows, Cols: cols, Split: compute.Split{Tier: b.Tier, Bound: hot * rows, Slots: b.plan.Place.Slots && !exact}, Stack: n,
	}
	if b.plan.Experts.Disk && !b.outline {
		src.Disk = b.onDisk(name, n)
	}
	return b.bind(src, use)
}

// onDisk returns where the n units of a tensor are on disk.
func (b *Binder) onDisk(name string, n int) *compute.OnDisk {
	t := b.tensor(name)
	if t == nil || b.Err != nil {
		return nil
	}
	file, err := b.File.Direct(t)
	if err != nil {
		b.Err = err
		return nil
	}
	return &compute.OnDisk{File: file, Offset: t.Offset, Stride: t.Bytes() / int64(n), Units: n}
}

// neuronsOnDisk returns where the rows of n neurons of a tensor, from its row first on, are on disk: in the file of neurons
// if there is one, as part p of each neuron, and in the model's own file.
func (b *Binder) neuronsOnDisk(p bundle.Part, name string, first, n int) *compute.OnDisk {
	t := b.tensor(name)
	if t == nil {
		return nil
	}
	own := b.onDisk(name, t.Rows()).From(first, n)
	if file := b.plan.Neurons.Bundle; file != nil && own != nil {
		if disk := file.Part(b.layer, p); disk != nil && disk.Units == n {
			disk.Dense = own
			return disk
		}
	}
	return own
}

// bundle says that the units of parts, which may be nil, are read together.
func (b *Binder) bundle(prior []float64, parts ...*compute.Matrix) {
	if b.Err != nil || b.outline {
		return
	}
	bound := slices.DeleteFunc(parts, func(m *compute.Matrix) bool { return m == nil })
	b.Err = b.Dev.Bundle(prior, bound...)
}

// perExpert returns a vector with each numbers for each of n experts; the file may store one for each row of stacked
// matrices. It is nil if the file may lack it and does.
func (b *Binder) perExpert(name string, n, each int, p Presence) *compute.Vector {
	t := b.tensor(name)
	switch {
	case t == nil && p != Required:
		return nil
	case sized(t) && t.Elems() != n*each:
		b.Fail("tensor %q has shape %v, and key %q makes it %d numbers", t.Name, t.Shape, b.key("expert_count"), n*each)
		return nil
	case sized(t):
		return b.flat(name, t.Rows(), t.Shape[0])
	case each == 1:
		return b.flat(name, 1, n)
	}
	return b.flat(name, n, each)
}
