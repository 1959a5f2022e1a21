package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// rowVerb is a verb that treats every token's row alone.
type rowVerb int

const (
	rmsNormRows rowVerb = iota
	layerNormRows
	addRows
	scaleRows
	capRows
	clampRows
	copyRows
	activateRows
	rotateRows
	convertRows
	storeRows
	loadRows
	temperRows
	topKRows
	matchRows
	multiplyRows
	shiftRows
	predictRows
	correctRows
	gateRowsRows
	embedRows
	residualRows
	ngramRows
	readGatedRows
	matchStreamsRows
)

// rowwiseArgs are the operands of one call.
type rowwiseArgs struct {
	verb      rowVerb
	dst, x    []float32 // [n, cols]; activateRows: dst and gate
	up        []float32 // [n, cols] or nil
	w, b      []float32 // [cols]; gateRowsRows: [n]
	cols      int
	eps       float32
	factor    float32 // scaleRows; capRows: the limit; clampRows: the upper limit; topKRows: the deviations
	low       float32 // clampRows: the lower limit
	copied    *compute.CopyColumns
	act       compute.Activation
	headDim   int
	rope      *compute.Rope
	acts      []byte // [n, form.ActRow(cols)]
	form      kernel.Form
	values    compute.Tensor // storeRows: the values [n, kv_heads·value] for the keys x, or none; predictRows and correctRows: the modalities
	streams   compute.Streams
	active    int
	how       compute.Temperature
	store     cacheSlot
	residuals *compute.AttendResiduals // for residualRows
	table     *compute.Matrix          // for embedRows and ngramRows
	grams     *compute.NGrams          // for ngramRows, with the last tokens as x
	match     compute.MatchStreams
	gated     compute.ReadGated
}

// rowwise runs row verbs. It uses the pool if there is enough work.
type rowwise struct {
	d       *Device
	chunkFn func(chunk, worker int)
	a       rowwiseArgs
	n       int
	size    int // rows of a chunk
}

// serialElements bounds the elements that one core computes alone rather than with others: about a microsecond's work.
const serialElements = 16 << 10

func (r *rowwise) init(d *Device) {
	r.d = d
	r.chunkFn = r.chunk
}

func (r *rowwise) run(a rowwiseArgs, n int) {
	r.a, r.n = a, n
	r.size = max(1, serialElements/4/max(a.cols, 1))
	if n*a.cols <= serialElements {
		r.size = max(n, 1)
	}
	r.d.pool.Run((n+r.size-1)/r.size, r.chunkFn)
}

func (r *rowwise) chunk(chunk, _ int) {
	for i := chunk * r.size; i < min(r.n, (chunk+1)*r.size); i++ {
		r.row(i)
	}
}

