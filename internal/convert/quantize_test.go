package convert

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/imatrix"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// written makes a GGUF file of tensors and keys and opens it.
func written(t *testing.T, magic string, keys []gguf.KV, tensors ...gguf.Source) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.gguf")
	if err := gguf.Create(t.Context(), path, magic, keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return opened(t, path)
}

func opened(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// encoded returns a tensor of given values.
func encoded(name string, typ quant.Type, shape []int, x []float32) gguf.Source {
	b := make([]byte, typ.RowBytes(len(x)))
	quant.Encode(typ, b, x)
	return gguf.Source{Name: name, Type: typ, Shape: shape, Write: func(w io.Writer) error { _, err := w.Write(b); return err }}
}

func random(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// quantized is f in another type.
func quantized(t *testing.T, f *gguf.File, q Quantization) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.gguf")
	if err := Quantize(t.Context(), f, path, q); err != nil {
		t.Fatal(err)
	}
	return opened(t, path)
}

// Quantising an F32 conversion gives the very file that converting to the type gives.
func TestQuantizeIsConversion(t *testing.T) {
	for _, tied := range []bool{false, true} {
		f := tinyLlama(t, "LlamaForCausalLM", map[string]any{"tie_word_embeddings": tied, "attention_bias": true})
		f.save(t, 1, tinyVocab)
		convert := func(typ quant.Type) string {
			path := filepath.Join(t.TempDir(), "c.gguf")
			if err := HuggingFace(t.Context(), f.dir, path, Options{Output: OutputOf(typ), Name: "tiny"}); err != nil {
				t.Fatal(err)
			}
			return path
		}
		source := opened(t, convert(quant.F32))
		for _, typ := range []quant.Type{quant.F32, quant.BF16, quant.Q8_0, quant.Q5_1, quant.Q4_K, quant.IQ4_NL} {
			want, err := os.ReadFile(convert(typ))
			if err != nil {
				t.Fatal(err)
			}
			for _, threads := range []int{0, 1, 3} {
				got, err := os.ReadFile(quantized(t, source, Quantization{Output: OutputOf(typ), Threads: threads}).Path)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s, tied %v, %d threads: %d bytes are not the %d of the conversion (%v)", typ, tied, threads, len(got), len(want), err)
				}
			}
		}
	}
}

