package model_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// furtherTolerance is the share of the largest logit by which two ways to the same input of a block may differ: float32
// against float64, and a cache in F16.
const furtherTolerance = 2e-3

// TestFurtherLayer: the MTP layer follows the definition in DeepSeek-V3's report. Its block runs as a model of one
// layer. That model's embeddings are M·[norm(embedding(x)), norm(h)], computed here in float64 from the hidden states
// of the model of the first layers. Keys and values come from the prompt's step, and in a chain of two drafts from the
// layer itself.
func TestFurtherLayer(t *testing.T) {
	for family, experts := range map[string]int{"glm4moe": 8, "deepseek2": 8, "deepseek32": 8, "hy_v3": 8, "qwen35": 0, "qwen3next": 8, "step35": 8} {
		t.Run(family, func(t *testing.T) {
			spec := synth.Spec{Arch: family, Layers: 3, Embd: 64, FF: 32, Heads: 4, Type: quant.F16, Experts: experts, Used: experts / 4, Activation: "silu", Seed: 5}
			if strings.HasPrefix(family, "qwen") { // twice two recurrent layers and one with attention; the last one is the further layer
				spec.Layers, spec.Activation = 6, ""
			}
			f := synthtest.Further(t, spec, family == "deepseek2")
			tokens, state := []int32{5, 3, 7, 11, 2, 9}, [][]float32(nil)
			n := len(tokens) - 2 // tokens of the prompt; the last two tokens are evaluated like drafts

			m := furtherModel(t, f, true)
			if err := m.ForwardBoth(stepOf(tokens[:n], 0, nil)); err != nil {
				t.Fatal(err)
			}
			plain := furtherModel(t, f, false)
			if err := plain.ForwardHidden(stepOf(tokens[:n], 0, nil)); err != nil {
				t.Fatal(err)
			}
			if got, want := lastLogits(t, m), lastLogits(t, plain); !slices.Equal(got, want) {
				t.Error("the model's own logits are others beside a further layer")
			}
			for i := range n {
				h, err := plain.Hidden(i)
				if err != nil {
					t.Fatal(err)
				}
				state = append(state, slices.Clone(h))
				if family == "step35" { // its further layer reads the residual before the last norm, whatever its size
					w := make([]float32, len(h))
					quant.Decode(quant.F32, w, f.Tensor("output_norm.weight").Data)
					for j := range h {
						state[i][j] /= w[j]
					}
				}
			}
			var got [][]float32
			for i := n; i < len(tokens); i++ {
				p := stepOf(tokens[i:i+1], i, state[i-1])
				p.Draft = true
				if err := m.ForwardFurther(p); err != nil {
					t.Fatal(err)
				}
				got = append(got, slices.Clone(lastLogits(t, m)))
				h, err := m.State(0)
				if err != nil {
					t.Fatal(err)
				}
				state = append(state, slices.Clone(h))
			}

			before := append([][]float32{make([]float32, len(state[0]))}, state[:len(tokens)-1]...)
			alone := furtherModel(t, oneLayer(t, f, family, spec.Layers-1, tokens, before), false)
			rows := make([]int32, len(tokens))
			for i := range rows {
				rows[i] = int32(i)
			}
			if err := alone.Forward(stepOf(rows, 0, nil)); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				want, err := alone.Logits(n + i)
				if err != nil {
					t.Fatal(err)
				}
				compareLogits(t, fmt.Sprintf("guess %d", i), got[i], want)
			}
		})
	}
}

