package model_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// guesser is the scalar device. It makes the predictions that a pass offers and compares them with the routers'
// choices.
type guesser struct {
	*ref.Device
	t        *testing.T
	guess    compute.ExpertGuess // at the experts that come next; Router is nil: there is none
	guessed  [][]int             // [tokens] what it chose
	choice   compute.Choice      // of the last Route
	offered  map[*compute.Matrix]bool
	uses     int // uses of experts with a prediction
	hits     int // uses with a right prediction
	repeated int // predictions made again with the layer's own residual
	others   int // repeated predictions that differ from the router's choice
	due      map[*compute.Matrix][][]int
	foretold int // layers' choices that were told before attention
	wrong    int // choices told before attention that were wrong
}

func (g *guesser) Run(s compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return g.Device.Run(s, p, func(v compute.Verbs) { body(compute.NewVerbs(&guessing{v.Executor(), g})) })
}

// Matrix takes weights in that would stay on disk.
func (g *guesser) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	src.Disk = nil
	return g.Device.Matrix(src, use)
}

func (g *guesser) Bundle([]float64, ...*compute.Matrix) error { return nil }

type guessing struct {
	compute.Executor
	g *guesser
}

// chosen returns each token's experts, in order.
func (g *guesser) chosen(c compute.Choice) (list [][]int) {
	data := make([]float32, c.Rows*2*c.Used)
	g.ChoiceData(c, data)
	for t := range c.Rows {
		var of []int
		for _, e := range data[2*t*c.Used:][:c.Used] {
			of = append(of, int(e))
		}
		slices.Sort(of)
		list = append(list, of)
	}
	return list
}

func (x *guessing) Do(op compute.Op) {
	x.Executor.Do(op)
	g := x.g
	switch o := op.(type) {
	case *compute.Route:
		g.choice = o.Choice
	case *compute.Experts:
		if told, ok := g.due[o.Weights.Up]; ok {
			delete(g.due, o.Weights.Up)
			if g.foretold++; !slices.EqualFunc(told, g.chosen(o.Choice), slices.Equal) {
				g.wrong++
			}
		}
		if g.guess.Router != nil && o.Weights.Up == g.guess.Weights.Up { // the last layer with experts predicts nothing
			x.compare(compute.Tensor{})
		}
	}
}

// make computes a prediction from this residual.
func (x *guessing) make(o compute.ExpertGuess, residual compute.Tensor) [][]int {
	g := x.g
	tensor := func(cols int) compute.Tensor {
		t, err := g.Tensor(residual.Rows, cols)
		if err != nil {
			g.t.Fatal(err)
		}
		t.Outputs = residual.Outputs
		return t
	}
	in, logits := residual, tensor(o.Count)
	v := compute.NewVerbs(x.Executor)
	if o.Norm != nil {
		in = tensor(residual.Cols)
		if o.Centered {
			v.LayerNorm(in, residual, o.Norm, o.Shift, o.Eps)
		} else if v.RMSNorm(in, residual, o.Norm, o.Eps); o.Shift != nil {
			v.Shift(in, o.Shift)
		}
	}
	v.MatMul(in, compute.Products{{Out: logits, W: o.Router, Bias: o.RouterBias}})
	c, err := g.Choice(residual.Rows, o.Used, o.Count)
	if err != nil {
		g.t.Fatal(err)
	}
	c.Outputs = residual.Outputs
	v.Route(c, logits, o.Bias, nil, o.How)
	return g.chosen(c)
}

// compare compares this layer's prediction with its router's choice.
func (x *guessing) compare(residual compute.Tensor) {
	g := x.g
	chosen := g.chosen(g.choice)
	if len(g.guessed) == len(chosen) {
		for t, of := range chosen {
			g.uses += len(of)
			for _, e := range of {
				if slices.Contains(g.guessed[t], e) {
					g.hits++
				}
			}
		}
	}
	if residual.Mem != nil {
		g.repeated++
		if !slices.EqualFunc(x.make(g.guess, residual), chosen, slices.Equal) {
			g.others++
		}
	}
	g.guess = compute.ExpertGuess{}
}

// ForeseeExperts comes after a layer's Route and before its Experts.
func (x *guessing) ForeseeExperts(o compute.ExpertGuess) {
	if o.Due {
		x.g.due[o.Weights.Up] = x.make(o, o.X)
		return
	}
	if x.g.guess.Router != nil {
		x.compare(o.X)
	}
	x.g.guess, x.g.guessed = o, x.make(o, o.X)
	x.g.offered[o.Weights.Up] = true
}

// early are the families with routers that read the residual before attention. A prediction from the residual after
// attention may differ.
func early() []string { return strings.Fields("smallthinker cohere2moe") }

// TestGuesses: in every family with experts a layer predicts the next layer's experts with the next layer's router. A
// prediction from the router's own residual equals its choice. One from the previous layer's residual is often right.
func TestGuesses(t *testing.T) {
	families := testenv.Few(t, 12, slices.Sorted(maps.Keys(tracedFamilies())))
	for _, family := range families {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			s := synth.Spec{
				Arch: family, Layers: max(6, tracedFamilies()[family]), Embd: 128, FF: 32, Heads: tracedHeads, KVHeads: tracedKVHeads, HeadDim: tracedHead, Vocab: tracedVocab,
				Context: 128, Type: quant.F32, Seed: 1, Experts: 32, Used: 4,
			}
			if s = fitting(s); s.Check() != nil {
				t.Skip("it has no experts")
			}
			f := stored(t, synthtest.File(t, s))
			c, err := model.ReadConfig(f, "")
			if err != nil || c.Experts.Count == 0 || c.Encoder() {
				t.Skip("it has no experts")
			}
			g := &guesser{Device: ref.New(), t: t, offered: map[*compute.Matrix]bool{}, due: map[*compute.Matrix][][]int{}}
			m, err := model.Load(t.Context(), f, g, model.Options{Batch: 16, Outputs: 8, OnDisk: true, Cache: compute.CacheSpec{Pages: 8, States: 4}})
			if err != nil {
				t.Fatal(err)
			}
			ids := make([]int32, 24)
			for i := range ids {
				ids[i] = int32(3 + i*37%(tracedVocab-3))
			}
			evaluate(t, m, ids, 8, 1)
			layers, guessed := 0, 0
			for _, b := range c.Blocks {
				if b.Experts {
					layers++
				}
				if b.Guessed {
					guessed++
				}
			}
			t.Logf("%s: %d of %d guessed (%d of %d repeated differ), %d of %d layers", family, g.hits, g.uses, g.others, g.repeated, len(g.offered), layers)
			if layers-len(g.offered) != 1 {
				t.Errorf("%d of %d layers with experts are guessed", len(g.offered), layers)
			}
			if guessed != len(g.offered) {
				t.Errorf("the plan counts on guesses in %d layers, and %d are guessed", guessed, len(g.offered))
			}
			if g.others > 0 && !slices.Contains(early(), family) {
				t.Errorf("%d of %d guesses are not what the router chooses of the same residual", g.others, g.repeated)
			}
			if (g.foretold > 0) != slices.Contains(early(), family) || g.wrong > 0 {
				t.Errorf("%d of %d choices that were told before attention are others", g.wrong, g.foretold)
			}
			if float64(g.hits) < 0.5*float64(g.uses) || g.uses == 0 {
				t.Errorf("%d of %d experts were guessed", g.hits, g.uses)
			}
		})
	}
}
