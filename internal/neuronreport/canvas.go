package neuronreport

import (
	"fmt"
	"image"
	"image/color"
)

// canvas draws a chart as a PNG or an SVG, by the same calls. Lengths are CSS pixels, the origin is the upper left.
type canvas interface {
	title(s string)
	rect(x, y, w, h float64, fill ink)
	line(points []point, width float64, dashed bool, stroke ink, name string) // name is shown if the medium can
	text(x, y float64, s string, size float64, anchor anchor, fill ink)       // y is the baseline
	picture(x, y, w, h float64, img image.Image)                              // scaled without smoothing
}

type point struct{ x, y float64 }

// ink is a role, which an SVG colours by the page's style sheet (so that it follows dark mode), or, without a role, a
// colour.
type ink struct {
	role  string
	color color.NRGBA // of the role on white
}

var (
	paper  = ink{"paper", color.NRGBA{0xff, 0xff, 0xff, 0xff}}
	label  = ink{"label", color.NRGBA{0x33, 0x38, 0x42, 0xff}}
	faint  = ink{"faint", color.NRGBA{0x6b, 0x72, 0x80, 0xff}}
	grid   = ink{"grid", color.NRGBA{0xe3, 0xe6, 0xea, 0xff}}
	border = ink{"border", color.NRGBA{0xa8, 0xae, 0xb8, 0xff}}
)

type anchor int

const (
	start anchor = iota
	middle
	end
)

// Colour maps as anchor points, evenly spaced: inferno and plasma of matplotlib (CC0).
var (
	inferno = []color.NRGBA{
		{0, 0, 4, 255},
		{31, 12, 72, 255},
		{85, 15, 109, 255},
		{136, 34, 106, 255},
		{186, 54, 85, 255},
		{227, 89, 51, 255},
		{249, 140, 10, 255},
		{249, 201, 50, 255},
		{252, 255, 164, 255},
	}
	plasma = []color.NRGBA{
		{13, 8, 135, 255},
		{84, 2, 163, 255},
		{139, 10, 165, 255},
		{185, 50, 137, 255},
		{219, 92, 104, 255},
		{244, 136, 73, 255},
		{254, 188, 43, 255},
		{240, 249, 33, 255},
	}
)

// shade returns the colour of a map at v, 0…1.
func shade(colours []color.NRGBA, v float64) color.NRGBA {
	at := min(max(v, 0), 1) * float64(len(colours)-1)
	i := min(int(at), len(colours)-2)
	rest := at - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(float64(a)*(1-rest) + float64(b)*rest + 0.5) }
	a, b := colours[i], colours[i+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// few are colours that everybody can distinguish, on white and on black, for as many layers as get labels: those of
// Okabe and Ito, "Color Universal Design" (2008), without black, and with a violet and a brown for its yellow.
var few = []color.NRGBA{
	{0, 114, 178, 255},
	{230, 159, 0, 255},
	{0, 158, 115, 255},
	{204, 121, 167, 255},
	{86, 180, 233, 255},
	{213, 94, 0, 255},
	{120, 94, 190, 255},
	{140, 110, 80, 255},
}

// depth returns the colour of a layer's curve: one of few, or else of a map, first to last, without the ends of the map
// that vanish on white or black.
func depth(layer, layers int) ink {
	if layers <= len(few) {
		return ink{color: few[layer]}
	}
	v := 0.0
	if layers > 1 {
		v = float64(layer) / float64(layers-1)
	}
	return ink{color: shade(plasma, 0.27+0.51*v)}
}

// over is black or white, whichever is read better on c.
func over(c color.NRGBA) ink {
	if 0.2126*float64(c.R)+0.7152*float64(c.G)+0.0722*float64(c.B) > 110 {
		return ink{color: color.NRGBA{0, 0, 0, 255}}
	}
	return ink{color: color.NRGBA{255, 255, 255, 255}}
}

func hex(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
