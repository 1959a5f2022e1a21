package neuronreport

import (
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"strings"
)

// samples is the number of points of a curve: layers have up to tens of thousands of neurons.
const samples = 120

// Curves writes a PNG: for every layer, the share of activations that its hottest neurons make.
func (p *Report) Curves(w io.Writer) error { return p.picture(w, curvesHeight, p.drawCurves) }

// Ranks writes a PNG: for every layer, frequency by rank on logarithmic axes; a power law is a straight line.
func (p *Report) Ranks(w io.Writer) error { return p.picture(w, curvesHeight, p.drawRanks) }

// HeatMap writes a PNG: layers by neurons, hottest first, coloured by frequency.
func (p *Report) HeatMap(w io.Writer) error { return p.picture(w, p.mapHeight(), p.drawMap) }

const curvesHeight = 400.0 // of the frame

// picture draws on a PNG with a frame of this height.
func (p *Report) picture(w io.Writer, height float64, draw func(canvas)) error {
	r := newRaster(chartWidth, marginTop+height+marginFoot)
	draw(r)
	return png.Encode(w, r.img)
}

// drawing returns the same as SVG.
func (p *Report) drawing(height float64, draw func(canvas)) string {
	v := newSVG(chartWidth, marginTop+height+marginFoot)
	draw(v)
	return v.String()
}

func (p *Report) drawCurves(c canvas) {
	tenths, of := []float64{0, 0.2, 0.4, 0.6, 0.8, 1}, p.terms()
	f := newFrame(curvesHeight,
		axis{title: of.things + " of the layer, hottest first", from: 0, to: 1, ticks: tenths, format: percent},
		axis{title: strings.ToLower(of.events), from: 0, to: 1, ticks: tenths, format: percent})
	f.draw(c, of.events+" made by the hottest "+of.things+" · "+p.Model)
	f.line(c, []point{{0, 0}, {1, 1}}, true, faint, "all "+of.things+" equally hot")
	drawn := make([][]point, len(p.Figures))
	for l := range p.Figures {
		curve := p.Stats.Cumulative(l)
		n := len(curve) - 1
		if n == 0 || curve[n] == 0 {
			continue
		}
		var points []point
		last := -1
		for i := range samples + 1 {
			k := int(math.Round(float64(n) * math.Pow(float64(i)/samples, 2))) // the bend is at the left
			if k != last {
				points = append(points, point{float64(k) / float64(n), curve[k]})
			}
			last = k
		}
		drawn[l] = points
		f.line(c, points, false, depth(l, len(p.Figures)), fmt.Sprintf("layer %d: %s of %s make 80 %%", p.Figures[l].Layer, percent(p.Figures[l].Share80), of.things))
	}
	f.outline(c)
	p.layerKey(c, f, drawn)
}

// leastFrequency is the lowest end that the logarithmic axis of frequencies may have.
const leastFrequency = 1e-4

func (p *Report) drawRanks(c canvas) {
	most, least, of := 10, 0.1, p.terms()
	for l, f := range p.Figures {
		most = max(most, f.Neurons)
		for _, c := range p.Stats.Layers[l] {
			if c > 0 {
				least = min(least, float64(c)/float64(p.Stats.Tokens))
			}
		}
	}
	least = max(leastFrequency, math.Pow(10, math.Floor(math.Log10(least))))
	f := newFrame(curvesHeight,
		axis{title: of.rank, from: 1, to: float64(most), log: true, ticks: decades(1, float64(most)), format: grouped[float64]},
		axis{title: of.often, from: least, to: 1, log: true, ticks: decades(least, 1), format: percent})
	f.draw(c, "Frequency by rank · "+p.Model)
	drawn := make([][]point, len(p.Figures))
	for l := range p.Figures {
		freq := ranked(p.Stats, l)
		var points []point
		last := 0
		for i := range samples + 1 {
			k := int(math.Round(math.Pow(float64(len(freq)), float64(i)/samples)))
			if k == last || k > len(freq) {
				continue
			}
			if float64(freq[k-1]) < least {
				break
			}
			points = append(points, point{float64(k), float64(freq[k-1])})
			last = k
		}
		name := fmt.Sprintf("layer %d", p.Figures[l].Layer)
		if law := p.Figures[l].Law; law.To > 0 {
			name += fmt.Sprintf(": exponent %.2f over ranks %d…%d, KS distance %.3f", law.Exponent, law.From, law.To, law.KS)
		}
		drawn[l] = points
		f.line(c, points, false, depth(l, len(p.Figures)), name)
	}
	f.outline(c)
	p.layerKey(c, f, drawn)
}

