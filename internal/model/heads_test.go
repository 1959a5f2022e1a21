package model_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// headTolerance is the share of the largest logit by which float32 may differ from float64, with a cache in F32.
const headTolerance = 1e-4

// headSpec is a Llama with heads that share keys and values.
var headSpec = synth.Spec{Arch: "llama", Layers: 5, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, Vocab: 320, Type: quant.F32, Activation: "silu", Seed: 9}

// row is one position's vector in the tests' float64 computation of the published definitions.
type row = []float64

// plain computes with the tensors of a file in float64.
type plain struct {
	t      *testing.T
	f      *gguf.File
	eps    float64
	base   float64
	dim    int  // elements of a head
	halves bool // heads are rotated as (x[i], x[i+n/2]); else as neighbours
}

func newPlain(t *testing.T, f *gguf.File, halves bool) *plain {
	arch, _, _ := f.String("general.architecture")
	eps, _, _ := f.Float(arch + ".attention.layer_norm_rms_epsilon")
	base, ok, _ := f.Float(arch + ".rope.freq_base")
	if !ok {
		base = 1e4
	}
	return &plain{t: t, f: f, eps: eps, base: base, dim: 16, halves: halves}
}

func (m *plain) tensor(name string) (data []float32, cols int) {
	w := m.f.Tensor(name + ".weight")
	if w == nil {
		m.t.Fatalf("no tensor %q", name)
	}
	data = make([]float32, w.Shape[0]*w.Rows())
	quant.Decode(w.Type, data, w.Data)
	return data, w.Shape[0]
}

func (m *plain) times(name string, xs []row) (out []row) {
	w, cols := m.tensor(name)
	for _, x := range xs {
		y := make(row, len(w)/cols)
		for r := range y {
			for c, v := range x {
				y[r] += float64(w[r*cols+c]) * v
			}
		}
		out = append(out, y)
	}
	return out
}

// norm is an RMSNorm of pieces of each row, all with the same weights; an empty name: without weights.
func (m *plain) norm(name string, piece int, xs []row) (out []row) {
	var w []float32
	if name != "" {
		w, _ = m.tensor(name)
	}
	for _, x := range xs {
		y := slices.Clone(x)
		n := piece
		if n == 0 {
			n = len(x)
		}
		for at := 0; at < len(x); at += n {
			sum := 0.0
			for _, v := range x[at : at+n] {
				sum += v * v
			}
			for i := range n {
				y[at+i] /= math.Sqrt(sum/float64(n) + m.eps)
				if w != nil {
					y[at+i] *= float64(w[i])
				}
			}
		}
		out = append(out, y)
	}
	return out
}

func (m *plain) embed(ids []int32) (out []row) {
	w, cols := m.tensor("token_embd")
	for _, id := range ids {
		y := make(row, cols)
		for c := range y {
			y[c] = float64(w[int(id)*cols+c])
		}
		out = append(out, y)
	}
	return out
}

// rotate turns heads to the positions from first on.
func (m *plain) rotate(xs []row, first int) (out []row) {
	for p, x := range xs {
		y := slices.Clone(x)
		for at := 0; at < len(x); at += m.dim {
			for i := range m.dim / 2 {
				a, b := at+2*i, at+2*i+1
				if m.halves {
					a, b = at+i, at+i+m.dim/2
				}
				sin, cos := math.Sincos(float64(first+p) * math.Pow(m.base, -2*float64(i)/float64(m.dim)))
				y[a], y[b] = x[a]*cos-x[b]*sin, x[a]*sin+x[b]*cos
			}
		}
		out = append(out, y)
	}
	return out
}

// attend computes attention in which query i sees the keys and values j with sees(i, j).
func (m *plain) attend(q, k, v []row, sees func(i, j int) bool) (out []row) {
	group := len(q[0]) / len(k[0])
	for i := range q {
		y := make(row, len(q[i]))
		for h := 0; h < len(q[i]); h += m.dim {
			kv := h / m.dim / group * m.dim
			scores, top := make(row, len(k)), math.Inf(-1)
			for j := range k {
				scores[j] = math.Inf(-1)
				if !sees(i, j) {
					continue
				}
				scores[j] = 0
				for e := range m.dim {
					scores[j] += q[i][h+e] * k[j][kv+e] / math.Sqrt(float64(m.dim))
				}
				top = max(top, scores[j])
			}
			sum := 0.0
			for j := range k {
				scores[j] = math.Exp(scores[j] - top)
				sum += scores[j]
			}
			for j := range k {
				for e := range m.dim {
					y[h+e] += scores[j] / sum * v[j][kv+e]
				}
			}
		}
		out = append(out, y)
	}
	return out
}

