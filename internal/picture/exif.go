package picture

import (
	"bytes"
	"encoding/binary"
)

// exifMark precedes the TIFF structure of EXIF in JPEG, and in some files of other formats.
const exifMark = "Exif\x00\x00"

// orientation returns the value of EXIF's tag Orientation, 1 to 8; 1, upright, if there is none.
func orientation(exif []byte) int {
	exif = bytes.TrimPrefix(exif, []byte(exifMark))
	if len(exif) < 8 {
		return 1
	}
	var order binary.ByteOrder
	switch string(exif[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := int64(order.Uint32(exif[4:]))
	if at+2 > int64(len(exif)) {
		return 1
	}
	entries := exif[at+2:]
	for range order.Uint16(exif[at:]) {
		if len(entries) < 12 {
			break
		}
		if order.Uint16(entries) == 0x0112 {
			value := uint32(order.Uint16(entries[8:]))
			if order.Uint16(entries[2:]) == 4 { // a long number, where a short one is usual
				value = order.Uint32(entries[8:])
			}
			if value >= 1 && value <= 8 {
				return int(value)
			}
			break
		}
		entries = entries[12:]
	}
	return 1
}

// upright returns the picture as it is meant to be seen, by its EXIF orientation.
func (m *Image) upright(orientation int) *Image {
	if orientation == 1 {
		return m
	}
	// The destination of the stored pixel (x, y): first mirrored, then, from 5 on, with rows and columns exchanged.
	mirrorX := orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8
	mirrorY := orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7
	to := Blank(m.Width, m.Height, [3]byte{})
	across, down := 3, 3*m.Width
	if orientation >= 5 {
		to.Width, to.Height = m.Height, m.Width
		across, down = 3*m.Height, 3
	}
	const block = 64 // columns, so that the rows that they become stay in the cache
	for x0 := 0; x0 < m.Width; x0 += block {
		width := min(block, m.Width-x0)
		for y := range m.Height {
			toX, toY := x0, y
			step := across
			if mirrorX {
				toX, step = m.Width-1-x0, -across
			}
			if mirrorY {
				toY = m.Height - 1 - y
			}
			at := toX*across + toY*down
			for src := m.row(x0, y, width); len(src) > 0; src = src[3:] {
				copy(to.Pix[at:at+3], src[:3])
				at += step
			}
		}
	}
	return to
}
