package sweep

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// onFront marks the points that no other one beats: none has a smaller or equal cost and a larger or equal worth, and
// differs in one. of returns a point's cost and worth, and reports whether both are known.
func onFront(points []Point, of func(p *Point) (cost, worth float64, ok bool), mark func(p *Point) *bool) {
	for i := range points {
		cost, worth, ok := of(&points[i])
		*mark(&points[i]) = ok && !slices.ContainsFunc(points, func(q Point) bool {
			c, w, ok := of(&q)
			return ok && c <= cost && w >= worth && (c < cost || w > worth)
		})
	}
}

// fronts marks the fronts of speed and of bytes.
func fronts(points []Point) {
	onFront(points, func(p *Point) (float64, float64, bool) {
		if p.Quality == nil || p.Speed == nil {
			return 0, 0, false
		}
		return p.Quality.KLDivergence.Value, p.Speed.Median, true
	}, func(p *Point) *bool { return &p.Front })
	onFront(points, func(p *Point) (float64, float64, bool) {
		if p.Quality == nil || p.Reads == nil {
			return 0, 0, false
		}
		return p.Quality.KLDivergence.Value, -p.Reads.All(), true
	}, func(p *Point) *bool { return &p.Thrifty })
}

// Bounds are what a recommended setting must keep.
type Bounds struct {
	MaxKLD       float64 `json:"max_kl_divergence"`
	LeastSameTop float64 `json:"least_same_top,omitempty"` // 0: none
}

// keeps reports whether a point keeps the bounds as one of a file's curve does: in 19 of 20 documents.
func (b *Bounds) keeps(p *Point) bool {
	if p.Quality == nil {
		return false
	}
	q := prepared.Point{MostKLD: float32(p.Quality.MostKLD), LeastSameTop: float32(p.Quality.LeastSameTop)}
	return q.Keeps(model.Bound{KLD: b.MaxKLD, SameTop: b.LeastSameTop})
}

// Recommendation is the setting of the swept file to use on a machine.
type Recommendation struct {
	Machine string  `json:"machine"` // empty: this one
	Name    string  `json:"name"`
	Flags   string  `json:"flags"`
	Rate    float64 `json:"tokens_per_second"` // measured or expected
	Dense   float64 `json:"dense_tokens_per_second"`
	KLD     float64 `json:"kl_divergence"`
	Why     string  `json:"why"`
}

// fastest returns the swept file's point of the highest rate within the bounds, or nil. Among points with insignificant
// differences, because less is above rate, it is the one nearest to dense. rate returns 0 if it is unknown.
func fastest(points []Point, rate func(p *Point) (value, most float64)) *Point {
	var best *Point
	top := 0.0
	for i := range points {
		if v, _ := rate(&points[i]); points[i].File == "" && points[i].Within && v > top {
			best, top = &points[i], v
		}
	}
	if best == nil {
		return nil
	}
	for i := range points {
		p := &points[i]
		if v, most := rate(p); p.File == "" && p.Within && v > 0 && most >= top && p.Quality.KLDivergence.Value < best.Quality.KLDivergence.Value {
			best = p
		}
	}
	return best
}
