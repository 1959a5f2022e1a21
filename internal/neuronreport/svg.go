package neuronreport

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"image"
	"image/png"
	"strings"
)

// svg is a canvas that writes SVG, for a page with a style sheet that colours the roles.
type svg struct{ b strings.Builder }

// newSVG leaves the strip of the title out: the page has its own headings.
func newSVG(width, height float64) *svg {
	v := &svg{}
	fmt.Fprintf(&v.b, `<svg viewBox="0 %g %g %g" role="img" xmlns="http://www.w3.org/2000/svg">`, titleStrip, width, height-titleStrip)
	return v
}

func (v *svg) title(s string) { fmt.Fprintf(&v.b, "<desc>%s</desc>", escape(s)) }

// String closes the drawing.
func (v *svg) String() string { return v.b.String() + "</svg>" }

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// paint returns the attribute that colours what (fill or stroke).
func (i ink) paint(what string) string {
	if i.role != "" {
		return fmt.Sprintf(`class="%s-%s"`, what, i.role)
	}
	return fmt.Sprintf(`%s="%s"`, what, hex(i.color))
}

func (v *svg) rect(x, y, w, h float64, fill ink) {
	fmt.Fprintf(&v.b, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" %s/>`, x, y, w, h, fill.paint("fill"))
}

func (v *svg) line(points []point, width float64, dashed bool, stroke ink, name string) {
	v.b.WriteString(`<polyline fill="none" points="`)
	for i, p := range points {
		if i > 0 {
			v.b.WriteByte(' ')
		}
		fmt.Fprintf(&v.b, "%.1f,%.1f", p.x, p.y)
	}
	fmt.Fprintf(&v.b, `" stroke-width="%g" stroke-linejoin="round" %s`, width, stroke.paint("stroke"))
	if dashed {
		v.b.WriteString(` stroke-dasharray="6 5"`)
	}
	if name == "" {
		v.b.WriteString("/>")
		return
	}
	fmt.Fprintf(&v.b, "><title>%s</title></polyline>", escape(name))
}

func (v *svg) text(x, y float64, s string, size float64, a anchor, fill ink) {
	fmt.Fprintf(&v.b, `<text x="%.2f" y="%.2f" font-size="%g" text-anchor="%s" %s>%s</text>`,
		x, y, size, [...]string{"start", "middle", "end"}[a], fill.paint("fill"), escape(s))
}

func (v *svg) picture(x, y, w, h float64, img image.Image) {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // a buffer takes everything and our pictures are not empty
	}
	fmt.Fprintf(&v.b, `<image x="%.2f" y="%.2f" width="%.2f" height="%.2f" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,%s"/>`,
		x, y, w, h, base64.StdEncoding.EncodeToString(b.Bytes()))
}
