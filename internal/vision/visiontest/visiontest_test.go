package visiontest_test

import (
	"math"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// The files of a case can be read, and each picture has figures that agree with themselves.
func TestCases(t *testing.T) {
	for _, c := range visiontest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			f := c.Tower(t)
			width, _, err := f.Uint("clip.vision.projection_dim")
			if err != nil {
				t.Fatal(err)
			}
			figures, err := c.Peer()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range c.Pictures {
				got, ok := figures[p.Name]
				if !ok {
					t.Fatalf("no figures of picture %s", p.Name)
				}
				pixels, rows := 0, 0
				for _, i := range got.Images {
					pixels += 3 * i[0] * i[1]
				}
				for _, k := range got.Chunks {
					rows += k.Rows
				}
				if got.Pixels.Count != pixels || got.Rows.Count%(rows*int(width)) != 0 || got.Logits.Count%len(got.After()) != 0 {
					t.Errorf("picture %s: %d values of pixels, %d of rows, %d logits do not fit %v and %v",
						p.Name, got.Pixels.Count, got.Rows.Count, got.Logits.Count, got.Images, got.Chunks)
				}
			}
		})
	}
}

// Distance estimates a relative difference.
func TestDistance(t *testing.T) {
	a, b := make([]float32, 5000), make([]float32, 5000)
	for i := range a {
		a[i] = float32(math.Sin(float64(i)))
		b[i] = a[i] + 0.001*float32(math.Cos(float64(7*i)))
	}
	sa, sb := visiontest.Summarize(a), visiontest.Summarize(b)
	if d := sb.Distance(sa); d < 0.0003 || d > 0.003 {
		t.Errorf("distance %g of vectors that differ by 0.001", d)
	}
	if d := sa.Distance(sa); d != 0 {
		t.Errorf("distance %g of a vector to itself", d)
	}
	if d := visiontest.Summarize(a[1:]).Distance(sa); !math.IsInf(d, 1) {
		t.Errorf("distance %g of vectors of different lengths", d)
	}
}
