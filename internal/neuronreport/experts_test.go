package neuronreport

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// used returns counts of a model with a first layer without experts, and a second with eight, two for each of 1,000
// tokens of two texts; the first ones are used most. Neighbours share an expert in 40 % of uses.
func used(neurons bool) *neuron.Experts {
	ff := 0
	if neurons {
		ff = 4
	}
	x := neuron.NewExperts([]string{"<a>", "b"}, []int{0, 8, 8}, ff)
	r := rand.New(rand.NewPCG(1, 2))
	for l := 1; l < 3; l++ {
		y := &x.Layers[l]
		for i := range 1000 {
			first := r.IntN(1 + r.IntN(7))
			for _, e := range []int{first, first + 1} {
				y.Uses[i%2][e]++
				if neurons {
					y.Active[e][0]++
				}
			}
		}
		y.Again[0], y.Again[3], y.Again[6] = 800, 600, 500
	}
	x.Texts[0].Tokens, x.Texts[1].Tokens = 500, 500
	x.Pairs = []uint64{1000, 0, 0, 1000, 0, 0, 1000}
	return x
}

func TestExperts(t *testing.T) {
	for _, neurons := range []bool{false, true} {
		p, err := NewExperts("m", used(neurons))
		if err != nil {
			t.Fatal(err)
		}
		var text, page bytes.Buffer
		if err := p.Text(&text); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"experts of m: 2 layers that have some, 1,000 tokens", "<a> (500), b (500)", "    1       8    2 ", "/3.00 ", "  40.0%  30.0%  25.0% "} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no %q in\n%s", want, text.String())
			}
		}
		if strings.Contains(text.String(), "  75.0% ") != neurons { // one of four neurons is always active
			t.Errorf("zeros of neurons in\n%s", text.String())
		}
		if err := p.Report(&page); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"<h1>Experts of m</h1>", "&lt;a&gt; (500)", "layers with experts</dt><dd>2<", "layer 2: 40 % one token later", "uses made by the", "runs of 1.67 tokens"} {
			if !strings.Contains(strings.ToLower(page.String()), strings.ToLower(want)) {
				t.Errorf("no %q in the page", want)
			}
		}
		for _, not := range []string{"euron", "nactive"} {
			if !neurons && strings.Contains(page.String(), not) {
				t.Errorf("%q in the page of experts alone", not)
			}
		}
		if img := picture(t, p.Reuse); img.Bounds().Dx() == 0 {
			t.Error("no picture")
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Tokens int
			Texts  []struct{ Name string }
			Lags   []int
			Layers []ExpertFigures `json:"expert_layers"`
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		y := got.Layers[1]
		if got.Tokens != 1000 || len(got.Texts) != 2 || got.Lags[6] != 64 || y.Layer != 2 || y.Used != 2 || y.Again[3] != 0.3 || y.Agreement.Texts != 2 || y.Agreement.Rank < 0.8 ||
			y.Quarter < 0.4 || y.Half < y.Quarter || y.Entropy < 2 || y.Entropy > 3 || len(y.Ranked) != 8 || y.Ranked[0] < y.Ranked[7] || (y.Inactive != nil) != neurons {
			t.Errorf("%+v", got)
		}
	}
	x := used(false)
	x.Texts[0].Tokens = 1
	if _, err := NewExperts("m", x); err == nil {
		t.Error("counts that cannot be were accepted")
	}
	if _, err := NewExperts("m", neuron.NewExperts([]string{"a"}, []int{0}, 0)); err == nil {
		t.Error("a report of no experts")
	}
}
