package picture

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// pillow holds pixels that Pillow read from small files, and checksums of pictures that it resized; testdata/pillow.py made
// them.
type pillow struct {
	Files []struct {
		Name          string
		File          []byte
		Width, Height int
		Pixels        []byte // of a JPEG
		Sum           string // of other formats' pixels: SHA-256
	}
	Resized []struct {
		Source, Size [2]int
		Sums         map[string]string // of a filter's pixels
	}
}

func readPillow(t testing.TB) *pillow {
	t.Helper()
	p := &pillow{}
	data, err := os.ReadFile("testdata/pillow.json")
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sum(m *Image) string {
	s := sha256.Sum256(m.Pix)
	return hex.EncodeToString(s[:])
}

func TestDecodeAsPillow(t *testing.T) {
	for _, f := range readPillow(t).Files {
		t.Run(f.Name, func(t *testing.T) {
			m, err := Decode(f.File, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if m.Width != f.Width || m.Height != f.Height || len(m.Pix) != 3*f.Width*f.Height {
				t.Fatalf("%d x %d pixels in %d bytes, not %d x %d", m.Width, m.Height, len(m.Pix), f.Width, f.Height)
			}
			if f.Pixels == nil {
				if sum(m) != f.Sum {
					t.Error("the pixels are not Pillow's")
				}
				return
			}
			most, total := 0, 0
			for i, v := range f.Pixels {
				d := max(int(v)-int(m.Pix[i]), int(m.Pix[i])-int(v))
				most, total = max(most, d), total+d
			}
			if mean := float64(total) / float64(len(f.Pixels)); most > 3 || mean > 0.2 {
				t.Errorf("values differ from Pillow's by up to %d, on average by %.3f", most, mean)
			}
		})
	}
}

func TestResizeAsPillow(t *testing.T) {
	p := readPillow(t)
	sources := map[[2]int]*Image{}
	for _, f := range p.Files {
		var size [2]int
		if n, _ := fmt.Sscanf(f.Name, "scene %dx%d", &size[0], &size[1]); n == 2 {
			m, err := Decode(f.File, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			sources[size] = m
		}
	}
	filters := map[string]Filter{"bilinear": Bilinear, "bicubic": Bicubic}
	for _, r := range p.Resized {
		for name, want := range r.Sums {
			if got := sources[r.Source].Resize(r.Size[0], r.Size[1], filters[name]); sum(got) != want {
				t.Errorf("%v to %v, %s: the pixels are not Pillow's", r.Source, r.Size, name)
			}
		}
	}
}