// Everything in a prepared file but its matrices comes out unchanged.
func TestQuantizeKeepsTheRest(t *testing.T) {
	rng := testenv.Rand(t)
	keys := []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.file_type", Value: uint32(1)},
		{Key: "powerinfer.version", Value: uint32(1)},
		{Key: "powerinfer.frequency.0", Value: []float32{0.9, 0.5}},
		{Key: "split.count", Value: uint16(1)},
		{Key: "powerinfer.layer.mode", Value: []string{"predict"}},
		{Key: "powerinfer.curve.mode", Value: "predict"},
	}
	x := random(rng, 96*40)
	small := func(name string, shape ...int) gguf.Source {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return encoded(name, quant.F32, shape, x[:n])
	}
	matrix := func(name string, cols, rows int) gguf.Source {
		return encoded(name, quant.F16, []int{cols, rows}, x[:cols*rows])
	}
	f := written(t, "PWRI", keys,
		matrix("token_embd.weight", 64, 40), matrix("output.weight", 64, 40), matrix("blk.0.fc1.weight", 64, 32), matrix("blk.0.fc2.weight", 32, 40),
		matrix("blk.0.ffn_down_t.weight", 64, 40), matrix("blk.0.odd.weight", 40, 3), matrix("position_embd.weight", 64, 5),
		encoded("blk.0.ffn_up_exps.weight", quant.BF16, []int{32, 4, 3}, x[:32*4*3]),
		small("blk.0.ffn_gate_inp.weight", 64, 4), small("blk.0.attn_q_norm.weight", 32, 2), small("blk.0.ffn_up.bias", 40), small("output_norm.weight", 64))
	var notes []string
	var done, total int64
	out := quantized(t, f, Quantization{
		Output: OutputOf(quant.Q4_0), Notes: func(s string) { notes = append(notes, s) }, Progress: func(d, n int64) { done, total = d, n },
	})
	if out.Magic != "PWRI" || len(out.Tensors) != len(f.Tensors) || done != total || total == 0 {
		t.Errorf("magic %s, %d tensors, progress %d of %d", out.Magic, len(out.Tensors), done, total)
	}
	want := slices.Clone(keys)
	want[1].Value = uint32(2)
	want = append(slices.Delete(want, 4, 5), gguf.KV{Key: "general.quantization_version", Value: uint32(2)})
	if !reflect.DeepEqual(out.Keys, want) {
		t.Errorf("keys became %v, want %v", out.Keys, want)
	}
	if len(notes) != 3 || !strings.Contains(notes[0], "output.weight") || !strings.Contains(notes[1], "blk.0.odd.weight: rows of 40") || !strings.Contains(notes[2], "measured before quantising") {
		t.Errorf("notes: %q", notes)
	}
	for i, m := range f.Tensors {
		got := out.Tensors[i]
		types := map[string]quant.Type{
			"output.weight": quant.Q8_0, "blk.0.odd.weight": m.Type, "position_embd.weight": m.Type, "blk.0.ffn_gate_inp.weight": m.Type,
			"blk.0.attn_q_norm.weight": m.Type, "blk.0.ffn_up.bias": m.Type, "output_norm.weight": m.Type,
		}
		typ, special := types[m.Name]
		if !special {
			typ = quant.Q4_0
		}
		data := m.Data
		if typ != m.Type {
			floats := make([]float32, m.Elems())
			quant.Decode(m.Type, floats, m.Data)
			data = make([]byte, typ.RowBytes(len(floats)))
			quant.Encode(typ, data, floats)
		}
		if got.Name != m.Name || got.Type != typ || !slices.Equal(got.Shape, m.Shape) || !bytes.Equal(got.Data, data) {
			t.Errorf("%s %s %v became %s %s %v, or its bytes are wrong; want %s", m.Name, m.Type, m.Shape, got.Name, got.Type, got.Shape, typ)
		}
	}
	if pure := quantized(t, f, Quantization{Output: OutputOf(quant.Q4_0), Pure: true}); pure.Tensor("output.weight").Type != quant.Q4_0 {
		t.Error("--pure leaves the head in another type")
	}
}

// importances returns a matrix of one entry of n ones.
func importances(name string, n int) *imatrix.Matrix {
	m := imatrix.New(64)
	m.Entries[name] = &imatrix.Entry{Sums: slices.Repeat([]float32{1}, n), Counts: []int64{1}}
	return m
}

// TestQuantizeUnmatched: a rule that matches no tensor gives a note, because it may be misspelt.
func TestQuantizeUnmatched(t *testing.T) {
	f := written(t, "GGUF", nil, encoded("a.weight", quant.F32, []int{32, 2}, make([]float32, 64)))
	var notes []string
	q := Quantization{Output: OutputOf(quant.Q8_0), Notes: func(s string) { notes = append(notes, s) }}
	for _, rule := range []string{"a.w=q4_0", "atn_v=q4_0"} {
		r, err := ParseTypeRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		q.Rules = append(q.Rules, r)
	}
	if _, err := q.Plan(f); err != nil || len(notes) != 1 || !strings.Contains(notes[0], `no tensor's name matches "atn_v"`) {
		t.Errorf("notes %q (%v), want one of atn_v", notes, err)
	}
}

