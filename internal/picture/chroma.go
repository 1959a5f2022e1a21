package picture

import "image"

// ycc reads a picture of luma and chroma. If chroma has fewer samples it is interpolated as in the reference decoders,
// libjpeg ("fancy upsampling") and libwebp. The nearest sample would colour the edges of letters.
type ycc struct {
	*image.YCbCr
	alpha       []byte // of each pixel; nil: opaque
	alphaStride int
	webp        bool // luma from 16 to 235; JPEG's is from 0 to 255

	cb, cr []byte // of a row
	sums   []int32
}

func newYCC(m *image.YCbCr, webp bool) *ycc {
	width := m.Rect.Dx() + 1 // samples of pairs may be one more than pixels
	return &ycc{YCbCr: m, webp: webp, cb: make([]byte, width), cr: make([]byte, width), sums: make([]int32, width)}
}

// row writes row y of the picture, from its left edge.
func (m *ycc) row(dst []byte, y int) {
	width := len(dst) / 3
	m.chroma(m.cb, m.Cb, y)
	m.chroma(m.cr, m.Cr, y)
	luma, cb, cr := m.Y[y*m.YStride:][:width], m.cb[:width], m.cr[:width]
	switch {
	case m.alpha != nil:
		for x, alpha := range m.alpha[y*m.alphaStride:][:width] {
			r, g, b := limitedToRGB(luma[x], cb[x], cr[x])
			over(dst[3*x:3*x+3], r, g, b, alpha)
		}
	case m.webp:
		for x, v := range luma {
			dst[3*x], dst[3*x+1], dst[3*x+2] = limitedToRGB(v, cb[x], cr[x])
		}
	default:
		for x, v := range luma {
			dst[3*x], dst[3*x+1], dst[3*x+2] = fullToRGB(v, cb[x], cr[x])
		}
	}
}

// chroma writes the samples of plane for the pixels of row y to dst.
func (m *ycc) chroma(dst, plane []byte, y int) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	across, down := shares(m.SubsampleRatio)
	columns, rows := (width+across-1)/across, (height+down-1)/down
	near := plane[y/down*m.CStride:][:columns]
	next := near // the row on the pixel's other side
	if down == 2 {
		to := min(max(y/2+y%2*2-1, 0), rows-1)
		next = plane[to*m.CStride:][:columns]
	}
	switch {
	case m.webp:
		upsampleWebP(dst, near, next)
	case across == 1 && down == 1:
		copy(dst, near)
	case across == 1 && down == 2:
		upsampleDown(dst, near, next, y)
	case across == 2 && down <= 2 && columns > 2:
		m.upsampleAcross(dst, near, next, down)
	default:
		for x := range width {
			dst[x] = near[x/across]
		}
	}
}

// shares returns how many columns and rows of pixels share a sample of chroma.
func shares(ratio image.YCbCrSubsampleRatio) (across, down int) {
	switch ratio {
	case image.YCbCrSubsampleRatio422:
		return 2, 1
	case image.YCbCrSubsampleRatio420:
		return 2, 2
	case image.YCbCrSubsampleRatio440:
		return 1, 2
	case image.YCbCrSubsampleRatio411:
		return 4, 1
	case image.YCbCrSubsampleRatio410:
		return 4, 2
	}
	return 1, 1
}

// upsampleDown is libjpeg's h1v2: three quarters of the near row, one of the next.
func upsampleDown(dst, near, next []byte, y int) {
	round := 1 + y%2
	for x, v := range near {
		dst[x] = byte((3*int(v) + int(next[x]) + round) >> 2)
	}
}

// upsampleAcross is libjpeg's h2v1 and h2v2: three quarters of the near sample, one of its neighbour, in both
// directions if rows are shared, too. Halves are rounded up and down by turns.
func (m *ycc) upsampleAcross(dst, near, next []byte, down int) {
	sums, shift, even, odd := m.sums[:len(near)], 2, int32(1), int32(2)
	for x, v := range near {
		sums[x] = int32(v)
	}
	if down == 2 {
		shift, even, odd = 4, 8, 7
		for x, v := range next {
			sums[x] = 3*sums[x] + int32(v)
		}
	}
	last := len(sums) - 1
	for x, v := range sums {
		dst[2*x] = byte((3*v + sums[max(x-1, 0)] + even) >> shift)
		if 2*x+1 < len(dst) {
			dst[2*x+1] = byte((3*v + sums[min(x+1, last)] + odd) >> shift)
		}
	}
}

// upsampleWebP is libwebp's: nine sixteenths of the near sample, three of each neighbour, one of the diagonal one.
func upsampleWebP(dst, near, next []byte) {
	last := len(near) - 1
	for x := range near {
		n, v := int(near[x]), int(next[x])
		for i, side := range [2]int{max(x-1, 0), min(x+1, last)} {
			if at := 2*x + i; at < len(dst) {
				dst[at] = byte(((n+3*int(near[side])+3*v+int(next[side])+8)>>3 + n) >> 1)
			}
		}
	}
}

func clamp(v int32) byte { return byte(min(max(v, 0), 255)) }

// fullToRGB converts a colour of JPEG's (ITU-T T.871) in libjpeg's fixed point, 16 bits after the point.
func fullToRGB(y, cb, cr byte) (r, g, b byte) {
	const half = 1 << 15
	luma, blue, red := int32(y), int32(cb)-128, int32(cr)-128
	return clamp(luma + (91881*red+half)>>16),
		clamp(luma + (-22554*blue-46802*red+half)>>16),
		clamp(luma + (116130*blue+half)>>16)
}

// limitedToRGB converts a colour by ITU-R BT.601, luma from 16 to 235, in libwebp's fixed point (src/dsp/yuv.h).
func limitedToRGB(y, cb, cr byte) (r, g, b byte) {
	luma := 19077 * int32(y) >> 8
	return clamp((luma + 26149*int32(cr)>>8 - 14234) >> 6),
		clamp((luma - 6419*int32(cb)>>8 - 13320*int32(cr)>>8 + 8708) >> 6),
		clamp((luma + 33050*int32(cb)>>8 - 17685) >> 6)
}
