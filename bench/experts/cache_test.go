package main

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// stored returns a file on disk with what f has.
func stored(t *testing.T, f *gguf.File) *gguf.File {
	t.Helper()
	var tensors []gguf.Source
	for _, w := range f.Tensors {
		tensors = append(tensors, synthtest.Copied(w, w.Name))
	}
	return synthtest.Made(t, f.Keys, tensors)
}

// TestSimulatedCacheIsReal compares the simulator with a model that reads experts from disk, for the same recorded
// uses: hits and misses are equal, because the same code decides.
func TestSimulatedCacheIsReal(t *testing.T) {
	r := testenv.Rand(t)
	f := stored(t, realModel(t))
	const slots = realLayers * realExperts / 2
	const expert = 3 * 64 * 32 * 4 // bytes
	dev, err := cpu.New(cpu.Options{Threads: 1, UnitCache: slots * expert})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	rec := &recorder{layers: []int{0, 1}}
	m, err := model.Load(t.Context(), f, dev, model.Options{Observer: rec, OnDisk: true, Batch: 16, Outputs: 1, Cache: compute.CacheSpec{Pages: 16}, Neurons: model.Neurons{Sparse: model.Off}})
	if err != nil {
		t.Fatal(err)
	}
	s := story{units: realLayers * realExperts, layers: realLayers}
	for l := range int32(realLayers) {
		for e := range int32(slots / realLayers) {
			s.first = append(s.first, l*realExperts+e)
		}
	}
	pages := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for pos := 0; pos < 300; {
		n := 1
		if pos%100 == 0 { // a prompt
			n = 16
		}
		p := compute.Params{Pages: [][]int32{pages}, Out: []int32{int32(n - 1)}}
		for i := range n {
			p.Tokens, p.Seq, p.Pos = append(p.Tokens, int32(r.IntN(320))), append(p.Seq, 0), append(p.Pos, int32(pos+i))
		}
		if err := m.Forward(&p); err != nil {
			t.Fatal(err)
		}
		pos += n
		s.steps = append(s.steps, asWork(rec.trace[len(rec.trace)-n:], realExperts, false))
	}
	use, simulated := dev.Usage().Units, cached(&s, slots, residency.TunedCache(), 0)
	t.Logf("%+v in fact, %+v simulated", use, simulated)
	if use.Slots != slots || float64(use.Uses()) != simulated.uses {
		t.Fatalf("%d uses and %d slots, %g and %d simulated", use.Uses(), use.Slots, simulated.uses, slots)
	}
	if use.Guessed == 0 && float64(use.Misses) != simulated.misses {
		t.Errorf("%d misses, %g simulated", use.Misses, simulated.misses)
	}
	if hits := float64(use.Hits) / float64(use.Uses()); math.Abs(hits-simulated.hits()) > asPlanned {
		t.Errorf("%.3f of the uses are hits, %.3f of the simulated ones", hits, simulated.hits())
	}
}

// TestCacheBesideOthers checks docs/placement.md's claims about the cache: as good as counting if favourites stay, as
// good as recency if they change, and better than both in between.
func TestCacheBesideOthers(t *testing.T) {
	const layers, experts, used, tokens = 4, 128, 8, 1600
	for _, v := range []struct {
		habits
		ofLFU, ofLRU float64 // misses, at most, over theirs
	}{
		{habits{Name: "favourites", Zipf: 1}, 1.08, 0.9},
		{habits{Name: "mixed", Zipf: 0.8, Drift: 0.5, Topic: 200, Sticky: 1}, 1, 0.97},
		{habits{Name: "drifting", Zipf: 1, Drift: 1, Topic: 400, Sticky: 1.5}, 0.9, 1.1},
	} {
		s := storyOf(v.Name, v.synthesize(layers, experts, used, tokens, 7), experts, false)
		for _, of := range cacheSizes {
			n := s.units * of / 100
			got, lru, lfu, least := cached(&s, n, residency.TunedCache(), 0), leastRecently(&s, n), leastOften(&s, n), clairvoyant(&s, n)
			t.Logf("%s, %d %%: misses of %.0f uses: %.0f, LFU %.0f, LRU %.0f, clairvoyant %.0f", s.name, of, got.uses, got.misses, lfu.misses, lru.misses, least.misses)
			if got.misses > v.ofLFU*lfu.misses || got.misses > v.ofLRU*lru.misses {
				t.Errorf("%s, %d %%: %.0f misses, LFU has %.0f and LRU %.0f", s.name, of, got.misses, lfu.misses, lru.misses)
			}
			if got.misses < least.misses {
				t.Errorf("%s, %d %%: %.0f misses, fewer than the least possible, %.0f", s.name, of, got.misses, least.misses)
			}
		}
	}
}

