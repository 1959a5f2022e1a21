package cpu

import (
	"math"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// states returns the numbers of a slot in a layer with recurrent states.
func states(c *compute.Cache, layer int, slot int32) []float32 {
	n, memory := c.Layers[layer].State, c.Mem.(*cache).k[layer]
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/4)[int(slot)*n:][:n]
}

// channelBlock is the number of channels that a worker convolves together: a row of them stays in the first-level
// cache.
const channelBlock = 512

// convolution is the state of one Convolve. Workers share the runs' channels, and each goes through a run's positions
// in order.
type convolution struct {
	d       *Device
	chunkFn func(chunk, worker int)
	o       compute.Convolve
	runs    []compute.Run
	blocks  int // blocks of channels
}

func (v *convolution) init(d *Device) { v.d, v.chunkFn = d, v.chunk }

// Convolve convolves every channel of the runs.
func (d *Device) Convolve(o *compute.Convolve) {
	v := &d.convolution
	v.o, v.runs = *o, d.p.AppendRuns(v.runs[:0])
	v.blocks = (o.Out.Cols + channelBlock - 1) / channelBlock
	d.pool.Run(len(v.runs)*v.blocks, v.chunkFn)
}

// chunk convolves a block of the channels of a run.
func (v *convolution) chunk(chunk, worker int) {
	r, o, k := v.runs[chunk/v.blocks], &v.o, v.d.k
	channels, past := o.Out.Cols, o.Width()-1
	from := chunk % v.blocks * channelBlock
	to := min(channels, from+channelBlock)
	w, bias, state := vector(o.W), vector(o.Bias), states(o.Cache, o.Layer, r.Slot)[o.At:]
	if r.Fresh && !o.Peek {
		for i := range past {
			clear(state[i*channels:][from:to])
		}
	}
	// products holds the last inputs of a gated convolution multiplied by their gates, as a ring. none stands for the
	// positions before a sequence when its state is not written.
	var products, none []float32
	if width := to - from; o.Gated || r.Fresh && o.Peek {
		room := grown(&v.d.worker(worker).floats, (past+2)*width)
		products = room[width:]
		if r.Fresh && o.Peek {
			none = room[:width]
			clear(none)
		}
	}
	input := func(t int) []float32 { // the run's input, or for t < r.From that of the positions before it
		switch {
		case t < r.From && none != nil:
			return none
		case t < r.From:
			return state[(t-r.From+past)*channels:][from:to]
		case o.Gated:
			return products[(t-r.From)%(past+1)*(to-from):][:to-from]
		}
		return row(o.X, t)[from:to]
	}
	for t := r.From; t < r.To; t++ {
		if o.Gated {
			x, product := row(o.X, t), input(t)
			copy(product, x[2*channels:][from:to])
			k.Mul(product, x[from:to])
		}
		out := row(o.Out, t)[from:to]
		if bias != nil {
			copy(out, bias[from:to])
		} else {
			clear(out)
		}
		for i := range past + 1 {
			k.MulAdd(out, w[i*channels:][from:to], input(t-past+i))
		}
		switch {
		case o.Gated:
			k.Mul(out, row(o.X, t)[channels:][from:to])
		case !o.Plain:
			k.Activate(out, out, nil, compute.Activation{Kind: compute.SiLU})
		}
	}
	if o.Peek {
		return
	}
	for i := range past { // ascending, so that a row is read before it is overwritten
		copy(state[i*channels:][from:to], input(r.To-past+i))
	}
}

// scans is the state of one Scan. Workers share the runs' heads, or blocks of rows of a fine scan, and each goes through
// a run's positions in order, so that its part of the state stays in its cache.
type scans struct {
	d      *Device
	headFn func(chunk, worker int)
	rowsFn func(chunk, worker int)
	o      compute.Scan
	runs   []compute.Run
	blocks int // blocks of a head's rows
}

// scanBlock is the number of rows of a fine scan that a worker computes together.
const scanBlock = 32

func (v *scans) init(d *Device) { v.d, v.headFn, v.rowsFn = d, v.head, v.rows }

