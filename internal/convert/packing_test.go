package convert

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// likeReference returns a folder of the names, shapes and configuration of a reference, with other numbers.
func likeReference(t *testing.T, name string) *folder {
	t.Helper()
	return like(t, filepath.Join("testdata", "reference", name+".json"))
}

// likeTower is likeReference of a tower of pictures.
func likeTower(t *testing.T, name string) *folder {
	t.Helper()
	return like(t, filepath.Join("testdata", "towers", name+".json"))
}

func like(t *testing.T, path string) *folder {
	t.Helper()
	var r struct {
		Config  map[string]any             `json:"config"`
		Files   map[string]json.RawMessage `json:"files"`
		Tensors map[string]struct {
			Shape []int `json:"shape"`
		} `json:"tensors"`
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := newFolder(t, r.Config)
	for name, content := range r.Files {
		f.write(t, name, content)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Tensors)) {
		f.random("F32", name, r.Tensors[name].Shape...)
	}
	return f
}

// packed is a packing: it returns a matrix's tensors by the ends of their names, and the numbers that they stand for.
type packed func(rng *rand.Rand, rows, cols int) (map[string]fixture, []float32)

// e2m1 returns the number of a code by the OCP's definition of microscaling formats: a sign, two bits of exponent with
// a bias of 1, one of mantissa.
func e2m1(code byte) float32 {
	v := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}[code&7]
	if code >= 8 {
		return -v
	}
	return v
}

// mxfp4 packs a matrix in MXFP4; codes and exponents have names with these ends.
func mxfp4(codes, codesType, scales, scalesType string) packed {
	return func(rng *rand.Rand, rows, cols int) (map[string]fixture, []float32) {
		c, s, values := make([]byte, rows*cols/2), make([]byte, rows*cols/32), make([]float32, rows*cols)
		for i := range s {
			s[i] = byte(120 + rng.IntN(10))
		}
		for i := range values {
			code := byte(rng.IntN(16))
			c[i/2] |= code << (i % 2 * 4)
			values[i] = e2m1(code) * float32(math.Pow(2, float64(s[i/32])-127))
		}
		return map[string]fixture{codes: {dtype: codesType, shape: []int{rows, cols / 2}, raw: c}, scales: {dtype: scalesType, shape: []int{rows, cols / 32}, raw: s}}, values
	}
}

// packedWords packs a matrix of integers of this many bits in groups of a row; 0: the row is one group. zeros gives
// each group a zero, and shuffled puts its columns anywhere.
func packedWords(bits, group int, zeros, shuffled bool) packed {
	return func(rng *rand.Rand, rows, cols int) (map[string]fixture, []float32) {
		group := cmp.Or(group, cols)
		groups := cols / group
		row := func(n int) []uint32 { return make([]uint32, (n*bits+31)/32) }
		put := func(words []uint32, i, code int) { words[i*bits/32] |= uint32(code) << (i * bits % 32) }
		var codes, zero []uint32
		scales, values := fixture{dtype: "BF16", shape: []int{rows, groups}}, make([]float32, rows*cols)
		of := make([]int, cols)
		for i := range of {
			of[i] = i / group
		}
		if shuffled {
			rng.Shuffle(cols, func(i, j int) { of[i], of[j] = of[j], of[i] })
		}
		apart := make([][]uint32, groups) // of each group the zeros of all rows
		for g := range apart {
			apart[g] = row(rows)
		}
		for r := range rows {
			own := make([]int, groups)
			for g := range groups {
				scales.values = append(scales.values, float32(rng.IntN(15)+1)/64)
				own[g] = 1 << (bits - 1)
				if zeros {
					own[g] = rng.IntN(1 << bits)
				}
				put(apart[g], r, own[g])
			}
			w := row(cols)
			for i := range cols {
				code := rng.IntN(1 << bits)
				put(w, i, code)
				values[r*cols+i] = float32(code-own[of[i]]) * scales.values[r*groups+of[i]]
			}
			codes = append(codes, w...)
		}
		for i := range apart[0] {
			for g := range groups {
				zero = append(zero, apart[g][i])
			}
		}
		bytes := func(words []uint32) (b []byte) {
			for _, w := range words {
				b = binary.LittleEndian.AppendUint32(b, w)
			}
			return b
		}
		out := map[string]fixture{
			".weight_packed": {dtype: "I32", shape: []int{rows, len(codes) / rows}, raw: bytes(codes)},
			".weight_scale":  scales,
			".weight_shape":  {dtype: "I32", shape: []int{2}, raw: bytes([]uint32{uint32(rows), uint32(cols)})},
		}
		if zeros {
			out[".weight_zero_point"] = fixture{dtype: "I32", shape: []int{len(zero) / groups, groups}, raw: bytes(zero)}
		}
		if shuffled {
			var g []uint32
			for _, v := range of {
				g = append(g, uint32(v))
			}
			out[".weight_g_idx"] = fixture{dtype: "I32", shape: []int{cols}, raw: bytes(g)}
		}
		return out, values
	}
}