// TestCachedUses compares a plan's expected hits of RAM's cache without counts with the mean of simulated texts.
func TestCachedUses(t *testing.T) {
	const layers, experts, used, tokens = 4, 128, 8, 1600
	expected := modelcost.CachedUses(experts, used)
	for _, of := range cacheSizes {
		mean, n := 0.0, 0
		for _, h := range []habits{
			{Name: "favourites", Zipf: 1},
			{Name: "mixed", Zipf: 0.8, Drift: 0.5, Topic: 200, Sticky: 1},
			{Name: "drifting", Zipf: 1, Drift: 1, Topic: 400, Sticky: 1.5},
			{Name: "quick", Zipf: 1, Drift: 0.8, Topic: 40, Sticky: 0.5},
		} {
			s := storyOf(h.Name, h.synthesize(layers, experts, used, tokens, 7), experts, false)
			y := cached(&s, s.units*of/100, residency.TunedCache(), 0)
			mean, n = mean+y.hits(), n+1
		}
		mean /= float64(n)
		want := 0.0
		for _, f := range expected[:experts*of/100] {
			want += f / used
		}
		t.Logf("room for %d %%: %.3f of the uses are hits on average, and plans expect %.3f", of, mean, want)
		if math.Abs(mean-want) > 0.05 {
			t.Errorf("room for %d %%: %.3f of the uses are hits on average, and plans expect %.3f", of, mean, want)
		}
	}
}

// TestClairvoyantByHand: four units in two slots, used as 0 1 2 0 3 1, have at least 5 misses. Unit 2 takes unit 1's
// slot, because unit 1's next use is last.
func TestClairvoyantByHand(t *testing.T) {
	s := story{units: 4, layers: 1}
	for _, u := range []int32{0, 1, 2, 0, 3, 1} {
		s.steps = append(s.steps, work{tokens: 1, layers: [][]touch{{{u, 1}}}})
	}
	if got := clairvoyant(&s, 2); got.misses != 5 || got.uses != 6 {
		t.Errorf("%g misses of %g uses, want 5 of 6", got.misses, got.uses)
	}
	if got := leastRecently(&s, 2); got.misses != 6 {
		t.Errorf("LRU misses %g, want 6", got.misses)
	}
}

// TestPredictedHits compares the hits that plans expect of the cache to a simulation of texts with constant favourites.
// Predict assumes that a layer's experts are used independently, and they are not.
func TestPredictedHits(t *testing.T) {
	const layers, experts, used, tokens = 4, 128, 8, 3000
	for _, h := range []habits{{Name: "favourites", Zipf: 1}, {Name: "skewed", Zipf: 0.6}, {Name: "even"}} {
		tr := h.synthesize(layers, experts, used, tokens, 11)
		s := storyOf(h.Name, tr, experts, false)
		var shares []float64
		for l := range layers {
			shares = append(shares, tr.frequencies(l, experts)...)
		}
		for _, of := range cacheSizes {
			n := s.units * of / 100
			got, want := residency.Predict(n, shares), cached(&s, n, residency.TunedCache(), 0).hits()
			t.Logf("%s, %d %%: %.3f of the uses are hits, %.3f predicted", h.Name, of, want, got)
			if math.Abs(got-want) > 0.02 {
				t.Errorf("%s, %d %%: %.3f of the uses are hits, %.3f predicted", h.Name, of, want, got)
			}
		}
	}
}
