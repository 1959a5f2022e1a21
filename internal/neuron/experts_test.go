package neuron

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// byHand returns counts of a layer without experts and one of four, with 8 + 8 tokens that each used two.
func byHand() *Experts {
	return &Experts{
		Texts: []Text{{"a", 8}, {"b", 8}},
		Pairs: []uint64{14, 12, 8, 0, 0, 0, 0},
		Layers: []ExpertLayer{{}, {
			Uses:   [][]uint32{{1, 7, 3, 5}, {2, 8, 2, 4}},
			Again:  []uint64{20, 12, 4, 0, 0, 0, 0},
			Active: [][]uint32{{0, 3}, {15, 1}, {2, 5}, {0, 0}},
		}},
	}
}

func TestExpertsByHand(t *testing.T) {
	x := byHand()
	if err := x.Check(); err != nil {
		t.Fatal(err)
	}
	y := &x.Layers[1]
	if x.Tokens() != 16 || x.Used(1) != 2 || x.Used(0) != 0 || y.Count() != 4 || x.Layers[0].Count() != 0 {
		t.Error("tokens, used, counts")
	}
	if got := x.Prior(1); !slices.Equal(got, []float64{3. / 16, 15. / 16, 5. / 16, 9. / 16}) {
		t.Errorf("prior %v", got)
	}
	if x.Prior(0) != nil {
		t.Error("a prior of no experts")
	}
	entropy := 0.0
	for _, n := range []float64{3, 15, 5, 9} {
		entropy -= n / 32 * math.Log2(n/32)
	}
	if got := x.Entropy(1); !near(got, entropy, 1e-12) {
		t.Errorf("entropy %g, want %g", got, entropy)
	}
	if got := x.Again(1); !near(got[0], 20./28, 1e-12) || !near(got[2], 4./16, 1e-12) || got[3] != 0 {
		t.Errorf("again %v", got)
	}
	if got, want := x.Chance(1), (9.+225+25+81)/16/32; !near(got, want, 1e-12) {
		t.Errorf("chance %g, want %g", got, want)
	}
	if got := x.Run(1); !near(got, 32./12, 1e-12) || x.Run(0) != 0 {
		t.Errorf("run of %g", got)
	}
	if got := y.Order(1); !slices.Equal(got, []int32{1, 3, 2, 0}) {
		t.Errorf("order %v", got)
	}
	if got := y.Order(2); !slices.Equal(got, []int32{1, 0, 3, 2}) { // 18 uses in the first group, 14 in the second
		t.Errorf("order in groups %v", got)
	}
	if inactive, share, ok := y.Inactive(); !ok || !near(inactive, 1-26./64, 1e-12) || share != 3./8 { // 15 + 5 + 3 of 26
		t.Errorf("inactive %g, share %g, %t", inactive, share, ok)
	}
	o := ExpertOrder{Experts: y.Order(2), Neurons: [][]int32{{1, 0}, {0, 1}, {1, 0}, {0, 1}}}
	p := y.Permute(o)
	want := ExpertLayer{
		Uses: [][]uint32{{7, 1, 5, 3}, {8, 2, 4, 2}}, Again: y.Again, Active: [][]uint32{{15, 1}, {3, 0}, {0, 0}, {5, 2}},
	}
	if !reflect.DeepEqual(p, want) || !p.Ordered(2) || p.Ordered(1) || y.Ordered(2) {
		t.Errorf("permuted %+v", p)
	}
	s, layers := x.Stats()
	if !slices.Equal(layers, []int{1}) || !slices.Equal(s.Layers[0], []uint32{3, 15, 5, 9}) || s.Check() != nil {
		t.Errorf("as neurons: %+v of layers %v", s, layers)
	}
}

func TestAgreement(t *testing.T) {
	x := byHand()
	if a := x.Agreement(1); a.Texts != 0 || a.Rank != 0 {
		t.Errorf("texts too short to compare: %+v", a)
	}
	y := &x.Layers[1]
	y.Uses = [][]uint32{{40, 30, 20, 10}, {10, 20, 30, 40}, {80, 50, 40, 30}, {1, 0, 0, 0}}
	a := x.Agreement(1) // the last text is too short; ranks of two agree fully, the third is their opposite
	if a.Texts != 3 || !near(a.Rank, -1./3, 1e-12) || !near(a.Hottest, 1./3, 1e-12) {
		t.Errorf("%+v", a)
	}
	if got := ranks([]uint32{5, 9, 5, 1}); !slices.Equal(got, []float64{1.5, 0, 1.5, 3}) {
		t.Errorf("ranks %v", got)
	}
}

func TestExpertsChecked(t *testing.T) {
	for want, spoil := range map[string]func(x *Experts){
		"used by 9 of 8 tokens":             func(x *Experts) { x.Layers[1].Uses[0][1] = 9 },
		"does not make 2 each":              func(x *Experts) { x.Layers[1].Uses[0][0] = 2 },
		"of the 3 tokens":                   func(x *Experts) { x.Layers[1].Active[0][0] = 4 },
		"1 neurons beside 2":                func(x *Experts) { x.Layers[1].Active[2] = []uint32{0} },
		"neurons of 3 of 4 experts":         func(x *Experts) { x.Layers[1].Active = x.Layers[1].Active[:3] },
		"29 of 28 uses were repeated 1":     func(x *Experts) { x.Layers[1].Again[0] = 29 },
		"17 pairs":                          func(x *Experts) { x.Pairs[0] = 17 },
		"uses of no experts":                func(x *Experts) { x.Layers[0].Again = make([]uint64, 7) },
		"uses in 1 texts":                   func(x *Experts) { x.Layers[1].Uses = x.Layers[1].Uses[:1] },
		"counted in 1 to 16":                func(x *Experts) { x.Texts = nil },
		"more than an expert's count":       func(x *Experts) { x.Texts[0].Tokens = 1 << 40 },
		"uses of 3 experts beside 4":        func(x *Experts) { x.Layers[1].Uses[1] = x.Layers[1].Uses[1][:3] },
		"pairs of tokens at 1 distances":    func(x *Experts) { x.Pairs = x.Pairs[:1] },
		"more than an expert's count can h": func(x *Experts) { x.Texts[0].Tokens, x.Texts[1].Tokens = 1<<31, 1<<31 },
	} {
		x := byHand()
		if spoil(x); x.Check() == nil || !strings.Contains(x.Check().Error(), want) {
			t.Errorf("%v, want %q", x.Check(), want)
		}
	}
}
