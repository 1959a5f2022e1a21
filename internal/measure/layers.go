package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// layerShape is a layer for measuring a device's speed: Llama's.
type layerShape struct {
	embd, ff, heads int
	rank            int   // of its predictor
	shares          []int // of active neurons, in percent, for timing it as a sparse layer
}

// layerTrial says with which layers a device's speed is measured.
type layerTrial struct {
	small, large layerShape
	bytes        int64         // weights that the layers of each part have together: more than caches hold
	neurons      int64         // the same of sparse layers, which read some of them
	everyRow     bool          // whether neurons are timed with every row read, too
	gap          time.Duration // time that the CPU is idle before the neurons of each sparse layer; 0: layers follow one another
}

// usualLayers returns two shapes: the smaller one shows what starting a part takes, the larger one how fast it reads.
// Sparse layers are timed with two shares of the larger one's neurons instead.
func usualLayers(bytes int64, gap time.Duration, everyRow bool) layerTrial {
	return layerTrial{
		small: layerShape{embd: 1024, ff: 2816, heads: 8, rank: 256},
		large: layerShape{embd: 4096, ff: 11008, heads: 32, rank: 1024, shares: []int{5, 20}},
		bytes: bytes, neurons: 456 << 20, gap: gap, everyRow: everyRow,
	}
}

const (
	layerType    = quant.Q4_0 // of what is measured in one type only
	layerPasses  = 4          // over all layers, in a recording
	layerRepeats = 6          // of a recording; the first run records, and the fastest of the others counts
	mostLayers   = 96         // of a shape
	together     = 8          // tokens of a step, to time what one beyond the first adds
	everyShare   = 20         // of active neurons, in percent, where every row is read
	speedSteps   = 10         // figures of a device: three parts of each shape, one of them with more tokens, too, and the shares
	neuronSteps  = 4          // figures of neurons: the shares, and each shape with every row read
	// idleBeforeCold is how long the CPU waits between its parts of two layers while a GPU computes attention.
	idleBeforeCold = 100 * time.Microsecond
)

// speeds measures how fast a device computes the parts of a layer for one token, with the operations of models. open
// opens the device; it is called once for each shape.
func speeds(ctx context.Context, open func() (compute.Device, error), on layerTrial, step func()) (placement.Speeds, error) {
	a, b, err := on.both(ctx, open, layerType, step)
	if err != nil {
		return placement.Speeds{}, err
	}
	n := on.fitNeurons(a, b)
	return placement.Speeds{
		Attention: fit(a.attention, b.attention), Predictor: fit(a.predictor, b.predictor), Dense: fit(a.dense, b.dense),
		Sparse: n.Sparse, EveryRow: n.EveryRow, Each: further(b.dense, b.together),
	}, nil
}

// both times layers of both shapes.
func (on *layerTrial) both(ctx context.Context, open func() (compute.Device, error), t quant.Type, step func()) (a, b partTimes, err error) {
	if a, err = on.time(ctx, open, on.small, t, step); err == nil {
		b, err = on.time(ctx, open, on.large, t, step)
	}
	return a, b, err
}

// timed are the bytes that a part of a layer reads, and the seconds that this takes.
type timed struct{ bytes, seconds float64 }

// partTimes are the times of a layer's parts, and of sparse neurons by share.
type partTimes struct {
	attention, predictor, dense timed
	together                    timed // dense, of that many tokens
	sparse                      []timed
	every                       timed // of neurons with every row read
}

// leastFurther bounds what a further token takes, as a share of the first one: noise is not taken for nothing.
const leastFurther = 1.0 / 128

// further returns what each token of a step beyond the first adds, in seconds for a byte.
func further(one, all timed) float64 {
	return max((all.seconds-one.seconds)/(together-1), leastFurther*one.seconds) / one.bytes
}

// leastSlope bounds the share of the larger part's time that its bytes take. It is assumed if noise makes the smaller
// part as slow as the larger one.
const leastSlope = 1.0 / 8

// fit returns the rate that two parts of a kind have: a line through both times.
func fit(small, large timed) placement.Rate {
	whole := large.seconds / large.bytes
	perByte := (large.seconds - small.seconds) / (large.bytes - small.bytes)
	perByte = min(max(perByte, leastSlope*whole), whole)
	return placement.Rate{Start: max(0, large.seconds-perByte*large.bytes), Read: 1 / perByte}
}

// layers are layers of one shape on a device. The first error is kept.
type layers struct {
	d     compute.Device
	shape layerShape
	typ   quant.Type
	wide  int64           // bytes of weights of each part, all layers together
	table *compute.Matrix // [1, embd] ones
	x     compute.Tensor  // [tokens, embd] the residual stream
	p     compute.Params
	data  map[[3]int][]byte // weights by rows, columns and sign
	err   error
}

