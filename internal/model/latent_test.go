package model

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// latentModel writes a small model with latent attention and opens it.
func latentModel(t *testing.T, spec synth.Spec) *gguf.File {
	t.Helper()
	spec.Layers, spec.Embd, spec.FF, spec.Heads, spec.Seed = 2, 256, 256, 4, 5
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, spec, nil); err != nil {
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

// rewritten is f with its tensors as change gives them, and without the keys of heads' sizes if they follow from the
// width.
func rewritten(t *testing.T, f *gguf.File, sizes bool, change func(*gguf.Tensor) []gguf.Source) *gguf.File {
	t.Helper()
	var tensors []gguf.Source
	for _, x := range f.Tensors {
		tensors = append(tensors, change(x)...)
	}
	keys := slices.DeleteFunc(slices.Clone(f.Keys), func(kv gguf.KV) bool {
		return !sizes && (strings.Contains(kv.Key, "attention.key_length") || strings.Contains(kv.Key, "attention.value_length"))
	})
	path := filepath.Join(t.TempDir(), "rewritten.gguf")
	if err := gguf.Create(t.Context(), path, "GGUF", keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return opened(t, path)
}

// holding is a tensor of elements x.
func holding(name string, typ quant.Type, x []float32, shape ...int) gguf.Source {
	return gguf.Source{Name: name, Type: typ, Shape: shape, Write: func(w io.Writer) error {
		_, err := w.Write(encoded(typ, x))
		return err
	}}
}

// kept is a tensor as it is.
func kept(x *gguf.Tensor) gguf.Source {
	return gguf.Source{Name: x.Name, Type: x.Type, Shape: x.Shape, Write: func(w io.Writer) error {
		_, err := w.Write(x.Data)
		return err
	}}
}

// latentLogits returns a model's logits for 70 tokens, as a prompt in parts of this many tokens, with a cache of the
// given types.
func latentLogits(t *testing.T, f *gguf.File, part int, types compute.CacheTypes) [][]float32 {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const n = 70
	m, err := Load(t.Context(), f, dev, Options{Batch: n, Outputs: n, Cache: compute.CacheSpec{Pages: 2}, CacheTypes: types})
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for at := 0; at < n; at += part {
		p := compute.Params{Pages: [][]int32{{1, 0}}}
		for i := range min(part, n-at) {
			p.Tokens, p.Pos, p.Seq, p.Out = append(p.Tokens, int32(3*(at+i)+1)), append(p.Pos, int32(at+i)), append(p.Seq, 0), append(p.Out, int32(i))
		}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		for i := range p.Out {
			row, err := m.Logits(int(i))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(row))
		}
	}
	return out
}

// TestLatentCut: a prompt gives the same bytes however it is cut, and another type of cache changes logits a little.
func TestLatentCut(t *testing.T) {
	f := latentModel(t, synth.Spec{Arch: "deepseek2", Type: quant.F16})
	whole := latentLogits(t, f, 70, compute.CacheTypes{})
	for _, part := range []int{1, 9, 33} {
		for i, row := range latentLogits(t, f, part, compute.CacheTypes{}) {
			if !slices.Equal(row, whole[i]) {
				t.Fatalf("position %d: a prompt in parts of %d has other logits", i, part)
			}
		}
	}
	for typ, share := range map[compute.KVType]float64{ // shares of the largest logit; values take no room in this cache, whatever their type
		compute.KVF32:  0.01, // F16, with which it is compared, keeps 11 bits of a key: 0.0005 each, and a few layers add them up
		compute.KVQ8_0: 0.05, // eight bits with the largest of 32 at 127: 0.004 each, as above
	} {
		if d := distance(latentLogits(t, f, 70, compute.CacheTypes{Key: typ, Value: compute.KVQ4_0}), whole); !(d > 0 && d < share) {
			t.Errorf("a cache in %s moves logits by %.4f of the largest, not by up to %g", typ, d, share)
		}
	}
}

// distance returns the largest difference of logits as a share of the largest.
func distance(a, b [][]float32) float64 {
	worst, top := 0.0, 0.0
	for i := range a {
		for j, v := range a[i] {
			worst, top = max(worst, math.Abs(float64(v-b[i][j]))), max(top, math.Abs(float64(v)))
		}
	}
	return worst / top
}

// TestLatentOneTensor: a file with the matrices of keys and values in one tensor, like older files, gives the logits of
// a file with the same elements by head.
func TestLatentOneTensor(t *testing.T) {
	for typ, limit := range map[quant.Type]float64{ // limits as shares of the largest logit
		quant.F32:  1e-5, // rounding of sums
		quant.F16:  0.02, // activations may be rounded as these weights are
		quant.Q8_0: 0.05, // values' products take activations in eight bits
		quant.Q4_0: 0.05, // the weights themselves are the same four bits in both files
	} {
		t.Run(typ.String(), func(t *testing.T) {
			f := latentModel(t, synth.Spec{Arch: "deepseek2", Type: quant.F32, Latents: synth.Latents{DirectQueries: typ == quant.Q8_0}})
			c, err := ReadConfig(f, "")
			if err != nil {
				t.Fatal(err)
			}
			b := &c.Blocks[0]
			apart := rewritten(t, f, true, func(x *gguf.Tensor) []gguf.Source {
				switch l, part := layerOf(x.Name); part {
				case "attn_k_b.weight":
					k, _ := divided(b, joined(f, b, l, typ))
					return []gguf.Source{holding(x.Name, quant.F32, k, x.Shape...)}
				case "attn_v_b.weight":
					_, v := divided(b, joined(f, b, l, typ))
					return []gguf.Source{holding(x.Name, quant.F32, v, x.Shape...)}
				}
				return []gguf.Source{kept(x)}
			})
			old := rewritten(t, f, false, func(x *gguf.Tensor) []gguf.Source {
				switch l, part := layerOf(x.Name); part {
				case "attn_k_b.weight":
					both := joined(f, b, l, typ)
					return []gguf.Source{holding(fmt.Sprintf("blk.%d.attn_kv_b.weight", l), typ, both, b.Latent, len(both)/b.Latent)}
				case "attn_v_b.weight":
					return nil
				}
				return []gguf.Source{kept(x)}
			})
			if d := distance(latentLogits(t, old, 70, compute.CacheTypes{}), latentLogits(t, apart, 70, compute.CacheTypes{})); !(d <= limit) {
				t.Errorf("logits differ by %.5f of the largest, more than %g", d, limit)
			}
		})
	}
}

// layerOf divides a tensor's name.
func layerOf(name string) (layer int, part string) {
	if n, _ := fmt.Sscanf(name, "blk.%d.%s", &layer, &part); n != 2 {
		return 0, name
	}
	return layer, part
}

// joined returns the rows of all heads' keys and values of a layer as typ holds them. [heads·(own+value), latent]
func joined(f *gguf.File, b *Block, layer int, typ quant.Type) []float32 {
	k, v := decoded(f.Tensor(fmt.Sprintf("blk.%d.attn_k_b.weight", layer))), decoded(f.Tensor(fmt.Sprintf("blk.%d.attn_v_b.weight", layer)))
	own := b.Key - b.Rotated
	var out []float32
	for h := range b.Heads {
		for r := range own {
			for i := range b.Latent {
				out = append(out, k[(h*b.Latent+i)*own+r])
			}
		}
		out = append(out, v[h*b.Value*b.Latent:][:b.Value*b.Latent]...)
	}
	quant.Decode(typ, out, encoded(typ, out))
	return out
}

// divided returns the matrices by head of what joined returns: keys' with columns as rows.
func divided(b *Block, both []float32) (k, v []float32) {
	own := b.Key - b.Rotated
	for head := range slices.Chunk(both, (own+b.Value)*b.Latent) {
		for i := range b.Latent {
			for r := range own {
				k = append(k, head[r*b.Latent+i])
			}
		}
		v = append(v, head[own*b.Latent:]...)
	}
	return k, v
}

func encoded(typ quant.Type, x []float32) []byte {
	data := make([]byte, typ.RowBytes(len(x)))
	quant.Encode(typ, data, x)
	return data
}

func decoded(x *gguf.Tensor) []float32 {
	out := make([]float32, x.Elems())
	quant.Decode(x.Type, out, x.Data)
	return out
}

// contracted is a processor that makes no keys and values of latent vectors.
type contracted struct{ compute.Device }

func (contracted) ExpandsLatent() bool { return false }

// TestLatentExpanded: prompts with expanded keys and values give the same results as without, up to rounding: alone, in
// parts and together with another prompt.
func TestLatentExpanded(t *testing.T) {
	for typ, limit := range map[quant.Type]float64{ // limits as shares of the largest logit
		quant.F16:  0.01, // keys and values that are made are halves
		quant.Q8_0: 0.05, // and products take activations in eight bits
	} {
		for _, arch := range []string{"deepseek2", "minicpm3"} { // with a matrix for each head, and with one for all
			f := latentModel(t, synth.Spec{Arch: arch, Type: typ, HeadDim: 64, Latents: synth.Latents{Latent: 256}})
			with, steps := promptLogits(t, f, func(d compute.Device) compute.Device { return d })
			without, none := promptLogits(t, f, func(d compute.Device) compute.Device { return contracted{d} })
			if d := distance(with, without); !(d > 0 && d < limit) {
				t.Errorf("%s, %s: logits differ by %.5f of the largest, not by up to %g", arch, typ, d, limit)
			}
			if !slices.Equal(steps, []bool{true, true, false, true}) || !slices.Equal(none, steps) {
				t.Errorf("%s, %s: keys and values are made in steps %v", arch, typ, steps)
			}
		}
	}
}

// promptLogits evaluates a prompt, a part of another, a token, and two prompts in a step. It returns the logits and
// which steps expand keys and values.
func promptLogits(t *testing.T, f *gguf.File, wrap func(compute.Device) compute.Device) (out [][]float32, expanded []bool) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := Load(t.Context(), f, wrap(dev), Options{Batch: 128, Outputs: 128, Cache: compute.CacheSpec{Pages: 8}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][][3]int{{{0, 0, 100}}, {{0, 100, 90}}, {{0, 190, 1}}, {{1, 0, 60}, {2, 0, 60}}} { // sequence, position, tokens
		p := compute.Params{Pages: [][]int32{{3, 0, 4}, {1}, {2}}}
		for _, s := range step {
			for i := range s[2] {
				p.Tokens, p.Seq, p.Pos, p.Out = append(p.Tokens, int32(3*i+s[0]+1)), append(p.Seq, int32(s[0])), append(p.Pos, int32(s[1]+i)), append(p.Out, int32(len(p.Out)))
			}
		}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		expanded = append(expanded, m.pass.Expanded)
		for i := range p.Out {
			row, err := m.Logits(i)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(row))
		}
	}
	return out, expanded
}
