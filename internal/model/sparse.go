package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// SparseMode says how a model's feed-forward layers are computed.
type SparseMode int

// The modes. Auto is Predict if the file requires it (an original PowerInfer file, experts with predictors) or has a
// small measured divergence from dense. Else it is Exact if the activation leaves neurons at zero, unless the file says
// that most are not. Else it is Off.
const (
	Auto      SparseMode = iota
	Off                  // every neuron, by dense products
	Exact                // computes the gates first, then only the neurons with an activation other than zero: the dense result
	Predict              // computes only neurons that the file's predictors choose, and skips those that turn out to be zero
	Threshold            // as Exact, where activations below a layer's threshold of magnitude are taken as zero; never by itself
)

var sparseModes = [...]string{"auto", "off", "exact", "predict", "threshold"}

func (s SparseMode) String() string { return sparseModes[s] }

// ParseSparseMode reads a mode's name.
func ParseSparseMode(name string) (SparseMode, error) {
	for i, n := range sparseModes {
		if n == name {
			return SparseMode(i), nil
		}
	}
	return 0, fmt.Errorf("mode %q is none of %s", name, strings.Join(sparseModes[:], ", "))
}

// AutoDivergence is the mean KL divergence from dense, in nats a token, up to which Auto trusts a file's predictors.
const AutoDivergence = 0.01

// autoPerplexity bounds the predictors' perplexity, as a multiple of the dense one: divergence alone misses a model
// that is already lost.
const autoPerplexity = 1.01

// Resolve turns Auto into the mode to run c in, or says why the mode asked for is not possible.
func (c *Config) Resolve(asked SparseMode) (SparseMode, error) {
	switch asked {
	case Exact:
		switch {
		case c.Act.Sparse() && c.whole():
			return Off, setting.Errorf("mode exact skips neurons that are exactly zero, and %s needs all of them, for a norm over the neurons or for biases of gates; use %s", c.Arch, setting.Sparse.To("off"))
		case !c.zeros():
			return Off, setting.Errorf("mode exact skips neurons that are exactly zero, and activation %s leaves none; use %s", c.Act.Kind, setting.Sparse.To("off"))
		}
	case Predict:
		if !c.Predictors && !c.ExpertPredictors {
			return Off, setting.Errorf("mode predict needs predictors, and the file has none; make them with: powerinfer prepare, or use %s", setting.Sparse.To("exact"))
		}
	case Threshold:
		switch {
		case c.Act.Kind != compute.SiLU && c.Act.Kind != compute.GELU:
			return Off, setting.Errorf("mode threshold is for SiLU and GELU, and this model's activation is %s; use %s", c.Act.Kind, setting.Sparse.To("exact"))
		case c.Magnitudes == nil:
			return Off, fmt.Errorf("mode threshold needs thresholds, and the file has none; find them with: powerinfer prepare --sparse threshold")
		}
	case Auto:
		return c.auto(), nil
	}
	return asked, nil
}

func (c *Config) auto() SparseMode {
	switch {
	case c.Predictors && (c.Prepared == nil || c.trusted()), c.ExpertPredictors:
		return Predict
	}
	return c.safe()
}

// safe returns the fastest mode that changes no results.
func (c *Config) safe() SparseMode {
	if c.zeros() && !c.mostlyOpen() {
		return Exact
	}
	return Off
}

// breakEven is the share of active neurons from which on single tokens are faster with all neurons computed: 0.46 to
// 0.48 by type with one thread, 0.49 to about 0.6 with two, as measured in docs/benchmarks/2026-11-zen5.md.
const breakEven = 0.5

// mostlyOpen reports whether the file counted its experts' neurons and found too many active for Exact to be faster.
// Only the file decides, not the current text: the modes round differently, and a model's answers must repeat.
func (c *Config) mostlyOpen() bool {
	if c.ExpertUse == nil {
		return false
	}
	open, layers := 0.0, 0
	for l := range c.ExpertUse.Layers {
		if inactive, _, ok := c.ExpertUse.Layers[l].Inactive(); ok {
			open += 1 - inactive
			layers++
		}
	}
	return layers > 0 && open > breakEven*float64(layers)
}

