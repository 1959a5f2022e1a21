package cpu

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Recent writes the tokens of each row's last positions.
func (d *Device) Recent(o *compute.Recent) {
	if !o.Fits() {
		panic("cpu: Recent of shapes that do not fit")
	}
	n := o.Out.Cols - 1
	d.runs = d.p.AppendRuns(d.runs[:0])
	for _, r := range d.runs {
		past := states(o.Cache, o.Layer, r.Slot)[:n]
		if r.Fresh {
			clear(past)
		}
		for t := r.From; t < r.To; t++ {
			out := row(o.Out, t)
			out[0] = float32(d.p.Tokens[t] + 1)
			for s := 1; s <= n; s++ {
				out[s] = past[n-s]
			}
			copy(past, past[1:])
			past[n-1] = out[0]
		}
	}
}

// EmbedNGrams looks up the rows of each row's last tokens.
func (d *Device) EmbedNGrams(o *compute.EmbedNGrams) {
	if !o.Fits() {
		panic("cpu: EmbedNGrams of shapes that do not fit")
	}
	d.rows.run(o, o.Out.Rows, o.Out.Cols)
}

// ReadGated sums the gated streams.
func (d *Device) ReadGated(o *compute.ReadGated) {
	if !o.Fits() {
		panic("cpu: ReadGated of shapes that do not fit")
	}
	d.rows.run(o, o.Out.Rows, o.X.Cols)
}

// readGated computes ReadGated of a row. It overwrites gate.
func (d *Device) readGated(out, x, gate []float32) {
	v, n := d.k, len(x)/len(out)
	v.Activate(gate, gate, x, compute.Activation{Kind: compute.Logistic})
	copy(out, gate)
	for c := 1; c < n; c++ {
		v.Add(out, gate[c*len(out):][:len(out)])
	}
	v.Scale(out, out, 1/float32(n))
}

// MatchStreams gates a value for each stream.
func (d *Device) MatchStreams(o *compute.MatchStreams) {
	if !o.Fits() {
		panic("cpu: MatchStreams of shapes that do not fit")
	}
	d.rows.run(o, o.Out.Rows, o.Out.Cols)
}

// matchStreams computes MatchStreams of row i.
func matchStreams(o *compute.MatchStreams, i int) {
	width, value := o.Value.Cols, row(o.Value, i)
	for c := range o.Streams() {
		key, query, out := row(o.Key, i)[c*width:][:width], row(o.Query, i)[c*width:][:width], row(o.Out, i)[c*width:][:width]
		s := 0.0
		for j, v := range key {
			s += float64(v) * float64(query[j])
		}
		root := 0.0
		if s /= math.Sqrt(float64(width)); s != 0 {
			root = math.Copysign(math.Sqrt(max(math.Abs(s), 1e-6)), s)
		}
		by := float32(1 / (1 + math.Exp(-root)))
		for j, v := range value {
			out[j] = by * v
		}
	}
}
