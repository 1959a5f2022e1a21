package main

import (
	"math"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/residency"
)

// settled bounds the policy's time on text without drift, where every copy is a mistake, as a multiple of the time of a
// plan that knows the text's frequencies.
const settled = 1.01

// TestPolicies checks docs/placement.md's claims about the policy on a few layers: better than fixed placement and than
// fetching if uses drift, and never below llama.cpp's way.
func TestPolicies(t *testing.T) {
	m := models()[0]
	m.Layers = 8
	on := machines()[0]
	on.GPUs[0].Budget = on.GPUs[0].Budget/6 + on.GPUs[0].Overhead
	for i, h := range texts() {
		p := pair{h.Name, h.synthesize(8, 128, 8, 800, uint64(i)), h.synthesize(8, 128, 8, 800, uint64(i)+100)}
		r, err := compete(m, on, p)
		if err != nil {
			t.Fatal(err)
		}
		ncmoe, planned, lru, adaptive, unknown := r[ncmoe].seconds, r[planned].seconds, r[lru].seconds, r[adaptive].seconds, r[unknown].seconds
		if h.Drift > 0 && h.Topic > 0 && h.Name != "steep" && adaptive >= planned {
			t.Errorf("%s: %g s a token, %g where nothing moves", h.Name, adaptive, planned)
		}
		if adaptive > planned*settled {
			t.Errorf("%s: %g s a token, %g where nothing moves", h.Name, adaptive, planned)
		}
		if adaptive >= lru || adaptive > ncmoe*settled {
			t.Errorf("%s: %g s a token, %g fetched, %g by layers", h.Name, adaptive, lru, ncmoe)
		}
		if unknown > ncmoe*settled {
			t.Errorf("%s: %g s a token where nothing is known, %g by layers", h.Name, unknown, ncmoe)
		}
	}
}

// nearSimulated bounds the difference between the share of uses that plans expect of slots and the simulated one.
const nearSimulated = 0.05

// TestFollowedUses compares the hits that plans expect of slots that follow the text to a simulation of that text,
// without knowledge of it at the beginning.
func TestFollowedUses(t *testing.T) {
	m, on := models()[1], machines()[1]
	h := texts()[3]
	c := newSetting(m, on, nil)
	text := h.synthesize(m.Layers, m.Experts, m.Used, 1500, 501)
	for _, slots := range []int{12, 20, 45, 80} {
		places := make([]compute.Place, m.Layers+1)
		for l := range m.Layers {
			places[l] = compute.Place{Attention: true, Split: compute.Split{Bound: slots}}
		}
		model := c.model()
		p, err := placement.Price(&model, &on.Machine, places)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.adaptive(&p, text, residency.Tuned())
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, f := range modelcost.FollowedUses(m.Experts, m.Used)[:slots] {
			want += f / float64(m.Used)
		}
		t.Logf("%s, %d slots for %d experts: %.3f of the uses are hits, and plans expect %.3f", h.Name, slots, m.Experts, r.hits, want)
		if math.Abs(r.hits-want) > nearSimulated {
			t.Errorf("%s, %d slots for %d experts: %.3f of the uses are hits, and plans expect %.3f", h.Name, slots, m.Experts, r.hits, want)
		}
	}
}

// TestPropertiesByHand: three tokens of one layer use experts 0, 0 and 1 of four. The LRU cache has room for one.
func TestPropertiesByHand(t *testing.T) {
	tr, err := read(strings.NewReader("[[0]]\n[[0]]\n[[1]]\n"), 4)
	if err != nil {
		t.Fatal(err)
	}
	p := tr.properties(4)
	entropy := math.Log2(3) - 2.0/3
	if math.Abs(p.entropy-entropy) > 1e-12 || p.again != 0.5 || p.lru != 1.0/3 {
		t.Errorf("entropy %g of %g, used again %g of 0.5, LRU %g of 1/3", p.entropy, entropy, p.again, p.lru)
	}
	for _, bad := range []string{"[[0,4]]", "[[0],[1]]\n[[0]]", "[0]", "[[-1]]"} {
		if _, err := read(strings.NewReader(bad), 4); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
