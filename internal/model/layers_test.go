package model_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// layered is a llama model with layers that differ. It has all weights as numbers, and the forward pass as the papers
// define it.
type layered struct {
	heads, kvHeads, ff []int // for each layer
	weights            map[string][]float32
	file               *gguf.File
}

const (
	layeredEmbd  = 64
	layeredHead  = 16 // elements of a head; the heads of a layer need not make up the width
	layeredVocab = 512
	layeredBase  = 10000.0
	layeredEps   = 1e-5
)

// newLayered makes the model. Arrays with a number for each layer take the place of the single numbers of a model of
// equal layers.
func newLayered(t *testing.T, seed uint64) *layered {
	t.Helper()
	m := &layered{heads: []int{4, 2, 6}, kvHeads: []int{2, 1, 3}, ff: []int{96, 160, 64}, weights: map[string][]float32{}}
	rng := rand.New(rand.NewPCG(seed, 0))
	var tensors []gguf.Source
	add := func(name string, cols, rows int) {
		shape, x := []int{cols}, make([]float32, cols*max(rows, 1))
		if rows > 0 {
			shape = append(shape, rows)
		}
		for i := range x {
			x[i] = float32(rng.NormFloat64() / math.Sqrt(float64(cols)))
			if rows == 0 {
				x[i] = 1 + x[i] // a norm's weights
			}
		}
		m.weights[name] = x
		tensors = append(tensors, gguf.Source{Name: name, Type: quant.F32, Shape: shape, Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, x) }})
	}
	add("token_embd.weight", layeredEmbd, layeredVocab)
	for l := range m.heads {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", l, name) }
		q, kv := m.heads[l]*layeredHead, m.kvHeads[l]*layeredHead
		add(blk("attn_norm"), layeredEmbd, 0)
		add(blk("attn_q"), layeredEmbd, q)
		add(blk("attn_k"), layeredEmbd, kv)
		add(blk("attn_v"), layeredEmbd, kv)
		add(blk("attn_output"), q, layeredEmbd)
		add(blk("ffn_norm"), layeredEmbd, 0)
		add(blk("ffn_gate"), layeredEmbd, m.ff[l])
		add(blk("ffn_up"), layeredEmbd, m.ff[l])
		add(blk("ffn_down"), m.ff[l], layeredEmbd)
	}
	add("output_norm.weight", layeredEmbd, 0)
	add("output.weight", layeredEmbd, layeredVocab)

	equal := synthtest.File(t, synth.Spec{Arch: "llama", Layers: len(m.heads), Embd: layeredEmbd, FF: 64, Heads: 4, Vocab: layeredVocab, Type: quant.F32, Seed: 1})
	replaced := map[string]any{
		"llama.feed_forward_length": numbers(m.ff), "llama.attention.head_count": numbers(m.heads), "llama.attention.head_count_kv": numbers(m.kvHeads),
		"llama.attention.key_length": uint32(layeredHead), "llama.attention.value_length": uint32(layeredHead), "llama.rope.dimension_count": uint32(layeredHead),
		"llama.rope.freq_base": float32(layeredBase), "llama.attention.layer_norm_rms_epsilon": float32(layeredEps), "powerinfer.activation": "relu",
	}
	var keys []gguf.KV
	for _, kv := range equal.Keys {
		if _, ok := replaced[kv.Key]; !ok {
			keys = append(keys, kv)
		}
	}
	for key, value := range replaced {
		keys = append(keys, gguf.KV{Key: key, Value: value})
	}
	path := filepath.Join(t.TempDir(), "layered.gguf")
	if err := gguf.Create(t.Context(), path, "GGUF", keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if m.file, err = gguf.Parse(path, data); err != nil {
		t.Fatal(err)
	}
	return m
}

func numbers(x []int) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = uint32(v)
	}
	return out
}

// times returns the named matrix times x.
func (m *layered) times(name string, x []float64) []float64 {
	w := m.weights[name]
	out := make([]float64, len(w)/len(x))
	for r := range out {
		for i, v := range x {
			out[r] += float64(w[r*len(x)+i]) * v
		}
	}
	return out
}

// norm returns x divided by its root mean square and multiplied by the named weights.
func (m *layered) norm(name string, x []float64) []float64 {
	sum := layeredEps * float64(len(x))
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))) * float64(m.weights[name][i])
	}
	return out
}

// rotate turns the pairs of each head by the angles of a position.
func rotate(x []float64, pos int) {
	for h := 0; h < len(x); h += layeredHead {
		for i := 0; i < layeredHead; i += 2 {
			sin, cos := math.Sincos(float64(pos) * math.Pow(layeredBase, -float64(i)/layeredHead))
			a, b := x[h+i], x[h+i+1]
			x[h+i], x[h+i+1] = a*cos-b*sin, a*sin+b*cos
		}
	}
}

