package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/family"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// The sizes of traced models. Where a family allows it, no two are the same.
const (
	tracedEmbd    = 32
	tracedFF      = 64
	tracedHeads   = 4
	tracedKVHeads = 2
	tracedHead    = 24
	tracedVocab   = 288
)

// tracedModel is a model of a family, and the ways in which it is loaded.
type tracedModel struct {
	name  string
	file  *gguf.File
	loads []loading
}

// loading is a way of loading a model.
type loading struct {
	name      string
	options   model.Options
	scales    []float32 // scales of adapters, one for each step
	headless  bool      // there are no logits
	brief     bool      // only the two commonest steps are taken
	gpu       bool      // the device makes no keys and values of latent vectors
	shaped    bool      // it has a choice of segments
	observed  bool
	rehearsed bool
	refused   bool // the model may refuse it
}

// tracedFamilies returns the families by name, with the number of layers that show all their kinds.
func tracedFamilies() map[string]int {
	layers := map[string]int{}
	for _, name := range family.Names() {
		layers[name] = 3
	}
	for name, n := range map[string]int{
		"afmoe": 5, "cohere2": 5, "cohere2moe": 5, "exaone4": 5, "exaone-moe": 5, "gemma3": 7, "gemma-embedding": 7, "gemma3n": 6, "gemma4": 6, "granite_swa": 5, "kimi-k3": 4,
		"laguna": 5, "llama4": 5, "maple": 5, "mellum": 5, "modern-bert": 4, "muse-glimmer": 5, "nemotron_h": 5, "nemotron_h_moe": 5, "qwen35": 4, "qwen35moe": 4,
		"qwen3next": 4, "qwen4exp": 4, "smallthinker": 5, "smollm3": 5, "spark2_5": 5,
	} {
		layers[name] = n
	}
	return layers
}

// variant is a change of a family's usual model: of its description, its keys, named without the family, where nil
// takes one away, and its tensors.
type variant struct {
	name     string
	thorough bool // it is for thorough families only
	spec     func(*synth.Spec)
	keys     map[string]any
	change   func(*altered)
}

