package vision_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// program returns the program of a case's tower, which can show pictures but compute nothing.
func program(t *testing.T, name string, limits tower.Limits) tower.Program {
	t.Helper()
	for _, c := range visiontest.Cases() {
		if c.Name != name {
			continue
		}
		f := c.Tower(t)
		k := &nn.Keys{File: f, Arch: "clip.vision"}
		b := nn.NewOutline(f, nn.Plan{Layer: func(int) nn.LayerPlan { return nn.LayerPlan{} }})
		m := tower.Open(c.Projector(), k, b, limits)
		if err := b.Finish(); k.Err != nil || err != nil {
			t.Fatal(k.Err, err)
		}
		return m
	}
	t.Fatalf("there is no case %s", name)
	return nil
}

// told returns what a picture becomes in a prompt: texts, and the rows of views.
func told(t *testing.T, m tower.Program, width, height int) (text string, views []*tower.View) {
	t.Helper()
	parts, err := m.Show(gradient(width, height))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if text += p.Text; p.View != nil {
			text += fmt.Sprintf("{%d}", p.View.Rows)
			views = append(views, p.View)
			if s := m.Sizes(); len(p.View.Patches) > s.Patches || p.View.Rows > s.Rows {
				t.Errorf("a view of %d patches and %d rows is larger than %+v", len(p.View.Patches), p.View.Rows, s)
			}
		}
	}
	return text, views
}

// gradient returns a picture without noise, in which every pixel differs from its neighbours.
func gradient(width, height int) *picture.Image {
	m := picture.Blank(width, height, [3]byte{})
	for i := range width * height {
		m.Pix[3*i], m.Pix[3*i+1], m.Pix[3*i+2] = byte(i%width), byte(i/width), byte(i*7)
	}
	return m
}

// What stands around pictures, and how many rows they have, as published; the numbers of rows follow from the cases'
// patches.
func TestShown(t *testing.T) {
	for _, c := range []struct {
		name          string
		limits        tower.Limits
		width, height int
		want          string
	}{
		{"gemma3", tower.Limits{}, 300, 100, "\n\n<start_of_image>{16}<end_of_image>\n\n"},
		{"gemma4v", tower.Limits{}, 480, 336, "<|image>{70}<image|>"},
		{"gemma4v", tower.Limits{Most: 20}, 480, 336, "<|image>{15}<image|>"},
		{"gemma4v", tower.Limits{Least: 100}, 480, 336, "<|image>{108}<image|>"},
		{"gemma4uv", tower.Limits{Most: 20}, 480, 336, "<|image>{15}<image|>"},
		{"gemma4uv", tower.Limits{}, 1500, 1000, "<|image>{651}<image|>"},
		{"gemma4uv", tower.Limits{Step: 504}, 1500, 1000, "<|image>{486}<image|>"}, // its rows see each other
		{"gemma4uv", tower.Limits{Step: 504, Most: 600}, 1500, 1000, "<|image>{486}<image|>"},
		{"qwen3vl_merger", tower.Limits{Step: 20}, 300, 200, "<|vision_start|>{54}<|vision_end|>"}, // and these do not
		{"internvl", tower.Limits{}, 30, 30, "<img>{4}</img>"},
		{"internvl", tower.Limits{}, 300, 200, "<img>{4}{4}{4}{4}{4}{4}{4}</img>"},
		{"internvl", tower.Limits{Most: 12}, 300, 200, "<img>{4}{4}{4}</img>"},
		{"llama4", tower.Limits{}, 30, 30, "<|image_start|><|image|>{4}<|image_end|>"},
		{
			"llama4",
			tower.Limits{},
			112, 60,
			"<|image_start|>{4}<|tile_x_separator|>{4}<|tile_y_separator|>{4}<|tile_x_separator|>{4}<|tile_y_separator|><|image|>{4}<|image_end|>",
		},
		{"llama4", tower.Limits{Most: 8}, 112, 60, "<|image_start|><|image|>{4}<|image_end|>"},
		{"qwen3vl_merger", tower.Limits{}, 300, 200, "<|vision_start|>{54}<|vision_end|>"},
		{"qwen3vl_merger", tower.Limits{Most: 20}, 300, 200, "<|vision_start|>{15}<|vision_end|>"},
		{"qwen3vl_merger", tower.Limits{Least: 100}, 300, 200, "<|vision_start|>{117}<|vision_end|>"},
		{"qwen2.5vl_merger", tower.Limits{}, 300, 200, "<|vision_start|>{77}<|vision_end|>"},
		{"glm4v", tower.Limits{}, 300, 200, "<|begin_of_image|>{77}<|end_of_image|>"},
		{"glm4v", tower.Limits{}, 20, 100, "<|begin_of_image|>{14}<|end_of_image|>"},
		{"pixtral", tower.Limits{}, 300, 200, "{76}[IMG_END]"}, // 10 by 7, and a row between lines
		{"pixtral", tower.Limits{Most: 20}, 300, 200, "{17}[IMG_END]"},
		{"lfm2", tower.Limits{}, 300, 200, "<|image_start|>{70}<|image_end|>"},
		{
			"lfm2",
			tower.Limits{},
			1200, 600,
			"<|image_start|><|img_row_1_col_1|>{256}<|img_row_1_col_2|>{256}<|img_thumbnail|>{242}<|image_end|>",
		},
		{"lfm2", tower.Limits{Most: 64}, 1200, 600, "<|image_start|>{55}<|image_end|>"}, // tiles would be more
		{"lfm2", tower.Limits{Most: 700}, 1200, 600, "<|image_start|>{242}<|image_end|>"},
		{
			"lfm2",
			tower.Limits{Most: 768},
			1200, 600,
			"<|image_start|><|img_row_1_col_1|>{256}<|img_row_1_col_2|>{256}<|img_thumbnail|>{242}<|image_end|>",
		},
		{"kimik25", tower.Limits{}, 300, 200, "<|media_begin|>image<|media_content|>{20}<|media_end|>"}, // 135 by 90 pixels and black
		{"kimik25", tower.Limits{Most: 10}, 300, 200, "<|media_begin|>image<|media_content|>{6}<|media_end|>"},
	} {
		if got, _ := told(t, program(t, c.name, c.limits), c.width, c.height); got != c.want {
			t.Errorf("%s, %+v: a picture of %d×%d becomes %q, not %q", c.name, c.limits, c.width, c.height, got, c.want)
		}
	}
}