// int8s packs a matrix of whole numbers of eight bits, with a scale for each row.
func int8s(rng *rand.Rand, rows, cols int) (map[string]fixture, []float32) {
	codes, scales, values := make([]byte, rows*cols), fixture{dtype: "BF16", shape: []int{rows, 1}}, make([]float32, rows*cols)
	for i := range values {
		if i%cols == 0 {
			scales.values = append(scales.values, float32(rng.IntN(15)+1)/256)
		}
		codes[i] = byte(rng.IntN(256))
		values[i] = float32(int8(codes[i])) * scales.values[i/cols]
	}
	return map[string]fixture{".weight": {dtype: "I8", shape: []int{rows, cols}, raw: codes}, ".weight_scale": scales}, values
}

// e4m3s packs a matrix of floats of eight bits, with a power of two for each block.
func e4m3s(block int) packed {
	return func(rng *rand.Rand, rows, cols int) (map[string]fixture, []float32) {
		across := (cols + block - 1) / block
		s := make([]byte, (rows+block-1)/block*across)
		for i := range s {
			s[i] = byte(120 + rng.IntN(6))
		}
		codes, values := make([]byte, rows*cols), make([]float32, rows*cols)
		for i := range values {
			codes[i] = byte(rng.IntN(0x7f) | rng.IntN(2)<<7)
			values[i] = e4m3(codes[i]) * float32(math.Pow(2, float64(s[i/cols/block*across+i%cols/block])-127))
		}
		return map[string]fixture{
			".weight": {dtype: "F8_E4M3", shape: []int{rows, cols}, raw: codes}, ".scale": {dtype: "F8_E8M0", shape: []int{len(s) / across, across}, raw: s},
		}, values
	}
}

// thirds packs a matrix of −1, 0 and 1, four rows to a byte; divides says that the scale divides.
func thirds(divides bool) packed {
	return func(rng *rand.Rand, rows, cols int) (map[string]fixture, []float32) {
		codes, values, scale := make([]byte, rows/4*cols), make([]float32, rows*cols), float32(0.25)
		if divides {
			scale = 4
		}
		for i := range values {
			v := rng.IntN(3)
			codes[i%len(codes)] |= byte(v) << (2 * (i / len(codes)))
			values[i] = float32(v-1) / 4
		}
		return map[string]fixture{
			".weight": {dtype: "U8", shape: []int{rows / 4, cols}, raw: codes}, ".weight_scale": {dtype: "BF16", shape: []int{1}, values: []float32{scale}},
		}, values
	}
}

// compressed returns the configuration of a folder of llm-compressor's.
func compressed(format string, weights map[string]any) map[string]any {
	return map[string]any{"quant_method": "compressed-tensors", "format": format, "config_groups": map[string]any{"group_0": map[string]any{"weights": weights}}}
}

