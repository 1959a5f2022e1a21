package portrait

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

// decades are the powers of ten in from…to.
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

// draw draws title, grid, ticks and names of the axes; what lies in the frame is drawn over it.
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

// mark names a place on a key, 0…1.
type mark struct {
	at   float64
	name string
}

// key draws a bar of colours beside the frame: colour(0) at the foot, named by marks.
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

// printable is a name from a file in one short line.
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
