package sweep

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// drawing is an SVG picture in CSS pixels. The page's style sheet colours its classes.
type drawing struct {
	strings.Builder
	width, height float64
}

func newDrawing(width, height float64, says string) *drawing {
	d := &drawing{width: width, height: height}
	d.add(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg">`, width, height, html.EscapeString(says))
	return d
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// end returns the picture.
func (d *drawing) end() string { return d.String() + "</svg>" }

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.add(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

// text writes s, which may come from outside; anchor is start, middle or end.
func (d *drawing) text(class, anchor string, x, y float64, s string) {
	d.add(`<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y, html.EscapeString(s))
}

// scale maps values to pixels.
type scale struct {
	from, to   float64 // values
	start, end float64 // their pixels
	log        bool
}

func (s scale) at(v float64) float64 {
	share := (v - s.from) / (s.to - s.from)
	if s.log {
		share = math.Log(max(v, s.from)/s.from) / math.Log(s.to/s.from)
	}
	return s.start + share*(s.end-s.start)
}

// round returns a scale with ends a little outside of least and most.
func round(least, most, start, end float64) scale {
	pad := (most - least) / 12
	if pad == 0 {
		pad = max(1e-9, math.Abs(most)/10)
	}
	from := least - pad
	if least >= 0 {
		from = max(0, from)
	}
	return scale{from: from, to: most + pad, start: start, end: end}
}

// ticks returns round values on the scale, n or so.
func (s scale) ticks(n int) (all []float64) {
	if s.log {
		for e := math.Ceil(math.Log10(s.from) - 1e-9); e <= math.Log10(s.to)+1e-9; e++ {
			all = append(all, math.Pow(10, e))
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10((s.to-s.from)/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (s.to-s.from)/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	for i := math.Ceil(s.from/step - 1e-9); i*step <= s.to+1e-9*step; i++ {
		all = append(all, i*step)
	}
	return all
}

// short prints a number in three digits and without an exponent, with thousands apart.
func short(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v))+1e-9)))
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		return strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// evenly returns how ticks are printed: with as many digits as their distance needs, as percentages if they are shares.
func evenly(ticks []float64, share bool) func(v float64) string {
	factor, unit := 1.0, ""
	if share {
		factor, unit = 100, " %"
	}
	digits := 0
	if len(ticks) > 1 {
		digits = max(0, -int(math.Floor(math.Log10(factor*(ticks[1]-ticks[0]))+1e-9)))
	}
	return func(v float64) string { return strconv.FormatFloat(factor*v, 'f', digits, 64) + unit }
}

// axis is one figure of settings.
type axis struct {
	id, name string
	of       func(p *Point) (value, least, most float64, ok bool)
	less     bool // fewer are better
}

// Sizes of the picture of all points.
const (
	wide, high         = 960.0, 470.0
	left, right        = 84.0, 28.0
	top, foot          = 26.0, 58.0
	zeroBand           = 34.0 // below the logarithmic scale, for points that are as good as dense
	leastDivergence    = 1e-5 // shown on it
	pointRadius        = 6.0
	letter, lineHeight = 6.9, 15.0 // of labels, at most
)

// class returns the style of a point's mark.
func (p *Point) class() string {
	if p.File != "" {
		return "other"
	}
	return p.Mode
}

// recommended reports whether a point is the recommendation for this machine.
func (rep *Report) recommended(p *Point) bool {
	return len(rep.Best) > 0 && rep.Best[0].Machine == "" && rep.Best[0].Name == p.Name
}

// box is a part of a picture.
type box struct{ left, high, right, low float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.high < o.low && o.high < b.low
}

// place finds room for a label next to a point. ok is false if there is none, and the point then has only its title.
func place(name string, x, y float64, taken []box) (b box, anchor string, ok bool) {
	width := letter * float64(len([]rune(name)))
	const gap = pointRadius + 4
	for _, dy := range []float64{0, -lineHeight, lineHeight, -1.8 * lineHeight, 1.8 * lineHeight} {
		for _, anchor := range []string{"start", "end"} {
			b = box{x + gap, y + dy - lineHeight/2, x + gap + width, y + dy + lineHeight/2}
			if anchor == "end" {
				b.left, b.right = x-gap-width, x-gap
			}
			if b.left < left || b.right > wide || b.high < 0 || b.low > high-foot || slices.ContainsFunc(taken, b.meets) {
				continue
			}
			return b, anchor, true
		}
	}
	return b, "", false
}

// series is a curve.
type series struct {
	name, class string
	x, y, error []float64 // error may be nil
}

// Sizes of a picture of curves.
const (
	curveWide, curveHigh = 470.0, 250.0
	curveLeft, curveFoot = 62.0, 46.0
	curveTop, curveRight = 26.0, 14.0
)

// curves draws the effect of a knob. Logarithmic scales leave out values of 0 and below.
func curves(title, knob string, log, share bool, all ...series) string {
	least, most, from, to := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range all {
		for i, v := range s.y {
			if log && v < leastDivergence/10 {
				continue
			}
			spread := 0.0
			if s.error != nil && !log {
				spread = 2 * s.error[i]
			}
			least, most, from, to = min(least, v-spread), max(most, v+spread), min(from, s.x[i]), max(to, s.x[i])
		}
	}
	if from >= to {
		return ""
	}
	const decade = 10 // less than that is better told apart on an even scale
	if log && most < decade*least {
		return curves(title, knob, false, share, all...)
	}
	d := newDrawing(curveWide, curveHigh, title+" over "+knob)
	x := scale{from: from, to: to, start: curveLeft + 8, end: curveWide - curveRight - 8}
	y := round(least, most, curveHigh-curveFoot, curveTop)
	if log {
		y.from, y.to, y.log = math.Pow(10, math.Floor(math.Log10(least))), most*1.5, true
	} else if share {
		y.to = min(1, y.to)
	}
	print := short
	if share {
		print = func(v float64) string { return short(100*v) + " %" }
	}
	ticks := y.ticks(5)
	tick := short
	if !log {
		tick = evenly(ticks, share)
	}
	for _, v := range ticks {
		d.line("grid", curveLeft, y.at(v), curveWide-curveRight, y.at(v))
		d.text("tick", "end", curveLeft-7, y.at(v)+4, tick(v))
	}
	for _, v := range x.ticks(7) {
		d.text("tick", "middle", x.at(v), curveHigh-curveFoot+18, short(v))
	}
	d.line("axis", curveLeft, curveHigh-curveFoot, curveWide-curveRight, curveHigh-curveFoot)
	d.text("name", "middle", (curveLeft+curveWide-curveRight)/2, curveHigh-6, knob)
	for _, s := range all {
		var path strings.Builder
		for i := range s.x {
			if log && s.y[i] < y.from {
				continue
			}
			px, py := x.at(s.x[i]), y.at(s.y[i])
			if path.Len() == 0 {
				fmt.Fprintf(&path, "M%.1f %.1f", px, py)
			} else {
				fmt.Fprintf(&path, "L%.1f %.1f", px, py)
			}
			if s.error != nil {
				d.line("spread "+s.class, px, y.at(max(y.from, s.y[i]-2*s.error[i])), px, y.at(s.y[i]+2*s.error[i]))
			}
		}
		d.add(`<path class="curve %s" d="%s"/>`, s.class, path.String())
		for i := range s.x {
			if !log || s.y[i] >= y.from {
				d.add(`<circle class="dot %s" cx="%.1f" cy="%.1f" r="4"><title>%s at %s: %s</title></circle>`, s.class, x.at(s.x[i]), y.at(s.y[i]), html.EscapeString(s.name), short(s.x[i]), print(s.y[i]))
			}
		}
	}
	return d.end()
}

// part is a piece of a bar.
type part struct {
	class, says string
	value       float64
}

// bar is a row of a picture of bars.
type bar struct {
	name  string
	parts []part
	error float64 // error of their sum; 0: none is shown
	says  string  // after the bar
}

// bars draws rows of stacked parts, from left to right.
func bars(title string, unit string, rows []bar) string {
	const step, thick, foot = 24.0, 15.0, 40.0
	widest, most := 4, 0.0
	for _, r := range rows {
		widest = max(widest, len([]rune(r.name)))
		sum := 0.0
		for _, p := range r.parts {
			sum += p.value
		}
		most = max(most, sum+2*r.error)
	}
	if most <= 0 {
		return ""
	}
	begin := 14 + letter*float64(widest)
	d := newDrawing(wide, 8+step*float64(len(rows))+foot, title)
	x := scale{from: 0, to: most, start: begin, end: wide - 100}
	end := 4 + step*float64(len(rows))
	for _, v := range x.ticks(7) {
		d.line("grid", x.at(v), 2, x.at(v), end)
		d.text("tick", "middle", x.at(v), end+17, short(v))
	}
	d.text("name", "middle", (begin+wide-100)/2, end+35, unit)
	for i, r := range rows {
		y := 4 + step*float64(i)
		d.text("label", "end", begin-9, y+thick-3, r.name)
		sum := 0.0
		for _, p := range r.parts {
			if p.value > 0 {
				d.add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%g" rx="1.5"><title>%s: %s</title></rect>`,
					p.class, x.at(sum), y, x.at(sum+p.value)-x.at(sum), thick, html.EscapeString(r.name+", "+p.says), short(p.value))
			}
			sum += p.value
		}
		if r.error > 0 {
			d.line("whisker", x.at(max(0, sum-2*r.error)), y+thick/2, x.at(sum+2*r.error), y+thick/2)
		}
		d.text("tick", "start", x.at(sum+2*r.error)+8, y+thick-3, r.says)
	}
	return d.end()
}
