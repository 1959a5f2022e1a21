package picture

import (
	"image"
	"image/color"
)

// draw writes a decoded picture over this one.
func (m *Image) draw(from image.Image) {
	at := from.Bounds().Min
	if f, ok := from.(moved); ok {
		from, at = f.Image, f.at
	}
	b := from.Bounds()
	width, height := min(b.Dx(), m.Width-at.X), min(b.Dy(), m.Height-at.Y)
	if width <= 0 {
		return
	}
	row := reader(from)
	for y := range height {
		row(m.row(at.X, at.Y+y, width), b.Min.X, b.Min.Y+y)
	}
}

// reader returns a function that writes the pixels of a row from (x, y) on, transparent ones over the present ones.
func reader(from image.Image) func(dst []byte, x, y int) {
	switch from := from.(type) {
	case *image.YCbCr:
		planes := newYCC(from, false)
		return func(dst []byte, _, y int) { planes.row(dst, y) }
	case *ycc:
		return func(dst []byte, _, y int) { from.row(dst, y) }
	case *image.Gray:
		return func(dst []byte, x, y int) {
			for _, v := range from.Pix[from.PixOffset(x, y):][:len(dst)/3] {
				dst[0], dst[1], dst[2] = v, v, v
				dst = dst[3:]
			}
		}
	case *image.Gray16:
		return func(dst []byte, x, y int) {
			for i, src := 0, from.Pix[from.PixOffset(x, y):]; i < len(dst); i, src = i+3, src[2:] {
				dst[i], dst[i+1], dst[i+2] = src[0], src[0], src[0]
			}
		}
	case *image.RGBA: // opaque: from files without a channel of transparency
		return func(dst []byte, x, y int) {
			for i, src := 0, from.Pix[from.PixOffset(x, y):]; i < len(dst); i, src = i+3, src[4:] {
				copy(dst[i:i+3], src[:3])
			}
		}
	case *image.RGBA64: // opaque, too
		return func(dst []byte, x, y int) {
			for i, src := 0, from.Pix[from.PixOffset(x, y):]; i < len(dst); i, src = i+3, src[8:] {
				dst[i], dst[i+1], dst[i+2] = src[0], src[2], src[4]
			}
		}
	case *image.NRGBA:
		return func(dst []byte, x, y int) {
			for i, src := 0, from.Pix[from.PixOffset(x, y):]; i < len(dst); i, src = i+3, src[4:] {
				over(dst[i:i+3], src[0], src[1], src[2], src[3])
			}
		}
	case *image.NRGBA64:
		return func(dst []byte, x, y int) {
			for i, src := 0, from.Pix[from.PixOffset(x, y):]; i < len(dst); i, src = i+3, src[8:] {
				over(dst[i:i+3], src[0], src[2], src[4], src[6])
			}
		}
	case *image.Paletted:
		var colours [256]color.NRGBA
		for i, c := range from.Palette {
			colours[i] = color.NRGBAModel.Convert(c).(color.NRGBA)
		}
		return func(dst []byte, x, y int) {
			for i, v := range from.Pix[from.PixOffset(x, y):][:len(dst)/3] {
				c := colours[v]
				over(dst[3*i:3*i+3], c.R, c.G, c.B, c.A)
			}
		}
	case *image.CMYK:
		return func(dst []byte, x, y int) {
			for i, src := 0, from.Pix[from.PixOffset(x, y):]; i < len(dst); i, src = i+3, src[4:] {
				light := 255 - uint32(src[3])
				for c := range 3 {
					dst[i+c] = byte(light - min(by255(uint32(src[c])*light), light))
				}
			}
		}
	default:
		return func(dst []byte, x, y int) {
			for i := 0; i < len(dst); i, x = i+3, x+1 {
				c := color.NRGBAModel.Convert(from.At(x, y)).(color.NRGBA)
				over(dst[i:i+3], c.R, c.G, c.B, c.A)
			}
		}
	}
}

// by255 divides by 255, rounded to the nearest.
func by255(v uint32) uint32 {
	v += 128
	return (v>>8 + v) >> 8
}

// over blends a colour over dst with this alpha.
func over(dst []byte, r, g, b, alpha byte) {
	a := uint32(alpha)
	for c, v := range [3]byte{r, g, b} {
		dst[c] = byte(by255(uint32(v)*a + uint32(dst[c])*(255-a)))
	}
}
