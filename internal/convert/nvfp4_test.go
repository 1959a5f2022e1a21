package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

const smallExperts = 3

// tinyRouted returns a folder of the Qwen 3 kind with experts. All its rows are multiples of NVFP4's blocks.
func tinyRouted(t *testing.T, quantization map[string]any) *folder {
	f := tinyLlama(t, "Qwen3MoeForCausalLM", map[string]any{
		"head_dim": tinyHeadDim, "num_experts": smallExperts, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "norm_topk_prob": true, "hidden_act": "silu",
		"decoder_sparse_step": 1,
	})
	if quantization != nil {
		f.config["quantization_config"] = quantization
	}
	for i := range tinyLayers {
		l := fmt.Sprintf("model.layers.%d.", i)
		for _, name := range []string{"gate_proj", "up_proj", "down_proj"} {
			delete(f.tensors, l+"mlp."+name+".weight")
		}
		f.random("F32", l+"self_attn.q_norm.weight", tinyHeadDim)
		f.random("F32", l+"self_attn.k_norm.weight", tinyHeadDim)
		f.random("F32", l+"mlp.gate.weight", smallExperts, tinyEmbd)
		for e := range smallExperts {
			f.random("F32", fmt.Sprintf("%smlp.experts.%d.gate_proj.weight", l, e), 128, tinyEmbd)
			f.random("F32", fmt.Sprintf("%smlp.experts.%d.up_proj.weight", l, e), 128, tinyEmbd)
			f.random("F32", fmt.Sprintf("%smlp.experts.%d.down_proj.weight", l, e), tinyEmbd, 128)
		}
	}
	return f
}

// quantise makes the projections that are chosen ones of NVFP4 of any codes, in both folders: here as a publisher has
// them, in whole as the numbers that they stand for.
func (f *folder) quantise(whole *folder, compressed bool, chosen func(name string) bool) {
	float := func(code int) float64 { // E2M1
		return []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}[code&7] * float64(1-code>>3*2)
	}
	names := []string{}
	for name := range f.tensors {
		if strings.Contains(name, "_proj.weight") && chosen(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		shape := f.tensors[name].shape
		rows, cols := shape[0], shape[1]
		factor := float32(math.Ldexp(float64(1+f.rng.IntN(7)), -9))
		codes, scales := make([]float32, rows*cols/2), make([]float32, rows*cols/16)
		for i := range scales {
			scales[i] = float32(f.rng.IntN(0x7f))
		}
		values := make([]float32, rows*cols)
		for i := range values {
			code := f.rng.IntN(16)
			codes[i/2] += float32(code << (i % 2 * 4))
			s := int(scales[i/16])
			scale := math.Ldexp(float64(8+s&7), s>>3-10) // E4M3
			if s < 8 {
				scale = math.Ldexp(float64(s), -9)
			}
			values[i] = float32(float(code) * scale * float64(factor))
		}
		base := strings.TrimSuffix(name, ".weight")
		delete(f.tensors, name)
		ends, reciprocal := []string{".weight", ".weight_scale_2", ".input_scale"}, func(v float32) float32 { return v }
		if compressed {
			ends, reciprocal = []string{".weight_packed", ".weight_global_scale", ".input_global_scale"}, func(v float32) float32 { return 1 / v }
		}
		f.tensors[base+ends[0]] = fixture{dtype: "U8", shape: []int{rows, cols / 2}, values: codes}
		f.tensors[base+".weight_scale"] = fixture{dtype: "F8_E4M3", shape: []int{rows, cols / 16}, values: scales}
		f.tensors[base+ends[1]] = fixture{dtype: "F32", shape: []int{}, values: []float32{reciprocal(factor)}}
		f.tensors[base+ends[2]] = fixture{dtype: "F32", shape: []int{1}, values: []float32{reciprocal(0.25)}}
		whole.tensors[name] = fixture{dtype: "F32", shape: shape, values: values}
	}
}

