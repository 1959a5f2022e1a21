package tower

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// The published image processors bring pictures to these sizes; the numbers are theirs, computed by hand or by their rules.

func TestLlama4Canvas(t *testing.T) {
	m := &llama4{largest: llama4Tiles}
	m.image = 336
	for _, c := range []struct{ width, height, columns, rows, inWidth, inHeight int }{
		{336, 336, 1, 1, 336, 336},
		{100, 67, 1, 1, 336, 225}, // grows to a tile
		{337, 336, 2, 1, 337, 336},
		{640, 480, 2, 2, 640, 480}, // stays
		{480, 640, 2, 2, 480, 640},
		{1920, 1080, 5, 3, 1680, 945},
		{4000, 3000, 4, 3, 1344, 1008},
		{3000, 200, 9, 1, 3000, 200},
		{50, 2000, 1, 6, 50, 2000},
		{6000, 4000, 5, 3, 1512, 1008},
		{1345, 1344, 4, 4, 1344, 1343},
	} {
		of := &picture.Image{Width: c.width, Height: c.height}
		columns, rows := m.canvas(of)
		w, h := m.inside(of, columns, rows)
		if columns != c.columns || rows != c.rows || w != c.inWidth || h != c.inHeight {
			t.Errorf("%d×%d: %d×%d on %d×%d tiles, not %d×%d on %d×%d", c.width, c.height, w, h, columns, rows, c.inWidth, c.inHeight, c.columns, c.rows)
		}
	}
}

func TestInternVLGrid(t *testing.T) {
	for _, c := range []struct{ width, height, columns, rows int }{
		{448, 448, 1, 1},
		{300, 200, 3, 2},
		{640, 480, 4, 3},
		{896, 896, 2, 2}, // more than half of four tiles
		{1920, 1080, 4, 2},
		{3000, 200, 12, 1},
		{200, 3000, 1, 12},
		{1000, 1000, 3, 3},
	} {
		if columns, rows := closestGrid(&picture.Image{Width: c.width, Height: c.height}, 1, 12, 448); columns != c.columns || rows != c.rows {
			t.Errorf("%d×%d: %d×%d tiles, not %d×%d", c.width, c.height, columns, rows, c.columns, c.rows)
		}
	}
}

func TestGemma4Size(t *testing.T) {
	const unit = 48
	s := sizing{unit: unit, least: gemma4Least * unit * unit, most: gemma4Most * unit * unit}
	for _, c := range []struct{ width, height, toWidth, toHeight int }{
		{480, 336, 480, 336}, // 70 rows
		{401, 533, 384, 528},
		{100, 100, 432, 432},     // too few
		{4000, 3000, 1824, 1344}, // too many
		{1920, 1080, 1920, 1056},
		{20, 1000, 96, 2880},
	} {
		if w, h := s.of(&picture.Image{Width: c.width, Height: c.height}); w != c.toWidth || h != c.toHeight {
			t.Errorf("%d×%d becomes %d×%d, not %d×%d", c.width, c.height, w, h, c.toWidth, c.toHeight)
		}
	}
}