// Scan carries the state of every head through its positions.
func (d *Device) Scan(o *compute.Scan) {
	v := &d.scans
	v.o, v.runs = *o, d.p.AppendRuns(v.runs[:0])
	if o.Fine {
		v.blocks = (o.Shape.Dim + scanBlock - 1) / scanBlock
		d.pool.Run(len(v.runs)*o.Shape.Heads*v.blocks, v.rowsFn)
		return
	}
	d.pool.Run(len(v.runs)*o.Shape.Heads, v.headFn)
}

// written returns B and C of head h at token t.
func (v *scans) written(t, h int) (b, c []float32) {
	s := v.o.Shape
	all := row(v.o.X, t)[s.Heads*s.Dim:]
	if v.o.Apart() {
		all = row(v.o.BC, t)
	}
	group := h * s.Groups / s.Heads
	return all[group*s.State:][:s.State], all[(s.Groups+group)*s.State:][:s.State]
}

// head computes a head of a run.
func (v *scans) head(chunk, worker int) {
	o, s, k := &v.o, v.o.Shape, v.d.k
	r, h := v.runs[chunk/s.Heads], chunk%s.Heads
	state := states(o.Cache, o.Layer, r.Slot)[o.At+h*s.Dim*s.State:][:s.Dim*s.State]
	if r.Fresh {
		clear(state)
	}
	a, step := float64(vector(o.A)[h]), 1.0
	scaled := grown(&v.d.worker(worker).floats, s.Dim)
	for t := r.From; t < r.To; t++ {
		x, out := row(o.X, t)[h*s.Dim:][:s.Dim], row(o.Out, t)[h*s.Dim:][:s.Dim]
		b, c := v.written(t, h)
		if o.Stepped() {
			step = softplus(float64(row(o.Step, t)[h]) + float64(vector(o.Bias)[h]))
		}
		k.Vector.Scale(scaled, x, float32(step))
		k.Scan(out, state, scaled, b, c, float32(math.Exp(step*a)))
		if o.D != nil {
			k.AddScaled(out, x, vector(o.D)[h])
		}
	}
}

// rows computes a block of rows of a head of a run.
func (v *scans) rows(chunk, worker int) {
	o, s, k := &v.o, v.o.Shape, v.d.k
	block, at := chunk%v.blocks, chunk/v.blocks
	r, h := v.runs[at/s.Heads], at%s.Heads
	first := h*s.Dim + block*scanBlock
	rows := min(scanBlock, s.Dim-block*scanBlock)
	state := states(o.Cache, o.Layer, r.Slot)[o.At+first*s.State:][:rows*s.State]
	if r.Fresh {
		clear(state)
	}
	a, d, bias := vector(o.A)[first*s.State:][:rows*s.State], vector(o.D)[first:][:rows], vector(o.Bias)[first:][:rows]
	room := grown(&v.d.worker(worker).floats, rows*(1+s.State))
	scaled, decay := room[:rows], room[rows:]
	for t := r.From; t < r.To; t++ {
		x, out, steps := row(o.X, t)[first:][:rows], row(o.Out, t)[first:][:rows], row(o.Step, t)[first:][:rows]
		for p := range rows {
			step := float32(softplus(float64(steps[p]) + float64(bias[p])))
			k.Vector.Scale(decay[p*s.State:][:s.State], a[p*s.State:][:s.State], step)
			scaled[p] = step * x[p]
		}
		k.Exp(decay, decay)
		k.Mul(state, decay)
		b, c := v.written(t, h)
		k.Scan(out, state, scaled, b, c, 1)
		k.MulAdd(out, x, d)
	}
}

// softplus returns ln(1+e^x).
func softplus(x float64) float64 {
	if x > 30 { // e^-30 is less than half a unit in the last place of a float32 there
		return x
	}
	return math.Log1p(math.Exp(x))
}

// Rows of a head's state that go through deltaPositions positions together. Both then stay in the first-level cache,
// which is too small for a head's whole state and for a prompt.
const (
	deltaRows      = 16
	deltaPositions = 16
)

// deltas is the state of one Delta. Workers share the runs' heads, and each goes through a run's positions in order. A
// row of a state depends on no other row, so rows can go through the positions in parts.
type deltas struct {
	d       *Device
	chunkFn func(chunk, worker int)
	o       compute.Delta
	runs    []compute.Run
}

