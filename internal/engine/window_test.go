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

// A model of five layers with windows and one without, and a context of many windows.
const (
	windowLayers  = 6
	windowSize    = 100
	windowContext = 2048
	windowHeadDim = 32
)

func openWindowed(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	f := synthtest.File(t, synth.Spec{
		Arch: "gemma3", Type: quant.F32, Layers: windowLayers, Embd: 64, FF: 64, Heads: 2, HeadDim: windowHeadDim, Seed: 3,
		Keys: []gguf.KV{{Key: "gemma3.attention.sliding_window", Value: uint32(windowSize)}},
	})
	o.Devices, o.Context, o.UBatch, o.Sequences = planner.CPU(planner.Processor{Threads: 1}), windowContext, 128, 1
	e, err := engine.Open(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestWindowsFreePages: layers with windows keep only the pages of their windows. The text stays the same, in the
// expected memory. A request that continues after the end of another reuses its cache. One that continues from a point
// that windows have passed is evaluated again.
func TestWindowsFreePages(t *testing.T) {
	freed, whole := openWindowed(t, engine.Options{}), openWindowed(t, engine.Options{Cache: engine.Cache{Whole: true}})
	const position = 2 * 2 * windowHeadDim * 2 // bytes in a layer: keys and values of two heads in F16
	all, near := int64(windowContext+64), int64(2*(windowSize+28+64)+128+64)
	if got, want := freed.CacheBytes(), position*(all+(windowLayers-1)*near); got != want {
		t.Errorf("the cache takes %d bytes, want %d", got, want)
	}
	if got, want := whole.CacheBytes(), position*windowLayers*all; got != want {
		t.Errorf("the whole cache takes %d bytes, want %d", got, want)
	}

	rng := rand.New(rand.NewPCG(1, 0))
	prompt := make([]int32, 900)
	for i := range prompt {
		prompt[i] = 3 + rng.Int32N(500)
	}
	text := slices.Clone(prompt)
	for _, c := range []struct {
		what   string
		prompt func() []int32
		reused int // tokens reused with windows freed, out of those reused without
	}{
		{"a long prompt", func() []int32 { return prompt }, 0},
		{"its continuation", func() []int32 { return append(text, 7, 8, 9) }, -1},
		{"another end of it", func() []int32 { return append(slices.Clone(text[:len(text)-70]), 11) }, -1},
		{"another middle", func() []int32 { return append(slices.Clone(prompt[:400]), 12) }, 0},
	} {
		ids := c.prompt()
		want, wholeResult := greedy(t, whole, ids, 40)
		got, result := greedy(t, freed, ids, 40)
		if !slices.Equal(got, want) {
			t.Errorf("%s goes on with %v, in a whole cache with %v", c.what, got, want)
		}
		if c.reused < 0 {
			c.reused = wholeResult.Reused
			if c.reused < len(text)-2*compute.PagePositions-70 {
				t.Errorf("%s: %d positions are reused in a whole cache", c.what, c.reused)
			}
		}
		if result.Reused != c.reused {
			t.Errorf("%s: %d positions are reused, want %d", c.what, result.Reused, c.reused)
		}
		text = append(slices.Clone(ids), got...)
	}
}

// TestSavedWindows: a file has, of layers with windows, the positions that the end of its text sees. It serves caches
// of both kinds.
func TestSavedWindows(t *testing.T) {
	first := openWindowed(t, engine.Options{})
	rng := rand.New(rand.NewPCG(2, 0))
	text := make([]int32, 700)
	for i := range text {
		text[i] = 3 + rng.Int32N(500)
	}
	want, _ := greedy(t, first, text, 20)
	var file bytes.Buffer
	s, err := first.Save(t.Context(), &file, text)
	if err != nil || len(s.Tokens) < len(text)-1 {
		t.Fatalf("%d of %d tokens were saved: %v", len(s.Tokens), len(text), err)
	}
	const position = 2 * 2 * windowHeadDim * 2
	if most := position * (len(text) + (windowLayers-1)*(windowSize+2*compute.PagePositions)); file.Len() > most+8*len(text) {
		t.Errorf("the file has %d bytes, and the text's keys and values %d", file.Len(), most)
	}
	for _, c := range []engine.Options{{}, {Cache: engine.Cache{Whole: true}}} {
		e := openWindowed(t, c)
		restore(t, e, file.Bytes())
		got, res := greedy(t, e, text, 20)
		if res.Reused != len(text)-1 || !slices.Equal(got, want) {
			t.Errorf("whole %t: %d positions of %d are reused, and the text goes on with %v, want %v", c.Cache.Whole, res.Reused, len(text), got, want)
		}
		if _, res := greedy(t, e, append(slices.Clone(text[:200]), 5), 1); res.Reused != 0 {
			t.Errorf("whole %t: %d positions are reused whose windows the file does not have", c.Cache.Whole, res.Reused)
		}
	}
}
