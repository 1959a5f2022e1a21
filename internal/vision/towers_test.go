package vision_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// tolerance is the difference from llama.cpp's rows that towers may have, in parts of their norm. Both compute in float32
// and sum in other orders, which makes about 1e-6; GELU by tanh in place of erf makes 2e-4.
const tolerance = 1e-3

// pictureOf returns a case's picture as files of pictures are read.
func pictureOf(p visiontest.Picture) *picture.Image {
	from := p.Image()
	m := picture.Blank(p.Width, p.Height, [3]byte{})
	for i := range p.Width * p.Height {
		copy(m.Pix[3*i:3*i+3], from.Pix[4*i:])
	}
	return m
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
	path := filepath.Join(t.TempDir(), visiontest.TowerFile)
	if err := c.WriteTower(path); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tower, err := vision.Open(context.Background(), f, dev, vision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tower.Close() })
	return tower
}

func caseOf(t *testing.T, name string) visiontest.Case {
	all := visiontest.Cases()
	i := slices.IndexFunc(all, func(c visiontest.Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no case %s", name)
	}
	return all[i]
}

func TestTowers(t *testing.T) {
	for _, name := range []string{"gemma3", "qwen3vl_merger", "qwen3vl_merger_f16", "qwen2.5vl_merger", "pixtral", "lfm2", "glm4v", "kimik25"} {
		c := caseOf(t, name)
		peer, err := c.Peer()
		if err != nil {
			t.Fatal(err)
		}
		for device, dev := range devices(t) {
			t.Run(name+" "+device, func(t *testing.T) {
				tower := open(t, c, dev)
				parts, err := tower.Show(context.Background(), pictureOf(c.Pictures[0]))
				if err != nil {
					t.Fatal(err)
				}
				var rows []float32
				for _, p := range parts {
					if p.Rows != nil {
						for _, v := range p.Rows.Vectors {
							rows = append(rows, v...)
						}
					}
				}
				want := peer["even"].Rows
				if p := peer["even"].PublishedRows; p != nil {
					want = *p
				}
				d := visiontest.Summarize(rows).Distance(want)
				t.Log("distance", d)
				if d > tolerance {
					t.Error("distance", d)
				}
			})
		}
	}
}