// TestPixels: patches equal those of the published processors: stretched pictures, tiles row after row, and black
// padding at the right and below.
func TestPixels(t *testing.T) {
	const tile, patch = 56, 14
	normal := func(m *picture.Image, x, y, side int, mean, std float32) []float32 {
		one := make([]float32, 3*side*side)
		m.Patch(one, x, y, side, [3]float32{mean, mean, mean}, [3]float32{std, std, std})
		return one
	}
	same := func(what string, got, want []float32) {
		t.Helper()
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: number %d is %g, not %g", what, i, got[i], want[i])
				return
			}
		}
	}
	from := gradient(100, 67)

	_, views := told(t, program(t, "gemma3", tower.Limits{}), 100, 67)
	// 16 patches a side in blocks of 4: the 17th patch is the first of the second block.
	same("gemma3", views[0].Patches[16], normal(from.Resize(224, 224, picture.Bilinear), 4*patch, 0, patch, 0.5, 0.5))

	_, views = told(t, program(t, "gemma4uv", tower.Limits{}), 100, 67)
	same("gemma4uv", views[0].Patches[1], normal(from.Resize(48*views[0].Wide, 48*views[0].High, picture.Bicubic), 48, 0, 48, 0, 1))

	_, views = told(t, program(t, "gemma4v", tower.Limits{}), 100, 67)
	// Numbers go from -1 to 1. A block has 3 patches a side.
	same("gemma4v", views[0].Patches[3], normal(from.Resize(16*views[0].Wide, 16*views[0].High, picture.Bicubic), 0, 16, 16, 0.5, 0.5))

	_, views = told(t, program(t, "llama4", tower.Limits{}), 100, 67)
	padded := from.Crop(0, 0, 2*tile, 2*tile) // neither larger nor smaller
	for i, v := range views[:4] {
		same(fmt.Sprintf("llama4, tile %d", i), v.Patches[1], normal(padded, i%2*tile+patch, i/2*tile, patch, 0.5, 0.5))
	}
	same("llama4, whole", views[4].Patches[2], normal(from.Resize(tile, tile, picture.Bilinear), 0, patch, patch, 0.5, 0.5))

	_, views = told(t, program(t, "internvl", tower.Limits{}), 100, 67)
	stretched := from.Resize(3*tile, 2*tile, picture.Bicubic)
	mean, std := [3]float32{0.485, 0.456, 0.406}, [3]float32{0.229, 0.224, 0.225}
	want := make([]float32, 3*patch*patch)
	for i, v := range views {
		if stretched.Patch(want, i%3*tile, i/3%2*tile, patch, mean, std); i == 6 {
			from.Resize(tile, tile, picture.Bicubic).Patch(want, 0, 0, patch, mean, std)
		}
		same(fmt.Sprintf("internvl, tile %d", i), v.Patches[0], want)
	}
}

// A picture that is longer than a tower has positions for is an error.
func TestTooLong(t *testing.T) {
	_, err := program(t, "gemma4v", tower.Limits{}).Show(gradient(4000, 40))
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("error %v, not that the picture is too long", err)
	}
}

// Views of the thinnest pictures are within what a tower says.
func TestThin(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if !tower.Has(c.Projector()) || strings.Contains(c.Name, "merger_") {
			continue
		}
		m := program(t, c.Name, tower.Limits{})
		for _, size := range [][2]int{{1, 65535}, {65535, 1}, {1, 1}} {
			parts, err := m.Show(gradient(size[0], size[1]))
			if err != nil && !strings.Contains(err.Error(), "too long") {
				t.Errorf("%s, %v: %v", c.Name, size, err)
			}
			for _, p := range parts {
				if v := p.View; v != nil && (len(v.Patches) > m.Sizes().Patches || v.Rows > m.Sizes().Rows || v.Rows < 1) {
					t.Errorf("%s, %v: a view of %d patches and %d rows is larger than %+v", c.Name, size, len(v.Patches), v.Rows, m.Sizes())
				}
			}
		}
	}
}