// TestSeveralFurtherLayers: each of several MTP layers drafts the token of its number. The second reads the first one's
// output, as DeepSeek-V3's report defines, or in MiMo the model's own state of one token earlier. Each layer runs as a
// model of one layer, as in TestFurtherLayer.
func TestSeveralFurtherLayers(t *testing.T) {
	const layers, further, n = 2, 3, 3 // layers of the model, MTP layers, tokens of the prompt
	for family, own := range map[string]bool{"glm4moe": false, "step35": false, "mimo2": true} {
		t.Run(family, func(t *testing.T) {
			spec := synth.Spec{Arch: family, Layers: layers + further, Embd: 64, FF: 32, Heads: 4, Type: quant.F16, Experts: 8, Used: 2, Activation: "silu", Seed: 5}
			f := synthtest.FurtherLayers(t, spec, further, true)
			tokens := []int32{5, 3, 7, 11, 2, 9}
			m, plain := furtherModel(t, f, true), furtherModel(t, f, false)
			if err := plain.ForwardHidden(stepOf(tokens[:n], 0, nil)); err != nil {
				t.Fatal(err)
			}
			states := hiddenRows(t, plain, n, f, "output_norm.weight", family != "glm4moe")

			var state []float32
			for i := range n { // one by one: each reads the states before
				if err := m.ForwardBoth(stepOf(tokens[i:i+1], i, state)); err != nil {
					t.Fatal(err)
				}
				state = stateOf(t, m, 0)
			}
			for k := range further {
				p := stepOf(tokens[n+k:][:1], n+k, state)
				p.Draft, p.Depth = true, k
				if err := m.ForwardFurther(p); err != nil {
					t.Fatal(err)
				}
				got := slices.Clone(lastLogits(t, m))
				state = stateOf(t, m, 0)

				rows := make([]int32, n+k+1)
				before := [][]float32{make([]float32, spec.Embd)}
				for i := range rows {
					rows[i] = int32(i)
				}
				before = append(before, states...)
				alone := furtherModel(t, oneLayer(t, f, family, layers+k, tokens[:n+k+1], before), false)
				if err := alone.ForwardHidden(stepOf(rows, 0, nil)); err != nil {
					t.Fatal(err)
				}
				want, err := alone.Logits(n + k)
				if err != nil {
					t.Fatal(err)
				}
				compareLogits(t, fmt.Sprintf("guess %d", k), got, want)
				if own {
					states = append([][]float32{make([]float32, spec.Embd)}, states...)
				} else {
					states = hiddenRows(t, alone, n+k+1, f, fmt.Sprintf("blk.%d.nextn.shared_head_norm.weight", layers+k), family != "glm4moe")
				}
			}
		})
	}
}

// stateOf returns a copy of row i of m's states for drafts.
func stateOf(t *testing.T, m *model.Model, i int) []float32 {
	t.Helper()
	h, err := m.State(i)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(h)
}

// hiddenRows returns the first n hidden states of m's last step; with plain as before the norm called name, whatever
// their size.
func hiddenRows(t *testing.T, m *model.Model, n int, f *gguf.File, name string, plain bool) (rows [][]float32) {
	t.Helper()
	w := make([]float32, f.Tensor(name).Shape[0])
	quant.Decode(quant.F32, w, f.Tensor(name).Data)
	for i := range n {
		h, err := m.Hidden(i)
		if err != nil {
			t.Fatal(err)
		}
		h = slices.Clone(h)
		for j := range h {
			if plain {
				h[j] /= w[j]
			}
		}
		rows = append(rows, h)
	}
	return rows
}

// TestNoFurtherLayer: files without an MTP layer, or with an incomplete one, are refused.
func TestNoFurtherLayer(t *testing.T) {
	for _, c := range []struct {
		f    *gguf.File
		want string
	}{
		{routed(t, "glm4moe"), "nextn_predict_layers"},
		{routed(t, "glm4moe", "glm4moe.nextn_predict_layers=int:1"), "enorm"},
	} {
		if _, err := loadFurther(t, c.f, true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, which does not name %s", err, c.want)
		}
	}
}

func loadFurther(t *testing.T, f *gguf.File, further bool) (*model.Model, error) {
	dev, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return model.Load(t.Context(), f, dev, model.Options{Batch: 8, Outputs: 8, Further: further, Cache: compute.CacheSpec{Pages: 1}})
}

