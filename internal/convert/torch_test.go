package convert

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint/checkpointtest"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// A folder in PyTorch's form, in one file or in two with an index, is converted to the same bytes as in safetensors.
func TestTorchCheckpoint(t *testing.T) {
	f := tinyLlama(t, "LlamaForCausalLM", nil)
	f.save(t, 1, tinyVocab)
	bytesOf := func() []byte {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out.gguf")
		if err := HuggingFace(t.Context(), f.dir, out, Options{Output: OutputOf(quant.F16), Name: "tiny"}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := bytesOf()
	remove(t, f, "model.safetensors")
	names := slices.Sorted(maps.Keys(f.tensors))
	shards, index := make([][]checkpointtest.Tensor, 2), map[string]string{}
	for i, name := range names {
		x := f.tensors[name]
		s := checkpointtest.Tensor{Name: name, DType: x.dtype, Shape: x.shape, Values: make([]float64, len(x.values))}
		for j, v := range x.values {
			s.Values[j] = float64(v)
		}
		shards[i%2] = append(shards[i%2], s)
		index[name] = fmt.Sprintf("pytorch_model-%05d-of-00002.bin", i%2+1)
	}
	for i, s := range shards {
		checkpointtest.SaveTorch(t, filepath.Join(f.dir, fmt.Sprintf("pytorch_model-%05d-of-00002.bin", i+1)), false, s...)
	}
	f.writeJSON(t, "pytorch_model.bin.index.json", map[string]any{"weight_map": index})
	if !bytes.Equal(bytesOf(), want) {
		t.Error("two files make another model than safetensors")
	}
	checkpointtest.SaveTorch(t, filepath.Join(f.dir, "pytorch_model.bin"), false, slices.Concat(shards...)...)
	if !bytes.Equal(bytesOf(), want) {
		t.Error("one file makes another model than safetensors")
	}
}