// line draws values of the axes.
func (f frame) line(c canvas, values []point, dashed bool, stroke ink, name string) {
	if len(values) < 2 {
		return
	}
	points := make([]point, len(values))
	for i, v := range values {
		points[i] = f.point(v.x, v.y)
	}
	c.line(points, 1.6, dashed, stroke, name)
}

// layerKey names the layers of curves: few of them on the curves and next to the chart, many by their colours, the
// first at the foot. curves are values of the axes, empty if none was drawn.
func (p *Report) layerKey(c canvas, f frame, curves [][]point) {
	n := len(p.Figures)
	if n <= len(few) {
		for l, values := range curves {
			f.tag(c, point{f.left + f.width + 18, f.top + 22*float64(l)}, l, n, p.Figures[l].Layer)
			c.text(f.left+f.width+42, f.top+22*float64(l)+12, fmt.Sprintf("layer %d", p.Figures[l].Layer), textSize, start, label)
			if len(values) > 0 {
				at := f.along(values, 0.1+0.7*(float64(l)+0.5)/float64(n)) // at different places, so that they do not meet
				f.tag(c, point{at.x - tagWidth/2, at.y - tagHeight/2}, l, n, p.Figures[l].Layer)
			}
		}
		return
	}
	marks := []mark{{0, fmt.Sprint(p.Figures[0].Layer)}}
	if n > 1 {
		marks = append(marks, mark{1, fmt.Sprint(p.Figures[n-1].Layer)})
	}
	f.key(c, "layer", func(v float64) ink { return depth(int(math.Round(v*1000)), 1001) }, marks)
}

// mapHeight returns the heat map's height: few layers stay apart, and many still fit.
func (p *Report) mapHeight() float64 {
	return min(max(float64(18*len(p.Figures)), 160), 560)
}

// leastHeat is the frequency at the cold end of the heat map's scale.
const leastHeat = 1e-3

func heat(frequency float64) float64 {
	if frequency <= leastHeat {
		return 0
	}
	return 1 - math.Log(frequency)/math.Log(leastHeat)
}

func (p *Report) drawMap(c canvas) {
	n := len(p.Figures)
	var ticks []float64
	step := max(1, (n+15)/16)
	for l := 0; l < n; l += step {
		ticks = append(ticks, float64(l)+0.5)
	}
	f := newFrame(p.mapHeight(),
		axis{title: p.terms().things + " of the layer, hottest first", from: 0, to: 1, ticks: []float64{0, 0.2, 0.4, 0.6, 0.8, 1}, format: percent},
		axis{title: "layer", from: float64(n), to: 0, ticks: ticks, format: func(v float64) string { return fmt.Sprint(p.Figures[int(v)].Layer) }})
	f.draw(c, p.terms().heat+" · "+p.Model)
	c.picture(f.left, f.top, f.width, f.height, p.cells())
	f.outline(c)
	f.key(c, "tokens", func(v float64) ink { return ink{color: shade(inferno, v)} },
		[]mark{{1, "100 %"}, {2.0 / 3, "10 %"}, {1.0 / 3, "1 %"}, {0, "≤ 0.1 %"}})
}

// cells returns the heat map itself: a row for each layer, a column for the mean frequency of the neurons that share
// it.
func (p *Report) cells() image.Image {
	const most = 720
	columns := 1
	for _, f := range p.Figures {
		columns = max(columns, min(f.Neurons, most))
	}
	img := image.NewNRGBA(image.Rect(0, 0, columns, len(p.Figures)))
	for l := range p.Figures {
		freq := ranked(p.Stats, l)
		for x := range columns {
			from := x * len(freq) / columns
			to := max((x+1)*len(freq)/columns, from+1)
			sum := 0.0
			for i := from; i < min(to, len(freq)); i++ {
				sum += float64(freq[i])
			}
			img.SetNRGBA(x, l, shade(inferno, heat(sum/float64(to-from))))
		}
	}
	return img
}
