// Package picture reads files of pictures and resizes pictures. It knows no model: a tower says which size, filter and
// patches it needs.
package picture

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Image is a picture: rows of pixels from the top, three bytes each: red, green and blue (sRGB).
type Image struct {
	Width, Height int    // pixels
	Pix           []byte // [Height][Width][3]
}

// Marked is a text with marks in the places of pictures.
type Marked struct {
	Text     string
	Mark     string   // of each picture; empty: there are none
	Pictures []*Image // in the order of their marks
	Plain    bool     // the text comes from no template and has the blank lines around pictures itself
}

// Blank returns a picture of one colour.
func Blank(width, height int, colour [3]byte) *Image {
	m := &Image{Width: width, Height: height, Pix: make([]byte, 3*width*height)}
	if colour == [3]byte{} || len(m.Pix) == 0 {
		return m
	}
	copy(m.Pix, colour[:])
	for done := 3; done < len(m.Pix); done *= 2 {
		copy(m.Pix[done:], m.Pix[:done])
	}
	return m
}

// Sum returns the SHA-256 of the picture's size and pixels. Equal pictures have equal sums, whatever their files are.
func (m *Image) Sum() [32]byte {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(m.Width)), uint64(m.Height)))
	h.Write(m.Pix)
	return [32]byte(h.Sum(nil))
}

// Clone returns a copy.
func (m *Image) Clone() *Image {
	return &Image{Width: m.Width, Height: m.Height, Pix: slices.Clone(m.Pix)}
}

// row returns the bytes of pixels x to x+w of row y.
func (m *Image) row(x, y, w int) []byte { return m.Pix[3*(y*m.Width+x):][:3*w] }

// Crop returns the w x h pixels from (x, y) on. Pixels outside the picture are black, as in Pillow.
func (m *Image) Crop(x, y, w, h int) *Image {
	c := Blank(w, h, [3]byte{})
	c.Paste(-x, -y, m)
	return c
}

// Paste writes another picture over this one, its upper left corner at (x, y). Parts outside are left out.
func (m *Image) Paste(x, y int, of *Image) {
	x0, x1 := max(x, 0), min(x+of.Width, m.Width)
	y0, y1 := max(y, 0), min(y+of.Height, m.Height)
	if x0 >= x1 {
		return
	}
	for row := y0; row < y1; row++ {
		copy(m.row(x0, row, x1-x0), of.row(x0-x, row-y, x1-x0))
	}
}

// Patch writes the p x p pixels from (x, y) on to dst, [3][p][p]: channel, row, column, the order of a convolution's
// weights. A value v becomes (v/255 - mean) / std.
func (m *Image) Patch(dst []float32, x, y, p int, mean, std [3]float32) {
	for c := range 3 {
		plane := dst[c*p*p:][:p*p]
		for i := range p {
			row := m.row(x, y+i, p)
			for j := range p {
				plane[i*p+j] = (float32(row[3*j+c])/255 - mean[c]) / std[c]
			}
		}
	}
}
