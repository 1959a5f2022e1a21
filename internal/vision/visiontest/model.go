package visiontest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// file collects the keys and tensors of a file. Shapes are in GGUF's order: the row length comes first.
type file struct {
	seed     string
	matrices quant.Type // F32 unless it is said
	keys     []gguf.KV
	tensors  []gguf.Source
}

func (f *file) key(name string, value any) { f.keys = append(f.keys, gguf.KV{Key: name, Value: value}) }

// add appends a tensor of random numbers of a mean and a deviation.
func (f *file) add(t quant.Type, name string, mean, deviation float32, shape ...int) {
	f.tensors = append(f.tensors, random(t, f.seed+" "+name, name, mean, deviation, shape))
}

func random(t quant.Type, seed, name string, mean, deviation float32, shape []int) gguf.Source {
	return gguf.Source{Name: name, Type: t, Shape: shape, Write: func(to io.Writer) error {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data, s := make([]float32, n), named(seed)
		for i := range data {
			data[i] = mean + float32(deviation*s.uniform(i))
		}
		if t == quant.F32 {
			return binary.Write(to, binary.LittleEndian, data)
		}
		b := make([]byte, t.RowBytes(n))
		quant.Imitate(t, b, data)
		_, err := to.Write(b)
		return err
	}}
}

// matrix adds weights that keep the variance of what they are multiplied with. The last dimension counts outputs.
func (f *file) matrix(name string, shape ...int) {
	f.matrixOf(f.matrices, name, shape...)
}

func (f *file) matrixOf(t quant.Type, name string, shape ...int) {
	in := 1
	for _, d := range shape[:len(shape)-1] {
		in *= d
	}
	f.add(t, name, 0, float32(1/math.Sqrt(float64(in))), shape...)
}

// patches adds the weights that patches of pixels are multiplied with: large ones, so that the picture counts for more
// than biases do.
func (f *file) patches(name string, s shape) {
	t := quant.F32
	if f.matrices == quant.F16 { // files of other types have F32 here
		t = quant.F16
	}
	f.add(t, name, 0, float32(2/math.Sqrt(float64(3*s.patch*s.patch))), s.patch, s.patch, 3, s.embd)
}

// norm adds a vector of factors about 1, bias one of addends about 0.
func (f *file) norm(name string, n int) { f.add(quant.F32, name, 1, 0.2, n) }
func (f *file) bias(name string, n int) { f.add(quant.F32, name, 0, 0.2, n) }

// linear adds a matrix and its bias.
func (f *file) linear(name string, in, out int) {
	f.matrix(name+".weight", in, out)
	f.bias(name+".bias", out)
}

// layerNorm adds factors and addends.
func (f *file) layerNorm(name string, n int) {
	f.norm(name+".weight", n)
	f.bias(name+".bias", n)
}

func (f *file) write(path string) error {
	return gguf.Create(context.Background(), path, "GGUF", f.keys, f.tensors, nil)
}

// roll moves the first row of a tensor of F32 to the end.
func roll(w gguf.Source) gguf.Source {
	write := w.Write
	w.Write = func(to io.Writer) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		first := 4 * w.Shape[0]
		_, err := to.Write(append(slices.Clone(b.Bytes()[first:]), b.Bytes()[:first]...))
		return err
	}
	return w
}

// writeText writes a text model with the tensors of synth's and plain random weights, so that no part of a row is
// negligible. tokens replace the last of the vocabulary and are control tokens.
func writeText(path, seed string, s synth.Spec, tokens []string) error {
	dir, err := os.MkdirTemp("", "visiontest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "text.gguf")
	if err := synth.Write(context.Background(), made, s, nil); err != nil {
		return err
	}
	f, err := gguf.Open(made)
	if err != nil {
		return err
	}
	defer f.Close()
	out := file{seed: seed}
	for _, k := range f.Keys {
		switch k.Key {
		case "tokenizer.ggml.tokens":
			all := slices.Clone(k.Value.([]string))
			copy(all[len(all)-len(tokens):], tokens)
			k.Value = all
		case "tokenizer.ggml.token_type":
			all := slices.Clone(k.Value.([]int32))
			for i := range tokens {
				all[len(all)-1-i] = tokenizer.Control
			}
			k.Value = all
		}
		out.keys = append(out.keys, k)
	}
	out.key("tokenizer.ggml.add_space_prefix", false)
	for _, w := range f.Tensors {
		switch n := w.Name; {
		case n == "rope_freqs.weight" || strings.HasSuffix(n, ".ssm_a") || strings.HasSuffix(n, "scale.weight"):
			out.tensors = append(out.tensors, gguf.Source{Name: n, Type: w.Type, Shape: w.Shape, Write: func(to io.Writer) error {
				_, err := to.Write(w.Data)
				return err
			}})
		case strings.HasSuffix(n, "norm.weight"):
			out.norm(n, w.Shape[0])
		case strings.HasSuffix(n, ".bias"):
			out.bias(n, w.Shape[0])
		case n == "token_embd.weight" && !strings.HasPrefix(s.Arch, "gemma"): // Gemma multiplies by √Shape[0]
			out.add(quant.F32, n, 0, 1, w.Shape...)
		case n == "token_embd.weight":
			out.add(quant.F32, n, 0, float32(1/math.Sqrt(float64(w.Shape[0]))), w.Shape...)
		default:
			out.matrix(n, w.Shape...)
		}
	}
	return out.write(path)
}
