package cpu

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// rowwise runs operations that treat every row alone. It uses the pool if there is enough work.
type rowwise struct {
	d       *Device
	chunkFn func(chunk, worker int)
	op      any // a compute.Op, or a *conversion
	n       int // rows
	size    int // rows of a chunk

	conversion conversion
	parts      compute.SoftCap // of parts of rows
	slot       cacheSlot       // StoreKV's and LoadKeys's
}

// conversion brings rows into a form of kernels.
type conversion struct {
	x    compute.Tensor
	form kernel.Form
	acts []byte // [n, form.ActRow(cols)]
}

// serialElements bounds the elements that one core computes alone rather than with others: about a microsecond's work.
const serialElements = 16 << 10

func (r *rowwise) init(d *Device) {
	r.d = d
	r.chunkFn = r.chunk
}

// run does op with n rows of cols elements.
func (r *rowwise) run(op any, n, cols int) {
	r.op, r.n = op, n
	r.size = max(1, serialElements/4/max(cols, 1))
	if n*cols <= serialElements {
		r.size = max(n, 1)
	}
	r.d.pool.Run((n+r.size-1)/r.size, r.chunkFn)
}

func (r *rowwise) chunk(chunk, _ int) {
	for i := chunk * r.size; i < min(r.n, (chunk+1)*r.size); i++ {
		r.row(i)
	}
}

// row does the operation for row i.
func (r *rowwise) row(i int) {
	d, v := r.d, r.d.k
	switch o := r.op.(type) {
	case *compute.RMSNorm:
		v.RMSNorm(row(o.Dst, i), row(o.X, i), vector(o.W), o.Eps)
	case *compute.LayerNorm:
		v.LayerNorm(row(o.Dst, i), row(o.X, i), vector(o.W), vector(o.B), o.Eps)
	case *compute.Add:
		v.Add(row(o.Dst, i), row(o.X, i))
	case *compute.Scale:
		scaled(row(o.X, i), o.Factor)
	case *compute.SoftCap:
		kernel.SoftCap(row(o.X, i), o.Limit)
	case *compute.Clamp:
		x := row(o.X, i)
		for j, v := range x {
			x[j] = min(max(v, o.Low), o.High)
		}
	case *compute.CopyColumns:
		dst, src := row(o.Dst, i), row(o.Src, i)
		for k := range o.Count {
			copy(dst[o.To.First+k*o.To.Step:][:o.Width], src[o.From.First+k*o.From.Step:])
		}
	case *compute.Activate:
		var up []float32
		if o.Up.Mem != nil {
			up = row(o.Up, i)
		}
		v.Activate(row(o.Dst, i), row(o.Gate, i), up, o.Act)
	case *compute.RoPE:
		d.rotate(row(o.X, i), o.HeadDim, o.Rope, i)
	case *conversion:
		n := o.form.ActRow(o.x.Cols)
		v.Convert(o.form, o.acts[i*n:(i+1)*n], row(o.x, i))
	case *compute.StoreKV:
		var v []float32
		if o.V.Mem != nil {
			v = row(o.V, i)
		}
		d.store(&r.slot, i, row(o.K, i), v)
	case *compute.LoadKeys:
		d.load(&r.slot, i, row(o.K, i))
	case *compute.Temper:
		scaled(row(o.X, i), float32(o.How.Factor(int(d.p.Pos[i]))))
	case *compute.GaussianTopK:
		aboveCut(row(o.X, i), o.Deviations)
	case *compute.Match:
		matched(row(o.X, i), row(o.Like, i), o.Floor)
	case *compute.Multiply:
		dst, w := row(o.Dst, i), vector(o.W)
		for j, v := range row(o.X, i) {
			dst[j] = v * w[j]
		}
	case *compute.Shift:
		x := row(o.X, i)
		for j, v := range vector(o.B) {
			x[j] += v
		}
	case *compute.AltUpPredict:
		predicted(&o.X, i, row(o.M, i), vector(o.W))
	case *compute.AltUpCorrect:
		corrected(&o.X, i, row(o.Y, i), row(o.M, i), vector(o.W), o.Active)
	case *compute.GateRows:
		gated(row(o.X, i), row(o.Logits, i)[0], o.Act)
	case *compute.Embed:
		unpackRow(o.Table, row(o.Dst, i), int(d.p.Tokens[i]))
	case *compute.AttendResiduals:
		d.residual(o, i)
	case *compute.EmbedNGrams:
		out, recent := row(o.Out, i), row(o.Recent, i)
		for h := range o.How.First {
			unpackRow(o.Table, out[h*o.Table.Cols:][:o.Table.Cols], o.How.Row(recent, h))
		}
	case *compute.ReadGated:
		d.readGated(row(o.Out, i), row(o.X, i), row(o.Gate, i))
	case *compute.MatchStreams:
		matchStreams(o, i)
	}
}

func (d *Device) RMSNorm(o *compute.RMSNorm)           { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) LayerNorm(o *compute.LayerNorm)       { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) Add(o *compute.Add)                   { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) Scale(o *compute.Scale)               { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) Clamp(o *compute.Clamp)               { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) CopyColumns(o *compute.CopyColumns)   { d.rows.run(o, o.Dst.Rows, o.Width*o.Count) }
func (d *Device) Activate(o *compute.Activate)         { d.rows.run(o, o.Gate.Rows, o.Gate.Cols) }
func (d *Device) Embed(o *compute.Embed)               { d.rows.run(o, o.Dst.Rows, o.Dst.Cols) }
func (d *Device) Temper(o *compute.Temper)             { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) GaussianTopK(o *compute.GaussianTopK) { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) Match(o *compute.Match)               { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) Multiply(o *compute.Multiply)         { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) Shift(o *compute.Shift)               { d.rows.run(o, o.X.Rows, o.X.Cols) }
func (d *Device) AltUpPredict(o *compute.AltUpPredict) { d.rows.run(o, o.M.Rows, o.X[0].Cols) }
func (d *Device) AltUpCorrect(o *compute.AltUpCorrect) { d.rows.run(o, o.M.Rows, o.Y.Cols) }
func (d *Device) GateRows(o *compute.GateRows)         { d.rows.run(o, o.X.Rows, o.X.Cols) }

// SoftCap brings every element of x smoothly into (-limit, limit). Rows of logits are long: workers share one.
func (d *Device) SoftCap(o *compute.SoftCap) {
	part := o.X.Cols
	for part > serialElements/4 && part%2 == 0 {
		part /= 2
	}
	x := o.X
	x.Rows, x.Cols = x.Rows*(x.Cols/part), part
	d.rows.parts = compute.SoftCap{X: x, Limit: o.Limit}
	d.rows.run(&d.rows.parts, x.Rows, part)
}

// RoPE rotates every head of x to its token's position.
func (d *Device) RoPE(o *compute.RoPE) {
	d.turns.prepare(o.Rope, d.p)
	d.rows.run(o, o.X.Rows, o.X.Cols)
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

// rotate rotates every head of row i.
func (d *Device) rotate(x []float32, headDim int, r *compute.Rope, i int) {
	cos, sin := d.turns.at(i)
	if r.First == 0 {
		d.k.Rotate(x, headDim, cos, sin, r.Style)
		return
	}
	for ; len(x) > 0; x = x[headDim:] {
		d.k.Rotate(x[r.First:][:r.Dims], r.Dims, cos, sin, r.Style)
	}
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
