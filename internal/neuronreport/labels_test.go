package neuronreport

import (
	"image"
	"image/color"
	"math"
	"slices"
	"strconv"
	"testing"
)

// drawn is a canvas that records what is drawn.
type drawn struct {
	rects []area
	lines []stroke
	texts []word
}

type area struct {
	x, y, w, h float64
	fill       color.NRGBA
}

type stroke struct {
	points []point
	colour color.NRGBA
}

type word struct {
	x, y float64
	s    string
	fill color.NRGBA
}

func (d *drawn) title(string) {}
func (d *drawn) rect(x, y, w, h float64, fill ink) {
	d.rects = append(d.rects, area{x, y, w, h, fill.color})
}

func (d *drawn) line(points []point, _ float64, _ bool, colour ink, _ string) {
	d.lines = append(d.lines, stroke{points, colour.color})
}

func (d *drawn) text(x, y float64, s string, _ float64, _ anchor, fill ink) {
	d.texts = append(d.texts, word{x, y, s, fill.color})
}
func (d *drawn) picture(_, _, _, _ float64, _ image.Image) {}

// distance returns how far p is from a line.
func (s stroke) distance(p point) float64 {
	least := math.Inf(1)
	for i := 1; i < len(s.points); i++ {
		a, b := s.points[i-1], s.points[i]
		dx, dy := b.x-a.x, b.y-a.y
		t := min(max(((p.x-a.x)*dx+(p.y-a.y)*dy)/max(dx*dx+dy*dy, 1e-12), 0), 1)
		least = min(least, math.Hypot(p.x-a.x-t*dx, p.y-a.y-t*dy))
	}
	return least
}

// TestFewCurvesAreLabelled: each of a few layers has its own colour, and its number on its curve and next to the chart,
// where nothing covers it. Many layers have no numbers.
func TestFewCurvesAreLabelled(t *testing.T) {
	for _, layers := range []int{1, 2, 6, 8, 9} {
		p := portrait(t, "m", sample(layers, 500))
		for name, draw := range map[string]func(canvas){"curves": p.drawCurves, "ranks": p.drawRanks} {
			d := &drawn{}
			draw(d)
			var tags []area
			for _, r := range d.rects {
				if r.w == tagWidth && r.h == tagHeight {
					tags = append(tags, r)
				}
			}
			if layers > len(few) {
				if len(tags) != 0 {
					t.Errorf("%s of %d layers: %d tags", name, layers, len(tags))
				}
				continue
			}
			if len(tags) != 2*layers {
				t.Fatalf("%s of %d layers: %d tags", name, layers, len(tags))
			}
			for i, a := range tags {
				for _, b := range tags[:i] {
					if a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
						t.Errorf("%s of %d layers: tags at %+v and %+v meet", name, layers, a, b)
					}
				}
				if a.x < 0 || a.x+a.w > chartWidth {
					t.Errorf("%s of %d layers: a tag is cut off at %+v", name, layers, a)
				}
			}
			for l := range layers {
				curve := d.lines[slices.IndexFunc(d.lines, func(s stroke) bool { return s.colour == few[l] })]
				on := 0
				for _, a := range tags {
					centre := point{a.x + a.w/2, a.y + a.h/2}
					numbered := slices.ContainsFunc(d.texts, func(w word) bool {
						return w.s == strconv.Itoa(l) && w.x == centre.x && w.y > a.y && w.y < a.y+a.h && w.fill != few[l]
					})
					if a.fill == few[l] && numbered && curve.distance(centre) < 0.5 {
						on++
					}
				}
				if on != 1 {
					t.Errorf("%s of %d layers: %d tags of layer %d lie on its curve", name, layers, on, l)
				}
			}
		}
	}
}
