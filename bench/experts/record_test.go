package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// TestRecord: a model uses experts by a law. The record of a text longer than one window has as many uses of each layer
// as its tokens have, and most of the law's first ranks. It is read back unchanged.
func TestRecord(t *testing.T) {
	f := realModel(t)
	const tokens = recordWindow + 100
	tr, err := record(t.Context(), f, strings.Repeat("what experts does a text use? ", 100), tokens)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr) != tokens {
		t.Fatalf("%d tokens were recorded, want %d", len(tr), tokens)
	}
	for l := range realLayers {
		uses, all := make([]int, realExperts), 0
		ranks, _, err := synth.ExpertRanks(synth.Spec{
			Arch: "qwen3moe", Type: quant.F32, Layers: realLayers, Embd: 64, FF: 32, Heads: 4, Experts: realExperts, Used: realUsed, Vocab: 320, Mixing: synth.Mixing{ExpertLaw: 0.8}, Seed: 3,
		}, l)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tr {
			for _, e := range tr[i][l] {
				uses[ranks[e]]++
				all++
			}
		}
		first, last := 0, 0
		for r := range realExperts / 2 {
			first, last = first+uses[r], last+uses[realExperts-1-r]
		}
		if all != tokens*realUsed || first <= last {
			t.Errorf("layer %d: %d uses of %d, by rank %v", l, all, tokens*realUsed, uses)
		}
	}
	path := filepath.Join(t.TempDir(), "uses.jsonl")
	if err := tr.write(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if again, err := read(file, realExperts); err != nil || !reflect.DeepEqual(again, tr) {
		t.Errorf("the trace is not read as it was written: %v", err)
	}
}

// TestShapeOf: an expert of three matrices of 64 by 32 floats.
func TestShapeOf(t *testing.T) {
	s, err := shapeOf(realModel(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.Layers != realLayers || s.Experts != realExperts || s.Used != realUsed || s.Expert != 3*64*32*4 || s.Dense < 4*64*64*4 || s.Head < 320*64*4 {
		t.Errorf("%+v", s)
	}
}

// TestHabits: synthetic texts have the requested statistics.
func TestHabits(t *testing.T) {
	h, err := parseHabits("zipf=1.5,drift=0.5,topic=40,sticky=2")
	if want := (habits{Name: h.Name, Zipf: 1.5, Drift: 0.5, Topic: 40, Sticky: 2}); err != nil || h != want {
		t.Errorf("%+v, %v", h, err)
	}
	for _, bad := range []string{"zipf", "zipf=x", "drift=2", "zipf=-1", "zipf=NaN", "steep=1"} {
		if _, err := parseHabits(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
