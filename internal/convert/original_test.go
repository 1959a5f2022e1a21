package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint/checkpointtest"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// tinyRank is a rank of the published kind: no other dimension of the tiny models has it.
const tinyRank = 32

// predictors writes model_N.pt for a folder's layers; layer l's first weight says which layer it is.
func (f *folder) predictors(t *testing.T, layers, embd, ff int) string {
	t.Helper()
	dir := t.TempDir()
	for l := range layers {
		fc1, fc2 := make([]float64, tinyRank*embd), make([]float64, ff*tinyRank)
		for _, w := range [][]float64{fc1, fc2} {
			for i := range w {
				w[i] = float64(f.rng.IntN(255)-127) / 64
			}
			w[0] = float64(l)
		}
		checkpointtest.SaveTorch(t, filepath.Join(dir, fmt.Sprintf("model_%d.pt", l)), false,
			checkpointtest.Tensor{Name: "fc1.weight", DType: "F32", Shape: []int{tinyRank, embd}, Values: fc1}, checkpointtest.Tensor{Name: "fc2.weight", DType: "F32", Shape: []int{ff, tinyRank}, Values: fc2})
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"sparse_threshold": -0.25}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func join(t *testing.T, dir, predictors string, o Options) (*gguf.File, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.gguf")
	if err := Original(t.Context(), dir, predictors, out, o); err != nil {
		return nil, err
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, nil
}

// Every family with published predictors: the dense conversion's tensors, down transposed, and the predictors.
func TestOriginalJoins(t *testing.T) {
	bambooConfig := map[string]any{"hidden_act": "drelu"}
	for _, c := range []struct {
		name   string
		folder *folder
		ff     int
	}{
		{"llama", tinyLlama(t, "LlamaForCausalLM", nil), tinyFF},
		{"tied", tinyLlama(t, "LlamaForCausalLM", map[string]any{"tie_word_embeddings": true}), tinyFF},
		{"bamboo", tinyLlama(t, "BambooForCausalLM", bambooConfig), tinyFF},
		{"falcon", tinyFalcon(t, 2, map[string]any{"hidden_act": "relu", "new_decoder_architecture": true, "num_kv_heads": 2}), 4 * tinyEmbd},
		{"opt", longOPT(t), tinyFF},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.folder.save(t, 1, tinyVocab)
			c.folder.newline(t)
			pred := c.folder.predictors(t, tinyLayers, tinyEmbd, c.ff)
			dense := convertTo(t, c.folder.dir, Options{Output: OutputOf(quant.F16)})
			f, err := join(t, c.folder.dir, pred, Options{Output: OutputOf(quant.F16)})
			if err != nil {
				t.Fatal(err)
			}
			if f.Magic != "PWRI" {
				t.Errorf("magic %s", f.Magic)
			}
			expectKey(t, f, "powerinfer.sparse_threshold", float32(-0.25))
			want := map[string][]float32{}
			for _, x := range dense.Tensors {
				v := values(t, dense, x.Name)
				name := strings.Replace(x.Name, ".ffn_down.", ".ffn_down_t.", 1)
				if strings.HasSuffix(name, ".ffn_down_t.weight") {
					v = columns(v, c.ff)
				}
				want[name] = v
			}
			if c.name == "tied" {
				want["output.weight"] = want["token_embd.weight"]
			}
			for name, v := range want {
				if !slices.Equal(values(t, f, name), v) {
					t.Errorf("%s differs from the dense conversion", name)
				}
			}
			for l := range tinyLayers {
				fc1, fc2 := f.Tensor(fmt.Sprintf("blk.%d.fc1.weight", l)), f.Tensor(fmt.Sprintf("blk.%d.fc2.weight", l))
				if !slices.Equal(fc1.Shape, []int{tinyEmbd, tinyRank}) || !slices.Equal(fc2.Shape, []int{tinyRank, c.ff}) || fc1.Type != quant.F16 {
					t.Errorf("layer %d: %v %v %s", l, fc1.Shape, fc2.Shape, fc1.Type)
				}
				if values(t, f, fc1.Name)[0] != float32(l) || values(t, f, fc2.Name)[0] != float32(l) {
					t.Errorf("layer %d has another's predictor", l)
				}
			}
			if len(f.Tensors) != len(want)+2*tinyLayers {
				t.Errorf("%d tensors, want %d", len(f.Tensors), len(want)+2*tinyLayers)
			}
		})
	}
}

// columns returns a matrix of rows of n elements, transposed.
func columns(x []float32, n int) []float32 {
	rows := len(x) / n
	out := make([]float32, len(x))
	for r := range rows {
		for i := range n {
			out[i*rows+r] = x[r*n+i]
		}
	}
	return out
}

// longOPT has as many positions as the original loads.
func longOPT(t *testing.T) *folder {
	f := tinyOPT(t)
	f.config["max_position_embeddings"] = 2048
	f.random("F16", "model.decoder.embed_positions.weight", 2050, tinyEmbd)
	return f
}

// newline gives the tokenizer the byte token that the original needs, in place of the last piece.
func (f *folder) newline(t *testing.T) {
	t.Helper()
	path := filepath.Join(f.dir, "tokenizer.model")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old, by := fmt.Sprintf("▁w%d", tinyVocab-1), "<0x0A>"
	if len(old) != len(by) {
		t.Fatalf("%q and %q differ in length", old, by)
	}
	f.write(t, "tokenizer.model", []byte(strings.Replace(string(b), old, by, 1)))
}

