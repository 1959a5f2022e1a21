package modelcost

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Shape is a model that is described, not there.
type Shape struct {
	Name                 string
	Layers, Embd, FF     int
	Heads, KVHeads       int
	Vocab                int
	Gated, Tied          bool // three matrices a neuron instead of two; the head is the embedding
	Type                 quant.Type
	Law                  Law
	Mode                 model.SparseMode // Off, Exact or Predict
	Predictor, Precision float64          // share of all other weights; share of predicted neurons that are active
	CacheTypes           compute.CacheTypes
}

// paperPredictor is the share of a model's weights that predictors take, by the PowerInfer paper, section 5.1.
const paperPredictor = 0.06

// shapes returns the models that the PowerInfer paper and its peers measure, by their published configurations.
// Sparsity is from the paper's table 3, the skew from its figure 4: 26 % of OPT-30B's neurons in a layer make 80 % of
// the activations, 43 % of LLaMA-70B's.
func shapes() []Shape {
	llama, opt := Law{0.18, 0.43}, Law{0.03, 0.26}
	return []Shape{
		{Name: "llama-7b", Layers: 32, Embd: 4096, FF: 11008, Heads: 32, KVHeads: 32, Vocab: 32000, Gated: true, Law: Law{0.30, 0.43}},
		{Name: "llama-13b", Layers: 40, Embd: 5120, FF: 13824, Heads: 40, KVHeads: 40, Vocab: 32000, Gated: true, Law: Law{0.22, 0.43}},
		{Name: "llama-65b", Layers: 80, Embd: 8192, FF: 22016, Heads: 64, KVHeads: 64, Vocab: 32000, Gated: true, Law: llama},
		{Name: "llama-70b", Layers: 80, Embd: 8192, FF: 28672, Heads: 64, KVHeads: 8, Vocab: 32000, Gated: true, Law: llama},
		{Name: "bamboo-7b", Layers: 32, Embd: 4096, FF: 14336, Heads: 32, KVHeads: 8, Vocab: 32000, Gated: true, Law: Law{0.10, 0.35}},
		{Name: "falcon-40b", Layers: 60, Embd: 8192, FF: 32768, Heads: 128, KVHeads: 8, Vocab: 65024, Law: Law{0.05, 0.30}},
		{Name: "opt-13b", Layers: 40, Embd: 5120, FF: 20480, Heads: 40, KVHeads: 40, Vocab: 50272, Tied: true, Law: opt},
		{Name: "opt-30b", Layers: 48, Embd: 7168, FF: 28672, Heads: 56, KVHeads: 56, Vocab: 50272, Tied: true, Law: opt},
		{Name: "opt-66b", Layers: 64, Embd: 9216, FF: 36864, Heads: 72, KVHeads: 72, Vocab: 50272, Tied: true, Law: opt},
		{Name: "opt-175b", Layers: 96, Embd: 12288, FF: 49152, Heads: 96, KVHeads: 96, Vocab: 50272, Tied: true, Law: opt},
	}
}

