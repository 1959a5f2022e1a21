package vision_test

import (
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// TestNeed: every tower reports its memory, and Gemma 3's equals a count by hand.
func TestNeed(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if !tower.Has(c.Projector()) {
			continue
		}
		f := c.Tower(t)
		n, err := vision.NeedOf(f, vision.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n.Weights <= 0 || n.Activations <= 0 || n.Products <= 0 {
			t.Errorf("%s: %+v", c.Name, n)
		}
		if c.Name != "gemma3" {
			continue
		}
		const patches, width, ff, layers, text, rows = 16 * 16, 72, 104, 3, 64, 16
		want := int64(patches * 3 * 14 * 14 * width)
		want += layers * (patches*(4*width*width+2*width*ff) + 2*patches*patches*width)
		want += rows * width * text
		if n.Products != want {
			t.Errorf("gemma3: %d products, want %d", n.Products, want)
		}
	}
}