// attend returns the attention of the query heads q to all keys and values. Several query heads share each key and
// value head.
func (m *layered) attend(l int, q []float64, keys, values [][]float64) []float64 {
	out := make([]float64, len(q))
	for h := range m.heads[l] {
		from := h / (m.heads[l] / m.kvHeads[l]) * layeredHead
		weights, sum := make([]float64, len(keys)), 0.0
		for t, k := range keys {
			score := 0.0
			for i := range layeredHead {
				score += q[h*layeredHead+i] * k[from+i]
			}
			weights[t] = math.Exp(score / math.Sqrt(layeredHead))
			sum += weights[t]
		}
		for t, v := range values {
			for i := range layeredHead {
				out[h*layeredHead+i] += weights[t] / sum * v[from+i]
			}
		}
	}
	return out
}

// logits evaluates tokens one by one. [tokens][vocabulary]
func (m *layered) logits(tokens []int32) [][]float64 {
	keys, values := make([][][]float64, len(m.heads)), make([][][]float64, len(m.heads))
	var all [][]float64
	for pos, id := range tokens {
		x := make([]float64, layeredEmbd)
		for i := range x {
			x[i] = float64(m.weights["token_embd.weight"][int(id)*layeredEmbd+i])
		}
		for l := range m.heads {
			blk := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", l, name) }
			in := m.norm(blk("attn_norm"), x)
			q, k := m.times(blk("attn_q"), in), m.times(blk("attn_k"), in)
			rotate(q, pos)
			rotate(k, pos)
			keys[l], values[l] = append(keys[l], k), append(values[l], m.times(blk("attn_v"), in))
			for i, v := range m.times(blk("attn_output"), m.attend(l, q, keys[l], values[l])) {
				x[i] += v
			}
			in = m.norm(blk("ffn_norm"), x)
			gate, up := m.times(blk("ffn_gate"), in), m.times(blk("ffn_up"), in)
			for i := range gate {
				gate[i] = max(0, gate[i]) * up[i]
			}
			for i, v := range m.times(blk("ffn_down"), gate) {
				x[i] += v
			}
		}
		all = append(all, m.times("output.weight", m.norm("output_norm.weight", x)))
	}
	return all
}

// layeredTolerance is the largest difference of a logit, as a share of the largest: keys and values are halves in the
// engine.
const layeredTolerance = 2e-3

// TestLayersDiffer: a model with layers that differ in heads, KV heads and neurons gives the result of a plain forward
// pass over its weights, dense and without zero neurons, for prompts and single tokens.
func TestLayersDiffer(t *testing.T) {
	const seed = 11
	m := newLayered(t, seed)
	tokens := []int32{1, 40, 300, 17, 99, 261, 6, 500, 33, 78, 431, 12}
	want := m.logits(tokens)
	for _, mode := range []model.SparseMode{model.Off, model.Exact} {
		for name, got := range map[string][][]float32{
			"the scalar device":    evaluate(t, loadOn(t, m.file, ref.New(), mode), tokens, len(tokens)),
			"a prompt":             evaluate(t, load(t, m.file, cpu.Options{Threads: 2}, mode), tokens, len(tokens)),
			"tokens one at a time": evaluate(t, load(t, m.file, cpu.Options{Threads: 2}, mode), tokens, 1),
		} {
			for i := range want {
				largest, worst := 0.0, 0.0
				for id, v := range want[i] {
					largest, worst = max(largest, math.Abs(v)), max(worst, math.Abs(v-float64(got[i][id])))
				}
				if !(worst <= layeredTolerance*largest) {
					t.Errorf("%s, %s, position %d: a logit differs by %.2g of the largest, more than %g (seed %d)", mode, name, i, worst/largest, layeredTolerance, seed)
				}
			}
		}
	}
	c, err := model.ReadConfig(m.file, "")
	if err != nil {
		t.Fatal(err)
	}
	for l, b := range c.Blocks {
		if b.Heads != m.heads[l] || b.KVHeads != m.kvHeads[l] || b.FF != m.ff[l] {
			t.Errorf("layer %d is read as %+v", l, b)
		}
	}
	if c.FF != 160 || c.Heads != 6 || c.KVHeads != 3 {
		t.Errorf("of all layers: %d neurons, %d heads, %d KV heads", c.FF, c.Heads, c.KVHeads)
	}
	for i, kv := range m.file.Keys {
		if kv.Key == "llama.feed_forward_length" { // an array of two numbers for three layers
			m.file.Keys[i].Value = []uint32{96, 160}
		}
	}
	if _, err := model.ReadConfig(m.file, ""); err == nil || !strings.Contains(err.Error(), "feed_forward_length") {
		t.Errorf("an array of another length: %v", err)
	}
}