func TestOriginalQuantises(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", nil)
	f.save(t, 2, tinyVocab)
	f.newline(t)
	got, err := join(t, f.dir, f.predictors(t, tinyLayers, tinyEmbd, tinyFF), Options{Output: OutputOf(quant.Q4_0)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ffn_down_t", "ffn_up", "ffn_gate", "fc1", "fc2", "attn_q"} {
		if x := got.Tensor("blk.1." + name + ".weight"); x == nil || x.Type != quant.Q4_0 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	down := columns(f.tensors["model.layers.1.mlp.down_proj.weight"].values, tinyFF)
	b := make([]byte, quant.Q4_0.RowBytes(len(down)))
	quant.Encode(quant.Q4_0, b, down)
	quant.Decode(quant.Q4_0, down, b)
	if !slices.Equal(values(t, got, "blk.1.ffn_down_t.weight"), down) {
		t.Error("down is not the transposed matrix, quantised by rows")
	}
}

func TestOriginalRefusesFolders(t *testing.T) {
	relu := func() *folder { return tinyLlama(t, "LlamaForCausalLM", nil) }
	cases := map[string]struct {
		folder *folder
		typ    quant.Type
		damage func(f *folder, predictors string)
		want   string
	}{
		"type":         {relu(), quant.Q8_0, nil, "runs f16 and q4_0 only, not q8_0"},
		"dense":        {tinyLlama(t, "LlamaForCausalLM", map[string]any{"hidden_act": "silu"}), quant.F16, nil, "runs llama with relu, and the model's activation is silu"},
		"architecture": {tinyLlama(t, "Qwen2ForCausalLM", nil), quant.F16, nil, "architecture \"qwen2\": the original PowerInfer runs bamboo, falcon, llama, opt only"},
		"few layers":   {relu(), quant.F16, func(_ *folder, p string) { os.Remove(filepath.Join(p, "model_1.pt")) }, "model_1.pt is missing; there must be one such file for each of 2 layers"},
		"no archive":   {relu(), quant.F16, func(_ *folder, p string) { os.WriteFile(filepath.Join(p, "model_0.pt"), nil, 0o600) }, "model_0.pt: it is no archive"},
		"bad threshold": {relu(), quant.F16, func(_ *folder, p string) {
			os.WriteFile(filepath.Join(p, "config.json"), []byte(`{"sparse_threshold": "x"}`), 0o600)
		}, `config.json: offset`},
		"many layers": {relu(), quant.F16, func(_ *folder, p string) {
			checkpointtest.SaveTorch(t, filepath.Join(p, "model_2.pt"), false)
		}, "model_2.pt: the model has 2 layers"},
		"other width": {relu(), quant.F16, func(_ *folder, p string) {
			checkpointtest.SaveTorch(t, filepath.Join(p, "model_1.pt"), false, checkpointtest.Tensor{Name: "fc1.weight", DType: "F32", Shape: []int{32, 1}, Values: make([]float64, 32)}, checkpointtest.Tensor{Name: "fc2.weight", DType: "F32", Shape: []int{96, 32}, Values: make([]float64, 96*32)})
		}, "model_1.pt: fc1.weight [32 1] and fc2.weight [96 32] are no predictor of 96 neurons from 64 inputs"},
		"other names": {relu(), quant.F16, func(_ *folder, p string) {
			checkpointtest.SaveTorch(t, filepath.Join(p, "model_0.pt"), false, checkpointtest.Tensor{Name: "0.weight", DType: "F32", Shape: []int{1}, Values: []float64{0}})
		}, "model_0.pt: it holds 1 tensors, not fc1.weight and fc2.weight alone"},
		"integers": {relu(), quant.F16, func(_ *folder, p string) {
			checkpointtest.SaveTorch(t, filepath.Join(p, "model_0.pt"), false, checkpointtest.Tensor{Name: "fc1.weight", DType: "I64", Shape: []int{32, 64}, Values: make([]float64, 32*64)}, checkpointtest.Tensor{Name: "fc2.weight", DType: "F32", Shape: []int{96, 32}, Values: make([]float64, 96*32)})
		}, "has dtype I64; supported are F32, F16, BF16"},
		"learned positions": {tinyOPT(t), quant.F16, nil, "the original loads [64 2050] only"},
	}
	for name, c := range cases {
		c.folder.save(t, 1, tinyVocab)
		c.folder.newline(t)
		p := c.folder.predictors(t, tinyLayers, tinyEmbd, tinyFF)
		if c.damage != nil {
			c.damage(c.folder, p)
		}
		_, err := join(t, c.folder.dir, p, Options{Output: OutputOf(c.typ)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// ProSparse's predictors belong to plain ReLU in the original; this engine applies the model's own threshold, and says
// so.
func TestOriginalOfFATReLU(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"hidden_act": "fatrelu"})
	f.save(t, 1, tinyVocab)
	f.newline(t)
	var notes []string
	got, err := join(t, f.dir, f.predictors(t, tinyLayers, tinyEmbd, tinyFF), Options{Output: OutputOf(quant.F16), Notes: func(s string) { notes = append(notes, s) }})
	if err != nil {
		t.Fatal(err)
	}
	expectKey(t, got, "powerinfer.activation", "fatrelu")
	if len(notes) != 1 || !strings.Contains(notes[0], "plain ReLU") {
		t.Error(notes)
	}
}