func (r *rowwise) row(i int) {
	a, v := &r.a, r.d.k
	cut := func(s []float32) []float32 { return s[i*a.cols : (i+1)*a.cols] }
	switch a.verb {
	case rmsNormRows:
		v.RMSNorm(cut(a.dst), cut(a.x), a.w, a.eps)
	case layerNormRows:
		v.LayerNorm(cut(a.dst), cut(a.x), a.w, a.b, a.eps)
	case addRows:
		v.Add(cut(a.dst), cut(a.x))
	case scaleRows:
		for j, x := range cut(a.x) {
			cut(a.x)[j] = a.factor * x
		}
	case capRows:
		kernel.SoftCap(cut(a.x), a.factor)
	case clampRows:
		for j, x := range cut(a.x) {
			cut(a.x)[j] = min(max(x, a.low), a.factor)
		}
	case copyRows:
		dst, src, o := row(a.copied.Dst, i), row(a.copied.Src, i), a.copied
		for k := range o.Count {
			copy(dst[o.To.First+k*o.To.Step:][:o.Width], src[o.From.First+k*o.From.Step:])
		}
	case activateRows:
		var up []float32
		if a.up != nil {
			up = cut(a.up)
		}
		v.Activate(cut(a.dst), cut(a.x), up, a.act)
	case rotateRows:
		cos, sin := r.d.turns.at(i)
		if a.rope.First == 0 {
			v.Rotate(cut(a.x), a.headDim, cos, sin, a.rope.Style)
			return
		}
		for head := cut(a.x); len(head) > 0; head = head[a.headDim:] {
			v.Rotate(head[a.rope.First:][:a.rope.Dims], a.rope.Dims, cos, sin, a.rope.Style)
		}
	case convertRows:
		n := a.form.ActRow(a.cols)
		v.Convert(a.form, a.acts[i*n:(i+1)*n], cut(a.x))
	case storeRows:
		var v []float32
		if a.values.Mem != nil {
			v = row(a.values, i)
		}
		r.d.store(&a.store, i, cut(a.x), v)
	case loadRows:
		r.d.load(&a.store, i, cut(a.x))
	case temperRows:
		scaled(cut(a.x), float32(a.how.Factor(int(r.d.p.Pos[i]))))
	case topKRows:
		aboveCut(cut(a.x), a.factor)
	case matchRows:
		matched(cut(a.dst), cut(a.x), a.eps)
	case multiplyRows:
		for j, v := range cut(a.x) {
			cut(a.dst)[j] = v * a.w[j]
		}
	case shiftRows:
		x := cut(a.dst)
		for j, v := range a.b {
			x[j] += v
		}
	case predictRows:
		predicted(&a.streams, i, row(a.values, i), a.w)
	case correctRows:
		corrected(&a.streams, i, cut(a.x), row(a.values, i), a.w, a.active)
	case gateRowsRows:
		gated(cut(a.x), a.w[i], a.act.Kind)
	case embedRows:
		unpackRow(a.table, cut(a.dst), int(r.d.p.Tokens[i]))
	case residualRows:
		r.d.residual(a.residuals, i)
	case ngramRows:
		out, n := cut(a.dst), len(a.grams.Factors)
		for h := range a.grams.First {
			unpackRow(a.table, out[h*a.table.Cols:][:a.table.Cols], a.grams.Row(a.x[i*n:][:n], h))
		}
	case readGatedRows:
		r.readGated(row(a.gated.Out, i), row(a.gated.X, i), row(a.gated.Gate, i))
	case matchStreamsRows:
		matchStreams(&a.match, i)
	}
}

// RMSNorm normalises every row of x.
func (d *Device) RMSNorm(o *compute.RMSNorm) {
	d.rows.run(rowwiseArgs{verb: rmsNormRows, dst: floats(o.Dst), x: floats(o.X), w: vector(o.W), cols: o.X.Cols, eps: o.Eps}, o.X.Rows)
}

// LayerNorm normalises every row of x.
func (d *Device) LayerNorm(o *compute.LayerNorm) {
	d.rows.run(rowwiseArgs{verb: layerNormRows, dst: floats(o.Dst), x: floats(o.X), w: vector(o.W), b: vector(o.B), cols: o.X.Cols, eps: o.Eps}, o.X.Rows)
}

// Add adds x to dst.
func (d *Device) Add(o *compute.Add) {
	d.rows.run(rowwiseArgs{verb: addRows, dst: floats(o.Dst), x: floats(o.X), cols: o.X.Cols}, o.X.Rows)
}

// Scale multiplies every element of x by factor.
func (d *Device) Scale(o *compute.Scale) {
	d.rows.run(rowwiseArgs{verb: scaleRows, x: floats(o.X), cols: o.X.Cols, factor: o.Factor}, o.X.Rows)
}

// SoftCap brings every element of x smoothly into (-limit, limit). Rows of logits are long: workers share one.
func (d *Device) SoftCap(o *compute.SoftCap) {
	part := o.X.Cols
	for part > serialElements/4 && part%2 == 0 {
		part /= 2
	}
	d.rows.run(rowwiseArgs{verb: capRows, x: floats(o.X), cols: part, factor: o.Limit}, o.X.Rows*(o.X.Cols/part))
}

// Clamp brings every element of x into [low, high].
func (d *Device) Clamp(o *compute.Clamp) {
	d.rows.run(rowwiseArgs{verb: clampRows, x: floats(o.X), cols: o.X.Cols, low: o.Low, factor: o.High}, o.X.Rows)
}

