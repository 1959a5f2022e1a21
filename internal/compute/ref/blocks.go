package ref

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Compress puts together the positions of blocks.
func (d *Device) Compress(o *compute.Compress) {
	if !o.Fits() {
		panic("ref: Compress of shapes that do not fit")
	}
	width, columns, l := o.Out.Cols, o.Columns(), o.Cache.Layers[o.Layer]
	for t := range o.Out.Rows {
		out, pos := row(o.Out, t), int(d.p.Pos[t])
		clear(out)
		if (pos+1)%o.Block != 0 {
			continue
		}
		from, own := o.Span(pos)
		for i := range out {
			var values, scores []float64
			top := math.Inf(-1)
			for p := from; p <= pos; p++ {
				at := i
				if o.Overlap && p >= own {
					at += width
				}
				page, slot := d.slot(o.Cache, o.Layer, d.p.Seq[t], p)
				k, _ := position(o.Cache, o.Layer, page, slot)
				score := float64(value(o.Cache, o.Layer, page, slot, 0)[o.At+at]) + float64(elements(o.Bias)[p%o.Block*columns+at])
				values, scores = append(values, float64(head(k, l.KeyType, 0, l.Key)[o.At+at])), append(scores, score)
				top = max(top, score)
			}
			sum, all := 0.0, 0.0
			for j, s := range scores {
				w := math.Exp(s - top)
				sum += w * values[j]
				all += w
			}
			out[i] = float32(sum / all)
		}
	}
}

// AttendBlocks attends to a window and to blocks.
func (d *Device) AttendBlocks(o *compute.AttendBlocks) {
	if !o.Fits() {
		panic("ref: AttendBlocks of shapes that do not fit")
	}
	key := o.Cache.Layers[o.Layer].Key
	for t := range o.Q.Rows {
		pos := int(d.p.Pos[t])
		var keys [][]float32
		from, to := o.How.Span(pos, pos)
		for at := from; at < to; at++ {
			page, slot := d.slot(o.Cache, o.Layer, d.p.Seq[t], at)
			keys = append(keys, value(o.Cache, o.Layer, page, slot, 0))
		}
		var chosen []float32
		if o.Chosen.Mem != nil {
			chosen = row(o.Chosen, t)
		}
		for i := range o.Seen(pos, chosen) {
			page, slot := d.slot(o.Of, o.Blocks, d.p.Seq[t], o.Position(pos, i, chosen))
			keys = append(keys, value(o.Of, o.Blocks, page, slot, 0))
		}
		for h := range o.Q.Cols / key {
			q, scores := row(o.Q, t)[h*key:][:key], make([]float64, len(keys))
			top, sum := math.Inf(-1), 0.0
			for i, k := range keys {
				for j, e := range k {
					scores[i] += float64(q[j]) * float64(e)
				}
				scores[i] *= float64(o.How.Scale)
				top = max(top, scores[i])
			}
			if o.How.Sinks != nil {
				sink := float64(elements(o.How.Sinks)[h])
				top = max(top, sink)
				sum = math.Exp(sink - top)
			}
			acc := make([]float64, key)
			for i, k := range keys {
				w := math.Exp(scores[i] - top)
				sum += w
				for j, e := range k {
					acc[j] += w * float64(e)
				}
			}
			for j, v := range acc {
				row(o.Out, t)[h*key+j] = float32(v / sum)
			}
		}
	}
}
