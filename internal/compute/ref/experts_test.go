package ref

import (
	"math"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

func TestChosen(t *testing.T) {
	ln := func(x float64) float32 { return float32(math.Log(x)) }
	logits := []float32{ln(1), ln(4), ln(3), ln(2)} // a softmax of 0.1, 0.4, 0.3, 0.2; sigmoids of 1/2, 4/5, 3/4, 2/3
	nan := float32(math.NaN())
	for _, c := range []struct {
		name    string
		logits  []float32
		bias    []float32
		used    int
		how     compute.Routing
		experts []int
		weights []float64
	}{
		{"softmax", logits, nil, 2, compute.Routing{Scale: 1}, []int{1, 2}, []float64{0.4, 0.3}},
		{"normalised", logits, nil, 2, compute.Routing{Normalised: true, Scale: 1}, []int{1, 2}, []float64{4.0 / 7, 3.0 / 7}},
		{"a least sum", logits, nil, 1, compute.Routing{Normalised: true, MinSum: 2, Scale: 3}, []int{1}, []float64{0.6}},
		{"of the chosen", logits, nil, 3, compute.Routing{Score: compute.SoftmaxChosen, Scale: 1}, []int{1, 2, 3}, []float64{4.0 / 9, 3.0 / 9, 2.0 / 9}},
		{"sigmoid", logits, nil, 1, compute.Routing{Score: compute.Sigmoid, Scale: 2.5}, []int{1}, []float64{2}},
		{"a bias counts for the choice only", logits, []float32{0.5, 0, 0, 0.25}, 2, compute.Routing{Score: compute.Sigmoid, Scale: 1}, []int{0, 3}, []float64{0.5, 2.0 / 3}},
		{"ties", []float32{1, 2, 2, 2}, nil, 2, compute.Routing{Score: compute.SoftmaxChosen, Scale: 1}, []int{1, 2}, []float64{0.5, 0.5}},
		// The groups' two best sum up to 0.8+0.5 and 0.75+0.667: the best expert's group is not used.
		{"groups", logits, []float32{0, 0, 0, 0}, 1, compute.Routing{Score: compute.Sigmoid, Groups: 2, GroupsUsed: 1, Scale: 1}, []int{2}, []float64{0.75}},
		{"groups by their best", logits, nil, 1, compute.Routing{Score: compute.Sigmoid, Groups: 2, GroupsUsed: 1, GroupsByBest: true, Scale: 1}, []int{1}, []float64{0.8}},
		{"NaN ranks last", []float32{nan, 1, nan, -5}, nil, 2, compute.Routing{Scale: 1}, []int{1, 3}, []float64{math.NaN(), math.NaN()}},
		{"nothing but NaN", []float32{nan, nan, nan}, nil, 2, compute.Routing{Score: compute.Sigmoid, Scale: 1}, []int{0, 1}, []float64{math.NaN(), math.NaN()}},
	} {
		experts, weights := Chosen(c.logits, c.bias, c.used, c.how)
		if !slices.Equal(experts, c.experts) {
			t.Errorf("%s: experts %v, want %v", c.name, experts, c.experts)
		}
		for i, w := range c.weights {
			if g := weights[i]; !(math.Abs(g-w) <= rounding) && !(math.IsNaN(g) && math.IsNaN(w)) {
				t.Errorf("%s: weight %d is %g, want %g", c.name, i, g, w)
			}
		}
	}
}

func TestExperts(t *testing.T) {
	d := New()
	c, err := d.Choice(2, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	// Token 0 has experts 2 and 0 by weights 3/4 and 1/4, token 1 experts 1 and 2 by 1/2 each.
	ln3 := float32(math.Log(3))
	logits := tensor(2, 3, 0, -9, ln3, -9, 5, 5)
	x, out := tensor(2, 2, 1, 2, 3, -1), tensor(2, 2)
	relu := compute.Activation{Kind: compute.ReLU}
	var count compute.NeuronCount
	bins := compute.NeuronBins{On: true, Neurons: 3, Counts: make([]uint32, 3)}
	w := compute.ExpertWeights{
		Gate: dense(t, 3, 2, 1, 0, 1, 0, 0, 1), // of token 0: 1, 1, 2; of token 1: 3, 3, -1
		Up:   dense(t, 3, 2, 0, 1, 1, 1, 2, 0), // of token 0: 2, 3, 2; of token 1: -1, 2, 6
		Down: dense(t, 6, 1, 1, 10, 2, 20, 3, 30),
		Act:  relu, Count: &count, Bins: &bins,
	}
	do := func(w compute.ExpertWeights) {
		run(compute.Params{}, func(v compute.Verbs) {
			v.Route(c, logits, nil, nil, compute.Routing{Score: compute.SoftmaxChosen, Scale: 1})
			v.Experts(out, x, c, w)
		})
	}
	do(w)
	expect(t, "gated", out, 0.25*2*1+0.75*4*3, 0.25*2*10+0.75*4*30, 0.5*6*2, 0.5*6*20)
	if want := (compute.NeuronCount{Steps: 1, Tokens: 2, Predicted: 4, Gated: 4, Active: 4, Bytes: 3 * (8 + 8 + 2*4)}); count != want {
		t.Errorf("counted %+v, want %+v", count, want)
	}
	if want := []uint32{1, 1, 2}; !slices.Equal(bins.Counts, want) {
		t.Errorf("experts were used %v times, want %v", bins.Counts, want)
	}

	fused := w
	fused.Gate, fused.Up, fused.Fused = nil, dense(t, 6, 2, 1, 0, 0, 1, 1, 0, 1, 1, 0, 1, 2, 0), true
	do(fused)
	expect(t, "fused", out, 9.5, 95, 6, 60)

	biased := w
	biased.GateBias, biased.UpBias, biased.DownBias = vector(t, 1, 0, 0), vector(t, 0, 0, 2), vector(t, 0, 0, 100, 0, 0, 8)
	do(biased)
	expect(t, "biased", out, 0.25*4*1+0.75*8*3, 0.25*4*10+0.75*(8*30+8), 0.5*(6*2+100), 0.5*(6*20)+0.5*8)

	before := w
	before.Before, before.Act = true, compute.Activation{Kind: compute.ReLU}
	do(before)
	expect(t, "before", out, 0.25*0.25*2*1+0.75*0.75*4*3, 0.25*0.25*2*10+0.75*0.75*4*30, 0.25*6*2, 0.25*6*20)

	ungated := w
	ungated.Gate = nil
	do(ungated)
	expect(t, "ungated", out, 0.25*2*1+0.75*2*3, 0.25*2*10+0.75*2*30, 0.5*2*2+0.5*6*3, 0.5*2*20+0.5*6*30)

	y := tensor(2, 1, 10, 20)
	run(compute.Params{}, func(v compute.Verbs) { v.GateRows(y, tensor(2, 1, 0, ln3)) })
	expect(t, "gated rows", y, 5, 15)
}

func TestClampedSwiGLU(t *testing.T) {
	act := compute.Activation{Kind: compute.ClampedSwiGLU, Slope: 2, Limit: 7}
	half := float32(math.Log(3) / 2) // sigmoid(slope·half) = 3/4
	gate, up, out := tensor(1, 4, 0, half, half, 100), tensor(1, 4, 5, 1, 9, -9), tensor(1, 4)
	run(compute.Params{}, func(v compute.Verbs) { v.Activate(out, gate, up, act) })
	h := float64(half)
	expect(t, "clamped", out, 0, 0.75*h*2, 0.75*h*8, 7/(1+math.Exp(-14))*-6)
}

func TestRoutingCheck(t *testing.T) {
	for _, c := range []struct {
		how     compute.Routing
		used, n int
		ok      bool
	}{
		{compute.Routing{}, 2, 8, true},
		{compute.Routing{}, 8, 8, true},
		{compute.Routing{}, 9, 8, false},
		{compute.Routing{}, 0, 8, false},
		{compute.Routing{Groups: 4, GroupsUsed: 2}, 4, 8, true},
		{compute.Routing{Groups: 4, GroupsUsed: 2}, 5, 8, false},
		{compute.Routing{Groups: 3, GroupsUsed: 2}, 2, 8, false},
		{compute.Routing{Groups: 4, GroupsUsed: 5}, 2, 8, false},
		{compute.Routing{Groups: 4}, 2, 8, false},
		{compute.Routing{Groups: -1, GroupsUsed: 1}, 1, 8, false},
	} {
		if err := c.how.Check(c.used, c.n); (err == nil) != c.ok {
			t.Errorf("%+v, %d of %d: error %v", c.how, c.used, c.n, err)
		}
	}
}
