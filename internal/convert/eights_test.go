package convert

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// e4m3 returns the number of a code, by the OCP's definition of 8-bit floating point (2023): a sign, four bits of
// exponent with a bias of 7, three of mantissa.
func e4m3(code byte) float32 {
	sign := 1 - 2*float64(code>>7)
	exponent, mantissa := float64(code>>3&15), float64(code&7)
	if exponent == 0 {
		return float32(sign * mantissa / 8 * math.Pow(2, -6))
	}
	return float32(sign * (1 + mantissa/8) * math.Pow(2, exponent-7))
}

func TestE4M3(t *testing.T) {
	for code, want := range map[byte]float32{0x00: 0, 0x01: 0.001953125, 0x07: 0.013671875, 0x08: 0.015625, 0x38: 1, 0xc0: -2, 0x7e: 448, 0xfe: -448} {
		if got := e4m3(code); got != want {
			t.Errorf("%#x is %g here, and %g in the definition's table", code, got, want)
		}
	}
}

// TestFloat8Folders: folders in floats of eight bits convert as folders of the numbers that they stand for do.
func TestFloat8Folders(t *testing.T) {
	const high, wide = 24, 40 // of a block: the matrices' sizes are no multiples
	ceil := func(n, by int) int { return (n + by - 1) / by }
	block := map[string]any{"quant_method": "fp8", "weight_block_size": []int{high, wide}}
	channels := map[string]any{"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": map[string]any{"group_0": map[string]any{
		"weights": map[string]any{"strategy": "channel", "num_bits": 8, "type": "float"},
	}}}
	for name, c := range map[string]struct {
		config any
		end    string
		dtype  string // of scales
		shape  func(rows, cols int) []int
		scale  func(r, c, cols int) int // which is of an element
	}{
		"blocks": {
			block, "_scale_inv", "F32", func(r, c int) []int { return []int{ceil(r, high), ceil(c, wide)} },
			func(r, c, cols int) int { return r/high*ceil(cols, wide) + c/wide },
		},
		"matrices": {map[string]any{"quant_method": "modelopt", "quant_algo": "FP8"}, "_scale", "F32", func(int, int) []int { return nil }, func(int, int, int) int { return 0 }},
		"rows":     {channels, "_scale", "BF16", func(r, _ int) []int { return []int{r, 1} }, func(r, _, _ int) int { return r }},
	} {
		t.Run(name, func(t *testing.T) {
			f := tinyLlama(t, "LlamaForCausalLM", nil)
			plain := &folder{dir: t.TempDir(), config: maps.Clone(f.config), tensors: maps.Clone(f.tensors)}
			f.config["quantization_config"] = c.config
			for name, x := range plain.tensors {
				if !strings.HasSuffix(name, "_proj.weight") {
					continue
				}
				rows, cols := x.shape[0], x.shape[1]
				n := 1
				for _, d := range c.shape(rows, cols) {
					n *= d
				}
				scales := fixture{dtype: c.dtype, shape: c.shape(rows, cols), values: make([]float32, n)}
				for i := range scales.values {
					scales.values[i] = float32(f.rng.IntN(15)+1) / 64
				}
				codes, values := fixture{dtype: "F8_E4M3", shape: x.shape, values: make([]float32, rows*cols)}, fixture{dtype: "F32", shape: x.shape, values: make([]float32, rows*cols)}
				for i := range codes.values {
					code := byte(f.rng.IntN(0x7f) | f.rng.IntN(2)<<7)
					codes.values[i] = float32(code)
					values.values[i] = e4m3(code) * scales.values[c.scale(i/cols, i%cols, cols)]
				}
				f.tensors[name], plain.tensors[name] = codes, values
				if scales.shape == nil {
					scales.shape = []int{}
				}
				f.tensors[name+c.end] = scales
				f.tensors[strings.TrimSuffix(name, "weight")+"input_scale"] = fixture{dtype: "F32", shape: []int{}, values: []float32{1}}
			}
			var files [][]byte
			for _, of := range []*folder{f, plain} {
				of.save(t, 1, tinyVocab)
				out := filepath.Join(of.dir, "model.gguf")
				if err := HuggingFace(t.Context(), of.dir, out, Options{Output: OutputOf(quant.F32)}); err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, b)
			}
			if !bytes.Equal(files[0], files[1]) {
				t.Error("the folder and that of its numbers give different files")
			}
		})
	}
}

// TestFloat8Refused: scales that are of no part of a matrix, and codes without scales.
func TestFloat8Refused(t *testing.T) {
	const name = "model.layers.0.mlp.up_proj.weight"
	for what, c := range map[string]struct {
		scales fixture
		want   string
	}{
		"shape": {fixture{dtype: "F32", shape: []int{3}, values: []float32{1, 1, 1}}, "which are no scales of"},
		"dtype": {fixture{dtype: "U8", shape: []int{1}, values: []float32{1}}, "of dtype U8 are not supported"},
		"none":  {want: "has dtype F8_E4M3"},
	} {
		t.Run(what, func(t *testing.T) {
			f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"quantization_config": map[string]any{"quant_method": "fp8"}})
			x := f.tensors[name]
			f.tensors[name] = fixture{dtype: "F8_E4M3", shape: x.shape, values: make([]float32, len(x.values))}
			if c.scales.dtype != "" {
				f.tensors[name+"_scale_inv"] = c.scales
			}
			f.save(t, 1, tinyVocab)
			expectError(t, HuggingFace(t.Context(), f.dir, filepath.Join(f.dir, "model.gguf"), Options{Output: OutputOf(quant.F32)}), c.want)
		})
	}
}
