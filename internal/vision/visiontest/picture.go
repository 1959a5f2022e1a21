package visiontest

import (
	"image"
	"image/color"
	"image/png"
	"os"
)

// Picture is the name and the size of a picture of a case.
type Picture struct {
	Name          string
	Width, Height int
}

// cell is the distance in pixels of the points that gradients run between.
const cell = 24

// Image makes the picture: colours that change smoothly, with a little noise. It is the same on every platform.
func (p Picture) Image() *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
	points, noise := named("points "+p.Name), named("noise "+p.Name)
	point := func(x, y, c int) int { return int(points.bits((y*1000+x)*3+c) >> 56) }
	for y := range p.Height {
		for x := range p.Width {
			var rgb [3]uint8
			for c := range rgb {
				i, j, u, v := x/cell, y/cell, x%cell, y%cell
				top := point(i, j, c)*(cell-u) + point(i+1, j, c)*u
				bottom := point(i, j+1, c)*(cell-u) + point(i+1, j+1, c)*u
				value := (top*(cell-v)+bottom*v)/(cell*cell) + int(noise.bits((y*p.Width+x)*3+c)>>60) - 8
				rgb[c] = uint8(min(max(value, 0), 255))
			}
			img.SetNRGBA(x, y, color.NRGBA{rgb[0], rgb[1], rgb[2], 255})
		}
	}
	return img
}

// Write writes the picture as a PNG file.
func (p Picture) Write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := png.Encode(f, p.Image()); err != nil {
		return err
	}
	return f.Close()
}