// zeros reports whether some layers have neurons that are exactly zero and can be skipped: by their activation, or because
// they keep only their largest gates.
func (c *Config) zeros() bool {
	return c.Act.Sparse() && !c.whole() || slices.ContainsFunc(c.Blocks, func(b Block) bool { return b.TopK != nil })
}

// whole reports whether all layers need all of their neurons.
func (c *Config) whole() bool {
	return len(c.Blocks) > 0 && !slices.ContainsFunc(c.Blocks, func(b Block) bool { return !b.Whole })
}

// trusted reports whether a prepared file's predictors were measured, with the activation in use, and found good.
func (c *Config) trusted() bool {
	p := c.Prepared
	q := p.Quality
	return c.ownActivation() && q != nil && q.KLDivergence <= AutoDivergence && q.PerplexityPredict <= autoPerplexity*q.PerplexityDense
}

// ownActivation reports whether a prepared file runs with the activation that it was measured with.
func (c *Config) ownActivation() bool {
	p := c.Prepared
	return c.Act.Kind.String() == p.Activation && (c.Act.Kind != compute.FATReLU || c.Act.Threshold == p.ActivationThreshold)
}

// LayerMode returns the mode that layer l runs in. It differs from the model's mode if a prepared file's predictors do
// not pay, if all gates are needed to find the largest, or if the activation leaves no zeros. A layer with experts only
// has their mode.
func (c *Config) LayerMode(l int) SparseMode {
	cut := c.Blocks[l].TopK != nil
	switch {
	case c.Blocks[l].FF == 0:
		return c.ExpertMode()
	case c.Sparse == Predict && (cut || c.Prepared != nil && c.Prepared.Layers[l].Mode == prepared.Exact || c.Predicting != nil && !c.Predicting[l] || c.alwaysOn(l) == c.Blocks[l].FF):
		return Exact
	case (c.Sparse == Exact || c.Sparse == Predict && !c.Predictors) && !cut && !c.Act.Sparse():
		return Off
	case c.Sparse == Predict && !c.Predictors: // only experts have predictors
		return Exact
	case c.Sparse == Threshold && (cut || c.Activation(l).Small()):
		return Exact
	case c.Sparse == Threshold:
		return Off
	}
	return c.Sparse
}

// CanStayOnDisk returns why none of the model's weights can stay on disk, or nil. Experts can, and so can neurons of
// layers that are computed by neuron, if the file stores every matrix of a neuron as rows.
func (c *Config) CanStayOnDisk() error {
	switch {
	case c.Experts.Count > 0:
		return nil
	case !c.Transposed:
		return fmt.Errorf("its neurons cannot stay on disk, for the file does not hold their down projections by neuron; prepare the model with: powerinfer prepare, or give more memory")
	}
	for l := range c.Blocks {
		if rows, _ := c.NeuronsOnDisk(l); rows {
			return nil
		}
	}
	return setting.Errorf("its weights cannot stay on disk, for each of them is read for every token; use %s, or give more memory", setting.Sparse.To("predict"))
}

// NeuronsOnDisk reports whether layer l's neurons can stay on disk. rows: the rows of ffn_down_t and of the other
// projections can. gates: so can the rows of the projection that decides which neurons are open, ffn_gate or else
// ffn_up.
func (c *Config) NeuronsOnDisk(l int) (rows, gates bool) {
	if b := &c.Blocks[l]; !c.Transposed || b.FF == 0 || b.Experts {
		return false, false
	}
	mode := c.LayerMode(l)
	return mode != Off, mode == Predict
}

// alwaysOn returns how many of layer l's neurons mode Predict computes for every token.
func (c *Config) alwaysOn(l int) int {
	if c.Prepared == nil {
		return 0
	}
	return max(c.Prepared.Layers[l].AlwaysOn, int(math.Round(c.AlwaysOn*float64(c.Blocks[l].FF))))
}

// takePrediction checks and applies the options of predictors.
func (c *Config) takePrediction(o *Options) error {
	switch {
	case !(o.AlwaysOn >= 0 && o.AlwaysOn <= 1):
		return fmt.Errorf("%g of the neurons always on is no share; give 0 to 1", o.AlwaysOn)
	case o.AlwaysOn == 0 && o.Predicting == nil:
		return nil
	case c.Prepared == nil:
		return errors.New("only a prepared file says which neurons are the hottest; make one with: powerinfer prepare")
	case o.Predicting != nil && len(o.Predicting) != c.Layers:
		return fmt.Errorf("%d layers are said to predict or not, of %d", len(o.Predicting), c.Layers)
	}
	c.AlwaysOn, c.Predicting = o.AlwaysOn, o.Predicting
	return nil
}

