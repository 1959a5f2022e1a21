package picture

import "encoding/binary"

// orientation returns the value of the tag Orientation, 1 to 8, of EXIF's TIFF structure; 1, upright, where there is
// none.
func orientation(exif []byte) int {
	if len(exif) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(exif[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := uint64(order.Uint32(exif[4:]))
	if at+2 > uint64(len(exif)) {
		return 1
	}
	entries := exif[at+2:]
	for range order.Uint16(exif[at:]) {
		if len(entries) < 12 {
			return 1
		}
		const tag, short = 0x0112, 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if v := int(order.Uint16(entries[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
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
	// Where the stored pixel (x, y) goes: first mirrored, then, from 5 on, rows and columns change places.
	mirrorX := orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8
	mirrorY := orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7
	to := Blank(m.Width, m.Height, [3]byte{})
	across, down := 3, 3*m.Width
	if orientation >= 5 {
		to.Width, to.Height = m.Height, m.Width
		across, down = 3*m.Height, 3
	}
	for y := range m.Height {
		toY := y
		if mirrorY {
			toY = m.Height - 1 - y
		}
		src, at, step := m.row(0, y, m.Width), toY*down, across
		if mirrorX {
			at, step = at+(m.Width-1)*across, -across
		}
		for ; len(src) > 0; src = src[3:] {
			copy(to.Pix[at:at+3], src[:3])
			at += step
		}
	}
	return to
}
