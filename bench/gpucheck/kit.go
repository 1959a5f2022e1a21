package main

import (
	"math/rand/v2"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// kit is an opened GPU, and what a kernel's copies put on it. It keeps the first error.
type kit struct {
	d       *vulkan.Device
	typ     quant.Type
	tokens  int
	apart   bool // every copy has separate outputs
	chained bool // copies depend on one another whatever their outputs
	params  compute.Params
	err     error

	copies   int
	bytes    int64   // of all weights made so far
	flops    float64 // operations of a call of each copy
	counts   []*compute.NeuronCount
	counting bool // a run counts reads, which takes time
	recorded int  // passes

	rng     *rand.Rand
	data    map[[3]int][]byte         // weights, by rows, columns and whether they are positive
	shared  map[[2]int]compute.Tensor // by columns and slot
	inputs  map[int]compute.Tensor    // by columns
	tables  map[int]*compute.Matrix   // that inputs are looked up in
	sets    []compute.Set
	choices [][]uint32 // bits of each set
}

func (c *check) kit(t quant.Type, tokens int, apart bool, long vulkan.Arithmetic) (*kit, error) {
	d, err := c.openFor(long)
	if err != nil {
		return nil, err
	}
	k := &kit{
		d: d, typ: t, tokens: tokens, apart: apart, rng: rand.New(rand.NewPCG(1, 2)), data: map[[3]int][]byte{}, shared: map[[2]int]compute.Tensor{},
		inputs: map[int]compute.Tensor{}, tables: map[int]*compute.Matrix{},
	}
	pages := c.dims().positions / compute.PagePositions
	k.params.Pages = [][]int32{nil}
	for i := range pages {
		k.params.Pages[0] = append(k.params.Pages[0], int32(i))
	}
	for i := range tokens {
		k.params.Tokens, k.params.Seq = append(k.params.Tokens, 0), append(k.params.Seq, 0)
		k.params.Pos = append(k.params.Pos, int32(c.dims().positions-tokens+i))
	}
	return k, nil
}

// distinct is how many rows of a weight differ; they repeat.
const distinct = 61

// weights returns random weights [rows, cols] of type t. Their products with a row of ones have a deviation of one. If
// positive is set, all weights are positive.
func (k *kit) weights(t quant.Type, rows, cols int, positive bool) []byte {
	key := [3]int{rows, cols, 0}
	if positive {
		key[2] = 1
	}
	if have := k.data[key]; have != nil {
		return have
	}
	row, size := make([]float32, cols), t.RowBytes(cols)
	data := make([]byte, rows*size)
	for i := range min(rows, distinct) {
		for j := range row {
			row[j] = float32(k.rng.NormFloat64()) / float32(cols)
			if positive && row[j] < 0 {
				row[j] = -row[j]
			}
		}
		quant.Imitate(t, data[i*size:][:size], row)
	}
	for at := distinct * size; at < len(data); at *= 2 {
		copy(data[at:], data[:at])
	}
	k.data[key] = data
	return data
}

// matrix takes a weight in, which is read whole by a call unless its use is Rows.
func (k *kit) matrix(rows, cols int, use compute.Use, positive bool) *compute.Matrix {
	if k.err != nil {
		return nil
	}
	var m *compute.Matrix
	m, k.err = k.d.Matrix(compute.Source{Name: "weights", Type: k.typ, Rows: rows, Cols: cols, Data: k.weights(k.typ, rows, cols, positive)}, use)
	k.bytes += int64(rows) * int64(k.typ.RowBytes(cols))
	k.flops += 2 * float64(k.tokens) * float64(rows) * float64(cols)
	return m
}

// ones returns a norm's weight.
func (k *kit) ones(n int) *compute.Vector {
	if k.err != nil {
		return nil
	}
	data, values := make([]byte, 4*n), make([]float32, n)
	for i := range values {
		values[i] = 1
	}
	quant.Encode(quant.F32, data, values)
	var v *compute.Vector
	v, k.err = k.d.Vector(compute.Source{Name: "norm", Type: quant.F32, Rows: 1, Cols: n, Data: data})
	return v
}

func (k *kit) tensor(cols int) compute.Tensor {
	if k.err != nil {
		return compute.Tensor{}
	}
	var t compute.Tensor
	t, k.err = k.d.Tensor(k.tokens, cols)
	return t
}

// output returns the slot-th tensor of that width that a copy writes.
func (k *kit) output(cols, slot int) compute.Tensor {
	if k.apart {
		return k.tensor(cols)
	}
	key := [2]int{cols, slot}
	if _, ok := k.shared[key]; !ok {
		k.shared[key] = k.tensor(cols)
	}
	return k.shared[key]
}

// input is positive and the same for every copy.
func (k *kit) input(cols int) compute.Tensor {
	if have, ok := k.inputs[cols]; ok || k.err != nil {
		return have
	}
	k.inputs[cols] = k.tensor(cols)
	if k.err != nil {
		return compute.Tensor{}
	}
	k.tables[cols], k.err = k.d.Matrix(compute.Source{Name: "input", Type: quant.F32, Rows: 1, Cols: cols, Data: k.weights(quant.F32, 1, cols, true)}, compute.Lookup)
	return k.inputs[cols]
}

// begin fills inputs and sets.
func (k *kit) begin(v compute.Verbs) {
	for cols, t := range k.inputs {
		v.Embed(t, k.tables[cols])
	}
	if len(k.sets) == 0 {
		return
	}
	var taken []func() ([]uint32, int)
	m := v.Executor().(hybrid.Recorder)
	m.Overlap(func(*compute.Params) error {
		for i, f := range taken {
			words, _ := f()
			copy(words, k.choices[i])
		}
		return nil
	}, nil)
	for _, s := range k.sets {
		taken = append(taken, m.UploadSet(s))
	}
}

// bytesRead returns what a call of each copy reads.
func (k *kit) bytesRead() float64 {
	if len(k.counts) == 0 {
		return float64(k.bytes)
	}
	sum := 0.0
	for _, c := range k.counts {
		sum += float64(c.Bytes) / float64(max(c.Steps, 1))
	}
	return sum
}

// products returns a call that computes products of one input with matrices of these shapes. All have the same number
// of columns.
func (k *kit) products(shapes [][2]int) func(compute.Verbs) {
	var p compute.Products
	x := k.input(shapes[0][1])
	for i, s := range shapes {
		p[i] = compute.Product{W: k.matrix(s[0], s[1], compute.Dense, false), Out: k.output(s[0], i)}
	}
	return func(v compute.Verbs) { v.MatMul(x, p) }
}

// layer returns a dense layer as a model computes it, without attention itself.
func (k *kit) layer(s dims) func(compute.Verbs) {
	k.chained = true
	x, norm := k.input(s.embd), k.ones(s.embd)
	h, q, key, value, out := k.output(s.embd, 0), k.output(s.embd, 1), k.output(s.embd, 2), k.output(s.embd, 3), k.output(s.embd, 4)
	gate, up := k.output(s.ff, 0), k.output(s.ff, 1)
	square := func() *compute.Matrix { return k.matrix(s.embd, s.embd, compute.Dense, false) }
	wq, wk, wv, wo := square(), square(), square(), square()
	wg, wu, wd := k.matrix(s.ff, s.embd, compute.Dense, false), k.matrix(s.ff, s.embd, compute.Dense, false), k.matrix(s.embd, s.ff, compute.Dense, false)
	return func(v compute.Verbs) {
		v.RMSNorm(h, x, norm, 1e-5)
		v.MatMul(h, compute.Products{{Out: q, W: wq}, {Out: key, W: wk}, {Out: value, W: wv}})
		v.MatMul(q, compute.Products{{Out: out, W: wo}})
		v.Add(x, out)
		v.RMSNorm(h, x, norm, 1e-5)
		v.MatMul(h, compute.Products{{Out: gate, W: wg}, {Out: up, W: wu}})
		v.Activate(gate, gate, up, compute.Activation{Kind: compute.SiLU})
		v.MatMul(gate, compute.Products{{Out: out, W: wd}})
		v.Add(x, out)
	}
}

// oneIn is of how many neurons of a sparse layer one is computed.
const oneIn = 10

// sparse returns a call that computes a feed-forward layer by neuron over a random set. Every neuron of the set is
// active.
func (k *kit) sparse(s dims) func(compute.Verbs) {
	k.chained = true // by scratch
	x, out := k.input(s.embd), k.output(s.embd, 0)
	count := &compute.NeuronCount{}
	f := compute.SparseWeights{
		Gate: k.matrix(s.ff, s.embd, compute.Rows, true), Up: k.matrix(s.ff, s.embd, compute.Rows, true), Down: k.matrix(s.ff, s.embd, compute.Rows, false),
		Act: compute.Activation{Kind: compute.ReLU},
	}
	if k.err != nil {
		return nil
	}
	var set compute.Set
	set, k.err = k.d.Set(k.tokens, s.ff)
	bits := make([]uint32, (s.ff+31)/32)
	for i := range s.ff {
		if k.rng.IntN(oneIn) == 0 {
			bits[i/32] |= 1 << (i % 32)
		}
	}
	k.sets, k.choices, k.counts = append(k.sets, set), append(k.choices, bits), append(k.counts, count)
	return func(v compute.Verbs) {
		f.Count = nil
		if k.counting {
			f.Count = count
		}
		v.SparseFFN(out, x, set, f)
	}
}

// predictor chooses the neurons of a layer.
func (k *kit) predictor(s dims) func(compute.Verbs) {
	x, hidden, logits := k.input(s.embd), k.output(s.rank, 0), k.output(s.ff, 0)
	fc1, fc2 := k.matrix(s.rank, s.embd, compute.Dense, false), k.matrix(s.ff, s.rank, compute.Dense, false)
	if k.err != nil {
		return nil
	}
	var set compute.Set
	set, k.err = k.d.Set(k.tokens, s.ff)
	return func(v compute.Verbs) { v.Predict(set, x, hidden, logits, fc1, fc2) }
}

// attention is over the whole of a cache.
func (k *kit) attention(s dims, kvHeads int) func(compute.Verbs) {
	width := s.embd
	q, out := k.input(width), k.output(width, 0)
	shape := compute.KVShape{Heads: kvHeads, Key: s.embd / s.heads, Value: s.embd / s.heads}
	spec := compute.CacheSpec{Layers: []compute.KVShape{shape}, Pages: s.positions / compute.PagePositions}
	if k.err != nil {
		return nil
	}
	var c *compute.Cache
	c, k.err = k.d.Cache(spec)
	k.bytes += spec.Bytes()
	seen := float64(k.tokens) * (float64(s.positions) - float64(k.tokens-1)/2) // positions, by all tokens
	k.flops += 2 * seen * float64(s.heads*(shape.Key+shape.Value))
	return func(v compute.Verbs) { v.Attend(out, q, c, 0, compute.Attention{Scale: 0.1}) }
}
