package ref

import (
	"cmp"
	"math"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Select scores every block for every token, and lists those with the highest scores.
func (d *Device) Select(o *compute.Select) {
	h := &o.How
	heads := o.Q.Cols / h.Groups / o.Cache.Layers[o.Layer].Key
	for t := range o.Q.Rows {
		for g := range h.Groups {
			pos := int(d.p.Pos[t])
			scores := make([]float64, h.Candidates(pos))
			for b := range scores {
				from, to := b*h.Block, min(pos+1, (b+1)*h.Block)
				if h.Ends {
					from = to - 1
				}
				scores[b] = math.Inf(-1)
				for at := from; at < to; at++ {
					scores[b] = max(scores[b], d.indexScore(o, t, g*heads, heads, at))
				}
				if b >= len(scores)-h.Local {
					scores[b] = math.Inf(1)
				}
			}
			order := make([]int, len(scores))
			for b := range order {
				order[b] = b
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
			order = order[:min(h.Top, len(order))]
			slices.Sort(order)
			if h.OpenAt(pos) {
				order = append(order, len(scores))
			}
			list := row(o.Blocks, t)[g*h.Row():][:h.Row()]
			clear(list)
			list[0] = float32(len(order))
			for i, b := range order {
				list[1+i] = float32(b)
			}
		}
	}
}

// indexScore returns the score of position at by token t's index queries, heads of them from first on.
func (d *Device) indexScore(o *compute.Select, t, first, heads, at int) (score float64) {
	l := o.Cache.Layers[o.Layer]
	page, slot := d.slot(o.Cache, o.Layer, d.p.Seq[t], at)
	k, _ := position(o.Cache, o.Layer, page, slot)
	key := head(k, l.KeyType, 0, l.Key)
	for h := first; h < first+heads; h++ {
		product, weight := 0.0, 1.0
		for i, e := range row(o.Q, t)[h*l.Key:][:l.Key] {
			product += float64(e) * float64(key[i])
		}
		if o.How.Rectified {
			product = max(product, 0)
		}
		if o.W.Mem != nil {
			weight = float64(row(o.W, t)[h])
		}
		score += weight * product
	}
	return score
}

// sees reports whether a token sees a position that no window hides, in a group of Attention.Seen.
func (d *Device) sees(t, at, group int, a compute.Attention) bool {
	if a.Seen.All() {
		return true
	}
	return slices.Contains(a.Seen.List(row(a.Seen.Blocks, t), group), float32(at/a.Seen.Block))
}