// TestSmallFloats: folders in NVFP4, of both publishers' kinds, become files with weights and factors that multiply to
// the folder's numbers, with rows moved as the family needs and experts stacked. Conversion to another type includes
// the factors.
func TestSmallFloats(t *testing.T) {
	const tolerance = 1e-6 // of a product of floats
	modelOpt := map[string]any{"quant_method": "modelopt", "quant_algo": "NVFP4"}
	compressed := map[string]any{"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}
	llama := func(q map[string]any) *folder {
		return tinyLlama(t, "LlamaForCausalLM", map[string]any{"quantization_config": q})
	}
	routed := func(q map[string]any) *folder { return tinyRouted(t, q) }
	for _, c := range []struct {
		name         string
		make         func(map[string]any) *folder
		quantization map[string]any
	}{{"modelopt", llama, modelOpt}, {"compressed", llama, compressed}, {"experts", routed, modelOpt}} {
		t.Run(c.name, func(t *testing.T) {
			f := c.make(c.quantization)
			whole := &folder{dir: t.TempDir(), config: map[string]any{}, tensors: map[string]fixture{}, rng: f.rng}
			for key, v := range f.config {
				if key != "quantization_config" {
					whole.config[key] = v
				}
			}
			for name, x := range f.tensors {
				whole.tensors[name] = x
			}
			f.quantise(whole, c.quantization["format"] != nil, func(name string) bool {
				return !strings.Contains(name, "mlp.down_proj") && !strings.Contains(name, "layers.1.self_attn.v_proj")
			})
			open := func(f *folder) *gguf.File {
				f.save(t, 1, tinyVocab)
				return convertTo(t, f.dir, Options{Output: OutputOf(quant.F32)})
			}
			got, want := open(f), open(whole)
			if n, _ := got.Lookup("general.file_type"); n != uint32(39) {
				t.Errorf("general.file_type is %v", n)
			}
			small := 0
			for _, w := range want.Tensors {
				g := got.Tensor(w.Name)
				if g == nil || !slices.Equal(g.Shape, w.Shape) {
					t.Fatalf("%s: %v instead of %v", w.Name, g, w)
				}
				x, y := make([]float32, g.Elems()), make([]float32, w.Elems())
				quant.Decode(g.Type, x, g.Data)
				quant.Decode(w.Type, y, w.Data)
				factors, inputs := []float32{1}, []float32{0.25}
				if g.Type == quant.NVFP4 {
					small++
					base := strings.TrimSuffix(w.Name, ".weight")
					factors = make([]float32, matrices(w.Shape))
					inputs = make([]float32, len(factors))
					quant.Decode(quant.F32, factors, got.Tensor(base+".scale").Data)
					quant.Decode(quant.F32, inputs, got.Tensor(base+".input_scale").Data)
				}
				for i, v := range x {
					v *= factors[i*len(factors)/len(x)]
					if math.Abs(float64(v-y[i])) > tolerance*math.Abs(float64(y[i])) {
						t.Fatalf("%s: element %d is %g instead of %g", w.Name, i, v, y[i])
					}
				}
				if slices.ContainsFunc(inputs, func(v float32) bool { return v != 0.25 }) {
					t.Errorf("%s: inputs' factors are %v", w.Name, inputs)
				}
			}
			floats := quantized(t, got, Quantization{Output: OutputOf(quant.F32), Requantize: true})
			if len(floats.Tensors) != len(want.Tensors) {
				t.Errorf("%d tensors without factors beside them, not %d", len(floats.Tensors), len(want.Tensors))
			}
			for _, w := range want.Tensors {
				x, y := make([]float32, w.Elems()), make([]float32, w.Elems())
				quant.Decode(quant.F32, x, floats.Tensor(w.Name).Data)
				quant.Decode(quant.F32, y, w.Data)
				for i, v := range x {
					if math.Abs(float64(v-y[i])) > tolerance*math.Abs(float64(y[i])) {
						t.Fatalf("%s, quantised to F32: element %d is %g instead of %g", w.Name, i, v, y[i])
					}
				}
			}
			if want := map[string]int{"modelopt": 11, "compressed": 11, "experts": 13}[c.name]; small != want {
				t.Errorf("%d tensors are in NVFP4, not %d", small, want)
			}
		})
	}
}
