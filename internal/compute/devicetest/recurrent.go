package devicetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// recurrentCase is a step with recurrent layers: what its sequences have read before, and how many rows each has in the
// step.
type recurrentCase struct {
	name     string
	past     []int // [sequences] positions before the step; 0: the sequence begins in the step
	rows     []int
	shape    compute.StateSpace
	width    int // width of the convolution
	unbiased bool
	// A delta rule in place of the state space. tiled: its groups are tiled; joined: its gates are one tensor.
	delta, tiled, joined bool
	byColumn             bool    // a decay for each column
	bound                float32 // bound of the decays
	stepless             bool    // a state space without steps, which is linear attention
	gated, plain         bool    // of the convolution
	fine                 bool    // a fine scan with B and C in a tensor of their own; the convolution is plain, its state comes after the scan's, and another convolution peeks
}

const recurrentLayer = 1 // layer 1 of two; layer 0 has keys and values

func recurrentScripts() (all []script) {
	small := compute.StateSpace{Heads: 4, Dim: 8, State: 16, Groups: 2}
	for _, c := range []recurrentCase{
		{name: "a sequence begins", past: []int{0}, rows: []int{13}, shape: small, width: 4},
		{name: "a token", past: []int{9}, rows: []int{1}, shape: small, width: 4},
		{name: "sequences of a token each", past: []int{5, 0, 1, 40}, rows: []int{1, 1, 1, 1}, shape: small, width: 4, unbiased: true},
		{name: "tokens and parts of prompts", past: []int{3, 7, 0, 2}, rows: []int{1, 1, 20, 2}, shape: small, width: 4},
		{name: "as wide as Mamba-2", past: []int{2, 0}, rows: []int{9, 1}, shape: compute.StateSpace{Heads: 6, Dim: 64, State: 128, Groups: 1}, width: 4},
		{name: "many channels", past: []int{1}, rows: []int{3}, shape: compute.StateSpace{Heads: 24, Dim: 64, State: 32, Groups: 8}, width: 2},
		{name: "odd sizes", past: []int{4, 0}, rows: []int{5, 3}, shape: compute.StateSpace{Heads: 3, Dim: 7, State: 21, Groups: 3}, width: 3},
		{name: "a plain convolution, tokens and parts of prompts", past: []int{3, 7, 0, 2}, rows: []int{1, 1, 20, 2}, shape: small, width: 4, plain: true, unbiased: true},
		{name: "a gated convolution, tokens and parts of prompts", past: []int{3, 7, 0, 2}, rows: []int{1, 1, 20, 2}, shape: small, width: 3, gated: true, unbiased: true},
		{name: "a gated convolution of many channels", past: []int{1, 0}, rows: []int{9, 1}, shape: compute.StateSpace{Heads: 24, Dim: 64, State: 32, Groups: 8}, width: 4, gated: true},
		{name: "a delta rule begins", past: []int{0}, rows: []int{37}, shape: small, width: 4, delta: true, unbiased: true},
		{name: "delta rules, tokens and parts of prompts", past: []int{3, 7, 0, 2}, rows: []int{1, 1, 20, 2}, shape: small, width: 4, delta: true, tiled: true},
		{name: "as wide as a gated delta net", past: []int{2, 0}, rows: []int{18, 1}, shape: compute.StateSpace{Heads: 4, Dim: 128, State: 128, Groups: 2}, width: 4, delta: true, joined: true, unbiased: true},
		{name: "a delta rule of odd sizes", past: []int{4, 0}, rows: []int{5, 3}, shape: compute.StateSpace{Heads: 6, Dim: 7, State: 21, Groups: 3}, width: 3, delta: true, joined: true, tiled: true},
		{name: "a delta rule of a decay for each column", past: []int{0, 3, 6}, rows: []int{37, 1, 4}, shape: compute.StateSpace{Heads: 4, Dim: 8, State: 16, Groups: 4}, width: 4, delta: true, byColumn: true, unbiased: true},
		{name: "as wide as Kimi delta attention", past: []int{2, 0}, rows: []int{18, 1}, shape: compute.StateSpace{Heads: 2, Dim: 128, State: 128, Groups: 2}, width: 4, delta: true, byColumn: true, bound: -5, unbiased: true},
		{name: "decays for each column, of odd sizes", past: []int{4, 0}, rows: []int{5, 3}, shape: compute.StateSpace{Heads: 6, Dim: 7, State: 21, Groups: 3}, width: 3, delta: true, byColumn: true, bound: -2, tiled: true},
		{name: "bounded decays of heads", past: []int{4, 0}, rows: []int{5, 3}, shape: small, width: 4, delta: true, bound: -3},
		{name: "linear attention", past: []int{3, 7, 0, 2}, rows: []int{1, 1, 20, 2}, shape: compute.StateSpace{Heads: 4, Dim: 16, State: 16, Groups: 4}, width: 2, stepless: true, unbiased: true},
		{name: "a fine scan begins", past: []int{0}, rows: []int{13}, shape: compute.StateSpace{Heads: 1, Dim: 96, State: 16, Groups: 1}, width: 4, fine: true},
		{name: "fine scans, tokens and parts of prompts", past: []int{3, 7, 0, 2}, rows: []int{1, 1, 20, 2}, shape: compute.StateSpace{Heads: 1, Dim: 70, State: 16, Groups: 1}, width: 2, fine: true, unbiased: true},
		{name: "a fine scan of odd sizes", past: []int{4, 0}, rows: []int{5, 3}, shape: compute.StateSpace{Heads: 3, Dim: 7, State: 21, Groups: 3}, width: 3, fine: true},
	} {
		tokens := 0
		for _, n := range c.rows {
			tokens += n
		}
		all = append(all, script{name: "Recurrent/" + c.name, tokens: tokens, whole: true, play: func(s *stage) { playRecurrent(s, c) }})
	}
	return append(all, moveStateScript())
}