func TestQuantizeRefusals(t *testing.T) {
	x := make([]float32, 64)
	q8 := written(t, "GGUF", nil, encoded("a.weight", quant.Q8_0, []int{32, 2}, x))
	bad := func(v float32) *gguf.File {
		y := slices.Clone(x)
		y[40] = v
		return written(t, "GGUF", nil, encoded("a.weight", quant.F32, []int{32, 2}, y))
	}
	for name, c := range map[string]struct {
		f    *gguf.File
		q    Quantization
		want string
	}{
		"quantised":  {q8, Quantization{Output: OutputOf(quant.Q4_0)}, `tensor "a.weight" is Q8_0 already, .*`},
		"to floats":  {q8, Quantization{Output: OutputOf(quant.F32)}, "give --allow-requantize"},
		"type":       {q8, Quantization{Output: OutputOf(quant.I32)}, "give an output type; supported are f32, f16"},
		"no tensors": {written(t, "GGUF", nil), Quantization{Output: OutputOf(quant.F16)}, "no tensors"},
		"NaN":        {bad(float32(math.NaN())), Quantization{Output: OutputOf(quant.Q8_0)}, `"a.weight" holds NaN; the model is damaged`},
		"infinity":   {bad(float32(math.Inf(-1))), Quantization{Output: OutputOf(quant.BF16)}, `"a.weight" holds -Inf; the model is damaged`},
		"F16":        {bad(65520), Quantization{Output: OutputOf(quant.F16)}, `holds 65520, beyond F16; choose bf16 or f32`},
		"Q4_0":       {bad(-1e6), Quantization{Output: OutputOf(quant.Q4_0)}, `holds -1e+06, beyond Q4_0; choose bf16 or f32`},
		"Q8_0":       {bad(1e7), Quantization{Output: OutputOf(quant.Q8_0)}, `holds 1e+07, beyond Q8_0; choose bf16 or f32`},
		"BF16":       {bad(math.MaxFloat32), Quantization{Output: OutputOf(quant.BF16)}, `beyond BF16; choose f32`},
		"other names": {
			bad(1),
			Quantization{Output: OutputOf(quant.Q4_0), Matrix: importances("b.weight", 32), MatrixPath: "m.gguf"},
			"m.gguf holds no importances of the tensors of ",
		},
		"other widths": {
			bad(1),
			Quantization{Output: OutputOf(quant.Q4_0), Matrix: importances("a.weight", 48), MatrixPath: "m.gguf"},
			`tensor "a.weight" takes 32 importances, and m.gguf has 48 for it: that is of another model`,
		},
		"threads": {q8, Quantization{Output: OutputOf(quant.Q8_0), Threads: -1}, "negative"},
	} {
		path := filepath.Join(t.TempDir(), "out.gguf")
		err := Quantize(t.Context(), c.f, path, c.q)
		if err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(c.want, ".*")) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
			t.Errorf("%s: %v is left behind", name, left)
		}
	}
	again := quantized(t, q8, Quantization{Output: OutputOf(quant.F16), Requantize: true})
	if m := again.Tensor("a.weight"); m.Type != quant.F16 || !bytes.Equal(m.Data, make([]byte, 2*64)) {
		t.Errorf("requantised to %s", m.Type)
	}
	if same := quantized(t, q8, Quantization{Output: OutputOf(quant.Q8_0)}); !bytes.Equal(same.Tensors[0].Data, q8.Tensors[0].Data) {
		t.Error("a file of the type is not copied")
	}
}

// The largest magnitudes that a type takes come out finite.
func TestLimits(t *testing.T) {
	for _, typ := range []quant.Type{quant.F16, quant.BF16, quant.Q8_0, quant.Q4_0} {
		x := make([]float32, 32)
		x[3] = math.Nextafter32(float32(limit(typ)), 0)
		for _, v := range []float32{1, -1} {
			x[3] *= v
			b := make([]byte, typ.RowBytes(32))
			quant.Encode(typ, b, x)
			y := make([]float32, 32)
			quant.Decode(typ, y, b)
			if math.IsInf(float64(y[3]), 0) || math.IsNaN(float64(y[0])) || (y[3] < 0) != (x[3] < 0) {
				t.Errorf("%s: %g became %g", typ, x[3], y[3])
			}
		}
	}
}

// Tensors of many chunks come out in order whatever the number of lanes, and a chunk that cannot be encoded ends the
// work.
func TestQuantizeChunks(t *testing.T) {
	const cols, rows = 1024, 5*chunkElems/1024 + 3
	x := random(testenv.Rand(t), cols*rows)
	f := written(t, "GGUF", nil, encoded("a.weight", quant.F32, []int{cols, rows}, x), encoded("b.weight", quant.F32, []int{cols, 2}, x[:2*cols]))
	want := make([]byte, quant.Q8_0.RowBytes(len(x)))
	quant.Encode(quant.Q8_0, want, x)
	for _, threads := range []int{1, 2, 3, 6, 64} {
		if got := quantized(t, f, Quantization{Output: OutputOf(quant.Q8_0), Threads: threads}); !bytes.Equal(got.Tensors[0].Data, want) {
			t.Errorf("%d threads: other bytes", threads)
		}
	}
	x[len(x)-1] = float32(math.NaN())
	f = written(t, "GGUF", nil, encoded("a.weight", quant.F32, []int{cols, rows}, x))
	if err := Quantize(t.Context(), f, filepath.Join(t.TempDir(), "x"), Quantization{Output: OutputOf(quant.Q8_0), Threads: 3}); err == nil || !strings.Contains(err.Error(), "holds NaN") {
		t.Errorf("NaN in the last chunk: %v", err)
	}
}

