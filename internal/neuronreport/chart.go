package neuronreport

import (
	"fmt"
	"math"
	"strings"
)

// axis maps values to 0…1.
type axis struct {
	title    string
	from, to float64
	log      bool
	ticks    []float64
	format   func(float64) string
}

func (a axis) at(v float64) float64 {
	if a.log {
		return math.Log(v/a.from) / math.Log(a.to/a.from)
	}
	return (v - a.from) / (a.to - a.from)
}

// decades returns the powers of ten in from…to.
func decades(from, to float64) []float64 {
	var out []float64
	for e := math.Ceil(math.Log10(from) - 1e-9); math.Pow(10, e) <= to*(1+1e-9); e++ {
		out = append(out, math.Pow(10, e))
	}
	return out
}

// percent prints a share 0…1 with as few digits as it needs.
func percent(v float64) string { return fmt.Sprintf("%.4g %%", 100*v) }

// grouped prints a whole number with its thousands apart.
func grouped[T int | uint64 | float64](v T) string {
	s := fmt.Sprint(uint64(v))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// frame is the drawing area of a chart.
type frame struct {
	left, top, width, height float64
	x, y                     axis
}

// Sizes in CSS pixels.
const (
	chartWidth  = 860.0
	titleSize   = 16.0
	textSize    = 12.5
	marginLeft  = 72.0
	marginRight = 96.0 // room for the key
	marginTop   = 66.0
	titleStrip  = 36.0 // of marginTop
	marginFoot  = 58.0
)

func newFrame(height float64, x, y axis) frame {
	return frame{marginLeft, marginTop, chartWidth - marginLeft - marginRight, height, x, y}
}

func (f frame) point(x, y float64) point {
	return point{f.left + f.width*f.x.at(x), f.top + f.height*(1-f.y.at(y))}
}

// draw draws title, grid, ticks and names of the axes; the frame's content is drawn over it.
func (f frame) draw(c canvas, title string) {
	c.title(title)
	for _, t := range f.x.ticks {
		x := f.left + f.width*f.x.at(t)
		c.line([]point{{x, f.top}, {x, f.top + f.height}}, 1, false, grid, "")
		c.text(x, f.top+f.height+18, f.x.format(t), textSize, middle, faint)
	}
	for _, t := range f.y.ticks {
		y := f.top + f.height*(1-f.y.at(t))
		c.line([]point{{f.left, y}, {f.left + f.width, y}}, 1, false, grid, "")
		c.text(f.left-8, y+4, f.y.format(t), textSize, end, faint)
	}
	c.text(f.left+f.width/2, f.top+f.height+42, f.x.title, textSize, middle, label)
	c.text(f.left-8, f.top-12, f.y.title, textSize, start, label)
}

// outline closes the frame; drawn last, so that nothing covers it.
func (f frame) outline(c canvas) {
	c.line([]point{{f.left, f.top}, {f.left + f.width, f.top}, {f.left + f.width, f.top + f.height}, {f.left, f.top + f.height}, {f.left, f.top}}, 1, false, border, "")
}

// Size of a tag in CSS pixels.
const tagWidth, tagHeight = 18.0, 16.0

// tag draws a layer's number on the colour of curve l of n, with the upper left corner at p.
func (f frame) tag(c canvas, p point, l, n, layer int) {
	colour := depth(l, n)
	c.rect(p.x, p.y, tagWidth, tagHeight, colour)
	c.text(p.x+tagWidth/2, p.y+12.5, fmt.Sprint(layer), textSize, middle, over(colour.color))
}

// along returns the point of a curve at a share of the frame's width, or the nearest end. values are those of the axes,
// from left to right.
func (f frame) along(values []point, share float64) point {
	x := f.left + f.width*share
	last := f.point(values[0].x, values[0].y)
	for _, v := range values[1:] {
		p := f.point(v.x, v.y)
		if p.x >= x && last.x < x {
			return point{x, last.y + (p.y-last.y)*(x-last.x)/(p.x-last.x)}
		}
		last = p
	}
	if first := f.point(values[0].x, values[0].y); first.x >= x {
		return first
	}
	return last
}

// mark names a place on a key, 0…1.
type mark struct {
	at   float64
	name string
}

// key draws a bar of colours next to the frame: colour(0) at the foot, named by marks.
func (f frame) key(c canvas, title string, colour func(v float64) ink, marks []mark) {
	const steps = 64
	height := min(f.height, 220)
	x, y := f.left+f.width+18, f.top
	c.text(x, f.top-12, title, textSize, start, label)
	for i := range steps {
		c.rect(x, y+height*float64(i)/steps, 14, height/steps+0.5, colour(1-(float64(i)+0.5)/steps))
	}
	for _, m := range marks {
		c.text(x+20, y+height*(1-m.at)+4, m.name, textSize, start, faint)
	}
}

// printable returns a name from a file in one short line.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
