package visiontest

import (
	"image"
	"image/png"
	"os"

	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// Picture is the name and the size of a picture of a case.
type Picture struct {
	Name          string
	Width, Height int
}

// cell is the distance in pixels of the points that gradients run between.
const cell = 24

// Image makes the picture: colours that change smoothly, with a little noise. It is the same on every platform.
func (p Picture) Image() *picture.Image {
	m := picture.Blank(p.Width, p.Height, [3]byte{})
	points, noise := named("points "+p.Name), named("noise "+p.Name)
	point := func(x, y, c int) int { return int(points.bits((y*1000+x)*3+c) >> 56) }
	for y := range p.Height {
		for x := range p.Width {
			for c := range 3 {
				i, j, u, v := x/cell, y/cell, x%cell, y%cell
				top := point(i, j, c)*(cell-u) + point(i+1, j, c)*u
				bottom := point(i, j+1, c)*(cell-u) + point(i+1, j+1, c)*u
				value := (top*(cell-v)+bottom*v)/(cell*cell) + int(noise.bits((y*p.Width+x)*3+c)>>60) - 8
				m.Pix[(y*p.Width+x)*3+c] = byte(min(max(value, 0), 255))
			}
		}
	}
	return m
}

// Write writes the picture as a PNG file.
func (p Picture) Write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, opaque := p.Image(), image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i := range p.Width * p.Height {
		copy(opaque.Pix[4*i:], append(m.Pix[3*i:3*i+3:3*i+3], 255))
	}
	if err := png.Encode(f, opaque); err != nil {
		return err
	}
	return f.Close()
}
