package powerinfer_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

func openSynth(t *testing.T, s synth.Spec) *powerinfer.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, s, nil); err != nil {
		t.Fatal(err)
	}
	m, err := powerinfer.Open(t.Context(), path, powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, CPU: powerinfer.CPU{Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestEmbed: vectors have length 1 and depend only on their texts, alone or among others.
func TestEmbed(t *testing.T) {
	m := openSynth(t, synth.Spec{Arch: "bert", Type: quant.F32, Layers: 1, Embd: 64, FF: 128, Heads: 2, Seed: 7})
	texts := []string{"a king", "the river is deep", "stone"}
	all, err := m.Embed(t.Context(), texts...)
	if err != nil || len(all) != len(texts) {
		t.Fatal(len(all), err)
	}
	for i, text := range texts {
		sum := 0.0
		for _, x := range all[i] {
			sum += float64(x) * float64(x)
		}
		alone, err := m.Embed(t.Context(), text)
		if err != nil || len(all[i]) != 64 || math.Abs(sum-1) > 1e-6 || !slices.Equal(alone[0], all[i]) {
			t.Errorf("%q: %d numbers of length %g, %v", text, len(all[i]), math.Sqrt(sum), err)
		}
	}
	if slices.Equal(all[0], all[1]) {
		t.Error("two texts have the same embedding")
	}
	if _, err := m.Embed(t.Context(), "a", ""); err == nil || !strings.Contains(err.Error(), "text 1 of 2 is empty") {
		t.Error(err)
	}
	if _, err := m.Rerank(t.Context(), "who?", "a"); err == nil || !strings.Contains(err.Error(), "no reranker") {
		t.Error(err)
	}
	if _, err := powerinfer.Open(t.Context(), model, powerinfer.Options{Pooling: "max"}); err == nil || !strings.Contains(err.Error(), `no pooling "max"; Options.Pooling may be`) {
		t.Error(err)
	}
}

// TestRerank: a document's score depends only on it and the query. Embedding with a reranker is an error that says so.
func TestRerank(t *testing.T) {
	m := openSynth(t, synth.Spec{Arch: "bert", Type: quant.F32, Layers: 1, Embd: 64, FF: 128, Heads: 2, Seed: 7, Labels: 1})
	all, err := m.Rerank(t.Context(), "who sat there?", "a king", "stone")
	if err != nil || len(all) != 2 || all[0] == all[1] {
		t.Fatal(all, err)
	}
	if one, err := m.Rerank(t.Context(), "who sat there?", "stone"); err != nil || one[0] != all[1] {
		t.Errorf("%v alone, %v among others: %v", one, all, err)
	}
	if _, err := m.Embed(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "Rerank") {
		t.Error(err)
	}
}
