package vulkan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// layer is a feed-forward layer with a predictor, and a step's input.
type layer struct {
	typ            quant.Type
	tokens, n, ff  int  // ff neurons have weights
	members        int  // neurons of the sets; the first ff of them have weights
	columns, gated bool // down is [n, ff]; there is a gate
	all            bool // no set
	predictor      quant.Type
	apart          bool // the set is chosen in a segment of its own
	everyRow       int  // see compute.Place
	seed           uint64
}

// encoded returns a weight of normal numbers.
func encoded(rng *rand.Rand, typ quant.Type, rows, cols int) compute.Source {
	values := make([]float32, cols)
	data := make([]byte, rows*typ.RowBytes(cols))
	for r := range rows {
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		quant.Imitate(typ, data[r*typ.RowBytes(cols):][:typ.RowBytes(cols)], values)
	}
	return compute.Source{Name: "w", Type: typ, Rows: rows, Cols: cols, Data: data}
}

// play computes the layer on dev. It returns the output's rows, one after the other, and the count.
func (l layer) play(t *testing.T, dev compute.Device) ([]float32, compute.NeuronCount) {
	t.Helper()
	rng := rand.New(rand.NewPCG(l.seed, 0))
	matrix := func(typ quant.Type, rows, cols int, use compute.Use) *compute.Matrix {
		m, err := dev.Matrix(encoded(rng, typ, rows, cols), use)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	tensor := func(cols int) compute.Tensor {
		x, err := dev.Tensor(l.tokens, cols)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const rank = 32
	table := matrix(quant.F32, l.tokens, l.n, compute.Lookup)
	fc1, fc2 := matrix(l.predictor, rank, l.n, compute.Dense), matrix(l.predictor, l.members, rank, compute.Dense)
	var count compute.NeuronCount
	w := compute.SparseWeights{Up: matrix(l.typ, l.ff, l.n, compute.Rows), Act: compute.Activation{Kind: compute.ReLU}, Count: &count, EveryRow: l.everyRow}
	if l.gated {
		w.Gate = matrix(l.typ, l.ff, l.n, compute.Rows)
	}
	if l.columns {
		w.Down = matrix(l.typ, l.n, l.ff, compute.Columns)
	} else {
		w.Down = matrix(l.typ, l.ff, l.n, compute.Rows)
	}
	set := compute.Set{Rows: l.tokens, N: l.members}
	if !l.all {
		var err error
		if set, err = dev.Set(l.tokens, l.members); err != nil {
			t.Fatal(err)
		}
	}
	x, out, hidden, logits := tensor(l.n), tensor(l.n), tensor(rank), tensor(l.members)
	p := compute.Params{Decode: l.tokens, Tokens: make([]int32, l.tokens), Threshold: 10} // single tokens: prompts may go by halves, where bindings allow it
	for i := range p.Tokens {
		p.Tokens[i] = int32(i)
	}
	run := func(name string, f func(v compute.Verbs)) {
		if err := dev.Run(compute.Segment{Name: fmt.Sprintf("%s of %+v", name, l), Rows: l.tokens, Decode: l.tokens}, &p, f); err != nil {
			t.Fatal(err)
		}
	}
	choose := func(v compute.Verbs) {
		v.Embed(x, table)
		if !l.all {
			v.Predict(set, x, hidden, logits, fc1, fc2)
		}
	}
	if l.apart {
		run("set", choose)
	}
	run("layer", func(v compute.Verbs) {
		if !l.apart {
			choose(v)
		}
		v.SparseFFN(out, x, set, w)
	})
	var rows []float32
	for i := range l.tokens {
		rows = append(rows, readable(dev.Read(out, i))...)
	}
	return rows, count
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%s: element %d is %g, want %g to the bit", what, i, got[i], want[i])
			return
		}
	}
}

// on calls f with lavapipe: the device that tests share, or where there is a change one of its own.
func on(t *testing.T, change func(d *Device), f func(d *Device)) {
	t.Helper()
	if change == nil {
		f(lent(t))
		return
	}
	d, m := software(t, Options{})
	change(d)
	f(d)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	m.check(t)
}

// TestOtherWays: matrices in several bindings, and dot products without the device's own, give the same bytes. Types
// take turns with few tokens and more than a few.
func TestOtherWays(t *testing.T) {
	testenv.Thorough(t)
	var layers []layer
	turns := testenv.Turns(t, 2, 9)
	for i, typ := range []quant.Type{quant.F32, quant.F16, quant.Q4_0, quant.Q4_1, quant.Q5_K, quant.Q6_K, quant.IQ2_XS, quant.TQ2_0} {
		for _, tokens := range turns(i) {
			layers = append(layers,
				layer{typ: typ, tokens: tokens, n: 256, ff: 256, members: 256, gated: true, seed: 1},
				layer{typ: typ, tokens: tokens, n: 256, ff: 256, members: 256, columns: true, all: true, seed: 2})
		}
	}
	outputs := func(d *Device) (all [][]float32) {
		for i, l := range layers {
			l.seed += uint64(i)
			out, _ := l.play(t, d)
			all = append(all, slices.Clone(out))
			d.reset()
		}
		return all
	}
	var want [][]float32
	on(t, nil, func(d *Device) { want = outputs(d) })
	for what, change := range map[string]func(d *Device){
		"several bindings":     func(d *Device) { d.maxBinding = 12 << 10 },
		"emulated dot product": func(d *Device) { d.gpu.Dot = false },
	} {
		on(t, change, func(d *Device) {
			for i, got := range outputs(d) {
				sameBits(t, what+" "+layers[i].typ.String(), got, want[i])
			}
		})
	}
}

