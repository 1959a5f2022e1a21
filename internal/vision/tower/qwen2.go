package tower

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// qwen2 is the tower of Qwen2-VL and of Qwen2.5-VL, in which most layers see windows of the picture: a vision
// transformer with rotations. Each block of patches becomes a row.
//
// Sources: Wang et al. 2024, Qwen2-VL; Bai et al. 2025, Qwen2.5-VL Technical Report, section 2.1.
type qwen2 struct {
	vit
	sizing
	side   int        // side of a block, in patches
	window int        // its side, in blocks; 0: there are none
	out    multilayer // reads a block's patches, one after another
}

// windowSide is the side of Qwen2.5-VL's windows in pixels. Files do not say it.
const windowSide = 112

func newQwen2(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	return bindQwen2(k, b, limits, vitSpec{})
}

func newQwen25(k *nn.Keys, b *nn.Binder, limits Limits) Program {
	return bindQwen2(k, b, limits, vitSpec{rms: true, gated: true, every: k.Optional(".n_wa_pattern", nn.MaxLayers)})
}

func bindQwen2(k *nn.Keys, b *nn.Binder, limits Limits, spec vitSpec) Program {
	t := readKeys(k)
	m := &qwen2{side: k.Count(".spatial_merge_size", 2, maxPatch)}
	m.sizing = readSizing(k, &t, t.patch*m.side, 8, 4096, limits)
	if spec.every > 0 {
		m.window = max(1, windowSide/m.unit)
	}
	spec.bias, spec.times, spec.rope = nn.Required, 2, gridRope(compute.Halves, t.heads.Key, 10000, false)
	m.vit = newViT(t, b, spec)
	wide := t.width * m.side * m.side
	m.out = bindMultilayer(b, "mm.0", "mm.2", wide, wide, t.textWidth, compute.GELUErf, nn.HasBias)
	return m
}

func (m *qwen2) Sizes() Sizes {
	s := m.sizes(&m.keys, m.textWidth)
	s.Axes = true
	return s
}

func (m *qwen2) Show(of *picture.Image) ([]Part, error) {
	width, height := m.sizing.of(of)
	across, down := width/m.unit, height/m.unit
	order, n := inBlocks(across*m.side, down*m.side, m.side), m.side*m.side
	windows, bounds := m.windows(across, down)
	if windows != nil { // blocks window after window
		blocks := slices.Collect(slices.Chunk(order, n))
		order = slices.Concat(ordered(blocks, windows)...)
	}
	v := m.viewOf(of.Resize(width, height, picture.Bicubic), order, n, nil)
	v.Across, v.Down, v.Bounds = across, down, bounds
	if windows != nil {
		v.Order = make([]int32, len(windows))
		for i, block := range windows {
			v.Order[block] = int32(i)
		}
	}
	return []Part{{Text: "<|vision_start|>"}, {View: v}, {Text: "<|vision_end|>"}}, nil
}

// windows returns the numbers of a picture's blocks window after window and, for each patch in this order, the patches
// of its window. It returns nothing without windows.
func (m *qwen2) windows(across, down int) (blocks []int, bounds []compute.Bounds) {
	if m.window == 0 {
		return nil, nil
	}
	n := m.side * m.side
	for y := 0; y < down; y += m.window {
		for x := 0; x < across; x += m.window {
			from := len(blocks)
			for row := y; row < min(y+m.window, down); row++ {
				for col := x; col < min(x+m.window, across); col++ {
					blocks = append(blocks, row*across+col)
				}
			}
			b := compute.Bounds{From: int32(from * n), To: int32(len(blocks) * n)}
			bounds = append(bounds, slices.Repeat([]compute.Bounds{b}, int(b.To-b.From))...)
		}
	}
	return blocks, bounds
}

func (m *qwen2) Forward(p *nn.Pass, _ *View) compute.Tensor {
	n := m.side * m.side
	return m.out.forward(p, m.encode(p, m.embed(p, false)).Split(n*m.width), n)
}