// gates returns the columns of steps.
func (c *recurrentCase) gates() int {
	switch {
	case c.joined:
		return 2 * c.shape.Heads
	case c.byColumn:
		return c.shape.Heads * c.shape.State
	case c.fine:
		return c.shape.Heads * c.shape.Dim
	}
	return c.shape.Heads
}

// decays returns the number of decays.
func (c *recurrentCase) decays() int {
	if c.fine {
		return c.shape.Size()
	}
	return c.shape.Heads
}

// weights of a recurrent layer.
type recurrentWeights struct{ taps, convBias, a, d, bias *compute.Vector }

// recurrentWeights returns random ones: A is negative, and steps are small, as in trained models.
func (s *stage) recurrentWeights(c *recurrentCase) recurrentWeights {
	channels, sign, steps := c.shape.Channels(), float32(-1), c.gates()
	if c.bound < 0 {
		sign = 1
	}
	if c.joined {
		steps /= 2
	}
	a, bias := s.normal(c.decays()), s.normal(steps)
	for i := range a {
		a[i] = sign * float32(math.Exp(float64(a[i])))
	}
	for i := range bias {
		bias[i] = 3*bias[i] - 2
	}
	w := recurrentWeights{taps: s.vector(s.normal(c.width * channels)), a: s.vector(a), d: s.vector(s.normal(steps)), bias: s.vector(bias)}
	if convBias := s.normal(channels); !c.unbiased {
		w.convBias = s.vector(convBias)
	}
	return w
}

// spec returns a cache with a layer of keys and values, and a recurrent layer with that many slots.
func (c *recurrentCase) spec(slots int) compute.CacheSpec {
	size := (c.width-1)*c.shape.Channels() + c.shape.Size()
	return compute.CacheSpec{Layers: []compute.KVShape{{Heads: 1, Key: 16, Value: 16}, {State: size}}, Pages: 1, States: slots}
}