// TestElectedRows: a layer gives the same bytes and counts whether its members' rows are computed with the predictor, or
// when the set is known.
func TestElectedRows(t *testing.T) {
	on(t, nil, func(d *Device) {
		for _, l := range []layer{{typ: quant.Q4_0, tokens: 1}, {typ: quant.F16, tokens: 3}} {
			l.predictor, l.n, l.ff, l.members, l.gated, l.seed = l.typ, 96, 352, 400, true, 4
			together, count := l.play(t, d)
			together = slices.Clone(together)
			l.apart = true
			want, wantCount := l.play(t, d)
			if sameBits(t, l.typ.String(), together, want); count != wantCount || count.Active == 0 || count.Predicted == int64(l.tokens*l.ff) {
				t.Errorf("%s: counted %+v, and apart %+v", l.typ, count, wantCount)
			}
			d.reset()
		}
	})
}

// TestReadOnce: eight tokens with half of their neurons active do not read the weights four times.
func TestReadOnce(t *testing.T) {
	on(t, nil, func(d *Device) {
		for _, columns := range []bool{false, true} {
			l := layer{typ: quant.F32, tokens: compute.FewTokens, n: 64, ff: 256, members: 256, columns: columns, all: true, seed: 9}
			_, count := l.play(t, d)
			whole := int64(2 * l.ff * l.n * 4) // up and down
			if 3*count.Active < int64(l.tokens*l.ff) || count.Bytes < whole/2 || count.Bytes > whole {
				t.Errorf("%+v: counted %+v; the weights have %d bytes", l, count, whole)
			}
		}
	})
}

// TestHotNeurons: a layer that has only the first of the sets' neurons computes those, of however many.
func TestHotNeurons(t *testing.T) {
	testenv.Thorough(t)
	const tolerance = 1e-5 // relative to the largest output: float32 sums in another order
	var layers []layer
	for _, tokens := range []int{3, 11} {
		for _, gated := range []bool{false, true} {
			layers = append(layers, layer{typ: quant.F32, tokens: tokens, n: 32, ff: 41, members: 100, gated: gated, seed: 7})
		}
	}
	many := layer{typ: quant.F32, tokens: 2, n: 8, ff: 70001, members: 70100, seed: 8}
	layers = append(layers, many)
	many.all, many.members = true, many.ff
	layers = append(layers, many)
	on(t, nil, func(d *Device) {
		for _, l := range layers {
			got, count := l.play(t, d)
			want, wantCount := l.play(t, ref.New())
			count.Bytes, wantCount.Bytes = 0, 0 // prompts read all
			if count != wantCount {
				t.Errorf("%+v: counted %+v, want %+v", l, count, wantCount)
			}
			top := 0.0
			for _, v := range want {
				top = max(top, math.Abs(float64(v)))
			}
			for i := range want {
				if e := math.Abs(float64(got[i] - want[i])); !(e <= tolerance*top) {
					t.Fatalf("%+v: element %d is %g, want %g", l, i, got[i], want[i])
				}
			}
		}
	})
}

// TestManyCounts: every layer of a recording has its own counts, at every replay, however many layers there are.
func TestManyCounts(t *testing.T) {
	const n, ff = 8, 40
	on(t, nil, func(d *Device) {
		rng := rand.New(rand.NewPCG(10, 0))
		matrix := func(rows int, use compute.Use) *compute.Matrix {
			m, err := d.Matrix(encoded(rng, quant.F32, rows, n), use)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		table, down := matrix(3, compute.Lookup), matrix(ff, compute.Rows)
		x, err := d.Tensor(1, n)
		if err != nil {
			t.Fatal(err)
		}
		out, err := d.Tensor(1, n)
		if err != nil {
			t.Fatal(err)
		}
		ups := []*compute.Matrix{matrix(ff, compute.Rows), matrix(ff, compute.Rows)}
		counts := make([]compute.NeuronCount, maxCounters+3)
		var once [2]compute.NeuronCount // by up
		run := func(name string, counts []compute.NeuronCount) {
			p := compute.Params{Tokens: []int32{1}}
			if err := d.Run(compute.Segment{Name: name, Rows: 1}, &p, func(v compute.Verbs) {
				v.Embed(x, table)
				for i := range counts {
					w := compute.SparseWeights{Up: ups[i%2], Down: down, Act: compute.Activation{Kind: compute.ReLU}, Count: &counts[i]}
					v.SparseFFN(out, x, compute.Set{Rows: 1, N: ff}, w)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		run("two", once[:])
		if once[0] == once[1] || once[0].Active == 0 || once[0].Predicted != ff {
			t.Fatalf("two layers counted %+v", once)
		}
		run("all", counts)
		run("all", counts)
		for i, got := range counts {
			want := once[i%2]
			for _, c := range []*int64{&want.Steps, &want.Tokens, &want.Predicted, &want.Gated, &want.Active, &want.Bytes} {
				*c *= 2
			}
			if got != want {
				t.Fatalf("layer %d counted %+v in two runs, want %+v", i, got, want)
			}
		}
	})
}
