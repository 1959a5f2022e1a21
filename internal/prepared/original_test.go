package prepared

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// original makes x a whole model as the original knows it, with keys in other widths than it insists on.
func (x *fixture) original(gate, up, down quant.Type) []gguf.KV {
	x.layers(gate, up, down)
	const vocab = 40
	norm := func(name string) {
		x.add(name+".weight", quant.F32, x.embd)
		if x.arch == "opt" {
			x.add(name+".bias", quant.F32, x.embd)
		}
	}
	norm("output_norm")
	for l := range testLayers {
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s", l, s) }
		norm(name("attn_norm"))
		for _, s := range []string{"attn_k", "attn_v", "attn_output"} {
			x.add(name(s)+".weight", quant.BF16, x.embd, x.embd)
		}
		if x.arch == "opt" {
			x.add(name("ffn_norm.bias"), quant.F32, x.embd)
			for _, s := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
				x.add(name(s)+".bias", quant.F16, x.embd)
			}
		}
	}
	if x.arch == "opt" {
		x.add("position_embd.weight", quant.F32, x.embd, originalPositions)
	}
	tokens := make([]string, vocab)
	for i := range tokens {
		tokens[i] = fmt.Sprint("token ", i)
	}
	tokens[7] = "<0x0A>"
	return append(x.keys(),
		gguf.KV{Key: x.arch + ".context_length", Value: int64(512)},
		gguf.KV{Key: x.arch + ".attention.head_count", Value: uint16(3)},
		gguf.KV{Key: x.arch + ".attention.layer_norm_rms_epsilon", Value: 1e-5},
		gguf.KV{Key: x.arch + ".rope.dimension_count", Value: uint32(x.embd / 3)},
		gguf.KV{Key: x.arch + ".rope.scaling.type", Value: "none"},
		gguf.KV{Key: "tokenizer.ggml.model", Value: "llama"},
		gguf.KV{Key: "tokenizer.ggml.tokens", Value: tokens})
}

// Sets are what they were: logits of the original's form have the sign of the prepared file's, always-on neurons and
// layers in exact have zeros.
func TestOriginalKeepsSets(t *testing.T) {
	for _, c := range []struct {
		arch  string
		input Input
	}{{"llama", Normed}, {"llama", Residual}, {"opt", Residual}} {
		x := newFixture(t, c.arch, testEmbd)
		keys := x.original(quant.F32, quant.BF16, quant.Q8_0)
		p := x.plan(quant.F32)
		p.Info.Input = c.input
		dir := t.TempDir()
		mine, theirs := filepath.Join(dir, "p.gguf"), filepath.Join(dir, "o.gguf")
		dense := create(t, "GGUF", keys, x.sources)
		if err := CheckOriginal(dense, &p.Info); err != nil {
			t.Error(err)
		}
		if err := Write(t.Context(), mine, dense, p, nil); err != nil {
			t.Fatal(err)
		}
		from := open(t, mine)
		if err := WriteOriginal(t.Context(), theirs, from, nil); err != nil {
			t.Fatal(err)
		}
		f := open(t, theirs)
		info, ok, err := Read(f)
		if err != nil || !ok || f.Magic != "PWRI" || info.Input != Residual || info.Layers[1].AlwaysOn != 0 {
			t.Fatalf("%s: %v %v %s %+v", c.arch, err, ok, f.Magic, info)
		}
		for l := range testLayers {
			x.expectSets(t, f, p, l)
			want := make([]float32, testEmbd*testFF)
			down := from.Tensor(fmt.Sprintf("blk.%d.ffn_down_t.weight", l))
			quant.Decode(down.Type, want, down.Data)
			if !slices.Equal(decoded(t, f, down.Name, quant.F16, testEmbd, testFF), want) {
				t.Errorf("layer %d: down changed", l)
			}
			decoded(t, f, fmt.Sprintf("blk.%d.ffn_up.weight", l), quant.F16, testEmbd, testFF)
			decoded(t, f, fmt.Sprintf("blk.%d.attn_k.weight", l), quant.F16, testEmbd, testEmbd)
			if c.arch == "opt" {
				decoded(t, f, fmt.Sprintf("blk.%d.attn_k.bias", l), quant.F32, testEmbd)
				continue
			}
		}
		if c.arch == "llama" {
			head := decoded(t, f, "output.weight", quant.F16, testEmbd, 40)
			if !slices.Equal(head, decoded(t, f, "token_embd.weight", quant.F16, testEmbd, 40)) {
				t.Error("the tied head is not the embedding")
			}
			if v, _ := f.Lookup("llama.attention.layer_norm_rms_epsilon"); v != float32(1e-5) {
				t.Errorf("epsilon is %T %v", v, v)
			}
		}
		if v, _ := f.Lookup(c.arch + ".attention.head_count"); v != uint32(3) {
			t.Errorf("heads are %T %v", v, v)
		}
	}
}