// TestMixes: for a llama of 32 layers, Q5_K_M gives as many matrices of each type as in the published files of Llama 2
// 7B, and its file type. The other mixes give as many as llama-quantize --dry-run (3f545bec) for a file of the same
// tensors.
func TestMixes(t *testing.T) {
	const layers = 32
	rng := rand.New(rand.NewPCG(7, 0))
	x, norm := random(rng, 512), random(rng, 256)
	var tensors []gguf.Source
	matrix := func(name string) {
		tensors = append(tensors, encoded(name, quant.F16, []int{256, 2}, x))
	}
	vector := func(name string) { tensors = append(tensors, encoded(name, quant.F32, []int{256}, norm)) }
	matrix("token_embd.weight")
	for l := range layers {
		for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
			matrix(fmt.Sprintf("blk.%d.%s.weight", l, part))
		}
		vector(fmt.Sprintf("blk.%d.attn_norm.weight", l))
		vector(fmt.Sprintf("blk.%d.ffn_norm.weight", l))
	}
	vector("output_norm.weight")
	matrix("output.weight")
	f := written(t, "GGUF", nil, tensors...)
	for name, want := range map[string]struct {
		counts   map[quant.Type]int
		fileType uint64
	}{
		"Q5_K_M": {map[quant.Type]int{quant.F32: 65, quant.Q5_K: 193, quant.Q6_K: 33}, 17}, // as llama.cpp lists TheBloke/Llama-2-7B-GGUF
		"q5_k_s": {map[quant.Type]int{quant.F32: 65, quant.Q5_K: 225, quant.Q6_K: 1}, 16},
		"q4_1":   {map[quant.Type]int{quant.F32: 65, quant.Q4_1: 225, quant.Q6_K: 1}, 3},
	} {
		o, err := ParseOutput(name)
		if err != nil {
			t.Fatal(err)
		}
		g := quantized(t, f, Quantization{Output: o})
		got := map[quant.Type]int{}
		for _, m := range g.Tensors {
			got[m.Type]++
		}
		if fileType, _, _ := g.Uint("general.file_type"); !reflect.DeepEqual(got, want.counts) || fileType != want.fileType {
			t.Errorf("%s: %v of file type %d, want %v of %d", name, got, fileType, want.counts, want.fileType)
		}
		for _, l := range []int{3, 6, 27, 28} {
			if more := g.Tensor(fmt.Sprintf("blk.%d.attn_v.weight", l)).Type == quant.Q6_K; more != (name == "Q5_K_M") {
				t.Errorf("%s: values of layer %d in Q6_K: %t", name, l, more)
			}
		}
	}
	if err := Quantize(t.Context(), f, filepath.Join(t.TempDir(), "m"), Quantization{}); err == nil {
		t.Error("no type at all")
	}
}

