package modelcost

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// Options choose how a file is planned for.
type Options struct {
	model.Neurons // Activation, Sparse, Bound and Skip count

	Context    int        // tokens; 0 is the model's own
	UBatch     int        // tokens of the largest step; 0 is the engine's own
	Outputs    int        // sequences that generate at a time; 0 is 1
	Drafts     int        // additional rows of logits of the largest step, for draft tokens
	Further    bool       // as model.Options'
	Head       *gguf.File // as model.Options'
	CacheTypes compute.CacheTypes
	WholeCache bool // layers with windows keep all positions, also those outside of windows
	Law        Law  // law of frequencies that the file does not state
	Adapters   []model.Adapter
	Stats      *neuron.Stats // counted for this model, or nil
	Uses       []Use         // measured for this model in mode Sparse, instead of the file's data on activations and predictors [layers]; nil: nothing was measured
}

// Use is the work of a layer for its tokens, as shares of its neurons.
type Use struct {
	Active   float64 // neurons with an activation other than zero
	Computed float64 // neurons that a predictor chose
	AlwaysOn float64 // neurons that are computed without asking the predictor, the hottest
}

// take replaces the file's numbers by measured ones. The order of the frequencies stays, and their mean becomes the
// measured one.
func (n *neurons) take(u Use) {
	mean := active([][]float32{n.frequency})
	if mean > 0 {
		n.frequency = slices.Clone(n.frequency)
		for i, f := range n.frequency {
			n.frequency[i] = float32(min(1, float64(f)*u.Active/mean))
		}
	}
	n.alwaysOn = max(n.alwaysOn, int(u.AlwaysOn*float64(len(n.frequency))))
	if u.Computed > 0 {
		n.precision = min(1, u.Active/u.Computed)
	}
}

