package neuronreport

import (
	"image"
	"image/draw"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// density is the number of picture elements per CSS pixel, for screens of today.
const density = 2

// raster is a canvas of picture elements, on white.
type raster struct {
	img   *image.RGBA
	face  *opentype.Font
	faces map[float64]font.Face
	shape [][]point // polygons to be painted together
}

func newRaster(width, height float64) *raster {
	face, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err) // the font is compiled in
	}
	w, h := int(width*density), int(height*density)
	r := &raster{img: image.NewRGBA(image.Rect(0, 0, w, h)), face: face, faces: map[float64]font.Face{}}
	draw.Draw(r.img, r.img.Bounds(), image.NewUniform(paper.color), image.Point{}, draw.Src)
	return r
}

func (r *raster) title(s string) { r.text(marginLeft, 26, s, titleSize, start, label) }

func (r *raster) rect(x, y, w, h float64, fill ink) {
	r.polygon(point{x, y}, point{x + w, y}, point{x + w, y + h}, point{x, y + h})
	r.paint(fill)
}

// polygon adds a clockwise polygon to those that paint fills; overlaps are filled once.
func (r *raster) polygon(points ...point) { r.shape = append(r.shape, points) }

// paint fills the polygons within their bounding rectangle: the cost is that of its area.
func (r *raster) paint(i ink) {
	bounds := image.Rectangle{}
	for _, polygon := range r.shape {
		for _, p := range polygon {
			x, y := int(math.Floor(p.x*density)), int(math.Floor(p.y*density))
			bounds = bounds.Union(image.Rect(x, y, x+2, y+2))
		}
	}
	bounds = bounds.Intersect(r.img.Bounds())
	area := vector.NewRasterizer(bounds.Dx(), bounds.Dy())
	at := func(p point) (x, y float32) {
		return float32(p.x*density) - float32(bounds.Min.X), float32(p.y*density) - float32(bounds.Min.Y)
	}
	for _, polygon := range r.shape {
		area.MoveTo(at(polygon[0]))
		for _, p := range polygon[1:] {
			area.LineTo(at(p))
		}
		area.ClosePath()
	}
	area.Draw(r.img, bounds, image.NewUniform(i.color), image.Point{})
	r.shape = r.shape[:0]
}

func (r *raster) line(points []point, width float64, dashed bool, stroke ink, _ string) {
	if dashed {
		for _, d := range dashes(points, 6, 5) {
			r.stroke(d, width)
		}
	} else {
		r.stroke(points, width)
	}
	r.paint(stroke)
}

// stroke adds a rectangle for every segment and an octagon for every joint.
func (r *raster) stroke(points []point, width float64) {
	half := width / 2
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		dx, dy := b.x-a.x, b.y-a.y
		length := math.Hypot(dx, dy)
		if length == 0 {
			continue
		}
		nx, ny := -dy/length*half, dx/length*half
		r.polygon(point{a.x - nx, a.y - ny}, point{b.x - nx, b.y - ny}, point{b.x + nx, b.y + ny}, point{a.x + nx, a.y + ny})
	}
	for i := 1; i < len(points)-1; i++ {
		var joint [8]point
		for k := range joint {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(len(joint)))
			joint[k] = point{points[i].x + half*cos, points[i].y + half*sin}
		}
		r.polygon(joint[:]...)
	}
}

// dashes cuts a line into strokes of on, off apart.
func dashes(points []point, on, off float64) [][]point {
	var out [][]point
	at := 0.0 // within the period
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		for done := 0.0; length-done > 1e-9; {
			step := min(length-done, on-at)
			if at >= on {
				step = min(length-done, on+off-at)
			} else {
				from, to := done/length, (done+step)/length
				out = append(out, []point{{a.x + (b.x-a.x)*from, a.y + (b.y-a.y)*from}, {a.x + (b.x-a.x)*to, a.y + (b.y-a.y)*to}})
			}
			done += step
			if at += step; at > on+off-1e-9 {
				at = 0
			}
		}
	}
	return out
}

func (r *raster) text(x, y float64, s string, size float64, a anchor, fill ink) {
	d := font.Drawer{Dst: r.img, Src: image.NewUniform(fill.color), Face: r.sized(size)}
	left := fixed.Int26_6(x * density * 64)
	switch a {
	case middle:
		left -= d.MeasureString(s) / 2
	case end:
		left -= d.MeasureString(s)
	}
	d.Dot = fixed.Point26_6{X: left, Y: fixed.Int26_6(y * density * 64)}
	d.DrawString(s)
}

func (r *raster) sized(size float64) font.Face {
	f, ok := r.faces[size]
	if !ok {
		var err error
		f, err = opentype.NewFace(r.face, &opentype.FaceOptions{Size: size * density, DPI: 72, Hinting: font.HintingNone})
		if err != nil {
			panic(err) // the font is compiled in
		}
		r.faces[size] = f
	}
	return f
}

func (r *raster) picture(x, y, w, h float64, img image.Image) {
	to := image.Rect(round(x*density), round(y*density), round((x+w)*density), round((y+h)*density)).Intersect(r.img.Bounds())
	from := img.Bounds()
	for py := to.Min.Y; py < to.Max.Y; py++ {
		for px := to.Min.X; px < to.Max.X; px++ {
			sx := from.Min.X + (px-to.Min.X)*from.Dx()/to.Dx()
			sy := from.Min.Y + (py-to.Min.Y)*from.Dy()/to.Dy()
			r.img.Set(px, py, img.At(sx, sy))
		}
	}
}

func round(v float64) int { return int(math.Round(v)) }
