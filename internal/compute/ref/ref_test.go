package ref

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// The wanted numbers here are worked out by hand or taken from tables, not computed by another implementation.

// rounding is float32's; the wanted numbers are given to six or seven digits.
const rounding = 1e-6

func tensor(rows, cols int, values ...float32) compute.Tensor {
	if values == nil {
		values = make([]float32, rows*cols)
	}
	return compute.Tensor{Rows: rows, Cols: cols, Mem: &memory{values}}
}

func source(rows, cols int, values ...float32) compute.Source {
	data := make([]byte, 4*len(values))
	quant.Encode(quant.F32, data, values)
	return compute.Source{Name: "w", Type: quant.F32, Rows: rows, Cols: cols, Data: data}
}

func dense(t *testing.T, rows, cols int, values ...float32) *compute.Matrix {
	t.Helper()
	m, err := New().Matrix(source(rows, cols, values...), compute.Dense)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func vector(t *testing.T, values ...float32) *compute.Vector {
	t.Helper()
	v, err := New().Vector(source(1, len(values), values...))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func run(p compute.Params, body func(compute.Verbs)) {
	_ = New().Run(compute.Segment{}, &p, body)
}

func expect(t *testing.T, what string, got compute.Tensor, want ...float64) {
	t.Helper()
	for i, w := range want {
		if g := float64(row(got, i/got.Cols)[i%got.Cols]); !(math.Abs(g-w) <= rounding*max(1, math.Abs(w))) {
			t.Errorf("%s: element %d is %g, want %g", what, i, g, w)
		}
	}
}

func TestMatMul(t *testing.T) {
	x, out, biased := tensor(2, 2, 1, 2, 3, 4), tensor(2, 3), tensor(2, 1)
	run(compute.Params{}, func(v compute.Verbs) {
		v.MatMul(x, compute.Products{
			{Out: out, W: dense(t, 3, 2, 1, 0, 0, 1, 10, -1)},
			{Out: biased, W: dense(t, 1, 2, 1, 1), Bias: vector(t, 100)},
		})
	})
	expect(t, "product", out, 1, 2, 8, 3, 4, 26)
	expect(t, "with bias", biased, 103, 107)
}

func TestMatMulDecodes(t *testing.T) {
	// One Q4_0 block: scale 2, element 0 is 15-8 = 7, element 16 is 0-8, the others 8-8.
	data := make([]byte, 18)
	binary.LittleEndian.PutUint16(data, 0x4000)
	for i := range 16 {
		data[2+i] = 0x88
	}
	data[2] = 0x0f
	m, err := New().Matrix(compute.Source{Name: "w", Type: quant.Q4_0, Rows: 1, Cols: 32, Data: data}, compute.Dense)
	if err != nil {
		t.Fatal(err)
	}
	x, out := tensor(1, 32), tensor(1, 1)
	row(x, 0)[0], row(x, 0)[16] = 1, 0.5
	run(compute.Params{}, func(v compute.Verbs) { v.MatMul(x, compute.Products{{Out: out, W: m}}) })
	expect(t, "Q4_0", out, 2*7-0.5*16)
}

func TestNorms(t *testing.T) {
	x, out := tensor(1, 2, 3, 4), tensor(1, 2)
	run(compute.Params{}, func(v compute.Verbs) { v.RMSNorm(out, x, vector(t, 1, 10), 12.5) })
	expect(t, "RMSNorm", out, 3.0/5, 40.0/5) // mean square 12.5, and 12.5 more: the root is 5
	run(compute.Params{}, func(v compute.Verbs) { v.LayerNorm(out, x, vector(t, 1, 10), vector(t, 7, 7), 0.75) })
	expect(t, "LayerNorm", out, 7-0.5, 7+5) // mean 3.5, variance 0.25: the root is 1
	run(compute.Params{}, func(v compute.Verbs) { v.LayerNorm(x, x, vector(t, 1, 1), nil, 0.75) })
	expect(t, "LayerNorm in place", x, -0.5, 0.5)
}

func TestRoPE(t *testing.T) {
	quarter := []float64{math.Pi / 2, math.Pi}
	for _, c := range []struct {
		name string
		rope compute.Rope
		want []float64
	}{
		{"interleaved", compute.Rope{Dims: 4, Freqs: quarter, Scale: 1}, []float64{-2, 1, -3, -4, 5}},
		{"halves", compute.Rope{Style: compute.Halves, Dims: 4, Freqs: quarter, Scale: 1}, []float64{-3, -2, 1, -4, 5}},
		{"partial", compute.Rope{Dims: 2, Freqs: quarter[:1], Scale: 1}, []float64{-2, 1, 3, 4, 5}},
		{"magnitude", compute.Rope{Style: compute.Halves, Dims: 2, Freqs: quarter[:1], Scale: 2}, []float64{-4, 2, 3, 4, 5}},
	} {
		x := tensor(1, 5, 1, 2, 3, 4, 5)
		run(compute.Params{Pos: []int32{1}}, func(v compute.Verbs) { v.RoPE(x, 5, &c.rope) })
		expect(t, c.name, x, c.want...)
	}
}

func TestActivate(t *testing.T) {
	gate := tensor(1, 4, -1, 0, 1, 2)
	up := tensor(1, 4, 3, 3, -3, 3)
	out := tensor(1, 4)
	for _, c := range []struct {
		name string
		act  compute.Activation
		want []float64 // without up
		with []float64
	}{
		{"SiLU", compute.Activation{Kind: compute.SiLU}, []float64{-0.26894142, 0, 0.73105858, 1.76159416}, []float64{-0.80682426, 0, -2.19317574, 5.28478247}},
		{"GELU", compute.Activation{Kind: compute.GELU}, []float64{-0.158808, 0, 0.841192, 1.9545977}, []float64{-0.476424, 0, -2.523576, 5.8637931}},
		{"ReLU", compute.Activation{Kind: compute.ReLU}, []float64{0, 0, 1, 2}, []float64{0, 0, -3, 6}},
		{"FATReLU", compute.Activation{Kind: compute.FATReLU, Threshold: 1}, []float64{0, 0, 0, 2}, []float64{0, 0, 0, 6}},
		{"FATReLU below zero", compute.Activation{Kind: compute.FATReLU, Threshold: -2}, []float64{-1, 0, 1, 2}, []float64{-3, 0, -3, 6}},
		{"DReLU", compute.Activation{Kind: compute.DReLU}, []float64{0, 0, 1, 2}, []float64{0, 0, 0, 6}},
		{"ReLU2", compute.Activation{Kind: compute.ReLU2}, []float64{0, 0, 1, 4}, []float64{0, 0, -3, 12}},
	} {
		run(compute.Params{}, func(v compute.Verbs) { v.Activate(out, gate, compute.Tensor{}, c.act) })
		expect(t, c.name, out, c.want...)
		run(compute.Params{}, func(v compute.Verbs) { v.Activate(out, gate, up, c.act) })
		expect(t, c.name+" with up", out, c.with...)
	}
}

func TestRows(t *testing.T) {
	table := dense(t, 3, 2, 1, 2, 3, 4, 5, 6)
	x, out := tensor(2, 2), tensor(3, 2)
	p := compute.Params{Tokens: []int32{2, 0}, Pos: []int32{0, 1}, Out: []int32{1, 0, 1}}
	run(p, func(v compute.Verbs) {
		v.Embed(x, table)
		v.AddPosition(x, table, 1)
		v.Add(x, x)
		v.Gather(out, x)
	})
	expect(t, "rows", out, 12, 16, 16, 20, 12, 16)
}

func TestAttention(t *testing.T) {
	// Two KV heads of two elements; equal scores take the mean, a score ln 3 ahead weighs three times as much.
	ln3 := float32(math.Log(3))
	d := New()
	c, err := d.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: 1, Key: 3, Value: 5}, {Heads: 2, Key: 2, Value: 2}}, Pages: 3})
	if err != nil {
		t.Fatal(err)
	}
	k := tensor(2, 4, 0, 0, 0, 0, 0, 0, 1, 0)
	v := tensor(2, 4, 1, 2, 3, 4, 5, 6, 7, 8)
	q := tensor(2, 8, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 5, 5, 0, 0, 2*ln3, 7)
	out := tensor(2, 8)
	run := func(p compute.Params, body func(compute.Verbs)) { _ = d.Run(compute.Segment{}, &p, body) }
	run(compute.Params{Pos: []int32{63, 64}, Seq: []int32{1, 1}, Pages: [][]int32{nil, {2, 0}}}, func(verbs compute.Verbs) {
		verbs.StoreKV(c, 1, k, v) // the last slot of page 2 and the first of page 0
	})
	run(compute.Params{Pos: []int32{0, 1}, Seq: []int32{0, 0}, Pages: [][]int32{{1}}}, func(verbs compute.Verbs) {
		verbs.StoreKV(c, 1, k, v)
		verbs.Attend(out, q, c, 1, compute.Attention{Scale: 0.5})
	})
	want := []float64{
		1, 2, 1, 2, 3, 4, 3, 4, // position 0 sees itself
		3, 4, 3, 4, 5, 6, 6, 7, // the last head weighs 1:3
	}
	expect(t, "attention", out, want...)

	d.CopyPage(c, compute.EveryLayer(1), compute.EveryLayer(2)) // page 1 is now zero except its last slot
	run(compute.Params{Pos: []int32{63, 64}, Seq: []int32{0, 0}, Pages: [][]int32{{1, 0}}}, func(verbs compute.Verbs) {
		verbs.Attend(out, q, c, 1, compute.Attention{})
	})
	expect(t, "across pages", out, 1.0/64, 2.0/64, 1.0/64, 2.0/64, 3.0/64, 4.0/64, 3.0/64, 4.0/64, 6.0/65)
}