// named returns the shape of that name in F16, with the paper's predictors.
func named(name string) (Shape, error) {
	var names []string
	for _, s := range shapes() {
		if s.Name == strings.ToLower(name) {
			s.Type, s.Mode, s.Predictor, s.Precision = quant.F16, model.Predict, paperPredictor, usualPrecision
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Shape{}, fmt.Errorf("shape %.40q is none of %s", name, strings.Join(append(names, PublishedExperts()...), ", "))
}

// Describe reads NAME[,KEY=VALUE…]: the shape of a known model, with some of its keys replaced.
func Describe(text string) (Shape, error) {
	parts := strings.Split(text, ",")
	s, err := named(strings.TrimSpace(parts[0]))
	if err != nil {
		return Shape{}, err
	}
	for _, p := range parts[1:] {
		key, value, ok := strings.Cut(strings.TrimSpace(p), "=")
		if !ok {
			return Shape{}, fmt.Errorf("%.40q in the description is not KEY=VALUE", p)
		}
		if err := s.set(key, value); err != nil {
			return Shape{}, err
		}
	}
	return s, s.check()
}

func (s *Shape) set(key, value string) (err error) {
	counts := map[string]*int{"layers": &s.Layers, "embd": &s.Embd, "ff": &s.FF, "heads": &s.Heads, "kv-heads": &s.KVHeads, "vocab": &s.Vocab}
	shares := map[string]*float64{"active": &s.Law.Active, "share80": &s.Law.Share80, "predictor": &s.Predictor, "precision": &s.Precision}
	if p := counts[key]; p != nil {
		*p, err = strconv.Atoi(value)
	} else if p := shares[key]; p != nil {
		*p, err = strconv.ParseFloat(value, 64)
	} else if key == "mode" {
		s.Mode, err = model.ParseSparseMode(value)
		return err
	} else if key == "type" {
		return s.setType(value)
	} else {
		return fmt.Errorf("key %.40q of the description is none of active, embd, ff, heads, kv-heads, layers, mode, precision, predictor, share80, type, vocab", key)
	}
	if err != nil {
		return fmt.Errorf("%s=%.40s in the description is not a number", key, value)
	}
	return nil
}

func (s *Shape) setType(name string) error {
	var ok bool
	if s.Type, ok = quant.Named(name, quant.Types()); !ok {
		return fmt.Errorf("type %.40q in the description is none of %s", name, quant.Supported())
	}
	return nil
}

// Bounds on a description: a plan for more takes more than seconds.
const (
	maxLayers = 1 << 10
	maxWidth  = 1 << 18
)

func (s *Shape) check() error {
	for _, v := range []struct {
		key       string
		value, of int
	}{{"layers", s.Layers, maxLayers}, {"embd", s.Embd, maxWidth}, {"ff", s.FF, maxWidth}, {"heads", s.Heads, maxWidth}, {"kv-heads", s.KVHeads, maxWidth}, {"vocab", s.Vocab, 1 << 24}} {
		if v.value < 1 || v.value > v.of {
			return fmt.Errorf("%s=%d in the description is outside 1…%d", v.key, v.value, v.of)
		}
	}
	if s.Embd%s.Type.BlockElems() != 0 {
		return fmt.Errorf("embd=%d in the description is not a multiple of %s's block of %d", s.Embd, s.Type, s.Type.BlockElems())
	}
	if s.Embd%s.Heads != 0 || s.Heads%s.KVHeads != 0 {
		return fmt.Errorf("embd=%d, heads=%d and kv-heads=%d in the description do not divide each other", s.Embd, s.Heads, s.KVHeads)
	}
	if s.Mode == model.Auto {
		return fmt.Errorf("mode=auto in the description: say off, exact or predict")
	}
	if !(s.Predictor >= 0 && s.Predictor <= 1) || !(s.Precision > 0 && s.Precision <= 1) {
		return fmt.Errorf("predictor=%g and precision=%g in the description are shares from 0 to 1", s.Predictor, s.Precision)
	}
	return s.Law.Check()
}

// Cost returns the shape as a cost for context tokens. The largest step has ubatch tokens; 0: the usual number.
func (s *Shape) Cost(context, ubatch int) Cost {
	row := int64(s.Type.RowBytes(s.Embd))
	n := neurons{gate: row, up: row, down: row, frequency: make([]float32, s.FF), precision: s.Precision}
	if s.Mode != model.Off {
		n.frequency = lawFrequencies(s.FF, s.Law)
	}
	if !s.Gated {
		n.gate = 0
	}
	headDim := s.Embd / s.Heads
	y := placement.Layer{Units: n.units(s.Mode)}
	y.Units.Stay = s.Mode == model.Predict
	y.Attention = row*int64(2*s.Embd+2*s.KVHeads*headDim) + 8*int64(s.Embd) // q, output; k, v; two norms in F32
	y.KV = kv(compute.KVShape{Heads: s.KVHeads, Key: headDim, Value: headDim, KeyType: s.CacheTypes.Key, ValueType: s.CacheTypes.Value}, context)
	if s.Mode == model.Predict {
		y.Predictor = int64(s.Predictor * float64(y.Attention+y.Units.Size*int64(s.FF)))
	}
	b := Cost{
		Name: s.Name, Type: s.Type.String(), Mode: s.Mode, Context: context, Layers: s.Layers, FF: s.FF, RowBytes: int(row), RowElems: s.Embd,
		Active: active([][]float32{n.frequency}),
		Model:  placement.Model{Layers: slices.Repeat([]placement.Layer{y}, s.Layers), Head: row * int64(s.Vocab)},
	}
	b.File, b.Step, b.Outputs, b.CacheTypes = s.header(y.Predictor), largest(ubatch, context), 1, s.CacheTypes
	b.Cache.Pages = model.CachePages(context)
	if !s.Tied {
		b.Rest = b.Model.Head
	}
	if s.Mode == model.Off {
		b.Active = 1
		return b
	}
	b.Assumed = append(b.Assumed, fmt.Sprintf("The model is described: %s is assumed of every layer.", s.Law))
	if s.Mode == model.Predict {
		b.Assumed = append(b.Assumed, fmt.Sprintf("Predictors of %.0f %% of all other weights, %.0f %% of whose neurons are active, are assumed.", 100*s.Predictor, 100*s.Precision))
	}
	return b
}

func lawFrequencies(ff int, w Law) []float32 { return placement.PowerLaw(ff, w.Active, w.Share80) }
