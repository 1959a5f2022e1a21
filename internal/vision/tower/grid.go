package tower

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// sizing says to which sizes a tower brings pictures that may have many: sides are multiples of unit, the area is
// within bounds, and the aspect changes as little as that allows.
//
// Source: transformers' smart_resize, of Qwen2-VL's image processor.
type sizing struct {
	unit        int  // in pixels: the side of the patches that become one row
	least, most int  // pixels of a picture
	thin        bool // a side of less than half a unit counts as one, and not as nothing, when the area is compared with least
}

// maxPatches bounds the patches of a picture.
const maxPatches = 1 << 16

// readSizing returns the sizing of a tower with rows of a unit. least and most are the usual bounds on rows, which the
// file's bounds on pixels replace, and the user's on rows replace both.
func readSizing(k *nn.Keys, t *keys, unit, least, most int, user Limits) sizing {
	area := unit * unit
	s := sizing{
		unit:  unit,
		least: k.Count(".image_min_pixels", least*area, math.MaxInt32),
		most:  k.Count(".image_max_pixels", most*area, math.MaxInt32),
	}
	s.limit(k, t, user)
	return s
}

// limit applies the user's bounds on rows, and those on memory.
func (s *sizing) limit(k *nn.Keys, t *keys, user Limits) {
	if s.unit > maxImage {
		k.Fail("blocks of patches of %d pixels each way are too large", s.unit)
		return
	}
	area := s.unit * s.unit
	room := max(1, min(maxPatches*t.patch*t.patch, maxPixels)/area) // rows
	if user.Most > room || user.Least > room {
		k.Fail("a picture has %d rows at most, and not the %d that are asked for", room, max(user.Most, user.Least))
		return
	}
	if user.Most > 0 {
		s.most = user.Most * area
		s.least = min(s.least, s.most)
	}
	if user.Least > 0 {
		s.least = user.Least * area
		s.most = max(s.most, s.least)
	}
	s.most = max(area, min(s.most, room*area))
	if s.least > s.most {
		k.Fail("keys %q and %q: a picture would have at least %d pixels and at most %d", "clip.vision.image_min_pixels", "clip.vision.image_max_pixels", s.least, s.most)
	}
}

// inStep limits rows that see each other to the text model's step, unless the user wants more.
func (s *sizing) inStep(user Limits) {
	if area := s.unit * s.unit; user.Step > 0 && s.most/area > user.Step {
		s.most = max(user.Step, min(s.most/area, user.Least)) * area
		s.least = min(s.least, s.most)
	}
}

// of returns the size, in pixels, that a picture is resized to.
func (s sizing) of(m *picture.Image) (width, height int) {
	w, h, unit := float64(m.Width), float64(m.Height), float64(s.unit)
	round := func(x float64, to func(float64) float64) int { return max(1, int(to(x/unit))) * s.unit }
	across, down := math.RoundToEven(w/unit)*unit, math.RoundToEven(h/unit)*unit
	if s.thin {
		across, down = max(unit, across), max(unit, down)
	}
	switch {
	case across*down > float64(s.most):
		shrink := math.Sqrt(w * h / float64(s.most))
		width, height = round(w/shrink, math.Floor), round(h/shrink, math.Floor)
	case across*down < float64(s.least):
		grow := math.Sqrt(float64(s.least) / (w * h))
		width, height = round(w*grow, math.Ceil), round(h*grow, math.Ceil)
	default:
		width, height = int(across), int(down)
	}
	// One that is very long, and a unit high, is still too large, as others are where the bounds are close together.
	longest := max(width, height)
	for longest > s.unit && min(width, longest)*min(height, longest) > s.most {
		longest = min(longest-s.unit, max(s.most/min(width, height)/s.unit*s.unit, min(width, height)))
	}
	return min(width, longest), min(height, longest)
}

// sizes returns the sizes of a tower with views resized like this.
func (s sizing) sizes(t *keys, width int) Sizes {
	return Sizes{Width: width, Patches: s.most / (t.patch * t.patch), Rows: s.most / (s.unit * s.unit)}
}

// positionGrid is a table of learned positions of a grid of patches, which is interpolated for pictures of other sizes.
type positionGrid struct {
	table      []float32 // [high][wide][width]
	high, wide int
	width      int
	by         picture.Interpolation
}

// bindPositions binds v.position_embd.weight, positions of a grid: [high, wide, width], or [n, width] of a square one.
func bindPositions(b *nn.Binder, width int, by picture.Interpolation) positionGrid {
	const name = "v.position_embd.weight"
	g := positionGrid{width: width, by: by}
	t := b.File.Tensor(name)
	if t == nil {
		b.Fail("tensor %q is missing: the file is incomplete; download or convert it again", name)
		return g
	}
	if g.table = b.Table(name, width); b.Err != nil {
		return g
	}
	n := t.Rows()
	if g.wide = int(math.Sqrt(float64(n))); len(t.Shape) > 2 && t.Shape[2] > 1 {
		g.wide = t.Shape[1]
	}
	if g.high = n / max(1, g.wide); n == 0 || g.wide*g.high != n || len(t.Shape) < 3 && g.wide != g.high {
		b.Fail("tensor %q has shape %v, which is no grid of positions: the file is damaged; download or convert it again", name, t.Shape)
	}
	return g
}

// at returns the positions of a picture with wide·high patches. [high·wide, width]
func (g *positionGrid) at(wide, high int) []float32 {
	if wide == g.wide && high == g.high {
		return g.table
	}
	at := make([]float32, high*wide*g.width)
	picture.Interpolate(at, high, wide, g.table, g.high, g.wide, g.width, g.by)
	return at
}

// view returns the view of a picture, which sizes fit, in blocks of side times side patches: see inBlocks. Each block
// becomes a row. Learned positions of the patches, if there are some, follow their pixels. The axes are rows and columns.
func (t *keys) view(m *picture.Image, side int, positions []float32) *View {
	wide, high := m.Width/t.patch, m.Height/t.patch
	return t.viewOf(m, inBlocks(wide, high, side), side*side, positions)
}

// viewOf returns a view with the patches in an order. Each merged patches become a row.
func (t *keys) viewOf(m *picture.Image, order []int, merged int, positions []float32) *View {
	wide := m.Width / t.patch
	v := &View{
		Wide: wide, High: m.Height / t.patch, Patches: ordered(t.cut(m, positions), order),
		Axes: [][]int32{make([]int32, len(order)), make([]int32, len(order))}, Rows: len(order) / merged,
	}
	for i, n := range order {
		v.Axes[0][i], v.Axes[1][i] = int32(n/wide), int32(n%wide)
	}
	return v
}

// gridRope returns the rotation of heads with that many elements by a patch's place in a grid: half of the pairs are
// rotated by the first axis, half by the second. Both halves have the frequencies of a head half as large. With
// between, the second half has the frequencies between them, so that both together are the frequencies of the whole
// head.
//
// Source: Heo et al. 2024, Rotary Position Embedding for Vision Transformer (axial frequencies).
func gridRope(style compute.RopeStyle, head int, base float64, between bool) *compute.Rope {
	pairs := head / 2
	r := &compute.Rope{Style: style, Dims: 2 * pairs, Freqs: make([]float64, pairs), Axes: make([]uint8, pairs), Scale: 1}
	for i := range pairs {
		at := 2 * float64(i)
		if i >= pairs/2 {
			r.Axes[i] = 1
			at = 2 * float64(i-pairs/2)
			if between {
				at++
			}
		}
		r.Freqs[i] = math.Pow(base, -2*at/float64(head))
	}
	return r
}