func added(a, b []row) (out []row) {
	for i := range a {
		y := slices.Clone(a[i])
		for j, v := range b[i] {
			y[j] += v
		}
		out = append(out, y)
	}
	return out
}

func besides(parts ...[]row) (out []row) {
	for i := range parts[0] {
		var y row
		for _, p := range parts {
			y = append(y, p[i]...)
		}
		out = append(out, y)
	}
	return out
}

// mlp is the feed-forward layer with a gate.
func (m *plain) mlp(in string, xs []row) []row {
	gate, up := m.times(in+"ffn_gate", xs), m.times(in+"ffn_up", xs)
	for i := range gate {
		for j, g := range gate[i] {
			gate[i][j] = g / (1 + math.Exp(-g)) * up[i][j]
		}
	}
	return m.times(in+"ffn_down", gate)
}

func causal(i, j int) bool { return j <= i }

// llama returns what each layer of a Llama reads, and what the last one gives. [layers+1][n]
func (m *plain) llama(ids []int32, layers int) (inputs [][]row) {
	x := m.embed(ids)
	for l := range layers {
		inputs = append(inputs, x)
		in := fmt.Sprintf("blk.%d.", l)
		h := m.norm(in+"attn_norm", 0, x)
		q, k := m.rotate(m.times(in+"attn_q", h), 0), m.rotate(m.times(in+"attn_k", h), 0)
		x = added(x, m.times(in+"attn_output", m.attend(q, k, m.times(in+"attn_v", h), causal)))
		x = added(x, m.mlp(in, m.norm(in+"ffn_norm", 0, x)))
	}
	return append(inputs, x)
}

// eagle3 returns what the head's decoder gives and the logits for each pair of a token and the g before it.
func (m *plain) eagle3(tokens, g []row, normed bool) (x, logits []row) {
	const in = "blk.0."
	h := m.norm(in+"attn_norm_2", 0, g)
	both := besides(m.norm(in+"attn_norm", 0, tokens), h)
	q, k := m.rotate(m.times(in+"attn_q", both), 0), m.rotate(m.times(in+"attn_k", both), 0)
	x = g
	if normed {
		x = h
	}
	x = added(x, m.times(in+"attn_output", m.attend(q, k, m.times(in+"attn_v", both), causal)))
	x = added(x, m.mlp(in, m.norm(in+"ffn_norm", 0, x)))
	return x, m.norm("output_norm", 0, x)
}

// dflash returns the final norms of a block of embeddings after positions with the features g.
func (m *plain) dflash(block, g []row, head *synthtest.Head) []row {
	x, n, gemma, window := block, len(g), head.Gemma, head.Window
	for l := range head.Depth {
		in := fmt.Sprintf("blk.%d.", l)
		h := m.norm(in+"attn_norm", 0, x)
		seen := slices.Concat(g, h)
		k := m.times(in+"attn_k", seen)
		v := k
		if gemma {
			v = m.norm("", m.dim, v)
		} else {
			v = m.times(in+"attn_v", seen)
		}
		k = m.rotate(m.norm(in+"attn_k_norm", m.dim, k), 0)
		q := m.rotate(m.norm(in+"attn_q_norm", m.dim, m.times(in+"attn_q", h)), n)
		y := m.times(in+"attn_output", m.attend(q, k, v, func(i, j int) bool {
			return (window == 0 || l > 0 || j > n+i-window) && (!head.Causal || j <= n+i)
		}))
		if gemma {
			y = m.norm(in+"post_attention_norm", 0, y)
		}
		x = added(x, y)
		y = m.mlp(in, m.norm(in+"ffn_norm", 0, x))
		if gemma {
			y = m.norm(in+"post_ffw_norm", 0, y)
		}
		x = added(x, y)
		if gemma {
			scale, _ := m.tensor(in + "layer_output_scale")
			for i := range x {
				for j := range x[i] {
					x[i][j] *= float64(scale[0])
				}
			}
		}
	}
	return m.norm("output_norm", 0, x)
}