func furtherModel(t *testing.T, f *gguf.File, further bool) *model.Model {
	t.Helper()
	m, err := loadFurther(t, f, further)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stepOf is a step of tokens from position at on, with logits of each, where before is what came before the first.
func stepOf(tokens []int32, at int, before []float32) *compute.Params {
	p := &compute.Params{Tokens: tokens, Seq: make([]int32, len(tokens)), Pages: [][]int32{{0}}, Before: [][]float32{before}}
	for i := range tokens {
		p.Pos, p.Out = append(p.Pos, int32(at+i)), append(p.Out, int32(i))
	}
	return p
}

// lastLogits returns the first row of logits that a step gave.
func lastLogits(t *testing.T, m *model.Model) []float32 {
	t.Helper()
	row, err := m.Logits(0)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// oneLayer writes the further layer of f, block layer of the file, as a separate model. Its embedding of token i is the
// input of the layer's block for tokens[i] and before[i].
func oneLayer(t *testing.T, f *gguf.File, family string, layer int, tokens []int32, before [][]float32) *gguf.File {
	t.Helper()
	floats := func(name string) []float32 {
		w := f.Tensor(name)
		if w == nil {
			t.Fatalf("no tensor %q", name)
		}
		out := make([]float32, w.Shape[0]*w.Rows())
		quant.Decode(w.Type, out, w.Data)
		return out
	}
	block := fmt.Sprintf("blk.%d.", layer)
	of := block + "nextn."
	table, head := "token_embd.weight", "output.weight"
	if f.Tensor(of+"embed_tokens.weight") != nil {
		table, head = of+"embed_tokens.weight", of+"shared_head_head.weight"
	} else if f.Tensor(head) == nil {
		head = table
	}
	embd, join := floats(table), floats(of+"eh_proj.weight")
	enorm, hnorm := floats(of+"enorm.weight"), floats(of+"hnorm.weight")
	eps, _, err := f.Float(family + ".attention.layer_norm_rms_epsilon")
	if err != nil {
		t.Fatal(err)
	}
	width := len(before[0])
	inputs := make([]float32, f.Tensor("token_embd.weight").Rows()*width)
	for i, id := range tokens {
		pair := append(rootMeanSquare(embd[int(id)*width:][:width], enorm, eps), rootMeanSquare(before[i], hnorm, eps)...)
		for r := range width {
			sum := 0.0
			for c, v := range pair {
				sum += float64(join[r*2*width+c]) * v
			}
			inputs[i*width+r] = float32(sum)
		}
	}
	tensors := []gguf.Source{
		synthtest.Floats("token_embd.weight", inputs, width, len(inputs)/width),
		synthtest.Copied(f.Tensor(head), "output.weight"),
		synthtest.Copied(f.Tensor(of+"shared_head_norm.weight"), "output_norm.weight"),
	}
	for _, w := range f.Tensors {
		if name, ok := strings.CutPrefix(w.Name, block); ok && !strings.HasPrefix(name, "nextn.") {
			tensors = append(tensors, synthtest.Copied(w, "blk.0."+name))
		}
	}
	keys := slices.DeleteFunc(slices.Clone(f.Keys), func(k gguf.KV) bool { return k.Key == family+".nextn_predict_layers" })
	for i := range keys {
		switch keys[i].Key {
		case family + ".block_count":
			keys[i].Value = uint32(1)
		case family + ".leading_dense_block_count":
			keys[i].Value = uint32(0)
		case family + ".full_attention_interval":
			keys[i].Value = uint32(1)
		}
	}
	return synthtest.Made(t, keys, tensors)
}

func rootMeanSquare(x, w []float32, eps float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) / math.Sqrt(sum/float64(len(x))+eps) * float64(w[i])
	}
	return out
}

func compareLogits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	most, apart := 0.0, 0.0
	for i, v := range want {
		most, apart = max(most, math.Abs(float64(v))), max(apart, math.Abs(float64(v)-float64(got[i])))
	}
	if most == 0 || !(apart <= furtherTolerance*most) {
		t.Errorf("%s: logits differ by %g, the largest is %g", what, apart, most)
	}
}