func newLayers(d compute.Device, shape layerShape, t quant.Type, bytes int64) *layers {
	y := &layers{d: d, shape: shape, typ: t, wide: bytes, data: map[[3]int][]byte{}}
	y.p = compute.Params{Decode: 1, Tokens: []int32{0}, Pos: []int32{compute.PagePositions - 1}, Seq: []int32{0}, Pages: [][]int32{{0}}}
	y.x = y.tensor(1, shape.embd)
	y.table = y.take(compute.Source{Name: "input", Type: quant.F32, Rows: 1, Cols: shape.embd, Data: rowsOf(quant.F32, 1, shape.embd, 1)}, compute.Lookup)
	return y
}

// time times the parts of layers of one shape; in types other than layerType, neurons alone.
func (on *layerTrial) time(ctx context.Context, open func() (compute.Device, error), shape layerShape, of quant.Type, step func()) (t partTimes, err error) {
	d, err := open()
	if err != nil {
		return t, err
	}
	defer func() {
		if cerr := d.Close(); err == nil {
			err = cerr
		}
	}()
	y := newLayers(d, shape, of, on.bytes)
	type part struct {
		to   *timed
		make func() (bytes float64, ops []func(compute.Verbs))
	}
	parts := []part{{&t.attention, y.attention}, {&t.dense, y.dense}, {&t.predictor, y.predictor}}
	if of != layerType {
		parts = nil
	}
	for _, part := range parts {
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
		read, ops := part.make()
		y.tune()
		*part.to = y.time(read, ops)
		step()
		if part.to == &t.dense {
			t.together = y.timeTogether(read, ops)
			step()
		}
	}
	var weights []compute.SparseWeights
	if on.everyRow || len(shape.shares) > 0 {
		weights = y.neurons(on.neurons)
	}
	for _, share := range shape.shares {
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
		read, ops := y.sparse(weights, share)
		y.tune()
		if on.gap > 0 {
			t.sparse = append(t.sparse, timed{read, y.timeApart(ops, on.gap)})
		} else {
			t.sparse = append(t.sparse, y.time(read, ops))
		}
		step()
	}
	if on.everyRow && ctx.Err() == nil {
		for i := range weights {
			weights[i].EveryRow = 1
		}
		read, ops := y.sparse(weights, everyShare)
		y.tune()
		t.every = y.time(read, ops)
		step()
	}
	return t, y.err
}

// tune makes the device choose its kernels for the loaded weights, as when a model is loaded.
func (y *layers) tune() {
	if y.err == nil {
		y.d.Tune()
	}
}

// time returns the time of one of ops, which read this many bytes each.
func (y *layers) time(bytes float64, ops []func(compute.Verbs)) timed {
	n := y.x.Rows
	seg := compute.Segment{Name: fmt.Sprintf("%d layers of %.0f bytes", len(ops), bytes), Rows: n, Decode: n}
	best := time.Duration(1<<63 - 1)
	for i := range layerRepeats {
		begin := monotime.Now()
		y.run(seg, func(v compute.Verbs) {
			v.Embed(y.x, y.table)
			for range layerPasses {
				for _, op := range ops {
					op(v)
				}
			}
		})
		if took := max(monotime.Since(begin), 1); i > 0 {
			best = min(best, took)
		}
	}
	return timed{bytes, best.Seconds() / float64(layerPasses*max(len(ops), 1))}
}

// timeTogether is time for a step of together tokens.
func (y *layers) timeTogether(bytes float64, ops []func(compute.Verbs)) timed {
	x, p := y.x, y.p
	y.x = y.tensor(together, y.shape.embd)
	y.p.Decode, y.p.Tokens, y.p.Pos, y.p.Seq = together, make([]int32, together), make([]int32, together), make([]int32, together)
	t := y.time(bytes, ops)
	y.x, y.p = x, p
	return t
}

