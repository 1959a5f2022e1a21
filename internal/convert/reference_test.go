package convert_test

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// referenceTolerance is the share of the largest logit by which an F32 model may differ from float64: the KV cache
// holds halves.
const referenceTolerance = 1e-3

// resultTolerance is the same of a number that a head makes of states: the differences of a state's elements add up,
// those of GELU's approximation among them.
const resultTolerance = 3e-3

// reference holds results of testdata/reference/reference.py, which follows the published definition of a family.
type reference struct {
	Config  map[string]any `json:"config"`
	Tensors map[string]struct {
		Shape  []int   `json:"shape"`
		Scale  float64 `json:"scale"`
		Offset float64 `json:"offset"`
		DType  string  `json:"dtype"` // empty: F32; U8: the numbers without their fractions; I64: Values
		Values []int64 `json:"values"`
	} `json:"tensors"`
	Context int         `json:"context"`
	Tokens  []int32     `json:"tokens"`
	Types   []int32     `json:"types"` // of the tokens; none: all have the first
	Logits  [][]float64 `json:"logits"`

	Files     map[string]any `json:"files"`     // further files of the folder
	Predicted bool           `json:"predicted"` // neurons that the folder's predictors take for zero are zero
	Result    []float64      `json:"result"`    // result of the text after pooling; empty: unknown
}

// weight returns the numbers of reference.py's weight.
func weight(name string, n int, scale, offset float64) []float32 {
	h := fnv.New64a()
	h.Write([]byte(name))
	out, state := make([]float32, n), h.Sum64()
	for i := range out {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		out[i] = float32(offset + scale*(float64(z>>40)/(1<<23)-1))
	}
	return out
}

// folder writes the model as Hugging Face stores it.
func (r *reference) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config, err := json.Marshal(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	write("config.json", config)
	if r.Files["tokenizer.json"] == nil {
		write("tokenizer.model", convert.SentencePieceModel(r.vocabulary()))
	}
	for name, content := range r.Files {
		data, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(name, data)
	}
	headers, data := map[string]map[string]any{}, map[string][]byte{} // by folder
	for _, name := range slices.Sorted(maps.Keys(r.Tensors)) {
		folder, own := filepath.Split(filepath.FromSlash(name))
		x, n, from := r.Tensors[name], 1, len(data[folder])
		for _, d := range x.Shape {
			n *= d
		}
		for _, v := range x.Values {
			data[folder] = binary.LittleEndian.AppendUint64(data[folder], uint64(v))
		}
		if x.DType == "I64" {
			n = 0
		}
		for _, v := range weight(name, n, x.Scale, x.Offset) {
			if x.DType == "U8" {
				data[folder] = append(data[folder], byte(v))
				continue
			}
			data[folder] = binary.LittleEndian.AppendUint32(data[folder], math.Float32bits(v))
		}
		if headers[folder] == nil {
			headers[folder] = map[string]any{}
		}
		headers[folder][own] = map[string]any{"dtype": cmp.Or(x.DType, "F32"), "shape": x.Shape, "data_offsets": []int{from, len(data[folder])}}
	}
	for folder, header := range headers {
		head, err := json.Marshal(header)
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(folder, "model.safetensors"), slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head, data[folder]))
	}
	return dir
}

// packed reports whether the folder holds weights of fewer bits than a float has.
func (r *reference) packed() bool {
	for _, x := range r.Tensors {
		if x.DType == "U8" {
			return true
		}
	}
	return false
}

// vocabulary returns the number of tokens.
func (r *reference) vocabulary() int {
	for _, key := range []string{"text_config", "llm_config", "transformer_layer_config"} {
		if text, ok := r.Config[key].(map[string]any); ok {
			return int(text["vocab_size"].(float64))
		}
	}
	return int(r.Config["vocab_size"].(float64))
}

