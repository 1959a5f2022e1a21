package picture

import "math"

// Interpolation says how a grid comes to another size, in the words of torch's F.interpolate.
type Interpolation struct {
	Filter       Filter // Bilinear or Bicubic (a = -0.75, or -0.5 with Antialias)
	AlignCorners bool   // the centres of the corners stay in place, instead of the edges
	Antialias    bool   // the filter grows if the grid becomes smaller
}

// Interpolate writes the grid src, [srcHeight][srcWidth][n], to dst, [dstHeight][dstWidth][n]. The source is torch's
// definition: https://pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html.
func Interpolate(dst []float32, dstHeight, dstWidth int, src []float32, srcHeight, srcWidth, n int, by Interpolation) {
	across := taps(srcWidth, dstWidth, by)
	middle := make([]float32, srcHeight*dstWidth*n)
	for y := range srcHeight {
		row := src[y*srcWidth*n:][:srcWidth*n]
		for x, w := range across {
			blend(middle[(y*dstWidth+x)*n:][:n], row, n, w)
		}
	}
	for y, w := range taps(srcHeight, dstHeight, by) {
		blend(dst[y*dstWidth*n:][:dstWidth*n], middle, dstWidth*n, w)
	}
}

// A tap is the weight of one old value in a new one.
type tap struct {
	at     int
	weight float32
}

// blend writes the weighted sum of src's vectors of n values.
func blend(dst, src []float32, n int, of []tap) {
	for i, t := range of {
		from := src[t.at*n:][:n]
		if i == 0 {
			for j, v := range from {
				dst[j] = t.weight * v
			}
			continue
		}
		for j, v := range from {
			dst[j] += t.weight * v
		}
	}
}

func taps(from, to int, by Interpolation) [][]tap {
	all := make([][]tap, to)
	step := float64(from) / float64(to)
	if by.AlignCorners {
		if step = 0; to > 1 {
			step = float64(from-1) / float64(to-1)
		}
	}
	if by.Antialias {
		for i, w := range windows(from, to, step, kernels[by.Filter]) {
			for j, v := range w.weights {
				all[i] = append(all[i], tap{w.start + j, float32(v)})
			}
		}
		return all
	}
	k := kernels[Bilinear]
	if by.Filter == Bicubic {
		k = kernel{2, cubic(-0.75)}
	}
	for i := range all {
		at := float64(i) * step
		if !by.AlignCorners {
			at = (float64(i)+0.5)*step - 0.5
		}
		first := int(math.Floor(at)) - int(k.reach) + 1
		for x := first; x < first+2*int(k.reach); x++ {
			all[i] = append(all[i], tap{min(max(x, 0), from-1), float32(k.at(at - float64(x)))})
		}
	}
	return all
}