// CopyColumns copies ranges of columns.
func (d *Device) CopyColumns(o *compute.CopyColumns) {
	d.rows.run(rowwiseArgs{verb: copyRows, copied: o, cols: o.Width * o.Count}, o.Dst.Rows)
}

// Activate computes act(gate)·up.
func (d *Device) Activate(o *compute.Activate) {
	a := rowwiseArgs{verb: activateRows, dst: floats(o.Dst), x: floats(o.Gate), cols: o.Gate.Cols, act: o.Act}
	if o.Up.Mem != nil {
		a.up = floats(o.Up)
	}
	d.rows.run(a, o.Gate.Rows)
}

// RoPE rotates every head of x to its token's position.
func (d *Device) RoPE(o *compute.RoPE) {
	d.turns.prepare(o.Rope, d.p)
	d.rows.run(rowwiseArgs{verb: rotateRows, x: floats(o.X), cols: o.X.Cols, headDim: o.HeadDim, rope: o.Rope}, o.X.Rows)
}

// Embed looks up each token's row.
func (d *Device) Embed(o *compute.Embed) {
	d.rows.run(rowwiseArgs{verb: embedRows, dst: floats(o.Dst), cols: o.Dst.Cols, table: o.Table}, o.Dst.Rows)
}

// AddPosition adds each position's row.
func (d *Device) AddPosition(o *compute.AddPosition) {
	buf := grown(&d.worker(0).floats, o.X.Cols)
	for i := range o.X.Rows {
		unpackRow(o.Table, buf, int(d.p.Pos[i])+o.Offset)
		d.k.Add(row(o.X, i), buf)
	}
}

// AddType adds the row of each token's type.
func (d *Device) AddType(o *compute.AddType) {
	buf := grown(&d.worker(0).floats, o.X.Cols)
	for i := range o.X.Rows {
		unpackRow(o.Table, buf, int(d.p.Type(i)))
		d.k.Add(row(o.X, i), buf)
	}
}

// Gather copies the rows with wanted logits.
func (d *Device) Gather(o *compute.Gather) {
	for i, r := range d.p.Out {
		copy(row(o.Dst, i), row(o.X, int(r)))
	}
}

// Insert replaces rows of prompts, or adds to them.
func (d *Device) Insert(o *compute.Insert) {
	d.p.Insert(func(i int) []float32 { return row(o.X, i) }, o.First, o.Add)
}

// Precede copies to each row of dst the row of x before it. The step's params have the rows before a sequence's first
// one.
func (d *Device) Precede(o *compute.Precede) {
	d.p.Precede(func(i int) []float32 { return row(o.Dst, i) }, func(i int) []float32 { return row(o.X, i) })
}

// rotations are the cosines and sines of the step's positions, in a table for each rotation that layers use.
type rotations struct {
	tables []turns
	used   int // tables in use in this step
	now    int // the table that prepare was called for last
}

// turns are one rotation's.
type turns struct {
	rope     *compute.Rope
	cos, sin []float32 // [n, Dims/2]
	angles   []float64 // [Dims/2] of a row
	half     int
}

func (t *rotations) reset() { t.used = 0 }

func (t *rotations) prepare(r *compute.Rope, p *compute.Params) {
	for t.now = range t.used {
		if t.tables[t.now].rope == r {
			return
		}
	}
	if t.now = t.used; t.now == len(t.tables) {
		t.tables = append(t.tables, turns{})
	}
	t.used++
	t.tables[t.now].fill(r, p)
}

func (t *turns) fill(r *compute.Rope, p *compute.Params) {
	t.rope, t.half = r, len(r.Freqs)
	n := len(p.Turn())
	cos, sin, angles := grown(&t.cos, n*t.half), grown(&t.sin, n*t.half), grown(&t.angles, t.half)
	for i := range n {
		p.Angles(angles, r, i)
		kernel.Turn(cos[i*t.half:][:t.half], sin[i*t.half:][:t.half], angles, r.Scale)
	}
}

func (t *rotations) at(i int) (cos, sin []float32) {
	n := &t.tables[t.now]
	return n.cos[i*n.half:][:n.half], n.sin[i*n.half:][:n.half]
}