func TestNeurons(t *testing.T) {
	x, h := tensor(2, 2, 1, 0, 0, 1), tensor(2, 2, 1, 1, 1, 2)
	hidden, logits, out := tensor(2, 2), tensor(2, 3), tensor(2, 2)
	s, err := New().Set(2, 3)
	if err != nil {
		t.Fatal(err)
	}
	identity := dense(t, 2, 2, 1, 0, 0, 1)
	fc2 := dense(t, 3, 2, 5, 1, 4.5, 5, 4, 6) // token 0 has 5, 4.5, 4; token 1 has 1, 5, 6
	f := compute.SparseWeights{
		Gate: dense(t, 3, 2, 1, 0, -1, 0, 0, 1), // token 0: 1, -1, 1; token 1: 1, -1, 2
		Up:   dense(t, 3, 2, 0, 1, 1, 1, 2, 1),  // token 0: 1, 2, 3; token 1: 2, 3, 4
		Down: dense(t, 3, 2, 1, 10, 100, 1000, 2, 20),
		Act:  compute.Activation{Kind: compute.ReLU},
	}
	var count compute.NeuronCount
	f.Count = &count
	p := compute.Params{Threshold: 4.5}
	run(p, func(v compute.Verbs) {
		v.Predict(s, x, hidden, logits, identity, fc2)
		v.SparseFFN(out, h, s, f)
	})
	expect(t, "gated", out, 1, 10, 16, 160) // token 0: neurons 0 and 1 (its gate is closed); token 1: 1 and 2
	if want := (compute.NeuronCount{Steps: 1, Tokens: 2, Predicted: 4, Gated: 2, Active: 2, Bytes: (4 + 2 + 2) * 8}); count != want {
		t.Errorf("counted %+v, want %+v", count, want)
	}
	f.Count, f.Gate, f.UpBias, f.DownBias = nil, nil, vector(t, -0.5, 0, 0), vector(t, 1000, 0)
	run(p, func(v compute.Verbs) { v.SparseFFN(out, h, s, f) })
	expect(t, "ungated", out, 1000+0.5+200, 5+2000, 1000+300+8, 3000+80)
	run(p, func(v compute.Verbs) { v.SparseFFN(out, h, compute.Set{Rows: 2, N: 3}, f) })
	expect(t, "all neurons", out, 1000+0.5+200+6, 5+2000+60, 1000+1.5+300+8, 15+3000+80)

	// The first neuron is always on, the third never: fc2's rows are those of the second and third.
	p.Threshold = 4.75
	run(p, func(v compute.Verbs) {
		v.Predict(s, x, hidden, tensor(2, 2), identity, dense(t, 2, 2, 5, 1, 4.5, 4.5))
		v.SparseFFN(out, h, s, f)
	})
	expect(t, "always on", out, 1000+0.5+200, 5+2000, 1000+1.5, 15)
}