// Of returns the cost of a model from f's header, and from its frequencies if it is prepared.
func Of(f *gguf.File, o Options) (Cost, error) {
	c, err := model.ReadConfig(f, o.Activation)
	if err != nil {
		return Cost{}, err
	}
	choice, err := c.Choose(c.ModeWith(o.Sparse, o.Adapters), o.Bound)
	if err != nil {
		return Cost{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	c.Take(choice)
	if err := c.TakeSkip(o.Skip); err != nil {
		return Cost{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	var left float32
	if choice.Mode == model.Threshold {
		left = choice.Point.Setting
	}
	if err := o.Law.Check(); err != nil {
		return Cost{}, err
	}
	b := Cost{Name: c.Name, Mode: c.Sparse, Context: o.Context, Layers: c.Layers, FF: c.FF, ExpertsUsed: c.Experts.Used, ExpertMode: c.ExpertMode(), RowElems: c.Embd}
	if b.Name == "" {
		b.Name = filepath.Base(f.Path)
	}
	if b.Context == 0 {
		b.Context = c.Context
	}
	b.Step, b.Outputs = largest(o.UBatch, b.Context), max(1, o.Outputs)+o.Drafts
	b.Cache = c.CacheSize(b.Context, b.Step, max(1, o.Outputs), o.WholeCache, o.Drafts > 0)
	b.Adapters = o.Adapters
	if err := c.TakeHead(f, o.Head); err != nil {
		return Cost{}, err
	}
	c.FurtherCached = o.Further && c.CanGuessFurther() == nil // a file with an MTP layer that cannot be computed is refused when it is loaded
	r := reader{f: f, c: &c, b: &b, cache: c.CacheSpec(b.Cache, o.CacheTypes), left: left, measured: o.Uses}
	b.ExpertsKnown = r.known()
	if c.Skip.After > 0 && c.Left() == 0 {
		r.assume("How many experts are left out was not measured for this model: the plan reads them all. powerinfer profile --measure measures it.")
	}
	if err := r.frequencies(o); err != nil {
		return Cost{}, err
	}
	for l := range c.Layers {
		if err := r.layer(l); err != nil {
			return Cost{}, err
		}
	}
	r.tables()
	b.File, b.DraftHead, b.Activation, b.CacheTypes = f, o.Head, o.Activation, o.CacheTypes
	return b, b.Model.Check()
}

// largest returns the tokens of the largest step, of ubatch, 0 being the usual one, within a context.
func largest(ubatch, context int) int {
	if ubatch <= 0 {
		ubatch = model.UsualStep
	}
	return min(ubatch, context)
}

// reader fills in a Cost from a file.
type reader struct {
	f         *gguf.File
	c         *model.Config
	b         *Cost
	cache     compute.CacheSpec
	frequency [][]float32 // [layers][n_ff] hottest first
	left      float32     // share of activations that thresholds of magnitude leave out
	measured  []Use       // Options.Uses
	cached    []float64   // CachedUses of the model's experts, once they are needed
}

// frequencies reads the file's frequencies, or else the counted ones, or else computes the law's.
func (r *reader) frequencies(o Options) error {
	switch {
	case o.Stats != nil && r.c.Experts.Count > 0:
		return fmt.Errorf("%s: counts of neurons do not belong to a model with experts", r.f.Path)
	case r.c.Prepared != nil:
		for _, y := range r.c.Prepared.Layers {
			r.frequency = append(r.frequency, y.Frequency)
		}
	case o.Stats != nil:
		if len(o.Stats.Layers) != r.c.Layers {
			return fmt.Errorf("statistics of %d layers do not belong to %s of %d", len(o.Stats.Layers), r.f.Path, r.c.Layers)
		}
		sorted, err := o.Stats.Permute(o.Stats.Order())
		if err != nil {
			return err
		}
		for l := range sorted.Layers {
			r.frequency = append(r.frequency, sorted.Frequencies(l))
		}
	default:
		for l, b := range r.c.Blocks {
			if b.Experts {
				r.frequency = append(r.frequency, nil)
				continue
			}
			if l > 0 && b.FF == r.c.Blocks[l-1].FF && !r.c.Blocks[l-1].Experts {
				r.frequency = append(r.frequency, r.frequency[l-1])
				continue
			}
			if r.left > 0 {
				r.frequency = append(r.frequency, slices.Repeat([]float32{1 - r.left}, b.FF))
				continue
			}
			r.frequency = append(r.frequency, lawFrequencies(b.FF, o.Law))
		}
		if r.left > 0 {
			r.assume("The file holds no frequencies: each neuron is taken to be left out as often as the thresholds leave one out on average.")
		} else {
			r.assumeFrequencies(o.Law)
		}
	}
	r.b.Active = 1
	if list := r.ofNeurons(); r.c.Sparse != model.Off && len(list) > 0 {
		r.b.Active = active(list)
	}
	return nil
}

// assumeFrequencies notes the assumption that replaces frequencies which the file lacks.
func (r *reader) assumeFrequencies(law Law) {
	experts := slices.ContainsFunc(r.c.Blocks, func(b model.Block) bool { return b.Experts })
	if experts && !r.b.ExpertsKnown {
		r.assume("The file does not say how often experts are used: GPUs are planned as if all were used alike, and what RAM has of the others' uses is a prior, that of simulated texts. powerinfer profile counts those of a text.")
	}
	switch {
	case r.c.Sparse == model.Off || len(r.ofNeurons()) == 0:
	case experts:
		r.assume("The file holds no frequencies of neurons: %s is assumed of every layer without experts.", law)
	default:
		r.assume("The file holds no frequencies: %s is assumed of every layer.", law)
	}
}

// ofNeurons returns the frequencies of the layers without experts.
func (r *reader) ofNeurons() (list [][]float32) {
	for l, y := range r.frequency {
		if !r.c.Blocks[l].Experts {
			list = append(list, y)
		}
	}
	return list
}

// uses returns how often each of layer l's experts is used, in the file's order: as the file states, else all equally.
// GPUs hold the first experts, whether these are the hottest or not, so a cold one before a hot one counts as the mean
// of the two.
func (r *reader) uses(l int) []float32 {
	if !r.b.ExpertsKnown {
		return evenly(r.c.Experts)
	}
	var list []float32
	for _, share := range r.c.Prior(l) {
		list = append(list, float32(min(share, 1)))
	}
	return falling(list)
}

// falling returns the non-increasing list whose sums of the first n differ least from v's: a part that rises is
// replaced by its mean.
func falling(v []float32) []float32 {
	type part struct {
		sum float64
		n   int
	}
	var parts []part
	for _, x := range v {
		last := part{float64(x), 1}
		for k := len(parts) - 1; k >= 0 && parts[k].sum*float64(last.n) < last.sum*float64(parts[k].n); k-- {
			last.sum, last.n = last.sum+parts[k].sum, last.n+parts[k].n
			parts = parts[:k]
		}
		parts = append(parts, last)
	}
	out := make([]float32, 0, len(v))
	for _, p := range parts {
		out = append(out, slices.Repeat([]float32{float32(p.sum / float64(p.n))}, p.n)...)
	}
	return out
}

// known reports whether the file states the use of experts for every layer with experts.
func (r *reader) known() bool {
	for l, b := range r.c.Blocks {
		if b.Experts && len(r.c.Prior(l)) != r.c.Experts.Count {
			return false
		}
	}
	return r.c.Experts.Count > 0
}

// evenly returns the uses of each of a layer's experts if all are equally frequent.
func evenly(e model.Experts) []float32 {
	return slices.Repeat([]float32{float32(e.Used) / float32(e.Count)}, e.Count)
}

// experts returns the units of a layer with experts, one for each expert.
func (r *reader) experts(l int) placement.Units {
	u := placement.Units{InOrder: true, Stay: true, Guessed: r.c.Blocks[l].Guessed, Left: r.c.Left(), Sometimes: make([]float64, r.c.Experts.Count)}
	if !r.b.ExpertsKnown {
		if r.cached == nil {
			r.cached = CachedUses(r.c.Experts.Count, r.c.Experts.Used)
		}
		u.Kept = r.cached
	} else {
		for _, share := range r.c.Prior(l) {
			u.Used = append(u.Used, min(share, 1)) // unsorted, because RAM keeps any of them
		}
	}
	for _, t := range r.f.Tensors {
		switch p, _ := r.c.Purpose(t.Name); {
		case p.Layer != l:
		case p.Role == nn.OfExperts, p.Role == nn.PredictsExperts && r.c.ExpertMode() == model.Predict:
			u.Size += share(t, r.c.Experts.Count)
		}
	}
	for i, f := range r.uses(l) {
		u.Sometimes[i] = float64(f) * float64(u.Size)
	}
	return u
}

// The matrices that hold the neurons of a layer without experts.
const (
	nameGate = "ffn_gate.weight"
	nameUp   = "ffn_up.weight"
	nameDown = "ffn_down.weight"
)

func (r *reader) assume(format string, args ...any) {
	r.b.Assumed = append(r.b.Assumed, fmt.Sprintf(format, args...))
}

// row returns the bytes of one row of rows in the tensor of that name in layer l; 0 if there is none.
func (r *reader) row(l int, name string, rows int) int64 {
	return share(r.f.Tensor(fmt.Sprintf("blk.%d.%s", l, name)), rows)
}

// share returns one neuron's bytes of a tensor, which may be nil.
func share(t *gguf.Tensor, neurons int) int64 {
	if t == nil {
		return 0
	}
	return t.Bytes() / int64(neurons)
}

func (r *reader) layer(l int) error {
	shape := r.c.Blocks[l]
	if shape.Experts {
		r.add(l, placement.Layer{Units: r.experts(l), Experts: true}, r.c.Sparse)
		return nil
	}
	ff := shape.FF
	if ff == 0 {
		r.add(l, placement.Layer{}, model.Off)
		return nil
	}
	if len(r.frequency[l]) != ff {
		return fmt.Errorf("%s: layer %d: %d frequencies for %d neurons", r.f.Path, l, len(r.frequency[l]), ff)
	}
	rows := r.c.NeuronRows(r.f, l)
	n := neurons{
		gate: share(rows.Gate, ff), up: share(rows.Up, ff),
		down: r.row(l, "ffn_down.weight", ff) + r.row(l, "ffn_down_t.weight", ff), frequency: r.frequency[l], precision: usualPrecision,
	}
	n.gate += r.adaptedNeuron(l, nameGate, ".lora_b", ff)
	n.up += r.adaptedNeuron(l, nameUp, ".lora_b", ff)
	n.down += r.adaptedNeuron(l, nameDown, ".lora_a", ff)
	if n.up == 0 || n.down == 0 {
		return fmt.Errorf("%s: layer %d has no feed-forward layer that can be planned: ffn_up or ffn_down is missing", r.f.Path, l)
	}
	mode := r.c.LayerMode(l)
	if p := r.c.Prepared; p != nil && r.c.Sparse == model.Predict {
		n.alwaysOn = p.Layers[l].AlwaysOn
		if p.HeldOut != (prepared.Text{}) && p.Layers[l].Precision > 0 {
			n.precision = float64(p.Layers[l].Precision)
		} else if l == 0 {
			r.assume("The precision of the predictors was not measured: %g is assumed.", usualPrecision)
		}
	} else if mode == model.Predict && l == 0 {
		r.assume("Original files do not tell the precision of their predictors: %g is assumed.", usualPrecision)
	}
	if r.measured != nil {
		n.take(r.measured[l])
	}
	units := n.units(mode)
	units.Stay, _ = r.c.NeuronsOnDisk(l)
	r.add(l, placement.Layer{Units: units}, mode)
	return nil
}

// add adds a layer with known units.
func (r *reader) add(l int, y placement.Layer, mode model.SparseMode) {
	for part, cached := range r.cache.Layers {
		switch {
		case r.cache.LayerOf(part) != l:
		case cached.State > 0: // for all sequences and checkpoints
			y.KV += int64(r.cache.States) * int64(cached.StateBytes())
		case r.cache.IsWindowed(part):
			y.KV += int64(r.cache.Near) * cached.PageBytes()
		default:
			y.KV += kv(cached, r.b.Context)
		}
	}
	for _, t := range r.f.Tensors {
		p, ok := r.c.Purpose(t.Name)
		if !ok || p.Layer != l {
			continue
		}
		y.Expanded += r.c.ExpandedBytes(t, nil)
		switch p.Role {
		case nn.OfNeurons, nn.OfExperts:
			if r.b.Type == "" && t.Shape[0] == r.c.Embd { // a row of the ups or gates
				r.b.Type, r.b.RowBytes = t.Type.String(), t.Type.RowBytes(r.c.Embd)
			}
		case nn.OfPredictor:
			if mode == model.Predict {
				y.Predictor += t.Bytes()
			}
		case nn.InTable:
			r.b.Rest += t.Bytes()
		case nn.InLayer:
			y.Attention += r.loaded(t)
		}
	}
	y.Attention += r.adapted(fmt.Sprintf("blk.%d.", l))
	r.b.Model.Layers = append(r.b.Model.Layers, y)
}

// adapted returns the bytes of adapters' matrices for the model's tensors of that prefix, without those stored with
// neurons.
func (r *reader) adapted(prefix string) (n int64) {
	for _, a := range r.b.Adapters {
		for _, t := range a.File.Tensors {
			if name, ok := strings.CutPrefix(t.Name, prefix); ok && !adaptsNeuron(name) {
				n += nn.AdapterBytes(t)
			}
		}
	}
	return n
}

// adaptsNeuron reports whether an adapter's tensor of a block holds a part of each neuron.
func adaptsNeuron(name string) bool {
	return name == nameGate+".lora_b" || name == nameUp+".lora_b" || name == nameDown+".lora_a"
}

// adaptedNeuron returns the bytes of one neuron in the given half of adapters' matrices for the tensor of that name in
// layer l.
func (r *reader) adaptedNeuron(l int, name, half string, neurons int) (n int64) {
	for _, a := range r.b.Adapters {
		if t := a.File.Tensor(fmt.Sprintf("blk.%d.%s%s", l, name, half)); t != nil {
			n += nn.AdapterBytes(t) / int64(neurons)
		}
	}
	return n
}

// further adds the MTP layers or draft head.
func (r *reader) further() {
	y := &r.b.Further
	for part, shape := range r.cache.Layers {
		if r.cache.LayerOf(part) == r.c.Layers {
			y.KV += kv(shape, r.b.Context)
		}
	}
	for _, t := range r.c.HeadTensors() {
		if r.c.HeadRole(t) == nn.InTable {
			r.b.Rest += t.Bytes()
		} else {
			y.Attention += t.Bytes()
		}
	}
	for _, t := range r.f.Tensors {
		switch p, ok := r.c.Purpose(t.Name); {
		case !ok || p.Layer < r.c.Layers:
		case p.Role == nn.InTable:
			r.b.Rest += t.Bytes()
		default:
			y.Attention += r.loaded(t)
			y.Expanded += r.c.ExpandedBytes(t, nil)
		}
	}
	r.b.Rest += y.Bytes() + y.Expanded
}

// loaded returns the bytes of a tensor as it is loaded.
func (r *reader) loaded(t *gguf.Tensor) int64 {
	_, bytes, _ := r.c.Loaded(r.f, t)
	return bytes
}

// tables adds the head, and the tensors that stay in RAM.
func (r *reader) tables() {
	r.b.Model.Head += r.adapted("output.")
	if r.c.FurtherCached {
		r.further()
	}
	for _, t := range r.f.Tensors {
		switch p, ok := r.c.Purpose(t.Name); {
		case !ok || p.Layer >= 0:
		case p.Role == nn.InHead:
			r.b.Model.Head += t.Bytes()
		default:
			r.b.Rest += t.Bytes()
		}
	}
}
