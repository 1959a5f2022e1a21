package synthtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// Further returns the model of s with an MTP layer, which has its own embedding and head if own.
func Further(t testing.TB, s synth.Spec, own bool) *gguf.File {
	t.Helper()
	return FurtherLayers(t, s, 1, own)
}

// FurtherLayers is Further for the last n layers.
func FurtherLayers(t testing.TB, s synth.Spec, n int, own bool) *gguf.File {
	t.Helper()
	f := File(t, s)
	rng := rand.New(rand.NewPCG(s.Seed, 7))
	embd := f.Tensor("token_embd.weight").Shape[0]
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		tensors = append(tensors, Copied(w, w.Name))
	}
	for layer := s.Layers - n; layer < s.Layers; layer++ {
		add := func(name string, middle, spread float64, shape ...int) {
			tensors = append(tensors, Floats(fmt.Sprintf("blk.%d.nextn.%s.weight", layer, name), normal(rng, middle, spread, shape...), shape...))
		}
		add("enorm", 1, 0.1, embd)
		add("hnorm", 1, 0.1, embd)
		add("shared_head_norm", 1, 0.1, embd)
		add("eh_proj", 0, 1/math.Sqrt(2*float64(embd)), 2*embd, embd)
		if own {
			vocab := f.Tensor("token_embd.weight").Rows()
			add("embed_tokens", 0, 1, embd, vocab)
			add("shared_head_head", 0, 0.1, embd, vocab)
		}
	}
	return Made(t, append(slices.Clone(f.Keys), gguf.KV{Key: s.Arch + ".nextn_predict_layers", Value: uint32(n)}), tensors)
}

// normal returns the elements of a tensor, normally distributed.
func normal(rng *rand.Rand, middle, spread float64, shape ...int) []float32 {
	n := 1
	for _, d := range shape {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(middle + spread*rng.NormFloat64())
	}
	return data
}

// Made returns a file of these keys and tensors.
func Made(t testing.TB, keys []gguf.KV, tensors []gguf.Source) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made.gguf")
	if err := gguf.Create(t.Context(), path, "GGUF", keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Copied is tensor w under a name.
func Copied(w *gguf.Tensor, name string) gguf.Source {
	return gguf.Source{Name: name, Type: w.Type, Shape: w.Shape, Write: func(to io.Writer) error {
		_, err := to.Write(w.Data)
		return err
	}}
}

// Floats is a tensor of F32.
func Floats(name string, data []float32, shape ...int) gguf.Source {
	return gguf.Source{Name: name, Type: quant.F32, Shape: shape, Write: func(to io.Writer) error {
		return binary.Write(to, binary.LittleEndian, data)
	}}
}