// variants returns the changes that every family is tried with. A family that refuses one, or for which it changes
// nothing, is traced so, too.
func variants(family string) []variant {
	list := []variant{
		{name: "a tied head", change: func(a *altered) { a.changed = a.take("output.weight") != nil }},
		{name: "optional tensors", change: func(a *altered) { a.addOptional() }},
		{name: "queries, keys and values in one tensor, or apart", change: func(a *altered) { a.refuse() }},
		{name: "scales, caps and ALiBi", keys: map[string]any{
			"attention.max_alibi_bias": float32(6),
			"embedding_scale":          float32(3), "residual_scale": float32(0.6), "logit_scale": float32(0.4), "attention.scale": float32(0.3),
			"attn_logit_softcapping": float32(40), "final_logit_softcapping": float32(25), "attention.clamp_kqv": float32(6), "attention.layer_norm_epsilon": float32(2e-5),
			"attention.layer_norm_rms_epsilon": float32(2e-5),
		}},
		{name: "a window", keys: map[string]any{"attention.sliding_window": uint32(6), "rope.freq_base_swa": float32(700)}},
		{name: "YaRN", keys: map[string]any{
			"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(64), "rope.scaling.yarn_log_multiplier": float32(0.1),
			"attention.temperature_scale": float32(0.1), "rope.scaling.attn_factor": float32(1.2), "rope.freq_base": float32(5000),
		}},
		{name: "a linear scaling", thorough: true, keys: map[string]any{"rope.scaling.type": "linear", "rope.scaling.factor": float32(2), "rope.dimension_count": uint32(8)}},
		{name: "a dynamic scaling", thorough: true, keys: map[string]any{"rope.scaling.type": "dynamic", "rope.scaling.factor": float32(2), "rope.scaling.original_context_length": uint32(64)}},
		{name: "later positions", thorough: true, keys: map[string]any{"attention.causal": slices.Contains(headless(), family)}},
		{name: "no rotation", keys: map[string]any{"rope.scaling.finetuned": false}},
		{name: "parts one after the other", keys: map[string]any{"use_parallel_residual": false}},
		{name: "sections", keys: map[string]any{"rope.dimension_sections": []int32{4, 4, 4, 0}}},
		{name: "another routing", keys: map[string]any{
			"expert_gating_func": uint32(2), "expert_weights_norm": true, "expert_weights_scale": float32(2.5), "expert_group_count": uint32(4), "expert_group_used_count": uint32(2),
		}},
		{name: "weights that are not normalised", keys: map[string]any{"expert_gating_func": uint32(1), "expert_weights_norm": false}},
		{name: "gates and ups of experts in one tensor", change: func(a *altered) { a.fuseExperts() }},
		{name: "experts in place of neurons", spec: func(s *synth.Spec) { s.Experts, s.Used = 8, 2 }},
		{name: "a first layer without experts, two shared experts", spec: func(s *synth.Spec) { s.Experts, s.Used, s.Dense, s.Shared = 8, 2, 1, 2 }},
		{name: "heads that are rotated in part", keys: map[string]any{"rope.dimension_count": uint32(8)}},
		{name: "queries of no latent vector", spec: func(s *synth.Spec) { s.DirectQueries = true }},
		{name: "a second norm", spec: func(s *synth.Spec) { s.AttnNorm2 = true }},
		{name: "weights in Q8_0", thorough: family != "minicpm3" && family != "plm", spec: func(s *synth.Spec) { s.Type = quant.Q8_0 }},
	}
	switch {
	case slices.Contains(headless(), family):
		list = append(list, variant{name: "a classification head", spec: func(s *synth.Spec) { s.Labels = 2 }})
	case family == "phi3" || family == "phimoe" || family == "minicpm" || family == "minicpm3":
		list = append(list, variant{name: "factors for short and long contexts", keys: map[string]any{"rope.scaling.original_context_length": uint32(64)}, change: func(a *altered) { a.addFactors() }})
	}
	for name, n := range map[string]int{"baichuan": 40, "gemma2": 46, "gemma3": 62, "gemma3n": 22} {
		if family == name {
			list = append(list, variant{name: fmt.Sprintf("%d layers", n), spec: func(s *synth.Spec) { s.Layers = n }})
		}
	}
	if family == "llama4" {
		list = append(list, variant{name: "128 experts", spec: func(s *synth.Spec) { s.Experts, s.Used = 128, 1 }})
	}
	return list
}

// headless are the families that give hidden states instead of logits.
func headless() []string {
	return strings.Fields("bert eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llama-embed modern-bert nomic-bert nomic-bert-moe")
}

// usualSpec describes a family's usual model.
func usualSpec(family string) synth.Spec {
	s := synth.Spec{
		Arch: family, Layers: tracedFamilies()[family], Embd: tracedEmbd, FF: tracedFF, Heads: tracedHeads, KVHeads: tracedKVHeads, HeadDim: tracedHead, Vocab: tracedVocab,
		Context: 128, Type: quant.F16, Seed: 1,
	}
	return fitting(s)
}

// fitting returns s with heads that its family can have.
func fitting(s synth.Spec) synth.Spec {
	for _, change := range []func(){func() { s.KVHeads = s.Heads }, func() { s.KVHeads, s.HeadDim = tracedKVHeads, s.Embd/s.Heads }} {
		if s.Check() == nil {
			break
		}
		change()
	}
	return s
}

