package picture

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// TestInterpolateAsTorch compares grids with torch's: testdata/torch.py made them.
func TestInterpolateAsTorch(t *testing.T) {
	var torch struct {
		Height, Width, N int
		Source           []float32
		Cases            []struct {
			Mode             string
			Align, Antialias bool
			Size             [2]int
			Values           []float32
		}
	}
	data, err := os.ReadFile("testdata/torch.json")
	if err == nil {
		err = json.Unmarshal(data, &torch)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range torch.Cases {
		t.Run(fmt.Sprintf("%s %v align %v antialias %v", c.Mode, c.Size, c.Align, c.Antialias), func(t *testing.T) {
			by := Interpolation{Filter: Bilinear, AlignCorners: c.Align, Antialias: c.Antialias}
			if c.Mode == "bicubic" {
				by.Filter = Bicubic
			}
			got := make([]float32, c.Size[0]*c.Size[1]*torch.N)
			Interpolate(got, c.Size[0], c.Size[1], torch.Source, torch.Height, torch.Width, torch.N, by)
			for i, want := range c.Values {
				if math.Abs(float64(got[i]-want)) > 4e-6 {
					t.Fatalf("value %d is %v, torch's %v", i, got[i], want)
				}
			}
		})
	}
}
