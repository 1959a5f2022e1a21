package sweep

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// frontChart is the picture of all points: what they give to the right, how far they are from dense upwards.
type frontChart struct {
	*drawing
	rep   *Report
	axis  axis
	dots  []dot
	x, y  scale
	taken []box // where nothing else may be written
}

// dot is a point of the picture, in values.
type dot struct {
	p                 *Point
	x, least, most, y float64
}

// front draws all points over an axis; it returns nothing if there are none.
func (rep *Report) front(a axis) string {
	c := frontChart{rep: rep, axis: a}
	least, most, far := math.Inf(1), math.Inf(-1), rep.Bounds.MaxKLD
	for i := range rep.Points {
		p := &rep.Points[i]
		v, l, m, ok := a.of(p)
		if !ok || p.Quality == nil {
			continue
		}
		c.dots = append(c.dots, dot{p, v, l, m, p.Quality.KLDivergence.Value})
		least, most, far = min(least, l), max(most, m), max(far, p.Quality.KLDivergence.Value)
	}
	if len(c.dots) == 0 {
		return ""
	}
	near := far / 10
	for _, p := range c.dots {
		if p.y >= leastDivergence {
			near = min(near, p.y)
		}
	}
	c.drawing = newDrawing(wide, high, "KL divergence of every setting from dense, over "+a.name)
	c.x = round(least, most, left, wide-right)
	c.y = scale{from: math.Pow(10, math.Floor(math.Log10(near))), to: far * 1.5, start: high - foot - zeroBand, end: top, log: true}
	c.axes()
	c.bound()
	c.steps()
	c.spreads()
	c.marks()
	c.labels()
	return c.end()
}

// at returns the height of a divergence; divergences below the scale are in the band under it.
func (c *frontChart) at(v float64) float64 {
	if v < c.y.from {
		return high - foot - zeroBand/2
	}
	return c.y.at(v)
}

// axes draws the grid, the scales and their names.
func (c *frontChart) axes() {
	for _, v := range c.x.ticks(8) {
		c.line("grid", c.x.at(v), top, c.x.at(v), high-foot)
		c.text("tick", "middle", c.x.at(v), high-foot+19, short(v))
	}
	for _, v := range c.y.ticks(0) {
		c.line("grid", left, c.y.at(v), wide-right, c.y.at(v))
		c.text("tick", "end", left-9, c.y.at(v)+4, short(v))
	}
	c.line("axis", left, high-foot, wide-right, high-foot)
	c.text("tick", "end", left-9, high-foot-zeroBand/2+4, "≈ 0")
	better := "more is better"
	if c.axis.less {
		better = "less is better"
	}
	c.text("name", "middle", (left+wide-right)/2, high-12, c.axis.name+" — "+better)
	c.add(`<text class="name" text-anchor="middle" transform="translate(18 %.1f) rotate(-90)">KL divergence, nats a token — less is better</text>`, (top+high-foot)/2)
}

// bound draws the divergence that is allowed.
func (c *frontChart) bound() {
	bound := c.rep.Bounds.MaxKLD
	y := c.at(bound)
	c.add(`<rect class="bound" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, left, y, wide-right-left, high-foot-y)
	c.line("limit", left, y, wide-right, y)
	label := "bound " + short(bound)
	c.text("limit", "start", left+8, y-6, label)
	c.taken = append(c.taken, box{left, y - lineHeight, left + 8 + letter*float64(len(label)), y})
}

// steps draws the front: from dense on, each point that gives more than all nearer ones.
func (c *frontChart) steps() {
	a := c.axis
	best := slices.Clone(c.dots)
	slices.SortFunc(best, func(p, q dot) int {
		switch {
		case p.y != q.y && p.y < q.y, p.y == q.y && (p.x > q.x) != a.less && p.x != q.x:
			return -1
		case p.y == q.y && p.x == q.x:
			return 0
		}
		return 1
	})
	var path strings.Builder
	reached := math.NaN()
	for _, p := range best {
		if !math.IsNaN(reached) && (p.x <= reached) != a.less && p.x != reached || p.x == reached {
			continue
		}
		if math.IsNaN(reached) {
			fmt.Fprintf(&path, "M%.1f %.1f", c.x.at(p.x), c.at(p.y))
		} else {
			fmt.Fprintf(&path, "H%.1f V%.1f", c.x.at(reached), c.at(p.y))
			fmt.Fprintf(&path, "H%.1f", c.x.at(p.x))
		}
		reached = p.x
	}
	c.add(`<path class="front" d="%s"/>`, path.String())
}

// spreads draws the spread of the runs, and two standard errors of each divergence.
func (c *frontChart) spreads() {
	for _, p := range c.dots {
		x, y := c.x.at(p.x), c.at(p.y)
		c.taken = append(c.taken, box{x - pointRadius, y - pointRadius, x + pointRadius, y + pointRadius})
		if p.least < p.most {
			c.line("spread "+p.p.class(), c.x.at(p.least), y, c.x.at(p.most), y)
		}
		if e := p.p.Quality.KLDivergence.Error; e > 0 && p.y >= c.y.from {
			c.line("spread "+p.p.class(), x, c.at(max(c.y.from, p.y-2*e)), x, c.at(p.y+2*e))
		}
	}
}

// marks draws the points: diamonds for other files, circles for settings, a ring around the recommended one.
func (c *frontChart) marks() {
	for _, p := range c.dots {
		x, y := c.x.at(p.x), c.at(p.y)
		if c.rep.recommended(p.p) {
			c.add(`<circle class="chosen" cx="%.1f" cy="%.1f" r="%g"/>`, x, y, pointRadius+5)
		}
		title := fmt.Sprintf("<title>%s: KL divergence %s, %s %s</title>", html.EscapeString(p.p.Name), short(p.y), html.EscapeString(c.axis.name), short(p.x))
		if p.p.File != "" {
			const r = pointRadius + 1.5 // as large to the eye as a circle
			c.add(`<path class="dot other" d="M%.1f %.1fl%g %gl%g %gl%g %gz">%s</path>`, x, y-r, r, r, -r, r, -r, -r, title)
			continue
		}
		c.add(`<circle class="%s" cx="%.1f" cy="%.1f" r="%g">%s</circle>`, "dot "+p.p.class(), x, y, pointRadius, title)
	}
}

// labels writes the points' names where they fit.
func (c *frontChart) labels() {
	for _, p := range c.dots {
		b, anchor, ok := place(p.p.Name, c.x.at(p.x), c.at(p.y), c.taken)
		if !ok {
			continue
		}
		c.taken = append(c.taken, b)
		x := b.left
		if anchor == "end" {
			x = b.right
		}
		c.text("label", anchor, x, b.low-4, p.p.Name)
	}
}
