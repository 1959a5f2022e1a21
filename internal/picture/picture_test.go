package picture

import (
	"math"
	"slices"
	"testing"
)

// numbered returns a picture in which each value shows its place.
func numbered(width, height int) *Image {
	m := Blank(width, height, [3]byte{})
	for i := range m.Pix {
		m.Pix[i] = byte(i*i + i)
	}
	return m
}

func (m *Image) at(x, y int) [3]byte { return [3]byte(m.row(x, y, 1)) }

func TestCropAndPaste(t *testing.T) {
	m := numbered(7, 5)
	c := m.Crop(-2, 3, 6, 4)
	for y := range 4 {
		for x := range 6 {
			want := [3]byte{} // black outside
			if x >= 2 && y < 2 {
				want = m.at(x-2, y+3)
			}
			if c.at(x, y) != want {
				t.Errorf("cropped (%d, %d) is %v, not %v", x, y, c.at(x, y), want)
			}
		}
	}
	canvas := Blank(9, 8, [3]byte{1, 2, 3})
	canvas.Paste(4, -1, m)
	for y := range 8 {
		for x := range 9 {
			want := [3]byte{1, 2, 3}
			if x >= 4 && y < 4 {
				want = m.at(x-4, y+1)
			}
			if canvas.at(x, y) != want {
				t.Errorf("pasted (%d, %d) is %v, not %v", x, y, canvas.at(x, y), want)
			}
		}
	}
	canvas.Paste(9, 0, m)
	canvas.Paste(0, -5, m) // nothing to see
}

func TestSumNamesSizeAndPixels(t *testing.T) {
	m := numbered(6, 4)
	other := &Image{Width: 4, Height: 6, Pix: m.Pix}
	changed := m.Clone()
	changed.Pix[50]++
	if m.Sum() == other.Sum() || m.Sum() == changed.Sum() || m.Sum() != m.Clone().Sum() {
		t.Error("sums do not tell pictures apart")
	}
}

func TestPatch(t *testing.T) {
	m := numbered(11, 9)
	mean, std := [3]float32{0.48145466, 0.4578275, 0.40821073}, [3]float32{0.26862954, 0.26130258, 0.27577711}
	value := func(x, y, c int) float64 {
		return (float64(m.at(x, y)[c])/255 - float64(mean[c])) / float64(std[c])
	}
	patch := make([]float32, 3*4*4)
	m.Patch(patch, 6, 3, 4, mean, std)
	for c := range 3 {
		for y := range 4 {
			for x := range 4 {
				if got, want := patch[(c*4+y)*4+x], value(x+6, y+3, c); math.Abs(float64(got)-want) > 1e-6 {
					t.Fatalf("patch: channel %d, row %d, column %d is %v, not %v", c, y, x, got, want)
				}
			}
		}
	}
}

func TestResizeToTheSameSizeCopies(t *testing.T) {
	m := numbered(5, 4)
	same := m.Resize(5, 4, Bicubic)
	if !slices.Equal(m.Pix, same.Pix) || &m.Pix[0] == &same.Pix[0] {
		t.Error("not a copy")
	}
	if tiny := m.Resize(0, -3, Bicubic); tiny.Width != 1 || tiny.Height != 1 {
		t.Errorf("%d x %d pixels, not one", tiny.Width, tiny.Height)
	}
}

func BenchmarkResize(b *testing.B) {
	m := numbered(4000, 3000)
	for name, f := range map[string]Filter{"bilinear": Bilinear, "bicubic": Bicubic} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m.Resize(896, 896, f)
			}
		})
	}
}
