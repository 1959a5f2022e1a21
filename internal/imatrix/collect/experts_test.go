package collect

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// peerFile holds what llama-imatrix collected of the models of peerModels, by model and tensor.
const peerFile = "testdata/llama.json"

type peerFigures struct {
	Provenance string                            `json:"provenance"`
	Models     map[string]map[string]peerTensors `json:"models"`
}

// peerTensors has a tensor's matrices in order.
type peerTensors struct {
	Counts []int64   `json:"counts"`  // inputs of each
	Sums   []float64 `json:"squares"` // of all elements of a matrix's inputs
}

// peerModels are models with matrices in other operations than plain products, by name.
var peerModels = map[string]synth.Spec{
	"qwen3moe":  {Arch: "qwen3moe", Activation: "silu"},
	"gpt-oss":   {Arch: "gpt-oss", Activation: "clamped_swiglu"}, // biases
	"llama4":    {Arch: "llama4", Activation: "silu", Layers: 4}, // weights before the experts
	"deepseek2": {Arch: "deepseek2", Activation: "silu"},         // heads' matrices in two tensors, and shared experts
	"minicpm3":  {Arch: "minicpm3", Activation: "silu"},          // heads' matrices in one tensor
}

const (
	peerContext = 64
	peerChunks  = 2

	// cacheTolerance is for keys and values, which are F16 here and were F32 there.
	cacheTolerance = 1e-3
	// mostFlips is how many tokens may choose an expert otherwise, where two experts' scores are nearly equal and a
	// processor rounds in its own way.
	mostFlips = 1
)

func peerText() string { return strings.Repeat(text, 8) }

// TestPeer: importances equal llama.cpp's.
func TestPeer(t *testing.T) {
	raw, err := os.ReadFile(filepath.FromSlash(peerFile))
	if err != nil {
		t.Fatal(err)
	}
	var peer peerFigures
	if err := json.Unmarshal(raw, &peer); err != nil {
		t.Fatal(err)
	}
	for name, spec := range peerModels {
		t.Run(name, func(t *testing.T) {
			spec.Layers = max(2, spec.Layers)
			spec.Embd, spec.FF, spec.Heads, spec.Seed, spec.Type = 128, 64, 4, 3, quant.F32
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := synth.Write(t.Context(), path, spec, nil); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			m, err := Run(t.Context(), f, Options{Text: peerText(), Context: peerContext, Chunks: peerChunks, Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			if len(peer.Models[name]) == 0 {
				t.Fatalf("%s has nothing of it", peerFile)
			}
			for tensor, want := range peer.Models[name] {
				e := m.Entries[tensor]
				if e == nil {
					t.Errorf("%s: nothing was collected", tensor)
					continue
				}
				size := len(e.Sums) / len(want.Counts)
				for i, n := range want.Counts {
					got, inputs := 0.0, e.Counts[i%len(e.Counts)]
					for _, v := range e.Sums[i*size:][:size] {
						got += float64(v)
					}
					tolerance := cacheTolerance
					if len(e.Counts) == len(want.Counts) && inputs != n {
						tolerance = 2 / float64(n)
						if max(inputs-n, n-inputs) > mostFlips {
							t.Errorf("%s: matrix %d has %d inputs, not %d", tensor, i, inputs, n)
						}
					}
					if math.Abs(got-want.Sums[i]) > tolerance*want.Sums[i] {
						t.Errorf("%s: the squares of matrix %d's inputs come to %g, not %g", tensor, i, got, want.Sums[i])
					}
				}
			}
		})
	}
}