// timeApart returns the median time of one of ops, each after the device was idle for gap.
func (y *layers) timeApart(ops []func(compute.Verbs), gap time.Duration) float64 {
	var all []time.Duration
	for pass := range layerRepeats {
		for _, op := range ops {
			for idle := monotime.Now(); monotime.Since(idle) < gap; {
			}
			begin := monotime.Now()
			y.run(compute.Segment{}, op)
			if pass > 0 {
				all = append(all, monotime.Since(begin))
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2].Seconds()
}

func (y *layers) run(seg compute.Segment, body func(compute.Verbs)) {
	if y.err == nil {
		y.err = y.d.Run(seg, &y.p, body)
	}
}

// count returns how many layers a part with this many bytes has.
func (y *layers) count(bytes float64) int {
	return min(max(2, int(float64(y.wide)/bytes)+1), mostLayers)
}

func (y *layers) tensor(tokens, cols int) compute.Tensor {
	var t compute.Tensor
	if y.err == nil {
		t, y.err = y.d.Tensor(tokens, cols)
	}
	return t
}

func (y *layers) take(src compute.Source, use compute.Use) *compute.Matrix {
	var m *compute.Matrix
	if y.err == nil {
		m, y.err = y.d.Matrix(src, use)
	}
	return m
}

// matrix takes in positive weights, or such of both signs.
func (y *layers) matrix(rows, cols int, use compute.Use, positive bool) *compute.Matrix {
	key := [3]int{rows, cols, 0}
	if positive {
		key[2] = 1
	}
	if y.data[key] == nil {
		y.data[key] = weightsOf(y.typ, rows, cols, positive)
	}
	return y.take(compute.Source{Name: "weights", Type: y.typ, Rows: rows, Cols: cols, Data: y.data[key]}, use)
}

// ones returns a norm's weights.
func (y *layers) ones(n int) *compute.Vector {
	var v *compute.Vector
	if y.err == nil {
		v, y.err = y.d.Vector(compute.Source{Name: "norm", Type: quant.F32, Rows: 1, Cols: n, Data: rowsOf(quant.F32, 1, n, 1)})
	}
	return v
}

// rowsOf returns rows of elements that are all value.
func rowsOf(t quant.Type, rows, cols int, value float32) []byte {
	row, size := make([]float32, cols), t.RowBytes(cols)
	for i := range row {
		row[i] = value
	}
	data := make([]byte, rows*size)
	for i := range rows {
		quant.Encode(t, data[i*size:][:size], row)
	}
	return data
}

// weightsOf returns random weights; their products with ones stay near one.
func weightsOf(t quant.Type, rows, cols int, positive bool) []byte {
	const distinct = 16 // rows, which repeat
	rng := rand.New(rand.NewPCG(1, 2))
	row, size := make([]float32, cols), t.RowBytes(cols)
	data := make([]byte, rows*size)
	for i := range min(rows, distinct) {
		for j := range row {
			row[j] = float32(rng.Float64()) / float32(cols)
			if !positive && rng.IntN(2) == 0 {
				row[j] = -row[j]
			}
		}
		quant.Encode(t, data[i*size:][:size], row)
	}
	for at := distinct * size; at < len(data); at *= 2 {
		copy(data[at:], data[:at])
	}
	return data
}

// normEps is added under a norm's root.
const normEps = 1e-5

// attention returns the attention of layers, with few positions in the cache.
func (y *layers) attention() (bytes float64, ops []func(compute.Verbs)) {
	e, head := y.shape.embd, y.shape.embd/y.shape.heads
	bytes = float64(4 * e * y.typ.RowBytes(e))
	n := y.count(bytes)
	h, q, k, v, out := y.tensor(1, e), y.tensor(1, e), y.tensor(1, e), y.tensor(1, e), y.tensor(1, e)
	norm := y.ones(e)
	rope := &compute.Rope{Dims: head, Freqs: make([]float64, head/2), Scale: 1}
	shape := compute.KVShape{Heads: y.shape.heads, Key: head, Value: head}
	spec := compute.CacheSpec{Layers: slices.Repeat([]compute.KVShape{shape}, n), Pages: 1}
	var cache *compute.Cache
	if y.err == nil {
		cache, y.err = y.d.Cache(spec)
	}
	for l := range n {
		square := func() *compute.Matrix { return y.matrix(e, e, compute.Dense, false) }
		wq, wk, wv, wo := square(), square(), square(), square()
		ops = append(ops, func(b compute.Verbs) {
			b.RMSNorm(h, y.x, norm, normEps)
			b.MatMul(h, compute.Products{{Out: q, W: wq}, {Out: k, W: wk}, {Out: v, W: wv}})
			b.RoPE(q, head, rope)
			b.RoPE(k, head, rope)
			b.StoreKV(cache, l, k, v)
			b.Attend(out, q, cache, l, compute.Attention{Scale: 0.1})
			b.MatMul(out, compute.Products{{Out: h, W: wo}})
			b.Add(y.x, h)
		})
	}
	return bytes, ops
}

// dense returns feed-forward layers that compute every neuron.
func (y *layers) dense() (bytes float64, ops []func(compute.Verbs)) {
	e, f := y.shape.embd, y.shape.ff
	bytes = float64(2*f*y.typ.RowBytes(e) + e*y.typ.RowBytes(f))
	most, mostGate, mostUp, norm := y.tensor(together, e), y.tensor(together, f), y.tensor(together, f), y.ones(e)
	for range y.count(bytes) {
		wg, wu, wd := y.matrix(f, e, compute.Dense, false), y.matrix(f, e, compute.Dense, false), y.matrix(e, f, compute.Dense, false)
		ops = append(ops, func(b compute.Verbs) {
			n := y.x.Rows
			h, gate, up := most.First(n), mostGate.First(n), mostUp.First(n)
			b.RMSNorm(h, y.x, norm, normEps)
			b.MatMul(h, compute.Products{{Out: gate, W: wg}, {Out: up, W: wu}})
			b.Activate(gate, gate, up, compute.Activation{Kind: compute.SiLU})
			b.MatMul(gate, compute.Products{{Out: h, W: wd}})
			b.Add(y.x, h)
		})
	}
	return bytes, ops
}

// predicted is a layer's predictor, and the set that it makes.
type predicted struct {
	set      compute.Set
	hid, out compute.Tensor
	fc1, fc2 *compute.Matrix
}

func (p *predicted) do(b compute.Verbs, x compute.Tensor) {
	b.Predict(p.set, x, p.hid, p.out, p.fc1, p.fc2)
}

// predictorOf returns a predictor that finds share percent of the neurons active for any token, and how many these are.
// The weights of its first matrix are positive, and only rows of its second one for such neurons are.
func (y *layers) predictorOf(share int, seed uint64, hid, out compute.Tensor) (p predicted, active int) {
	e, f, r := y.shape.embd, y.shape.ff, y.shape.rank
	p = predicted{hid: hid, out: out, fc1: y.matrix(r, e, compute.Dense, true)}
	rng := rand.New(rand.NewPCG(1, seed))
	size := y.typ.RowBytes(r)
	yes, no, data := rowsOf(y.typ, 1, r, 1), rowsOf(y.typ, 1, r, -1), make([]byte, f*size)
	for i := range f {
		row := no
		if rng.IntN(100) < share {
			row, active = yes, active+1
		}
		copy(data[i*size:], row)
	}
	p.fc2 = y.take(compute.Source{Name: "predictor", Type: y.typ, Rows: f, Cols: r, Data: data}, compute.Dense)
	if y.err == nil {
		p.set, y.err = y.d.Set(1, f)
	}
	return p, active
}

// predictor returns only predictors. They find half of the neurons active.
func (y *layers) predictor() (bytes float64, ops []func(compute.Verbs)) {
	bytes = float64(y.shape.rank*y.typ.RowBytes(y.shape.embd) + y.shape.ff*y.typ.RowBytes(y.shape.rank))
	hid, out := y.tensor(1, y.shape.rank), y.tensor(1, y.shape.ff)
	for l := range y.count(bytes) {
		p, _ := y.predictorOf(50, uint64(l), hid, out)
		ops = append(ops, func(b compute.Verbs) { p.do(b, y.x) })
	}
	return bytes, ops
}

// sparseSets is the least number of sets that sparse layers are timed with, so that caches do not hold their rows. The
// layers are few, because all of their neurons are in memory.
const sparseSets = 18

// neurons returns the weights of sparse feed-forward layers with about that many bytes together.
func (y *layers) neurons(bytes int64) (all []compute.SparseWeights) {
	e, f := y.shape.embd, y.shape.ff
	for range min(max(2, int(bytes)/(3*f*y.typ.RowBytes(e))), mostLayers) {
		all = append(all, compute.SparseWeights{
			Gate: y.matrix(f, e, compute.Rows, true), Up: y.matrix(f, e, compute.Rows, true), Down: y.matrix(f, e, compute.Rows, false),
			Act: compute.Activation{Kind: compute.ReLU},
		})
	}
	return all
}

// sparse returns feed-forward layers that compute share percent of their neurons, and the bytes that each reads. Their
// sets are made beforehand.
func (y *layers) sparse(weights []compute.SparseWeights, share int) (bytes float64, ops []func(compute.Verbs)) {
	h, out, norm := y.tensor(1, y.shape.embd), y.tensor(1, y.shape.embd), y.ones(y.shape.embd)
	hid, logits := y.tensor(1, y.shape.rank), y.tensor(1, y.shape.ff)
	neurons, row := 0, y.typ.RowBytes(y.shape.embd)
	for i := range max(sparseSets, len(weights)) {
		w := weights[i%len(weights)]
		p, active := y.predictorOf(share, uint64(i), hid, logits)
		neurons += active
		y.run(compute.Segment{Name: fmt.Sprintf("set %d of %d %%", i, share), Rows: 1, Decode: 1}, func(b compute.Verbs) {
			b.Embed(y.x, y.table)
			p.do(b, y.x)
		})
		ops = append(ops, func(b compute.Verbs) {
			b.RMSNorm(h, y.x, norm, normEps)
			b.SparseFFN(out, h, p.set, w)
			b.Add(y.x, out)
		})
	}
	active := float64(neurons) / float64(max(len(ops), 1))
	if len(weights) > 0 && weights[0].EveryRow > 0 {
		return (2*float64(y.shape.ff) + active) * float64(row), ops
	}
	return 3 * active * float64(row), ops
}