// Activation returns layer l's, which has a threshold in mode Threshold. Experts have none.
func (c *Config) Activation(l int) compute.Activation {
	act := c.Act
	if c.Magnitudes != nil && c.Blocks[l].FF > 0 && !c.Blocks[l].Experts {
		act.Threshold = c.Magnitudes[l]
	}
	return act
}

// CanDraft reports whether a model that computes all active neurons can draft tokens with only the neurons that its
// predictors choose.
func (c *Config) CanDraft() bool {
	if c.Sparse != Exact && c.Sparse != Off || !c.Predictors {
		return false
	}
	for l := range c.Layers {
		if c.draftsIn(l) {
			return true
		}
	}
	return false
}

// draftsIn reports whether drafting steps compute only the predicted neurons of layer l.
func (c *Config) draftsIn(l int) bool {
	guess := *c
	guess.Sparse = Predict
	return guess.LayerMode(l) == Predict
}

// ExpertMode returns the mode of experts: in mode Predict, layers with experts that have no predictors run exact.
func (c *Config) ExpertMode() SparseMode {
	switch {
	case c.Experts.Count == 0:
		return Off
	case c.Sparse == Predict && c.ExpertPredictors:
		return Predict
	case c.Sparse == Exact && c.Act.Sparse():
		return Exact
	}
	return Off
}

// NeuronUse counts the work of a feed-forward layer since the model was loaded, or in a part of that time.
type NeuronUse struct {
	compute.NeuronCount            // zero in mode off, which does not look at single neurons
	Mode                SparseMode // the layer's mode
	Neurons             int        // neurons for a token if none is left out: n_ff, and those of the experts that it uses
	Dense               int64      // bytes of gate, up and down, and of the experts of a step's tokens if no two tokens share one
	Experts             int        // experts of the layer

	Chosen, Right int64 // with Options.Recall: pairs that the predictor chose, and the active ones among them; Active then counts every active pair
}

// Since returns the counts after then, an earlier state of the same layer.
func (u NeuronUse) Since(then NeuronUse) NeuronUse {
	u.Steps -= then.Steps
	u.Tokens -= then.Tokens
	u.Predicted -= then.Predicted
	u.Gated -= then.Gated
	u.Active -= then.Active
	u.Bytes -= then.Bytes
	u.RAM -= then.RAM
	u.PredictedRAM -= then.PredictedRAM
	u.ActiveRAM -= then.ActiveRAM
	u.Chosen -= then.Chosen
	u.Right -= then.Right
	return u
}

// add counts experts of the same steps, too.
func (u *NeuronUse) add(c *compute.NeuronCount) {
	part := *c
	u.Steps, u.Tokens = max(u.Steps, part.Steps), max(u.Tokens, part.Tokens)
	u.Join(&part)
}

// Neurons returns the work of each layer since the model was loaded. [layers]
func (m *Model) Neurons() []NeuronUse {
	use := make([]NeuronUse, len(m.parts))
	for i := range m.parts {
		f := m.parts[i].FFN
		use[i] = NeuronUse{Mode: m.LayerMode(i), Neurons: m.Blocks[i].FF}
		if f != nil {
			use[i].NeuronCount, use[i].Chosen, use[i].Right, use[i].Dense = f.Count, f.Found.Predicted, f.Found.Active, f.Bytes()
		}
		if x := m.parts[i].Experts; x != nil {
			use[i].add(&x.Uses)
			use[i].Experts = m.Experts.Count
			use[i].Neurons += m.Experts.Used * m.Experts.FF
			use[i].Dense += x.UsedBytes()
		}
		predictor := m.predictorRead(f)
		use[i].Bytes += predictor
		if !m.place(i).Predictor {
			use[i].RAM += predictor
		}
	}
	return use
}

// predictorRead returns the bytes that counted steps have read of the predictor of f, which may be nil. Drafting steps
// are not counted.
func (m *Model) predictorRead(f *nn.FFN) int64 {
	if f == nil || m.drafts {
		return 0
	}
	return f.Count.Steps * f.Predictor.Bytes()
}

