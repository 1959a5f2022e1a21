package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Recent writes the tokens of each row's last positions.
func (d *Device) Recent(o *compute.Recent) {
	if !o.Fits() {
		panic("ref: Recent of shapes that do not fit")
	}
	n := o.Out.Cols - 1
	d.eachRun(o.Cache, o.Layer, func(r compute.Run, state []float32) {
		past := state[:n]
		if r.Fresh {
			clear(past)
		}
		for t := r.From; t < r.To; t++ {
			out := row(o.Out, t)
			out[0] = float32(d.p.Tokens[t] + 1)
			for s := 1; s <= n; s++ {
				out[s] = past[n-s]
			}
			copy(past, append(past[1:len(past):len(past)], out[0]))
		}
	})
}

// EmbedNGrams looks up the rows of each row's last tokens.
func (d *Device) EmbedNGrams(o *compute.EmbedNGrams) {
	if !o.Fits() {
		panic("ref: EmbedNGrams of shapes that do not fit")
	}
	for t := range o.Out.Rows {
		for h := range o.How.First {
			copy(row(o.Out, t)[h*o.Table.Cols:][:o.Table.Cols], weights(o.Table, o.How.Row(row(o.Recent, t), h)))
		}
	}
}

// MatchStreams gates a value for each stream.
func (d *Device) MatchStreams(o *compute.MatchStreams) {
	if !o.Fits() {
		panic("ref: MatchStreams of shapes that do not fit")
	}
	width := o.Value.Cols
	for t := range o.Out.Rows {
		for c := range o.Streams() {
			key, query, s := row(o.Key, t)[c*width:][:width], row(o.Query, t)[c*width:][:width], 0.0
			for i, v := range key {
				s += float64(v) * float64(query[i])
			}
			s /= math.Sqrt(float64(width))
			root := 0.0
			if s != 0 {
				root = math.Copysign(math.Sqrt(max(math.Abs(s), 1e-6)), s)
			}
			for i, v := range row(o.Value, t) {
				row(o.Out, t)[c*width+i] = float32(float64(v) / (1 + math.Exp(-root)))
			}
		}
	}
}