// TestPackedFolders: folders of packed matrices give files of the numbers that the published definitions give the
// codes, in the type that has the same codes if there is one.
func TestPackedFolders(t *testing.T) {
	words := func(bits, group int) map[string]any {
		return compressed("pack-quantized", map[string]any{"num_bits": bits, "group_size": group, "type": "int", "strategy": "group"})
	}
	v4 := map[string]any{"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0", "weight_block_size": []int{24, 24}}
	for name, c := range map[string]struct {
		of     string // a reference; empty: a tiny Llama
		config map[string]any
		pack   map[string]packed // by a part of names; the first that is found counts
		kept   string            // a tensor of the file, and
		typ    quant.Type        // its type
	}{
		"int4":             {config: words(4, 32), pack: map[string]packed{"_proj.": packedWords(4, 32, false, false)}, kept: "blk.1.ffn_down.weight", typ: quant.Q4_0},
		"int4 of rows":     {config: words(4, 0), pack: map[string]packed{"_proj.": packedWords(4, 0, false, false)}, kept: "blk.0.attn_q.weight", typ: quant.Q4_0},
		"int4 of 16":       {config: words(4, 16), pack: map[string]packed{"_proj.": packedWords(4, 16, false, false)}, kept: "blk.0.attn_q.weight", typ: quant.F32},
		"int4 with zeros":  {config: words(4, 32), pack: map[string]packed{"_proj.": packedWords(4, 32, true, false)}, kept: "blk.0.attn_q.weight", typ: quant.F32},
		"int4 by activity": {config: words(4, 32), pack: map[string]packed{"_proj.": packedWords(4, 32, true, true)}, kept: "blk.0.attn_q.weight", typ: quant.F32},
		"int8":             {config: words(8, 32), pack: map[string]packed{"_proj.": packedWords(8, 32, false, false)}, kept: "blk.0.attn_q.weight", typ: quant.F32},
		"bytes":            {config: compressed("int-quantized", map[string]any{"num_bits": 8, "strategy": "channel"}), pack: map[string]packed{"_proj.": int8s}, kept: "blk.0.attn_q.weight", typ: quant.F32},
		"mxfp4": {
			config: compressed("mxfp4-pack-quantized", map[string]any{"num_bits": 4, "group_size": 32}),
			pack:   map[string]packed{"_proj.": mxfp4(".weight_packed", "U8", ".weight_scale", "U8")}, kept: "blk.1.ffn_down.weight", typ: quant.MXFP4,
		},
		"BitNet of Llama": {config: map[string]any{"quant_method": "bitnet"}, pack: map[string]packed{"_proj.": thirds(true)}, kept: "blk.0.attn_q.weight", typ: quant.F32},
		"BitNet 2B4T": {
			config: map[string]any{"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"},
			pack:   map[string]packed{"_proj.": thirds(false)}, kept: "blk.0.attn_q.weight", typ: quant.F32,
		},
		"Kimi K2.5": {of: "kimi-k2", config: words(4, 32), pack: map[string]packed{".experts.": packedWords(4, 32, false, false)}, kept: "blk.1.ffn_up_exps.weight", typ: quant.Q4_0},
		"Kimi K3": {
			of: "kimi-k3", config: compressed("mxfp4-pack-quantized", map[string]any{"num_bits": 4, "group_size": 32}),
			pack: map[string]packed{".w1.": mxfp4(".weight_packed", "U8", ".weight_scale", "U8")}, kept: "blk.1.ffn_gate_exps.weight", typ: quant.MXFP4,
		},
		"DeepSeek V4": {
			of: "deepseek4", config: v4, pack: map[string]packed{".ffn.experts.": mxfp4(".weight", "I8", ".scale", "F8_E8M0"), ".attn.w": e4m3s(24)},
			kept: "blk.3.ffn_down_exps.weight", typ: quant.MXFP4,
		},
		"MiMo V2.5": {
			of: "mimo2", config: map[string]any{"quant_method": "fp8", "store_dtype": "mxfp4", "weight_block_size": []int{128, 128}},
			pack: map[string]packed{".experts.": mxfp4(".weight", "U8", ".weight_scale", "U8")}, kept: "blk.1.ffn_down_exps.weight", typ: quant.MXFP4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := tinyLlama(t, "LlamaForCausalLM", nil)
			if c.of != "" {
				f = likeReference(t, c.of)
			}
			if c.of == "deepseek4" { // whole numbers, of no matter here
				f.config["num_hash_layers"] = 0
				maps.DeleteFunc(f.tensors, func(name string, _ fixture) bool { return strings.HasSuffix(name, "tid2eid") })
			}
			plain := &folder{dir: t.TempDir(), config: maps.Clone(f.config), tensors: maps.Clone(f.tensors)}
			f.config["quantization_config"] = c.config
			for _, name := range slices.Sorted(maps.Keys(plain.tensors)) {
				x := plain.tensors[name]
				base, matrix := strings.CutSuffix(name, ".weight")
				for part, pack := range c.pack {
					if !strings.Contains(name, part) || !matrix || len(x.shape) != 2 {
						continue
					}
					parts, values := pack(f.rng, x.shape[0], x.shape[1])
					delete(f.tensors, name)
					for end, p := range parts {
						f.tensors[base+end] = p
					}
					plain.tensors[name] = fixture{dtype: "F32", shape: x.shape, values: values}
				}
			}
			var files []*gguf.File
			for _, of := range []*folder{f, plain} {
				of.save(t, 1, tinyVocab)
				out := filepath.Join(of.dir, "model.gguf")
				if err := HuggingFace(t.Context(), of.dir, out, Options{Output: OutputOf(quant.F32)}); err != nil {
					t.Fatal(err)
				}
				g, err := gguf.Open(out)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				files = append(files, g)
			}
			if k := files[0].Tensor(c.kept); k == nil || k.Type != c.typ {
				t.Errorf("%s is %v, want %s", c.kept, k, c.typ)
			}
			for _, want := range files[1].Tensors {
				got := files[0].Tensor(want.Name)
				if got == nil || !slices.Equal(got.Shape, want.Shape) {
					t.Fatalf("%s is missing or misshapen", want.Name)
				}
				a, b := make([]float32, got.Elems()), make([]float32, got.Elems())
				quant.Decode(got.Type, a, got.Data)
				quant.Decode(want.Type, b, want.Data)
				if !slices.Equal(a, b) {
					t.Errorf("%s has other numbers", want.Name)
				}
			}
		})
	}
}