// TestReference converts tiny models of each family that reference.py knows, and compares their logits on the scalar
// device and the processor, dense and by neuron, whole and in steps.
func TestReference(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "reference", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no references: %v", err)
	}
	for _, name := range testenv.Few(t, 8, files) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			var r reference
			data, err := os.ReadFile(name)
			if err == nil {
				err = json.Unmarshal(data, &r)
			}
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := convert.HuggingFace(t.Context(), r.folder(t), path, convert.Options{Output: convert.OutputOf(quant.F32)}); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			modes := []model.SparseMode{model.Off, model.Exact}
			if r.Predicted {
				modes = []model.SparseMode{model.Predict}
			}
			r.compare(t, f, ref.New(), modes[0])
			c, err := model.ReadConfig(f, "")
			if err != nil {
				t.Fatal(err)
			}
			if r.packed() { // the processor multiplies them with activations of 8 bits
				return
			}
			for _, mode := range modes {
				if _, err := c.Resolve(mode); err != nil { // without zeros, or where every neuron is needed
					continue
				}
				dev, err := cpu.New(cpu.Options{Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				r.compare(t, f, dev, mode)
			}
		})
	}
}

// compare closes dev.
func (r *reference) compare(t *testing.T, f *gguf.File, dev compute.Device, mode model.SparseMode) {
	t.Helper()
	defer dev.Close()
	n := len(r.Tokens)
	m, err := model.Load(t.Context(), f, dev, model.Options{
		Batch: n, Outputs: n, Cache: compute.CacheSpec{Pages: 1}, Neurons: model.Neurons{Sparse: mode}, Context: r.Context,
	})
	if err != nil {
		t.Fatal(err)
	}
	sizes, forward, result := []int{n, 5, 1}, m.Forward, m.Logits
	if m.Later { // all tokens see all others, and hidden states are the result
		sizes, forward, result = sizes[:1], m.ForwardHidden, m.Hidden
	}
	for _, size := range sizes {
		for at := 0; at < n; at += size {
			tokens := r.Tokens[at:min(at+size, n)]
			for i, logits := range r.step(t, tokens, at, forward, result) {
				what := fmt.Sprintf("%s, %s, steps of %d, position %d", dev.Name(), mode, size, at+i)
				near(t, what, logits, r.Logits[at+i], referenceTolerance)
			}
		}
	}
	if r.Result != nil {
		states := r.step(t, r.Tokens, 0, m.ForwardHidden, m.Hidden)
		near(t, dev.Name()+", behind pooling", r.pool(t, f, m, states), r.Result, resultTolerance)
	}
}

// step returns the results of tokens that begin at a position.
func (r *reference) step(t *testing.T, tokens []int32, at int, forward func(*compute.Params) error, result func(int) ([]float32, error)) [][]float32 {
	t.Helper()
	p := compute.Params{Tokens: tokens, Pages: [][]int32{{0}}, Seq: make([]int32, len(tokens))}
	if r.Types != nil {
		p.Types = r.Types[at:][:len(tokens)]
	}
	for i := range tokens {
		p.Pos, p.Out = append(p.Pos, int32(at+i)), append(p.Out, int32(i))
	}
	if err := forward(&p); err != nil {
		t.Fatal(err)
	}
	all := make([][]float32, len(tokens))
	for i := range all {
		v, err := result(i)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = slices.Clone(v)
	}
	return all
}

// pool returns what the model's head makes of hidden states, as the file says they are pooled.
func (r *reference) pool(t *testing.T, f *gguf.File, m *model.Model, states [][]float32) []float32 {
	t.Helper()
	way, ok, err := f.Uint(m.Arch + ".pooling_type")
	if err != nil || !ok || way > 4 {
		t.Fatalf("pooling %d, %v", way, err)
	}
	name := []string{"", "mean", "cls", "last", string(m.Head.Pooling)}[way]
	pooled := slices.Clone(states[0])
	switch name {
	case "last":
		pooled = states[len(states)-1]
	case "mean":
		for i := range pooled {
			sum := 0.0
			for _, s := range states {
				sum += float64(s[i])
			}
			pooled[i] = float32(sum / float64(len(states)))
		}
	}
	if way == 4 {
		if !m.Head.Ranks() || len(m.Head.Labels) != len(r.Result) && len(r.Result) > 1 {
			t.Fatalf("the head ranks: %v, with the labels %q", m.Head.Ranks(), m.Head.Labels)
		}
		return m.Head.Rank(pooled)
	}
	return m.Head.Project(pooled)
}

func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	top := 0.0
	for _, v := range want {
		top = max(top, math.Abs(v))
	}
	for i, v := range want {
		if e := math.Abs(float64(got[i]) - v); !(e <= tolerance*top) {
			t.Fatalf("%s: logit %d is %g, and the reference has %g", what, i, got[i], v)
		}
	}
}
