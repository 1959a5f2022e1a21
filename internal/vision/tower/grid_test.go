package tower

import (
	"math/rand/v2"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// Sizes are those of transformers' smart_resize, which computed these.
func TestSizing(t *testing.T) {
	for _, c := range []struct {
		sizing
		width, height         int
		wantWidth, wantHeight int
	}{
		{sizing{unit: 28, least: 6272, most: 3211264}, 640, 480, 644, 476},
		{sizing{unit: 28, least: 6272, most: 3211264}, 70, 70, 84, 84}, // 2.5 units round to 2, which are too few
		{sizing{unit: 28, least: 6272, most: 3211264}, 42, 350, 56, 336},
		{sizing{unit: 28, least: 6272, most: 3211264}, 4000, 3000, 2044, 1540},
		{sizing{unit: 28, least: 6272, most: 3211264}, 30, 20, 112, 84},
		{sizing{unit: 28, least: 6272, most: 3211264}, 9, 900, 28, 812},
		{sizing{unit: 32, least: 8192, most: 4194304}, 3000, 16, 1248, 32},
		{sizing{unit: 32, least: 8192, most: 4194304}, 3840, 2160, 2720, 1536},
		{sizing{unit: 32, least: 8192, most: 4194304}, 33, 33, 96, 96},
		{sizing{unit: 32, least: 65536, most: 262144}, 1024, 1024, 512, 512},
	} {
		if w, h := c.of(&picture.Image{Width: c.width, Height: c.height}); w != c.wantWidth || h != c.wantHeight {
			t.Errorf("%dx%d comes to %dx%d, not %dx%d", c.width, c.height, w, h, c.wantWidth, c.wantHeight)
		}
	}
}

// Sides are whole units, and no picture is larger than the bound, however long it is and however close the bounds are.
func TestSizingKeepsBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	side := func() int { return 1 << rng.IntN(17) * (1 + rng.IntN(7)) }
	for range 20000 {
		s := sizing{unit: 1 + rng.IntN(40), thin: rng.IntN(2) == 0}
		area := s.unit * s.unit
		s.least = (1 + rng.IntN(200)) * area
		s.most = s.least + rng.IntN(3)*rng.IntN(4000)*area
		m := &picture.Image{Width: side(), Height: side()}
		w, h := s.of(m)
		if w < s.unit || h < s.unit || w%s.unit != 0 || h%s.unit != 0 || w*h > s.most {
			t.Fatalf("%+v: %dx%d comes to %dx%d", s, m.Width, m.Height, w, h)
		}
	}
}

// Grids are those of InternVL's and LFM2-VL's processors, which computed these.
func TestClosestGrid(t *testing.T) {
	for _, c := range []struct{ width, height, least, most, tile, columns, rows int }{
		{803, 701, 2, 10, 512, 2, 2},
		{1600, 1600, 2, 10, 512, 3, 3},
		{3000, 1000, 2, 10, 512, 3, 1},
		{1920, 1080, 2, 10, 512, 4, 2},
		{1000, 3000, 1, 12, 448, 2, 6},
		{448, 448, 1, 12, 448, 1, 1},
		{900, 900, 1, 12, 448, 2, 2},
		{4000, 300, 1, 12, 448, 12, 1},
	} {
		columns, rows := closestGrid(&picture.Image{Width: c.width, Height: c.height}, c.least, c.most, c.tile)
		if columns != c.columns || rows != c.rows {
			t.Errorf("%dx%d is cut into %dx%d tiles, not %dx%d", c.width, c.height, columns, rows, c.columns, c.rows)
		}
	}
}