// expectSets compares logits on random residuals with those of the plan.
func (x *fixture) expectSets(t *testing.T, f *gguf.File, p Plan, l int) {
	t.Helper()
	name := func(s string) string { return fmt.Sprintf("blk.%d.%s", l, s) }
	y := p.Info.Layers[l]
	if y.Mode == Exact {
		for _, v := range append(decoded(t, f, name("fc1.weight"), quant.F16, testEmbd, RankStep), decoded(t, f, name("fc2.weight"), quant.F16, RankStep, testFF)...) {
			if v != 0 {
				t.Fatalf("layer %d runs exact: %g in its predictor", l, v)
			}
		}
		return
	}
	fc1 := decoded(t, f, name("fc1.weight"), quant.F32, testEmbd, y.Rank)
	fc2 := decoded(t, f, name("fc2.weight"), quant.F32, y.Rank, testFF)
	norm := x.values[name("ffn_norm.weight")]
	for range 5 {
		residual := x.random(testEmbd)
		input, square := slices.Clone(residual), 0.0
		for _, v := range residual {
			square += float64(v) * float64(v)
		}
		if p.Info.Input == Normed {
			for i := range input {
				input[i] *= norm[i] / float32(math.Sqrt(square/testEmbd+1e-5))
			}
		}
		want := logits(p.Predictors[l].FC1, p.Predictors[l].FC2, input)
		for i, v := range logits(fc1, fc2, residual) {
			switch at := i - y.AlwaysOn; {
			case at < 0 && v != 0:
				t.Errorf("layer %d: logit %g of neuron %d, which is always on", l, v, i)
			case at >= 0 && (v >= 0) != (want[at] >= 0) && math.Abs(want[at]) > 1e-3: // float32 rounding of sums of 48 terms
				t.Errorf("layer %d: logit %g of neuron %d, was %g", l, v, i, want[at])
			}
		}
	}
}

// logits are fc2·relu(fc1·x).
func logits(fc1, fc2, x []float32) []float64 {
	hidden := make([]float64, len(fc1)/len(x))
	for i := range hidden {
		for j, v := range x {
			hidden[i] += float64(fc1[i*len(x)+j]) * float64(v)
		}
		hidden[i] = max(0, hidden[i])
	}
	out := make([]float64, len(fc2)/len(hidden))
	for i := range out {
		for j, v := range hidden {
			out[i] += float64(fc2[i*len(hidden)+j]) * v
		}
	}
	return out
}

// What the original would refuse, misread or crash on is said in one line.
func TestOriginalRefuses(t *testing.T) {
	set := func(keys []gguf.KV, key string, v any) {
		keys[slices.IndexFunc(keys, func(kv gguf.KV) bool { return kv.Key == key })].Value = v
	}
	cases := map[string]struct {
		damage func(x *fixture, keys []gguf.KV, p *Plan)
		want   string
	}{
		"activation":     {func(_ *fixture, _ []gguf.KV, p *Plan) { p.Info.Activation = "fatrelu" }, "runs llama with relu, not fatrelu"},
		"threshold":      {func(_ *fixture, _ []gguf.KV, p *Plan) { p.Info.Threshold = -1 }, "for a threshold of 0, not -1"},
		"rope factors":   {func(x *fixture, _ []gguf.KV, _ *Plan) { x.add("rope_freqs.weight", quant.F32, 8) }, `tensor "rope_freqs.weight" is unknown to the original's llama`},
		"attention bias": {func(x *fixture, _ []gguf.KV, _ *Plan) { x.add("blk.0.attn_q.bias", quant.F32, testEmbd) }, `"blk.0.attn_q.bias" is unknown`},
		"no final norm":  {func(x *fixture, _ []gguf.KV, _ *Plan) { x.rename("output_norm.weight", "blk.1.attn_rot_embd") }, `tensor "output_norm.weight" is missing`},
		"head width": {
			func(_ *fixture, keys []gguf.KV, _ *Plan) { set(keys, "llama.rope.dimension_count", uint32(8)) },
			"heads of the original are n_embd / heads = 48/3 wide",
		},
		"rope scaling": {func(_ *fixture, keys []gguf.KV, _ *Plan) { set(keys, "llama.rope.scaling.type", "longrope") }, `"longrope" is not one of none`},
		"context":      {func(_ *fixture, keys []gguf.KV, _ *Plan) { set(keys, "llama.context_length", int64(-1)) }, "it is no 32-bit number"},
		"vocabulary":   {func(_ *fixture, keys []gguf.KV, _ *Plan) { set(keys, "tokenizer.ggml.tokens", []string{"a"}) }, "1 tokens for an embedding of [40] rows"},
		"twice a token": {func(_ *fixture, keys []gguf.KV, _ *Plan) {
			set(keys, "tokenizer.ggml.tokens", slices.Repeat([]string{"<0x0A>"}, 40))
		}, "token 1 is empty or the same as 0"},
	}
	for name, c := range cases {
		x := newFixture(t, "llama", testEmbd)
		keys := x.original(quant.F16, quant.F16, quant.F16)
		p := x.plan(quant.F16)
		c.damage(x, keys, &p)
		dir := t.TempDir()
		mine, theirs := filepath.Join(dir, "p.gguf"), filepath.Join(dir, "o.gguf")
		dense := create(t, "GGUF", keys, x.sources)
		if err := Write(t.Context(), mine, dense, p, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, err := range []error{CheckOriginal(dense, &p.Info), WriteOriginal(t.Context(), theirs, open(t, mine), nil)} {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	}
	x := newFixture(t, "llama", testEmbd)
	x.layers(quant.F16, quant.F16, quant.F16)
	if err := WriteOriginal(t.Context(), filepath.Join(t.TempDir(), "o.gguf"), x.save(t), nil); err == nil || !strings.Contains(err.Error(), "is not a prepared file") {
		t.Errorf("a plain file: %v", err)
	}
}