// tracedModels makes a family's models.
func tracedModels(t *testing.T, family string) (list []tracedModel) {
	t.Helper()
	spec := usualSpec(family)
	none := slices.Contains(headless(), family)
	with := func(loads ...loading) []loading {
		for i := range loads {
			loads[i].headless = none
		}
		return loads
	}
	usual := alter(synthtest.File(t, spec), spec)
	usual.set("powerinfer.activation", nil) // the family's own
	list = append(list, tracedModel{"the usual model", usual.file(), with(usualLoads(usual)...)})
	loads := 1
	if thorough(family) {
		loads = 2
	}
	brief := func(name string, a *altered, o model.Options) {
		dense, exact := o, o
		dense.Sparse, exact.Sparse, exact.Activation = model.Off, model.Exact, "relu"
		list = append(list, tracedModel{name, a.file(), with(
			loading{name: "every neuron", options: dense, brief: true, refused: true},
			loading{name: "neurons that are not zero", options: exact, brief: true, refused: true},
		)[:loads]})
	}
	for _, v := range variants(family) {
		if v.thorough && !thorough(family) {
			continue
		}
		a := alter(usual.file(), usual.spec)
		if v.spec != nil {
			s := spec
			v.spec(&s)
			if s.Check() != nil {
				if s = fitting(s); s.Check() != nil {
					continue
				}
			}
			a = alter(synthtest.File(t, s), spec)
			a.set("powerinfer.activation", nil)
		}
		for key, value := range v.keys {
			a.set(family+"."+key, value)
		}
		if v.change != nil {
			if v.change(a); !a.changed {
				continue
			}
		}
		brief(v.name, a, model.Options{Context: 256})
	}
	if !none {
		for _, own := range []bool{false, true}[:loads] {
			a := alter(usual.file(), usual.spec)
			a.addFurther(spec.Layers-1, own)
			name := "a layer that predicts a further token"
			if own {
				name += ", with an embedding and a head of its own"
			}
			list = append(list, tracedModel{name, a.file(), with(
				loading{name: "guesses", options: model.Options{Neurons: model.Neurons{Sparse: model.Off}, Further: true}, rehearsed: !own, refused: true},
				loading{name: "guesses, neurons that are not zero", options: model.Options{Neurons: model.Neurons{Sparse: model.Exact, Activation: "relu"}, Further: true}, brief: own, refused: true},
				loading{name: "none of it", options: model.Options{Neurons: model.Neurons{Sparse: model.Off}}, brief: true, refused: true},
			)})
		}
	}
	return append(list, predictingModels(t, family, usual, with)...)
}

// predictingModels makes a family's models with predictors.
func predictingModels(t *testing.T, family string, usual *altered, with func(...loading) []loading) (list []tracedModel) {
	t.Helper()
	relu := model.Options{Neurons: model.Neurons{Activation: "relu"}}
	mode := func(o model.Options, mode model.SparseMode) model.Options { o.Sparse = mode; return o }
	predict := mode(relu, model.Predict)
	drafts, recall := mode(relu, model.Exact), predict
	drafts.Drafts, recall.Recall = true, true
	loads := with(
		loading{name: "predicted neurons", options: predict, rehearsed: true, refused: true},
		loading{name: "predicted neurons, counted", options: recall, brief: true, refused: true},
		loading{name: "guesses of predicted neurons", options: drafts, refused: true},
		loading{name: "every neuron", options: mode(relu, model.Off), brief: true, refused: true},
	)
	s := usual.spec
	s.Magic = "PWRI"
	if s.Rank = 32; s.Check() == nil {
		a := alter(synthtest.File(t, s), usual.spec)
		a.set("powerinfer.sparse_threshold", float32(0.1))
		divided := predict
		divided.Places, divided.Drafts = dividedPlaces(s.Layers), true
		list = append(list, tracedModel{"an original PowerInfer file", a.file(), append(slices.Clone(loads), with(loading{name: "divided", options: divided, gpu: true, refused: true})...)})
	}
	for i, input := range []prepared.Input{prepared.Residual, prepared.Normed} {
		a := alter(usual.file(), usual.spec)
		if err := a.prepare(input); err != nil {
			t.Fatal(err)
		}
		more := predict
		more.AlwaysOn, more.Predicting = 0.5, make([]bool, s.Layers)
		more.Predicting[s.Layers-1] = true
		if i > 0 && !thorough(family) {
			continue
		}
		if i > 0 || !thorough(family) {
			brief := loads[0]
			brief.brief, brief.rehearsed = true, false
			list = append(list, tracedModel{"a prepared file, predictors of the " + string(input), a.file(), []loading{brief}})
			continue
		}
		list = append(list, tracedModel{"a prepared file, predictors of the " + string(input), a.file(), append(slices.Clone(loads[:3]), with(
			loading{name: "more neurons always on", options: more, brief: true, refused: true},
			loading{name: "an adapter", options: adapted(predict, a, 1), brief: true, refused: true},
		)...)})
	}
	a := alter(usual.file(), usual.spec)
	if a.predictExperts(); a.changed {
		list = append(list, tracedModel{"experts with predictors", a.file(), loads})
	}
	return list
}