// playRecurrent computes a layer in one step, and in one step for each row of a sequence: both give the same bytes, and
// the same state.
func playRecurrent(s *stage, c recurrentCase) {
	w := s.recurrentWeights(&c)
	sequences := len(c.rows)
	cache, err := s.dev.Cache(c.spec(2*sequences + 1))
	s.must(err)
	shape := c.shape
	width := shape.Channels() // channels of the convolution
	if c.gated {
		width *= 3
	}
	in, steps := s.normal(s.all*width), s.normal(s.all*c.gates())
	x, step := s.input(width, in), s.input(c.gates(), steps)
	writes, write := steps, step
	if c.delta && !c.joined {
		writes = s.normal(s.all * shape.Heads)
		write = s.input(shape.Heads, writes)
	}
	mixed, out := s.output(shape.Channels()), s.output(shape.Heads*shape.Dim)
	inner := shape.Heads * shape.Dim
	var apart, apartAlone [2]compute.Tensor // x, and B and C
	if c.fine {
		apart = [2]compute.Tensor{s.output(inner), s.output(width - inner)}
		apartAlone = [2]compute.Tensor{s.place(1, inner, nil, false), s.place(1, width-inner, nil, false)}
	}
	layer := func(v compute.Verbs, mixed, out, x, write, step compute.Tensor) {
		convolve := compute.Convolve{Out: mixed, X: x, W: w.taps, Bias: w.convBias, Cache: cache, Layer: recurrentLayer, Gated: c.gated, Plain: c.plain || c.fine}
		scanned := (c.width - 1) * shape.Channels()
		if c.fine {
			convolve.At, scanned = shape.Size(), 0
			convolve.Peek = true
			v.Convolve(convolve)
			convolve.Peek = false
		}
		v.Convolve(convolve)
		if c.delta {
			v.Delta(compute.Delta{
				Out: out, X: mixed, Write: write, Step: step, A: w.a, Bias: w.bias, Bound: c.bound, Shape: shape, Tiled: c.tiled, Epsilon: 1e-6,
				At: scanned, Cache: cache, Layer: recurrentLayer,
			})
			return
		}
		scan := compute.Scan{
			Out: out, X: mixed, Step: step, A: w.a, D: w.d, Bias: w.bias, Shape: shape, At: scanned, Cache: cache, Layer: recurrentLayer, Fine: c.fine,
		}
		switch {
		case c.stepless:
			scan.Step, scan.D, scan.Bias = compute.Tensor{}, nil, nil
		case c.fine:
			scan.X, scan.BC = apart[0], apart[1]
			if mixed.Rows == 1 {
				scan.X, scan.BC = apartAlone[0], apartAlone[1]
			}
			v.Slice(scan.X, mixed, 0)
			v.Slice(scan.BC, mixed, scan.X.Cols)
		}
		v.Scan(scan)
	}
	var twice []int32 // each sequence's slot in the second playing
	for seq, n := range c.rows {
		slot := int32(2*sequences - 2*seq)
		s.params.States, twice = append(s.params.States, slot), append(twice, slot-1)
		before := s.normal(cache.Layers[recurrentLayer].State)
		if c.past[seq] == 0 { // what the slot holds is of another sequence
			before[0] = float32(math.NaN())
		}
		for _, to := range []int32{slot, slot - 1} {
			s.must(s.dev.WritePage(cache, compute.StateSlot(to), [][]byte{nil, floatBytes(before)}))
		}
		for i := range n {
			s.params.Seq, s.params.Pos = append(s.params.Seq, int32(seq)), append(s.params.Pos, int32(c.past[seq]+i))
		}
	}
	s.run(func(v compute.Verbs) { layer(v, mixed, out, x, write, step) })
	s.keep("convolved", mixed, ofRow(recurrentTolerance))
	s.keep("scanned", out, ofRow(recurrentTolerance))

	alone, aloneOut := s.place(1, shape.Channels(), nil, false), s.place(1, shape.Heads*shape.Dim, nil, false)
	for i := range s.all {
		one := s.place(1, width, func(int) []float32 { return in[i*width:][:width] }, true)
		oneStep := s.place(1, c.gates(), func(int) []float32 { return steps[i*c.gates():][:c.gates()] }, true)
		oneWrite := oneStep
		if c.delta && !c.joined {
			oneWrite = s.place(1, shape.Heads, func(int) []float32 { return writes[i*shape.Heads:][:shape.Heads] }, true)
		}
		p := compute.Params{Tokens: []int32{0}, Seq: []int32{s.params.Seq[i]}, Pos: []int32{s.params.Pos[i]}, States: twice, Decode: s.decode & 1}
		seg := compute.Segment{Name: fmt.Sprintf("%s, row %d", s.name, i), Rows: 1, Decode: p.Decode}
		s.must(s.dev.Run(seg, &p, func(v compute.Verbs) { layer(v, alone, aloneOut, one, oneWrite, oneStep) }))
		if got, want := s.read(aloneOut, 0), s.read(out, i); !sameFloats(got, want) {
			s.t.Errorf("%s: %s: row %d differs alone", s.dev.Name(), s.name, i)
		}
	}
	for seq := range c.rows {
		got := s.state(cache, s.params.States[seq])
		s.keepTotal(fmt.Sprintf("state of sequence %d", seq), got, ofRow(recurrentTolerance))
		if !sameFloats(got, s.state(cache, twice[seq])) {
			s.t.Errorf("%s: %s: the state of sequence %d depends on how its rows were cut", s.dev.Name(), s.name, seq)
		}
	}
}

// state returns what a slot of the recurrent layer holds.
func (s *stage) state(c *compute.Cache, slot int32) []float32 {
	s.t.Helper()
	layers := [][]byte{nil, make([]byte, c.Layers[recurrentLayer].StateBytes())}
	s.must(s.dev.ReadPage(c, compute.StateSlot(slot), layers))
	out := make([]float32, c.Layers[recurrentLayer].State)
	quant.Decode(quant.F32, out, layers[recurrentLayer])
	return out
}

// moveStateScript: a slot is copied and moved without its neighbours or the other layer's pages, and a page without
// slots.
func moveStateScript() script {
	return script{name: "MovePage/states", tokens: 1, whole: true, play: func(s *stage) {
		c := recurrentCase{shape: compute.StateSpace{Heads: 1, Dim: 8, State: 8, Groups: 1}, width: 4}
		cache, err := s.dev.Cache(c.spec(3))
		s.must(err)
		key := cache.Layers[0]
		for slot := range 3 {
			s.must(s.dev.WritePage(cache, compute.StateSlot(int32(slot)), [][]byte{nil, floatBytes(s.normal(cache.Layers[recurrentLayer].State))}))
		}
		page := make([]byte, 3*key.PositionBytes())
		for i := range page {
			page[i] = byte(7 * i % 61)
		}
		s.must(s.dev.WritePage(cache, compute.EveryLayer(0), [][]byte{page, nil}))
		s.dev.CopyPage(cache, compute.StateSlot(2), compute.StateSlot(0))
		for slot := range 3 {
			s.keepTotal(fmt.Sprintf("slot %d", slot), s.state(cache, int32(slot)), exact)
		}
		again := make([]byte, len(page))
		s.must(s.dev.ReadPage(cache, compute.EveryLayer(0), [][]byte{again, nil}))
		s.keepTotal("page", numbersOf(again), exact)
	}}
}

// floatBytes are numbers as F32.
func floatBytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	quant.Encode(quant.F32, b, x)
	return b
}

func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