func (v *deltas) init(d *Device) { v.d, v.chunkFn = d, v.chunk }

// Delta carries the state of every head through its positions.
func (d *Device) Delta(o *compute.Delta) {
	v := &d.deltas
	v.o, v.runs = *o, d.p.AppendRuns(v.runs[:0])
	d.pool.Run(len(v.runs)*o.Shape.Heads, v.chunkFn)
}

// position has the values by which a position writes to the state and reads it. A decay of each column is among its units.
type position struct{ decay, beta, kq float32 }

// deltaUnits are the vectors of a position: its key, its query, and the decays of columns, where these have their own.
const deltaUnits = 3

// chunk computes a head of a run.
func (v *deltas) chunk(chunk, worker int) {
	o, s, k := &v.o, v.o.Shape, v.d.k
	r, h := v.runs[chunk/s.Heads], chunk%s.Heads
	state := states(o.Cache, o.Layer, r.Slot)[o.At+h*s.Dim*s.State:][:s.Dim*s.State]
	if r.Fresh {
		clear(state)
	}
	units := grown(&v.d.worker(worker).floats, deltaPositions*deltaUnits*s.State)
	var at [deltaPositions]position
	for t := r.From; t < r.To; t += deltaPositions {
		n := min(deltaPositions, r.To-t)
		for i := range n {
			at[i] = v.position(units[i*deltaUnits*s.State:][:deltaUnits*s.State], t+i, h)
		}
		for from := 0; from < s.Dim; from += deltaRows {
			to := min(s.Dim, from+deltaRows)
			rows := state[from*s.State : to*s.State]
			for i, p := range at[:n] {
				values := row(o.X, t+i)[2*s.Groups*s.State+h*s.Dim:][from:to]
				of := units[i*deltaUnits*s.State:]
				key, query, decays := of[:s.State], of[s.State:][:s.State], of[2*s.State:][:s.State]
				if o.ByColumn() {
					for r := rows; len(r) > 0; r = r[s.State:] {
						k.Mul(r[:s.State], decays)
					}
				}
				k.Delta(row(o.Out, t+i)[h*s.Dim:][from:to], rows, values, key, query, p.decay, p.beta, p.kq)
			}
		}
	}
}

// position fills in the key and then the query of head h at token t.
func (v *deltas) position(units []float32, t, h int) position {
	o, s, in := &v.o, v.o.Shape, row(v.o.X, t)
	group := o.Group(h)
	q, k := in[group*s.State:][:s.State], in[(s.Groups+group)*s.State:][:s.State]
	qq, kk, kq := float64(o.Epsilon), float64(o.Epsilon), 0.0
	for i, e := range k {
		kk += float64(e) * float64(e)
		qq += float64(q[i]) * float64(q[i])
		kq += float64(e) * float64(q[i])
	}
	perKey, perQuery := 1/math.Sqrt(kk), 1/math.Sqrt(qq*float64(s.State))
	v.d.k.Vector.Scale(units[:s.State], k, float32(perKey))
	v.d.k.Vector.Scale(units[s.State:2*s.State], q, float32(perQuery))
	write, step := o.Columns(h)
	p := position{decay: 1, beta: float32(logistic(float64(row(o.Write, t)[write]))), kq: float32(kq * perKey * perQuery)}
	if a := float64(vector(o.A)[h]); o.ByColumn() {
		v.decays(units[2*s.State:], row(o.Step, t)[h*s.State:][:s.State], vector(o.Bias)[h*s.State:][:s.State], a)
	} else {
		p.decay = float32(math.Exp(v.exponent(float64(row(o.Step, t)[step])+float64(vector(o.Bias)[h]), a)))
	}
	return p
}

// decays computes the decays of a head's columns.
func (v *deltas) decays(dst, steps, bias []float32, a float64) {
	for i, e := range steps {
		dst[i] = float32(v.exponent(float64(e)+float64(bias[i]), a))
	}
	v.d.k.Exp(dst, dst)
}

// exponent returns the logarithm of a decay, of a step with its bias.
func (v *deltas) exponent(x, a float64) float64 {
	if v.o.Bound < 0 {
		return float64(v.o.Bound) * logistic(a*x)
	}
	return a * softplus(x)
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