func adapted(o model.Options, a *altered, n int) model.Options {
	o.Adapters = []model.Adapter{{File: a.adapter(4), Scale: 1}, {File: a.adapter(40), Scale: 0.5}}[:n]
	return o
}

// dividedPlaces has layers on a GPU whole, in part and not at all, and the head.
func dividedPlaces(layers int) []compute.Place {
	places := make([]compute.Place, layers+1)
	for l := range places {
		places[l] = compute.Place{Split: compute.Split{Tier: compute.Tier(l / 2 % 2), Bound: []int{1 << 20, tracedFF / 2, 3, 0}[l%4]}, Attention: l%2 == 0, Predictor: l%3 == 0}
	}
	places[layers] = compute.Place{Split: compute.Split{Tier: 0}, Attention: true, Further: true}
	return places
}

// usualLoads returns the ways in which a family's usual model is loaded.
func usualLoads(a *altered) []loading {
	dense, exact := model.Options{Neurons: model.Neurons{Sparse: model.Off}}, model.Options{Neurons: model.Neurons{Sparse: model.Exact, Activation: "relu"}}
	small := model.Options{Neurons: model.Neurons{Sparse: model.Threshold}}
	layers := a.spec.Layers
	for range layers {
		small.Magnitudes = append(small.Magnitudes, 0.125)
	}
	ordered := exact
	for range layers {
		order := make([]int32, tracedFF)
		for i := range order {
			order[i] = int32(tracedFF - 1 - i)
		}
		ordered.Order = append(ordered.Order, order)
	}
	types, near, pinned := dense, dense, dense
	types.CacheTypes, near.Cache.Near, pinned.Pinned = compute.CacheTypes{Key: compute.KVF32, Value: compute.KVBF16}, 4, true
	places := func(o model.Options, slots bool) model.Options {
		o.Places = dividedPlaces(layers)
		for l := range o.Places {
			o.Places[l].Slots = slots
		}
		o.Drafts = !slots
		return o
	}
	list := []loading{
		{name: "every neuron", options: dense, rehearsed: true},
		{name: "every neuron, two steps", options: dense, brief: true},
		{name: "neurons that are not zero", options: exact, refused: true},
		{name: "an adapter", options: adapted(dense, a, 1), brief: true},
		{name: "observed", options: dense, observed: true, brief: true, refused: true},
		{name: "divided", options: places(dense, false), gpu: true, brief: true},
		{name: "divided, neurons that are not zero", options: places(exact, false), gpu: true, brief: true, refused: true},
		{name: "on a GPU", options: dense, gpu: true, brief: true},
	}
	if !thorough(a.family) {
		return list
	}
	return append(list,
		loading{name: "activations above a threshold", options: small, brief: true, refused: true},
		loading{name: "neurons in another order", options: ordered, brief: true, refused: true},
		loading{name: "two adapters", options: adapted(dense, a, 2)},
		loading{name: "two adapters, neurons that are not zero", options: adapted(exact, a, 2), brief: true, refused: true},
		loading{name: "two adapters, one without effect", options: adapted(dense, a, 2), scales: []float32{0, 2}, brief: true},
		loading{name: "slots for experts", options: places(dense, true), gpu: true, brief: true},
		loading{name: "a cache of other types", options: types, brief: true},
		loading{name: "a cache of windows", options: near, brief: true},
		loading{name: "segments with room", options: dense, shaped: true, brief: true},
		loading{name: "weights in place", options: pinned, brief: true},
	)
}

// thorough reports whether this family's trace includes what all families have in common. There is one of each kind.
func thorough(family string) bool {
	return slices.Contains(strings.Fields("bamboo deepseek2 falcon gemma3 gemma3n gemma4 gpt-oss lfm2 llama modern-bert nemotron_h_moe opt phi3 qwen2moe qwen3next smallthinker"), family)
}