// withHead opens the model in f with a head.
func withHead(t *testing.T, f, head *gguf.File, dev compute.Device) *model.Model {
	t.Helper()
	t.Cleanup(func() { dev.Close() })
	f32 := compute.CacheTypes{Key: compute.KVF32, Value: compute.KVF32}
	m, err := model.Load(t.Context(), f, dev, model.Options{Batch: 16, Outputs: 16, Further: true, Head: head, Cache: compute.CacheSpec{Pages: 1}, CacheTypes: f32})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// onDevices runs a test on the scalar device and on the processor.
func onDevices(t *testing.T, test func(t *testing.T, dev compute.Device)) {
	t.Run("ref", func(t *testing.T) { test(t, ref.New()) })
	t.Run("cpu", func(t *testing.T) {
		dev, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		test(t, dev)
	})
}

func nearly(t *testing.T, what string, got []float32, want row) {
	t.Helper()
	most, apart := 0.0, 0.0
	for i, v := range want {
		most, apart = max(most, math.Abs(v)), max(apart, math.Abs(v-float64(got[i])))
	}
	if len(got) != len(want) || most == 0 || !(apart <= headTolerance*most) {
		t.Errorf("%s: %d numbers differ by %g from %d, of which the largest is %g", what, len(got), apart, len(want), most)
	}
}

func largest(x row) (at int) {
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return at
}

// TestEagle3: a chain of drafts has the logits that the paper's definition gives, from the pairs of a token and the
// features before it, computed here in float64 with the model's own layers.
func TestEagle3(t *testing.T) {
	f := synthtest.File(t, headSpec)
	for name, h := range map[string]synthtest.Head{
		"shared": {Layers: []int{1, 2, 4}, Embd: 64, Heads: 4, FF: 96, Seed: 1},
		"own":    {Layers: []int{0, 3, 5}, Embd: 32, Heads: 4, FF: 64, Own: true, Known: 31, Normed: true, Seed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			head := synthtest.Eagle3(t, f, h)
			target, draft := newPlain(t, f, false), newPlain(t, head, false)
			tokens := []int32{5, 3, 7, 11, 2, 9, 40}
			n := len(tokens) - 1 // that the model evaluates; the last is the text's last token
			inputs := target.llama(tokens[:n], headSpec.Layers)
			features := besides(inputs[h.Layers[0]], inputs[h.Layers[1]], inputs[h.Layers[2]])
			if h.Normed {
				features = draft.norm("enc.output_norm", 0, features)
			}
			g := draft.times("fc", features)
			embed := func(ids []int32) []row {
				if h.Own {
					return draft.embed(ids)
				}
				return target.embed(ids)
			}
			logits := func(x []row) []row {
				if h.Own {
					return draft.times("output", x)
				}
				return target.times("output", x)
			}
			var want []row
			after, known := slices.Clone(tokens[1:]), slices.Clone(g)
			for range 3 {
				x, last := draft.eagle3(embed(after), known, h.Normed)
				l := logits(last[len(last)-1:])[0]
				want = append(want, l)
				id := int32(largest(l))
				if h.Known > 0 {
					id = (3*id + 1) % int32(headSpec.Vocab)
				}
				after, known = append(after, id), append(known, x[len(x)-1])
			}
			onDevices(t, func(t *testing.T, dev compute.Device) {
				m := withHead(t, f, head, dev)
				if err := m.ForwardBoth(stepOf(tokens[:4], 0, nil)); err != nil { // in two steps
					t.Fatal(err)
				}
				before, err := m.State(3)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.ForwardBoth(stepOf(tokens[4:n], 4, slices.Clone(before))); err != nil {
					t.Fatal(err)
				}
				state, err := m.State(n - 5)
				if err != nil {
					t.Fatal(err)
				}
				nearly(t, "g", state, g[n-1])
				for i, l := range want {
					p := stepOf(after[n-1+i:][:1], n+i, slices.Clone(state))
					p.Draft = true
					if err := m.ForwardFurther(p); err != nil {
						t.Fatal(err)
					}
					nearly(t, fmt.Sprintf("draft %d", i), lastLogits(t, m), l)
					shape := m.Drafting()
					if id := shape.Token(int32(largest(l))); id != after[n+i] {
						t.Errorf("draft %d is token %d, not %d", i, id, after[n+i])
					}
					if state, err = m.State(0); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// TestDFlash: a block has the logits of the paper's definition, from the features of the positions before it.
func TestDFlash(t *testing.T) {
	f := synthtest.File(t, headSpec)
	for name, h := range map[string]synthtest.Head{
		"qwen":   {Layers: []int{1, 3}, Embd: 64, Heads: 4, FF: 96, Depth: 2, Block: 4, Mask: 17, Seed: 1},
		"causal": {Layers: []int{1, 3}, Embd: 64, Heads: 4, FF: 96, Depth: 2, Block: 4, Mask: 17, Causal: true, Seed: 3},
		"gemma":  {Layers: []int{1, 2, 5}, Embd: 32, Heads: 4, FF: 64, Depth: 3, Block: 5, Mask: 3, Own: true, Gemma: true, Window: 4, Seed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			head := synthtest.DFlash(t, f, h)
			target, draft := newPlain(t, f, false), newPlain(t, head, true)
			tokens := []int32{5, 3, 7, 11, 2, 9, 40}
			n := len(tokens) - 1
			inputs := target.llama(tokens[:n], headSpec.Layers)
			var features [][]row
			for _, l := range h.Layers {
				features = append(features, inputs[l])
			}
			g := draft.norm("enc.output_norm", 0, draft.times("fc", besides(features...)))
			block := append([]int32{tokens[n]}, slices.Repeat([]int32{int32(h.Mask)}, h.Block-1)...)
			table := target
			if h.Own {
				table = draft
			}
			want := table.times("output", draft.dflash(table.embed(block), g, &h))
			onDevices(t, func(t *testing.T, dev compute.Device) {
				m := withHead(t, f, head, dev)
				if err := m.ForwardBoth(stepOf(tokens[:2], 0, nil)); err != nil {
					t.Fatal(err)
				}
				if err := m.ForwardBoth(stepOf(tokens[2:n], 2, nil)); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second time it writes over its own keys and values
					p := stepOf(block, n, nil)
					p.Draft = true
					if err := m.ForwardFurther(p); err != nil {
						t.Fatal(err)
					}
					for i := range block {
						row, err := m.Logits(i)
						if err != nil {
							t.Fatal(err)
						}
						nearly(t, fmt.Sprintf("row %d", i), row, want[i])
					}
				}
			})
		})
	}
}

// TestHeadsFit: a head for another model, or a head in place of a model, is refused in a sentence.
func TestHeadsFit(t *testing.T) {
	f := synthtest.File(t, headSpec)
	head := synthtest.Head{Layers: []int{1, 2, 4}, Embd: 64, Heads: 4, FF: 96, Seed: 1}
	other := func(change func(s *synth.Spec)) *gguf.File {
		s := headSpec
		change(&s)
		return synthtest.File(t, s)
	}
	vocabulary := synthtest.Eagle3(t, f, head)
	names, _, err := vocabulary.Strings("tokenizer.ggml.tokens")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	names = slices.Clone(names)
	names[40] += "x"
	vocabulary.Set("tokenizer.ggml.tokens", names)
	known := head
	known.Known = 101
	mask := head
	mask.Block, mask.Mask = 4, 300
	for _, c := range []struct {
		f, head *gguf.File
		want    string
	}{
		{other(func(s *synth.Spec) { s.Embd, s.Heads = 32, 2 }), synthtest.Eagle3(t, f, head), "hidden states of 64 elements, and the model's have 32"},
		{other(func(s *synth.Spec) { s.Layers = 3 }), synthtest.Eagle3(t, f, head), "reads layers [1 2 4], and the model has 3"},
		{other(func(s *synth.Spec) { s.Layers = 3 }), synthtest.DFlash(t, f, mask), "reads layers [1 2 4], and the model has 3"},
		{other(func(s *synth.Spec) { s.Embd, s.Heads = 32, 2 }), synthtest.DFlash(t, f, mask), "elements of hidden states"},
		{other(func(s *synth.Spec) { s.Vocab = 288 }), synthtest.Eagle3(t, f, known), "which is none of the model's 288"},
		{other(func(s *synth.Spec) { s.Vocab = 288 }), synthtest.DFlash(t, f, mask), "mask_token_id"},
		{f, vocabulary, "token 40 is"},
		{f, f, "is no draft head"},
	} {
		c0, err := model.ReadConfig(c.f, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := c0.TakeHead(c.f, c.head); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, which does not say %q", err, c.want)
		}
	}
	if _, err := model.ReadConfig(synthtest.Eagle3(t, f, head), ""); err == nil || !strings.Contains(err.Error(), "a head that drafts for a model (eagle3)") {
		t.Errorf("a head as a model: %v", err)
	}
	streams := synthtest.File(t, synth.Spec{Arch: "gemma3n", Layers: 5, Embd: 64, FF: 96, Heads: 4, Type: quant.F32, Seed: 1})
	c0, err := model.ReadConfig(streams, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c0.TakeHead(streams, synthtest.Eagle3(t, streams, head)); err == nil || !strings.Contains(err.Error(), "several streams") {
		t.Errorf("a head of a model of several streams: %v", err)
	}
}