// Drafts reports whether steps of Params.Draft compute less than others. On the processor they do if all active neurons
// are computed otherwise: drafting steps compute those that predictors choose. With GPUs they do if layers are divided
// by neuron: drafting steps compute the neurons on GPUs.
func (m *Model) Drafts() bool { return m.drafts || m.hotOnly }

// Observer sees every feed-forward layer of dense steps, in the order of layers.
type Observer interface {
	FeedForward(layer int, s FFNStep)
}

// FFNStep is one layer's share of a step. Its functions return the data of token i of the step, valid during the call.
type FFNStep struct {
	Params      *compute.Params
	Residual    func(i int) []float32 // [n_embd] before the layer's norm; falcon: the block's input
	Normed      func(i int) []float32 // [n_embd] after it: the layer's input
	Activations func(i int) []float32 // [n_ff] a_i
}

// GateObserver is an Observer that sees gates, too, before each layer's activations.
type GateObserver interface {
	Observer
	Gates(layer int, s GateStep)
}

// GateStep is one layer's share of a step. Its function returns the data of token i of the step, valid during the call.
type GateStep struct {
	Params *compute.Params
	Gates  func(i int) []float32 // [n_ff] g_i; in ungated layers up's output
}

// observe makes every dense layer report its steps to o, or in a model with experts every layer with experts.
func (m *Model) observe(o Observer) error {
	if m.Experts.Count > 0 {
		return m.observeExperts(o)
	}
	if !m.uniform() {
		return fmt.Errorf("only a model whose layers have as many neurons each can be observed")
	}
	for i := range m.parts {
		f := m.parts[i].FFN
		if f == nil {
			continue
		}
		if f.ByNeuron {
			return setting.Errorf("only a dense model can be observed: not a prepared or original PowerInfer file, and with %s", setting.Sparse.To("off"))
		}
		f.Observe = func(p *nn.Pass, residual, in, activations compute.Tensor) {
			var failed error
			step := FFNStep{Params: p.Params, Residual: m.rows(residual, &failed), Normed: m.rows(in, &failed), Activations: m.rows(activations, &failed)}
			p.Verbs().Host(func() error {
				o.FeedForward(i, step)
				return failed
			})
		}
		if g, ok := o.(GateObserver); ok {
			f.ObserveGates = func(p *nn.Pass, gates compute.Tensor) {
				var failed error
				step := GateStep{Params: p.Params, Gates: m.rows(gates, &failed)}
				p.Verbs().Host(func() error {
					g.Gates(i, step)
					return failed
				})
			}
		}
	}
	return nil
}

// rows returns a function that reads a tensor's rows. If it cannot read a row, it sets failed and returns zeros: the
// step fails, whatever is computed from them.
func (m *Model) rows(t compute.Tensor, failed *error) func(i int) []float32 {
	return func(i int) []float32 {
		row, err := m.dev.Read(t, i)
		if err != nil {
			*failed = err
			return make([]float32, t.Cols)
		}
		return row
	}
}

// takeOrder checks that every layer's order is a permutation of its neurons.
func (m *Model) takeOrder(f *gguf.File, orders [][]int32) error {
	if orders == nil {
		return nil
	}
	if len(orders) != m.Layers {
		return fmt.Errorf("%s: an order of the neurons of %d layers is not for this model of %d", f.Path, len(orders), m.Layers)
	}
	for l, order := range orders {
		ff := m.Blocks[l].FF
		seen := make([]bool, ff)
		for _, n := range order {
			if n < 0 || int(n) >= ff || seen[n] {
				return fmt.Errorf("%s: the order of layer %d's neurons does not name each of %d once", f.Path, l, ff)
			}
			seen[n] = true
		}
		if len(order) != ff {
			return fmt.Errorf("%s: the order of layer %d's neurons has %d of %d", f.Path, l, len(order), ff)
		}
	}
	m.orders = orders
	return nil
}

// place returns the parts of layer l that go to a GPU, or those of the head if l is the number of layers.
func (m *Model) place(l int) compute.Place {
	if m.places == nil {
		return compute.Place{Split: compute.Split{Tier: compute.RAM}}
	}
	return m.places[l]
}