// TestPackedRefused: codes without their scales, and scales of another shape, are refused.
func TestPackedRefused(t *testing.T) {
	const base = "model.layers.0.mlp.up_proj"
	for what, c := range map[string]struct {
		bits   int
		damage func(f *folder)
		want   string
	}{
		"no shape": {4, func(f *folder) { delete(f.tensors, base+".weight_shape") }, "no " + base + ".weight_scale or no " + base + ".weight_shape beside it"},
		"scales": {4, func(f *folder) {
			f.tensors[base+".weight_scale"] = fixture{dtype: "F32", shape: []int{3}, values: make([]float32, 3)}
		}, "which are no scales of"},
		"groups": {4, func(f *folder) {
			f.tensors[base+".weight_g_idx"] = fixture{dtype: "F32", shape: []int{tinyEmbd}, values: slices.Repeat([]float32{9}, tinyEmbd)}
		}, "has the group 9, and rows have 2"},
		"bits": {3, func(*folder) {}, "whole numbers of 3 bits in groups of 32 are not supported"},
		"NaN": {4, func(f *folder) {
			parts, _ := mxfp4(".weight_packed", "U8", ".weight_scale", "U8")(f.rng, tinyFF, tinyEmbd)
			parts[".weight_scale"].raw[7] = 0xff
			for end, p := range parts {
				f.tensors[base+end] = p
			}
			delete(f.tensors, base+".weight_shape")
		}, "holds NaN"},
	} {
		t.Run(what, func(t *testing.T) {
			f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"quantization_config": compressed("pack-quantized", map[string]any{"num_bits": c.bits, "group_size": 32})})
			parts, _ := packedWords(4, 32, false, false)(f.rng, tinyFF, tinyEmbd)
			delete(f.tensors, base+".weight")
			for end, p := range parts {
				f.tensors[base+end] = p
			}
			c.damage(f)
			f.save(t, 1, tinyVocab)
			expectError(t, HuggingFace(t.Context(), f.dir, filepath.Join(f.dir, "model.gguf"), Options{Output: OutputOf(quant.F32)}), c.want)
		})
	}
}

// TestPackedThirds: BitNet's packed matrices do not change, while training weights are rounded.
func TestPackedThirds(t *testing.T) {
	f := likeReference(t, "bitnet")
	f.config["quantization_config"] = map[string]any{"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}
	const base = "model.layers.0.mlp.up_proj"
	parts, want := thirds(false)(f.rng, tinyFF, tinyEmbd)
	for end, p := range parts {
		f.tensors[base+end] = p
	}
	f.save(t, 1, tinyVocab)
	out := filepath.Join(f.dir, "model.gguf")
	if err := HuggingFace(t.Context(), f.dir, out, Options{Output: OutputOf(quant.F32)}); err != nil {
		t.Fatal(err)
	}
	g, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	got := make([]float32, len(want))
	quant.Decode(quant.F32, got, g.Tensor("blk.0.ffn_up.weight").Data)
	if !slices.Equal(got, want) {
		t.Error("the matrix has other numbers")
	}
}

// TestUnusedBias: layers of DeepSeek V4 with experts chosen by token have no bias, even if the folder has one.
func TestUnusedBias(t *testing.T) {
	f := likeReference(t, "deepseek4")
	for name, x := range f.tensors {
		if strings.HasSuffix(name, "tid2eid") {
			x.dtype, x.raw, x.values = "I64", make([]byte, 8*len(x.values)), nil
			f.tensors[name] = x
		}
	}
	f.random("F32", "layers.0.ffn.gate.bias", 8)
	f.random("F32", "layers.3.ffn.gate.bias_vl", 8)
	f.save(t, 1, tinyVocab)
	out := filepath.Join(f.dir, "model.gguf")
	var notes []string
	if err := HuggingFace(t.Context(), f.dir, out, Options{Output: OutputOf(quant.F32), Notes: func(s string) { notes = append(notes, s) }}); err != nil {
		t.Fatal(err)
	}
	g, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.Tensor("blk.0.exp_probs_b.bias") != nil || g.Tensor("blk.3.exp_probs_b.bias") == nil {
		t.Error("the biases are not those of the layers that choose by them")
	}
	if text := strings.Join(notes, " "); !strings.Contains(text, "layers.0.ffn.gate.bias") || !strings.Contains(text, "bias_vl") {
		t.Errorf("notes: %q", notes)
	}
}
