package powerinfer

import (
	"context"
	"encoding/hex"

	"github.com/powerinfer-go/powerinfer/internal/bench"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Info describes a model.
type Info struct {
	Path         string // path of the file, or the name given to OpenBytes
	Draft        string // path of the draft model's file; empty: there is none
	Tower        string // path of the file of the vision tower; empty: there is none
	Name         string // as the file says
	Architecture string // llama, qwen3, …
	Type         string // architecture, size and the type that most weights have, as llama-bench prints them: "llama 8.0B Q4_0"
	Bytes        int64  // bytes of weights
	Parameters   int64
	Layers       int
	Embedding    int   // width of the residual stream
	Neurons      int   // neurons of the widest feed-forward layer, without experts
	Experts      int   // experts of a layer; 0: no layer has any
	ExpertsUsed  int   // by a token in such a layer
	Heads        int   // heads of attention, in the layer that has most
	KVHeads      int   // heads of keys and values, in the layer that has most
	HeadSize     int   // elements of a head's key, in the layer that has most heads
	Vocabulary   int   // tokens
	Trained      int   // tokens of context that the model was trained for
	Context      int   // tokens of context that are open
	Cache        int64 // bytes of keys and values of the whole context
	Sparse       Sparse
	Threshold    float32 // logit from which a predicted neuron is computed, if Sparse is SparsePredict
	Activation   string  // activation function of feed-forward layers
	Prepared     bool    // the file names its hot neurons and holds predictors
}

func infoOf(s *session.Session) Info {
	c, file := s.Config(), bench.Describe(s.File)
	return Info{
		Path: s.File.Path, Draft: s.DraftsBy(), Tower: s.ShownBy(), Name: c.Name, Architecture: c.Arch, Type: file.Type, Bytes: file.Bytes, Parameters: file.Params,
		Layers: c.Layers, Embedding: c.Embd, Neurons: c.FF, Experts: c.Experts.Count, ExpertsUsed: c.Experts.Used, Heads: c.Heads, KVHeads: c.KVHeads, HeadSize: c.HeadDim, Vocabulary: c.Vocab,
		Trained: c.Context, Context: s.Context(), Cache: s.CacheBytes(),
		Sparse: c.Sparse, Threshold: c.Threshold, Activation: c.Act.Kind.String(), Prepared: c.Prepared != nil,
	}
}

// Fingerprint identifies what decides the model's answers, apart from rounding: its file, adapters and mode. It reads a
// few pages of each tensor.
func (m *Model) Fingerprint() string {
	sum := m.session.Engine.Fingerprint()
	return hex.EncodeToString(sum[:])
}

// Info describes the model.
func (m *Model) Info() Info { return m.info }

// Device names the processors that compute the model, in a few words.
func (m *Model) Device() string { return m.session.Device() }

// Plan says where each part of a model is stored.
type Plan struct {
	GPUs   []GPU
	Layers []Layer // the model's layers in order, and then its head
	Rate   float64 // tokens per second that are expected of generation; 0: nothing is known
}

// GPU is a GPU of a plan. Sizes are bytes of its memory.
type GPU struct {
	Name    string // empty before it is opened
	Device  string // as GPU.Devices names it
	Budget  int64  // bytes that may be used
	Planned int64  // bytes that the plan expects to use
	Used    int64  // bytes in use; 0 before it is opened
	Note    string // what a user may want to know about the GPU
}

// Layer says where a layer is.
type Layer struct {
	GPU       int  // index into Plan.GPUs; -1: the whole layer is in RAM
	Attention bool // attention and its KV cache are on the GPU
	Predictor bool // the predictor is on the GPU, too
	Hot       int  // neurons [0, Hot) are on the GPU, the others in RAM
}

// OnGPUs returns how many layers, the head not among them, have something on a GPU.
func (p Plan) OnGPUs() int {
	n := 0
	for _, y := range p.Layers[:max(0, len(p.Layers)-1)] {
		if y.Attention || y.Predictor || y.Hot > 0 {
			n++
		}
	}
	return n
}

// Plan returns the model's present plan. It changes when a GPU fails.
func (m *Model) Plan() (Plan, error) {
	p, err := m.session.Planner.Plan()
	if err != nil {
		return Plan{}, tell(err)
	}
	plan := planOf(p)
	for j, u := range m.session.Planner.Usage() {
		plan.GPUs[j] = GPU{Name: u.Name, Device: plan.GPUs[j].Device, Budget: u.Budget, Planned: u.Planned, Used: u.Used, Note: u.Note}
	}
	return plan, nil
}

// PlanFile returns the plan that Open would make for the file at path. It does not load the model.
func PlanFile(ctx context.Context, path string, o Options) (Plan, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return Plan{}, err
	}
	defer f.Close()
	if err := session.Override(f, o.Overrides); err != nil {
		return Plan{}, tell(err)
	}
	s, err := o.session()
	if err != nil {
		return Plan{}, err
	}
	p, err := session.Plan(ctx, f, s)
	if err != nil {
		return Plan{}, tell(err)
	}
	plan, err := p.Plan()
	return planOf(plan), tell(err)
}

// planOf returns p in this package's terms. nil stands for the CPU alone.
func planOf(p *planner.Plan) Plan {
	var plan Plan
	if p == nil {
		return plan
	}
	plan.Rate = p.Rate
	for _, g := range p.GPUs {
		plan.GPUs = append(plan.GPUs, GPU{Device: g.Device, Budget: g.Budget, Planned: g.Planned})
	}
	for _, y := range p.Places {
		l := Layer{GPU: int(y.Tier), Attention: y.Attention, Predictor: y.Predictor, Hot: y.Bound}
		if y.Tier == compute.RAM {
			l.GPU = -1
		}
		plan.Layers = append(plan.Layers, l)
	}
	return plan
}

// LayerNeurons counts what a feed-forward layer has computed. Pairs are of a token and a neuron.
type LayerNeurons struct {
	Sparse    Sparse // how the layer is computed
	Neurons   int    // neurons of the layer
	Steps     int64  // steps that computed the layer
	Tokens    int64  // tokens that passed the layer
	Predicted int64  // pairs that predictors chose
	Active    int64  // pairs with an activation other than zero
	Bytes     int64  // bytes of weights read
	Dense     int64  // bytes of weights that one step reads if nothing is skipped
}

// Neurons returns what each layer has computed since the model was opened. Layers with dense products have zero counts.
// [layers]
func (m *Model) Neurons() []LayerNeurons { return layerNeurons(m.session.Neurons()) }

func layerNeurons(use []model.NeuronUse) []LayerNeurons {
	var all []LayerNeurons
	for _, u := range use {
		all = append(all, LayerNeurons{
			Sparse: u.Mode, Neurons: u.Neurons, Steps: u.Steps, Tokens: u.Tokens,
			Predicted: u.Predicted, Active: u.Active, Bytes: u.Bytes, Dense: u.Dense,
		})
	}
	return all
}

// Frequencies returns how often each neuron was active, as a share of the counted tokens. Neurons are in the model's
// order, which is hottest first in a prepared model. It returns nil for a file without statistics. [layers][neurons]
func (m *Model) Frequencies() [][]float32 {
	p := m.session.Config().Prepared
	if p == nil {
		return nil
	}
	var all [][]float32
	for _, y := range p.Layers {
		all = append(all, append([]float32(nil), y.Frequency...))
	}
	return all
}
