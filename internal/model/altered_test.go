package model_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// altered is a model's file that a test changes. What it adds is zeros.
type altered struct {
	spec          synth.Spec // the family's usual model
	family, magic string
	keys          []gguf.KV
	tensors       []*gguf.Tensor
	changed       bool // there was something to change
}

func alter(f *gguf.File, usual synth.Spec) *altered {
	return &altered{spec: usual, family: usual.Arch, magic: f.Magic, keys: slices.Clone(f.Keys), tensors: slices.Clone(f.Tensors)}
}

func (a *altered) file() *gguf.File {
	return gguf.Describe("model.gguf", a.magic, slices.Clone(a.keys), slices.Clone(a.tensors))
}

// set replaces or adds a key; nil takes it away.
func (a *altered) set(key string, v any) {
	a.keys = slices.DeleteFunc(slices.Clone(a.keys), func(k gguf.KV) bool { return k.Key == key })
	if v != nil {
		a.keys = append(a.keys, gguf.KV{Key: key, Value: v})
	}
}

// tensor returns the tensor of that name, or nil.
func (a *altered) tensor(name string) *gguf.Tensor {
	for _, t := range a.tensors {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// take takes a tensor away and returns it, or nil.
func (a *altered) take(name string) *gguf.Tensor {
	t := a.tensor(name)
	a.tensors = slices.DeleteFunc(a.tensors, func(x *gguf.Tensor) bool { return x == t })
	return t
}

func (a *altered) put(name string, typ quant.Type, data []byte, shape ...int) {
	t := &gguf.Tensor{Name: name, Type: typ, Shape: shape, Data: data}
	if data == nil {
		t.Data = make([]byte, t.Bytes())
	}
	a.tensors, a.changed = append(a.tensors, t), true
}

// eachLayer calls f with the beginning of the names of each layer's tensors.
func (a *altered) eachLayer(f func(prefix string)) {
	for l := range a.spec.Layers {
		f(fmt.Sprintf("blk.%d.", l))
	}
}

// optionalBiases returns the matrices that may have a bias which synthetic models do not have.
func optionalBiases(family string) []string {
	const attention = "attn_q attn_k attn_v attn_output"
	for names, families := range map[string]string{
		attention: `bamboo deepseek deepseek2-ocr ernie4_5 ernie4_5-moe eurobert exaone4 gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 glm4 glm4moe granite
			granitehybrid granitemoe hunyuan-dense llama llama-embed llama4 minicpm minimax-m2 mistral3 olmo2 olmoe qwen3 qwen35 qwen35moe qwen3moe qwen3next
			qwen3vl qwen3vlmoe seed_oss smallthinker smollm3 cohere2 command-r falcon-h1
			bailingmoe dots1 granite_swa grok grovemoe maincoder maple mellum pangu-embedded xverse`,
		"attn_output":                          "qwen2 qwen2moe qwen2vl nemotron_h_moe",
		attention + " ffn_up ffn_down":         "arcee nemotron",
		"attn_q attn_k attn_v":                 "chatglm orion stablelm",
		"attn_qkv attn_output ffn_up ffn_down": "mpt nomic-bert-moe",
		"attn_output ffn_up ffn_down":          "nemotron_h",
	} {
		if slices.Contains(strings.Fields(families), family) {
			return strings.Fields(names)
		}
	}
	return nil
}

// addOptional adds the tensors that files of the family may have and synthetic models lack.
func (a *altered) addOptional() {
	s := a.spec
	in := func(families string) bool { return slices.Contains(strings.Fields(families), a.family) }
	if !in("chatglm phi3 gemma4 mpt nemotron nemotron_h nemotron_h_moe nomic-bert-moe bert bloom dbrx gpt2 gptneox jina-bert-v2 jina-bert-v3 lfm2 lfm2moe mamba2 modern-bert nomic-bert opt phi2 phimoe starcoder") {
		a.take("rope_freqs.weight")
		a.factors("rope_freqs.weight", 1)
	}
	if in("mpt") {
		a.put("position_embd.weight", quant.F16, nil, s.Embd, s.Context)
	}
	a.eachLayer(func(prefix string) {
		for _, name := range optionalBiases(a.family) {
			if w := a.tensor(prefix + name + ".weight"); w != nil && a.tensor(prefix+name+".bias") == nil {
				a.put(prefix+name+".bias", quant.F32, nil, w.Rows())
			}
		}
		for _, name := range []string{"attn_q", "attn_k"} {
			w := a.tensor(prefix + name + ".weight")
			switch {
			case w == nil:
			case in("cohere2 command-r stablelm"):
				a.put(prefix+name+"_norm.weight", quant.F32, nil, s.HeadDim, w.Rows()/s.HeadDim)
			case in("glm4moe"):
				a.put(prefix+name+"_norm.weight", quant.F32, nil, s.HeadDim)
			}
		}
		if in("gemma4") {
			a.put(prefix+"layer_output_scale.weight", quant.F32, []byte{0, 0, 0, 63}, 1) // 0.5
		}
		if in("falcon-h1") {
			a.put(prefix+"ssm_norm.weight", quant.F32, nil, 64, 2)
		}
		if in("bailingmoe2 deepseek2 dots1 ernie4_5-moe") && a.tensor(prefix+"exp_probs_b.bias") == nil {
			a.put(prefix+"exp_probs_b.bias", quant.F32, nil, 8)
		}
		if in("deepseek2 ernie4_5-moe granitehybrid granitemoe") {
			const width = 40
			a.set(a.family+".expert_shared_feed_forward_length", uint32(width))
			for _, name := range []string{"gate", "up", "down"} {
				shape := []int{s.Embd, width}
				if name == "down" {
					shape = []int{width, s.Embd}
				}
				if name := prefix + "ffn_" + name + "_shexp.weight"; a.tensor(name) == nil && a.tensor(prefix+"ffn_gate_inp.weight") != nil {
					a.put(name, quant.F16, nil, shape...)
				}
			}
		}
		if in("nemotron_h_moe") && a.tensor(prefix+"ffn_up_exps.weight") != nil {
			const width, n = 16, 8
			a.set(a.family+".moe_latent_size", uint32(width))
			a.take(prefix + "ffn_up_exps.weight")
			a.take(prefix + "ffn_down_exps.weight")
			a.put(prefix+"ffn_latent_down.weight", quant.F16, nil, s.Embd, width)
			a.put(prefix+"ffn_latent_up.weight", quant.F16, nil, width, s.Embd)
			a.put(prefix+"ffn_up_exps.weight", quant.F16, nil, width, s.FF, n)
			a.put(prefix+"ffn_down_exps.weight", quant.F16, nil, s.FF, width, n)
		}
	})
}

// factors adds divisors of frequencies, from the first on.
func (a *altered) factors(name string, first float32) {
	dims := a.spec.HeadDim
	for _, k := range a.keys {
		if n, ok := k.Value.(uint32); ok && k.Key == a.family+".rope.dimension_count" {
			dims = int(n)
		}
	}
	factors := make([]float32, dims/2)
	for i := range factors {
		factors[i] = first + float32(i)/8
	}
	data := make([]byte, 4*len(factors))
	quant.Encode(quant.F32, data, factors)
	a.put(name, quant.F32, data, len(factors))
}

func (a *altered) addFactors() {
	a.factors("rope_factors_short.weight", 1)
	a.factors("rope_factors_long.weight", 3)
}

// refuse joins each layer's queries, keys and values in one tensor, or separates them if they are joined.
func (a *altered) refuse() {
	s := a.spec
	a.eachLayer(func(prefix string) {
		for _, kind := range []string{".weight", ".bias"} {
			if whole := a.take(prefix + "attn_qkv" + kind); whole != nil {
				q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
				each, at := len(whole.Data)/(q+2*kv), 0
				for i, rows := range []int{q, kv, kv} {
					shape := []int{rows}
					if kind == ".weight" {
						shape = []int{whole.Shape[0], rows}
					}
					a.put(prefix+"attn_"+[]string{"q", "k", "v"}[i]+kind, whole.Type, whole.Data[at*each:(at+rows)*each], shape...)
					at += rows
				}
				continue
			}
			if a.tensor(prefix+"attn_q"+kind) == nil || a.tensor(prefix+"attn_k"+kind) == nil || a.tensor(prefix+"attn_v"+kind) == nil {
				continue
			}
			q, k, v := a.take(prefix+"attn_q"+kind), a.take(prefix+"attn_k"+kind), a.take(prefix+"attn_v"+kind)
			shape := slices.Clone(q.Shape)
			last := len(shape) - 1
			shape[last] += k.Shape[last] + v.Shape[last]
			a.put(prefix+"attn_qkv"+kind, q.Type, bytes.Join([][]byte{q.Data, k.Data, v.Data}, nil), shape...)
		}
	})
}

// fuseExperts joins the gates and ups of experts.
func (a *altered) fuseExperts() {
	a.eachLayer(func(prefix string) {
		for _, kind := range []string{".weight", ".bias"} {
			if a.tensor(prefix+"ffn_gate_exps"+kind) == nil || a.tensor(prefix+"ffn_up_exps"+kind) == nil {
				continue
			}
			gate, up := a.take(prefix+"ffn_gate_exps"+kind), a.take(prefix+"ffn_up_exps"+kind)
			shape := slices.Clone(gate.Shape)
			n := shape[len(shape)-1]
			shape[len(shape)-2] *= 2
			var data []byte
			for e := range n {
				each := len(gate.Data) / n
				data = append(append(data, gate.Data[e*each:][:each]...), up.Data[e*each:][:each]...)
			}
			a.put(prefix+"ffn_gate_up_exps"+kind, gate.Type, data, shape...)
		}
	})
}

// addFurther has the last layer predict a further token.
func (a *altered) addFurther(last int, own bool) {
	embd, vocab := tracedEmbd, tracedVocab
	name := func(s string) string { return fmt.Sprintf("blk.%d.nextn.%s.weight", last, s) }
	a.set(a.family+".nextn_predict_layers", uint32(1))
	a.put(name("enorm"), quant.F32, nil, embd)
	a.put(name("hnorm"), quant.F32, nil, embd)
	a.put(name("eh_proj"), quant.F16, nil, 2*embd, embd)
	if own {
		a.put(name("shared_head_norm"), quant.F32, nil, embd)
		a.put(name("embed_tokens"), quant.F16, nil, embd, vocab)
		a.put(name("shared_head_head"), quant.F16, nil, embd, vocab)
	}
}

// prepare makes a prepared file: layer 0 is exact, the others have predictors.
func (a *altered) prepare(input prepared.Input) error {
	const rank, always = 32, 8
	i := prepared.Info{Activation: "relu", Input: input, Threshold: 0.25, Calibration: prepared.Text{SHA256: strings.Repeat("0", 64), Tokens: 1}}
	l := -1
	a.eachLayer(func(prefix string) {
		l++
		y := prepared.Layer{Mode: prepared.Exact, Frequency: make([]float32, tracedFF)}
		for n := range tracedFF {
			y.Order = append(y.Order, int32(tracedFF-1-n))
		}
		if l > 0 {
			y.Mode, y.Rank, y.AlwaysOn = prepared.Predict, rank, always*(l-1)
			a.put(prefix+"fc1.weight", quant.F16, nil, tracedEmbd, rank)
			a.put(prefix+"fc2.weight", quant.F16, nil, rank, tracedFF-y.AlwaysOn)
		}
		a.take(prefix + "ffn_down.weight")
		a.put(prefix+"ffn_down_t.weight", quant.F16, nil, tracedEmbd, tracedFF)
		if b := a.take(prefix + "ffn_down.bias"); b != nil {
			a.put(prefix+"ffn_down_t.bias", b.Type, b.Data, b.Shape...)
		}
		i.Layers = append(i.Layers, y)
	})
	keys, err := i.Keys()
	for _, k := range keys {
		a.set(k.Key, k.Value)
	}
	return err
}

// predictExperts adds predictors of experts' neurons.
func (a *altered) predictExperts() {
	const rank = 32
	a.changed = false
	a.eachLayer(func(prefix string) {
		if w := a.tensor(prefix + "ffn_up_exps.weight"); w != nil && len(w.Shape) == 3 {
			a.put(prefix+"fc1_exps.weight", quant.F16, nil, w.Shape[0], rank, w.Shape[2])
			a.put(prefix+"fc2_exps.weight", quant.F16, nil, rank, w.Shape[1], w.Shape[2])
		}
	})
}

// counted returns numbers that differ.
func counted(n int) []byte {
	x, data := make([]float32, n), make([]byte, 4*n)
	for i := range x {
		x[i] = float32(i) / 1024
	}
	quant.Encode(quant.F32, data, x)
	return data
}

// adapter returns a LoRA adapter of some of the model's matrices.
func (a *altered) adapter(rank int) *gguf.File {
	of := &altered{magic: "GGUF", keys: []gguf.KV{
		{Key: "general.type", Value: "adapter"},
		{Key: "general.architecture", Value: a.family},
		{Key: "adapter.type", Value: "lora"},
		{Key: "adapter.lora.alpha", Value: float32(8)},
	}}
	names := "attn_qkv attn_q attn_output ffn_down output"
	if thorough(a.family) {
		names += " attn_k attn_v ffn_gate ffn_up ffn_down_shexp ffn_gate_inp ssm_in ssm_out in_proj out_proj"
	}
	for _, t := range a.tensors {
		name, ok := strings.CutSuffix(t.Name, ".weight")
		if i := strings.LastIndex(name, "."); i >= 0 {
			name = name[i+1:]
		}
		if !ok || !slices.Contains(strings.Fields(names), name) {
			continue
		}
		of.put(t.Name+".lora_a", quant.F32, counted(t.Shape[0]*rank), t.Shape[0], rank)
		of.put(t.Name+".lora_b", quant.F32, counted(t.Rows()*rank), rank, t.Rows())
	}
	return of.file()
}