func TestOrder(t *testing.T) {
	// Hottest first is 2, 0, 1: by rows, and by columns of an untransposed down projection.
	load := func(use compute.Use, rows, cols int, values ...float32) *compute.Matrix {
		src := source(rows, cols, values...)
		src.Order = []int32{2, 0, 1}
		m, err := New().Matrix(src, use)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	x, product, out := tensor(1, 2, 1, 1), tensor(1, 3), tensor(1, 2)
	up := load(compute.Rows, 3, 2, 1, 0, 2, 0, 3, 0)
	run(compute.Params{}, func(v compute.Verbs) { v.MatMul(x, compute.Products{{Out: product, W: up}}) })
	expect(t, "rows", product, 3, 1, 2)
	for _, down := range []*compute.Matrix{
		load(compute.Rows, 3, 2, 1, 10, 2, 20, 3, 30),
		load(compute.Columns, 2, 3, 1, 2, 3, 10, 20, 30),
	} {
		run(compute.Params{}, func(v compute.Verbs) {
			v.SparseFFN(out, x, compute.Set{Rows: 1, N: 3}, compute.SparseWeights{Up: up, Down: down, Act: compute.Activation{Kind: compute.ReLU}})
		})
		expect(t, "down", out, 1+4+9, 10+40+90)
	}
}

func TestRefusals(t *testing.T) {
	for _, src := range []compute.Source{
		{Name: "blk.0.w", Type: quant.F32, Rows: 2, Cols: 2, Data: make([]byte, 15)},
		{Name: "blk.0.w", Type: quant.Q4_0, Rows: 1, Cols: 16, Data: make([]byte, 9)},
		{Name: "blk.0.w", Type: quant.Type(99), Rows: 1, Cols: 1, Data: make([]byte, 4)},
		{Name: "blk.0.w", Type: quant.F32},
	} {
		if _, err := New().Matrix(src, compute.Dense); err == nil || !strings.Contains(err.Error(), "blk.0.w") {
			t.Errorf("matrix %+v: error %v does not name the tensor", src, err)
		}
		src.Rows = 1
		if _, err := New().Vector(src); err == nil || !strings.Contains(err.Error(), "blk.0.w") {
			t.Errorf("vector %+v: error %v does not name the tensor", src, err)
		}
	}
}
