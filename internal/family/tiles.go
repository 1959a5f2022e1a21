package family

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// closestGrid returns the grid of least to most square tiles in whose shape a picture changes its aspect least. Of equally
// good ones it is the larger if the picture covers more than half of it.
//
// Source: Chen et al. 2024, arXiv:2404.16821 (InternVL 1.5), section 3.3.
func closestGrid(of *picture.Image, least, most, tile int) (columns, rows int) {
	aspect, area := float64(of.Width)/float64(of.Height), float64(of.Width)*float64(of.Height)
	nearest := math.Inf(1)
	columns, rows = 1, 1
	for n := least; n <= most; n++ {
		for c := 1; c <= n; c++ {
			if n%c != 0 {
				continue
			}
			off := math.Abs(aspect - float64(c)/float64(n/c))
			if off < nearest || off == nearest && area > 0.5*float64(tile*tile*n) {
				nearest, columns, rows = off, c, n/c
			}
		}
	}
	return columns, rows
}

// tiles cuts a picture into square tiles, row after row.
func tiles(of *picture.Image, side int) (all []*picture.Image) {
	for y := 0; y < of.Height; y += side {
		for x := 0; x < of.Width; x += side {
			all = append(all, of.Crop(x, y, side, side))
		}
	}
	return all
}
