package picture

import "math"

// A Filter says how a picture comes to another size.
type Filter int

// Filters of Pillow, by its arithmetic: two passes over bytes with 22 bits after the point. They smooth when the picture
// becomes smaller: the filter grows with the pixel.
const (
	Bilinear Filter = iota
	Bicubic         // a = -0.5
)

// kernel is a filter's weight at a distance, and the distance from which on it is 0, in pixels.
type kernel struct {
	reach float64
	at    func(x float64) float64
}

func triangle(x float64) float64 { return max(0, 1-math.Abs(x)) }

// cubic rounds each product, so that no CPU fuses it with a sum and weights are the same everywhere.
func cubic(a float64) func(x float64) float64 {
	return func(x float64) float64 {
		switch x = math.Abs(x); {
		case x < 1:
			return float64((float64((a+2)*x)-(a+3))*x*x) + 1
		case x < 2:
			return (float64((float64((x-5)*x)+8)*x) - 4) * a
		}
		return 0
	}
}

var kernels = [...]kernel{
	Bilinear: {1, triangle},
	Bicubic:  {2, cubic(-0.5)},
}

// A window is the part of a row or column for one new pixel: weights of the pixels from start on.
type window struct {
	start   int
	weights []float64
}

// windows returns the windows of all new pixels, step old ones apart; the weights of each add up to 1. A kernel grows
// with the step if there are fewer new pixels (antialias).
func windows(from, to int, step float64, k kernel) []window {
	grow := max(step, 1)
	reach := float64(k.reach * grow)
	all := make([]window, to)
	weights := make([]float64, 0, to*(2*int(math.Ceil(reach))+1))
	for i := range all {
		center := float64((float64(i) + 0.5) * step)
		first, end := max(int(center-reach+0.5), 0), min(int(center+reach+0.5), from)
		base, sum := len(weights), 0.0
		for x := first; x < end; x++ {
			w := k.at((float64(x) - center + 0.5) * (1 / grow))
			weights = append(weights, w)
			sum += w
		}
		all[i] = window{start: first, weights: weights[base:]}
		if sum != 0 {
			for j := range all[i].weights {
				all[i].weights[j] /= sum
			}
		}
	}
	return all
}

// Resize returns the picture at another size, at least one pixel in each direction. The bytes are Pillow's
// (Image.resize of an RGB image, src/libImaging/Resample.c).
func (m *Image) Resize(width, height int, f Filter) *Image {
	width, height = max(width, 1), max(height, 1)
	if width == m.Width && height == m.Height {
		return m.Clone()
	}
	k := kernels[f]
	across := m
	if width != m.Width {
		across = m.across(width, fixed(windows(m.Width, width, float64(m.Width)/float64(width), k)))
	}
	if height != m.Height {
		return across.down(height, fixed(windows(m.Height, height, float64(m.Height)/float64(height), k)))
	}
	return across
}

const fraction = 32 - 8 - 2 // bits after the point of a weight

type fixedWindow struct {
	start   int
	weights []int32
}

func fixed(all []window) []fixedWindow {
	of := make([]fixedWindow, len(all))
	for i, w := range all {
		of[i] = fixedWindow{w.start, make([]int32, len(w.weights))}
		for j, v := range w.weights {
			of[i].weights[j] = int32(v*(1<<fraction) + math.Copysign(0.5, v))
		}
	}
	return of
}

func clip(sum int32) byte { return byte(min(max(sum>>fraction, 0), 255)) }

// across changes the width. Red and blue of a pixel share an integer, so that one product serves both: each sum fits
// its 32 bits, with its sign.
func (m *Image) across(width int, of []fixedWindow) *Image {
	to := Blank(width, m.Height, [3]byte{})
	redBlue, green := make([]int64, m.Width), make([]int64, m.Width)
	for y := range m.Height {
		src, dst := m.row(0, y, m.Width), to.row(0, y, width)
		for x := range redBlue {
			redBlue[x], green[x] = int64(src[0])|int64(src[2])<<32, int64(src[1])
			src = src[3:]
		}
		for _, w := range of {
			const half = 1 << (fraction - 1)
			rb, g := int64(half|half<<32), int64(half)
			greens := green[w.start:][:len(w.weights)]
			for i, v := range redBlue[w.start:][:len(w.weights)] {
				weight := int64(w.weights[i])
				rb += v * weight
				g += greens[i] * weight
			}
			r := int32(rb)
			dst[0], dst[1], dst[2] = clip(r), clip(int32(g)), clip(int32((rb-int64(r))>>32))
			dst = dst[3:]
		}
	}
	return to
}

// down changes the height.
func (m *Image) down(height int, of []fixedWindow) *Image {
	to := Blank(m.Width, height, [3]byte{})
	sums := make([]int32, 3*m.Width)
	for y, w := range of {
		for i := range sums {
			sums[i] = 1 << (fraction - 1)
		}
		for at, left := w.start, w.weights; len(left) > 0; {
			first := m.row(0, at, m.Width)[:len(sums)]
			if len(left) == 1 {
				for i, v := range first {
					sums[i] += int32(v) * left[0]
				}
				break
			}
			second, v0, v1 := m.row(0, at+1, m.Width)[:len(sums)], left[0], left[1]
			for i := range sums {
				sums[i] += int32(first[i])*v0 + int32(second[i])*v1
			}
			at, left = at+2, left[2:]
		}
		for i, dst := 0, to.row(0, y, m.Width); i < len(dst); i++ {
			dst[i] = clip(sums[i])
		}
	}
	return to
}
