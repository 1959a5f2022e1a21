package engine_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// openCompressed opens a model with layers that see short blocks, long ones, and none.
func openCompressed(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	f := synthtest.File(t, synth.Spec{
		Arch: "deepseek4", Type: quant.F32, Layers: 3, Embd: 64, FF: 32, Heads: 2, HeadDim: 32, Seed: 7,
		Keys: []gguf.KV{{Key: "deepseek4.attention.sliding_window", Value: uint32(40)}},
	})
	o.Devices, o.Context, o.UBatch = planner.CPU(planner.Processor{Threads: 1}), 2048, 128
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestCompressedTurns: texts reuse the cache and give the text that they give from scratch. Some continue an earlier
// text, inside a block or at its end; others differ from it from the middle of a block on.
func TestCompressedTurns(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	e, fresh := openCompressed(t, engine.Options{}), openCompressed(t, engine.Options{})
	const most = 20 // tokens of an answer
	turn := func(what string, prompt []int32, least int) []int32 {
		t.Helper()
		got, result := greedy(t, e, prompt, most)
		if result.Reused < least {
			t.Errorf("%s: %d of %d positions are reused, want %d", what, result.Reused, len(prompt), least)
		}
		if want := fromScratch(t, fresh, prompt, most); !slices.Equal(got, want) {
			t.Errorf("%s goes on with %v, from scratch with %v", what, got, want)
		}
		return slices.Concat(prompt, got)
	}
	question := randomTokens(rng, 250)
	first := turn("a question", question, 0)
	turn("the next turn", slices.Concat(first, randomTokens(rng, 9)), len(first)-1)
	turn("another answer", question, len(question)-compute.FewTokens)
	for _, n := range []int{249, 246, 240, 200} {
		turn("an edited question", slices.Concat(question[:n], randomTokens(rng, 30)), n-compute.PagePositions)
	}
	turn("another beginning", slices.Concat(question[:70], randomTokens(rng, 400)), 0)
}

// TestSavedCompressed: a file has the keys of complete blocks and the parts of incomplete ones.
func TestSavedCompressed(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	first := openCompressed(t, engine.Options{})
	text := randomTokens(rng, 391)
	want, _ := greedy(t, first, text, 20)
	var file bytes.Buffer
	if s, err := first.Save(t.Context(), &file, text); err != nil || len(s.Tokens) < len(text)-1 {
		t.Fatalf("%d of %d tokens were saved: %v", len(s.Tokens), len(text), err)
	}
	e := openCompressed(t, engine.Options{})
	restore(t, e, file.Bytes())
	if got, res := greedy(t, e, text, 20); res.Reused != len(text)-1 || !slices.Equal(got, want) {
		t.Errorf("%d positions of %d are reused, and the text goes on with %v, want %v", res.Reused, len(text), got, want)
	}
}

// TestCompressedDrafts: wrong drafts leave nothing in blocks.
func TestCompressedDrafts(t *testing.T) {
	guessedRecurrent(t, openCompressed(t, engine.Options{}), openCompressed(t, engine.Options{Drafts: engine.Drafts{Most: 6}}), 140)
}