// TestPruneLayers: pruned layers are left out, later ones take their numbers, and lists by layer lose their entries.
func TestPruneLayers(t *testing.T) {
	x := make([]float32, 64*4)
	keys := []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(4)},
		{Key: "llama.attention.head_count_kv", Value: []uint32{1, 2, 3, 4}},
		{Key: "powerinfer.activation", Value: "silu"}, // as convert writes it
		{Key: "llama.rope.dimension_sections", Value: []int32{1, 2, 3}},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "c", "d"}},
	}
	tensors := []gguf.Source{encoded("token_embd.weight", quant.F16, []int{64, 4}, x)}
	for l := range 4 {
		for i := range x {
			x[i] = float32(l + 1)
		}
		tensors = append(tensors, encoded(fmt.Sprintf("blk.%d.ffn_up.weight", l), quant.F16, []int{64, 4}, x))
	}
	f := written(t, "GGUF", keys, tensors...)
	m := importances("blk.3.ffn_up.weight", 64)
	q := Quantization{Output: OutputOf(quant.Q8_0), Prune: []int{0, 2}, Matrix: m}
	choices, err := q.Plan(f)
	if err != nil || choices[2].importance == nil || choices[1].importance != nil {
		t.Errorf("importances of %+v, %v: want those of layer 3 for layer 1 only", choices, err)
	}
	out := quantized(t, f, q)
	var names []string
	for _, o := range out.Tensors {
		names = append(names, o.Name)
	}
	if want := []string{"token_embd.weight", "blk.0.ffn_up.weight", "blk.1.ffn_up.weight"}; !slices.Equal(names, want) {
		t.Fatalf("tensors %q, want %q", names, want)
	}
	for l, want := range []float32{2, 4} {
		got := make([]float32, len(x))
		quant.Decode(quant.Q8_0, got, out.Tensors[1+l].Data)
		const tolerance = 0.01 // Q8_0 keeps 4 as 127 times a scale in 11 bits
		if math.Abs(float64(got[0]-want)) > tolerance {
			t.Errorf("layer %d holds %g, want %g", l, got[0], want)
		}
	}
	for _, want := range []gguf.KV{
		{Key: "llama.block_count", Value: uint32(2)},
		{Key: "llama.attention.head_count_kv", Value: []uint32{2, 4}},
		{Key: "llama.rope.dimension_sections", Value: []int32{1, 2, 3}},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "c", "d"}},
	} {
		if !slices.ContainsFunc(out.Keys, func(kv gguf.KV) bool { return reflect.DeepEqual(kv, want) }) {
			t.Errorf("the output lacks %v", want)
		}
	}
	for _, wrong := range [][]int{{4}, {0, 1, 2, 3}} {
		if _, err := (&Quantization{Output: OutputOf(quant.Q8_0), Prune: wrong}).Plan(f); err == nil {
			t.Errorf("layers %v of 4 were left out", wrong)
		}
	}
}

// TestKeepSplit: a model in parts becomes one in parts, with the same tensors in each. A part with only pruned layers
// is empty.
func TestKeepSplit(t *testing.T) {
	dir, x := t.TempDir(), random(rand.New(rand.NewPCG(1, 2)), 64*4)
	base := []gguf.KV{{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(3)}}
	const parts = 3
	for no, name := range gguf.PartNames(filepath.Join(dir, "in"), parts) {
		var keys []gguf.KV
		if no == 0 {
			keys = slices.Clone(base)
		}
		keys = append(keys, gguf.KV{Key: "split.no", Value: uint16(no)}, gguf.KV{Key: "split.count", Value: uint16(parts)}, gguf.KV{Key: "split.tensors.count", Value: int32(parts)})
		tensor := encoded(fmt.Sprintf("blk.%d.ffn_up.weight", no), quant.F16, []int{64, 4}, x)
		if err := gguf.Create(t.Context(), name, "GGUF", keys, []gguf.Source{tensor}, nil); err != nil {
			t.Fatal(err)
		}
	}
	f := opened(t, gguf.PartNames(filepath.Join(dir, "in"), parts)[0])
	for _, prune := range [][]int{nil, {1}} {
		q := Quantization{Output: OutputOf(quant.Q8_0), KeepSplit: true, Prune: prune}
		choices, err := q.Plan(f)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out.gguf")
		files := q.Files(choices, out)
		if err := Quantize(t.Context(), f, out, q); err != nil {
			t.Fatal(err)
		}
		if left := parts - len(prune); len(files) != left {
			t.Fatalf("%d files for %d parts: %q", len(files), left, files)
		}
		split := opened(t, files[0])
		q.KeepSplit = false
		whole := quantized(t, f, q)
		for i, want := range whole.Tensors {
			if got := split.Tensors[i]; got.Name != want.Name || got.PartNo != i || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("tensor %d in part %d is %s, want %s, or its bytes differ", i, got.PartNo, got.Name, want.Name)
			}
		}
	}
}
