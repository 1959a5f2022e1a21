package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

func synthesise(t *testing.T, args ...string) (*gguf.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := command().Run(context.Background(), append([]string{"synth", "-o", path}, args...)); err != nil {
		if _, e := os.Stat(path); e == nil {
			t.Errorf("%v leaves a file", args)
		}
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, nil
}

func TestFlags(t *testing.T) {
	f, err := synthesise(t, "--shape", "tiny", "--layers", "2", "--type", "f16", "--sparsity", "0.8", "--arch", "bamboo", "--format", "original",
		"--ff", "512", "--heads", "4", "--kv-heads", "2", "--vocab", "600", "-c", "128", "--rank", "64", "--seed", "9")
	if err != nil {
		t.Fatal(err)
	}
	if f.Magic != "PWRI" {
		t.Errorf("magic %s", f.Magic)
	}
	for key, want := range map[string]uint64{
		"bamboo.block_count": 2, "bamboo.embedding_length": 256, "bamboo.feed_forward_length": 512, "bamboo.context_length": 128,
		"bamboo.attention.head_count": 4, "bamboo.attention.head_count_kv": 2,
	} {
		if got, ok, err := f.Uint(key); !ok || err != nil || got != want {
			t.Errorf("%s is %d, not %d (%v)", key, got, want, err)
		}
	}
	for name, shape := range map[string][2]int{
		"token_embd.weight": {256, 600}, "blk.1.ffn_down_t.weight": {256, 512}, "blk.1.fc1.weight": {256, 64}, "blk.1.attn_k.weight": {256, 128},
	} {
		if tensor := f.Tensor(name); tensor == nil || tensor.Type != quant.F16 || [2]int{tensor.Shape[0], tensor.Shape[1]} != shape {
			t.Errorf("tensor %s is %v, not %v of F16", name, tensor, shape)
		}
	}
	if text, _, _ := f.String("general.description"); text != "random weights: seed 9, sparsity 0.8, power law 1" {
		t.Errorf("described as %q", text)
	}
}

// TestExpertLaw: a router's rows differ in how often their experts are used, and other tensors do not change.
func TestExpertLaw(t *testing.T) {
	args := []string{"--shape", "qwen3-30b-a3b", "--layers", "1", "--embd", "64", "--ff", "32", "--heads", "4", "--kv-heads", "2", "--experts", "16", "--used", "2"}
	plain, err := synthesise(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	skewed, err := synthesise(t, append(args, "--expert-law", "1")...)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range plain.Tensors {
		if same := bytes.Equal(x.Data, skewed.Tensors[i].Data); same == strings.Contains(x.Name, "ffn_gate_inp") {
			t.Errorf("tensor %s: the same with a law of uses: %t", x.Name, same)
		}
	}
	if _, err := synthesise(t, "--shape", "tiny", "--expert-law", "1"); err == nil {
		t.Error("a law of the uses of no experts")
	}
}

// TestShapes: every shape can be written in blocks of 32.
func TestShapes(t *testing.T) {
	for name, s := range shapes() {
		for _, typ := range []quant.Type{quant.F16, quant.Q4_0} {
			s.Layers, s.Type, s.Sparsity = 1, typ, 0.9
			if err := s.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := synthesise(t, "--shape", "tiny", "--layers", "1", "--type", "q4_k"); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{
		{"--shape", "9b"},
		{"--type", "q5_2", "--shape", "tiny"},
		{"--format", "ggml", "--shape", "tiny"},
		{"--shape", "tiny", "--layers", "0"},
		{"--shape", "tiny", "--layers", "-1"},
		{"--shape", "tiny", "--sparsity", "1.5"},
		{"--shape", "tiny", "--activation", "swish"},
		{"--shape", "tiny", "--vocab", "3"},
		{"--shape", "tiny", "--arch", "perceptron"},
		{"--shape", "tiny", "stray"},
	} {
		if _, err := synthesise(t, args...); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
