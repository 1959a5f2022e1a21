package vision_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/tower"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// tolerance is the difference from llama.cpp's rows that towers may have, in parts of their norm. Both compute in float32
// and sum in other orders, which makes about 1e-6.
const tolerance = 2e-5

// toleranceOf returns that of a case on the CPU, which rounds what it multiplies with matrices in BF16 to eight bits, as
// llama.cpp does, and with those in Q8_0 to bytes. Without a matrix unit it multiplies those in F16, as gemma3's projection,
// in integers of 16 bits.
func toleranceOf(name string) float64 {
	switch {
	case strings.HasSuffix(name, "bf16"):
		return 5e-3
	case strings.HasSuffix(name, "f16"), name == "gemma3":
		return 5e-4
	case strings.HasSuffix(name, "q8_0"):
		return 3e-2
	}
	return tolerance
}

func devices(t *testing.T) map[string]compute.Device {
	onCPU, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]compute.Device{"ref": ref.New(), "cpu": onCPU}
}

func open(t *testing.T, c visiontest.Case, dev compute.Device) *vision.Tower {
	t.Helper()
	f := c.Tower(t)
	tower, err := vision.Open(context.Background(), f, dev, vision.Options{Limits: tower.Limits{Least: c.Least}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tower.Close() })
	return tower
}

// rowsOf returns the rows of all views of a picture, one after another, and checks their places against llama.cpp's.
func rowsOf(t *testing.T, tower *vision.Tower, m *picture.Image, want visiontest.Figures) (rows []float32) {
	t.Helper()
	parts, err := tower.Show(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	var chunks []visiontest.Chunk
	for _, c := range want.Chunks {
		if c.Rows > 0 {
			chunks = append(chunks, c)
		}
	}
	for _, p := range parts {
		if p.Rows == nil {
			continue
		}
		if len(chunks) == 0 {
			t.Fatal("too many views")
		}
		c := chunks[0]
		chunks = chunks[1:]
		if len(p.Rows.Vectors) != c.Rows || p.Rows.Positions() != c.Positions || p.Rows.Mutual != c.Both {
			t.Errorf("a view of %d rows at %d positions, mutual: %t; want %d at %d, %t",
				len(p.Rows.Vectors), p.Rows.Positions(), p.Rows.Mutual, c.Rows, c.Positions, c.Both)
		}
		for _, v := range p.Rows.Vectors {
			rows = append(rows, v...)
		}
	}
	if len(chunks) > 0 {
		t.Errorf("%d views are missing", len(chunks))
	}
	return rows
}

func onVulkan(t *testing.T) compute.Device {
	dev, err := vulkan.Open(vulkan.Options{Device: vulkan.Software})
	if err != nil {
		testenv.Missing(t, "vulkan", err.Error())
	}
	return dev
}

// TestVulkan: a device that replays a recording gives the rows of each tile.
func TestVulkan(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if c.Name != "internvl" {
			continue
		}
		peer, err := c.Peer()
		if err != nil {
			t.Fatal(err)
		}
		tower := open(t, c, onVulkan(t))
		for _, p := range c.Pictures {
			if d := visiontest.Summarize(rowsOf(t, tower, p.Image(), peer[p.Name])).Distance(*peer[p.Name].PublishedRows); d > tolerance {
				t.Errorf("picture %s: distance %.2g", p.Name, d)
			}
		}
	}
}

// TestShapesOnVulkan: a device that replays a recording gives the rows of pictures of other shapes with the same number
// of patches, but other positions and windows.
func TestShapesOnVulkan(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if c.Name != "qwen2.5vl_merger" {
			continue
		}
		first, second := open(t, c, devices(t)["cpu"]), open(t, c, onVulkan(t))
		for _, size := range [][2]int{{280, 56}, {56, 280}} {
			var rows [2][]float32
			for i, tower := range []*vision.Tower{first, second} {
				parts, err := tower.Show(t.Context(), gradient(size[0], size[1]))
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range parts {
					if p.Rows != nil {
						rows[i] = slices.Concat(rows[i], slices.Concat(p.Rows.Vectors...))
					}
				}
			}
			if d := visiontest.Summarize(rows[1]).Distance(visiontest.Summarize(rows[0])); d > tolerance {
				t.Errorf("a picture of %v: distance %.2g", size, d)
			}
		}
	}
}

func TestTowers(t *testing.T) {
	for _, c := range visiontest.Cases() {
		if !tower.Has(c.Projector()) {
			continue
		}
		peer, err := c.Peer()
		if err != nil {
			t.Fatal(err)
		}
		for device, dev := range devices(t) {
			if device == "ref" && strings.HasSuffix(c.Name, "_causal") {
				continue // it is slow, and the tower is another case's
			}
			t.Run(c.Name+" "+device, func(t *testing.T) {
				tower := open(t, c, dev)
				pictures := c.Pictures
				if device == "ref" { // it is slow, and the others take the same operations
					pictures = pictures[:1]
				}
				for _, p := range pictures {
					most := tolerance
					if device == "cpu" {
						most = toleranceOf(c.Name)
					}
					want := peer[p.Name].Rows
					if published := peer[p.Name].PublishedRows; published != nil {
						want = *published
					}
					if d := visiontest.Summarize(rowsOf(t, tower, p.Image(), peer[p.Name])).Distance(want); d > most {
						t.Errorf("picture %s: distance %.2g", p.Name, d)
					} else {
						t.Logf("picture %s: distance %.2g", p.Name, d)
					}
				}
			})
		}
	}
}
