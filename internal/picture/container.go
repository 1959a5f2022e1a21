package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"iter"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

func sized(c image.Config, err error) (header, error) {
	return header{width: c.Width, height: c.Height, deep: 8}, err
}

// mostScans bounds the scans of a JPEG file. Each covers all pixels, however few bytes it has; usual files have up to
// 20.
const mostScans = 100

func jpegHeader(data []byte) (header, error) {
	h, err := sized(jpeg.DecodeConfig(bytes.NewReader(data)))
	if err != nil {
		return h, err
	}
	h.least = h.width * h.height / 64 / 8 // a bit for each block of 8 x 8
	scans := 0
	for marker, body := range segments(data) {
		if marker == 0xe1 && h.exif == nil && bytes.HasPrefix(body, []byte(exifMark)) {
			h.exif = body
		}
		switch {
		case marker == 0xda:
			scans++
		case marker >= 0xc0 && marker <= 0xc2 && len(body) >= 6: // the frame's header
			const coefficient = 4 // bytes; a progressive file's stay until its last scan
			h.deep = int(body[5])
			if marker == 0xc2 {
				h.deep *= 1 + coefficient
			}
		}
	}
	if scans > mostScans {
		return h, fmt.Errorf("it has %d scans, more than %d", scans, mostScans)
	}
	return h, nil
}

// jpegDecode also reads files without their end mark, as browsers do: cameras and chats lose it.
func jpegDecode(data []byte) (image.Image, error) {
	return jpeg.Decode(io.MultiReader(bytes.NewReader(data), strings.NewReader("\xff\xd9")))
}

// segments ranges over the segments of a JPEG file that have a body.
func segments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for at := 2; at+4 <= len(data); {
			switch marker := data[at+1]; {
			case data[at] != 0xff: // pixels of a scan, or something that the decoder will refuse
				skip := bytes.IndexByte(data[at:], 0xff)
				if skip < 0 {
					return
				}
				at += skip
			case marker == 0xff: // filler
				at++
			case marker <= 1, marker >= 0xd0 && marker <= 0xd8: // without a body
				at += 2
			case marker == 0xd9:
				return
			default:
				end := at + 2 + int(binary.BigEndian.Uint16(data[at+2:]))
				if end < at+4 || end > len(data) || !yield(marker, data[at+4:end]) {
					return
				}
				at = end
			}
		}
	}
}

func pngHeader(data []byte) (header, error) {
	h, err := sized(png.DecodeConfig(bytes.NewReader(data)))
	if err != nil {
		return h, err
	}
	for at := 8; at+12 <= len(data); {
		size := int64(binary.BigEndian.Uint32(data[at:]))
		if size > int64(len(data)-at-12) {
			break
		}
		switch body := data[at+8:][:size]; string(data[at+4 : at+8]) {
		case "IHDR":
			if size == 13 {
				channels := map[byte]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[body[9]]
				h.least = h.width / 8 * int(body[8]) * channels * h.height / 1032 // deflate saves no more
			}
		case "eXIf":
			h.exif = body
		}
		at += 12 + int(size)
	}
	return h, nil
}

func gifHeader(data []byte) (header, error) { return sized(gif.DecodeConfig(bytes.NewReader(data))) }

func bmpHeader(data []byte) (header, error) {
	h, err := sized(bmp.DecodeConfig(bytes.NewReader(data)))
	if err == nil {
		h.least = h.width * h.height / 8 * int(binary.LittleEndian.Uint16(data[28:]))
	}
	return h, err
}

func isWebP(data []byte) bool {
	return len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP"
}

// chunks calls f for each chunk of a WebP file's body, until it returns false.
func chunks(data []byte, f func(name string, body []byte) bool) {
	for len(data) >= 8 {
		size := int64(binary.LittleEndian.Uint32(data[4:]))
		if size > int64(len(data)-8) || !f(string(data[:4]), data[8:][:size]) {
			return
		}
		data = data[min(8+int(size+size%2), len(data)):]
	}
}

func webpHeader(data []byte) (header, error) {
	h, err := sized(webp.DecodeConfig(bytes.NewReader(data)))
	chunks(data[12:], func(name string, body []byte) bool {
		if name == "EXIF" {
			h.exif = body
		}
		return h.exif == nil
	})
	return h, err
}

// webpDecode returns the picture, or the first frame of an animation in its place on the canvas.
func webpDecode(data []byte) (image.Image, error) {
	frame := []byte(nil)
	chunks(data[12:], func(name string, body []byte) bool {
		if name == "ANMF" {
			frame = body
		}
		return frame == nil
	})
	if frame == nil {
		m, err := webp.Decode(bytes.NewReader(data))
		return lossy(m), err
	}
	if len(frame) < 16 {
		return nil, errors.New("its first frame is cut off")
	}
	number := func(at int) int { return int(frame[at]) | int(frame[at+1])<<8 | int(frame[at+2])<<16 }
	x, y, width, height := 2*number(0), 2*number(3), number(6)+1, number(9)+1
	c, err := webp.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if width > c.Width-x || height > c.Height-y {
		return nil, errors.New("its first frame is larger than its canvas")
	}
	// A separate file: the header with the flag of transparency, and the frame's chunks.
	extended := make([]byte, 18, 18+len(frame))
	copy(extended, "VP8X\x0a\x00\x00\x00")
	copy(extended[12:], frame[6:12])
	chunks(frame[16:], func(name string, _ []byte) bool {
		if name == "ALPH" {
			extended[8] = 1 << 4
		}
		return true
	})
	file := append([]byte("RIFF\x00\x00\x00\x00WEBP"), append(extended, frame[16:]...)...)
	binary.LittleEndian.PutUint32(file[4:], uint32(len(file)-8))
	m, err := webp.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return moved{lossy(m), image.Pt(x, y)}, nil
}

// moved is a picture with its upper left corner elsewhere.
type moved struct {
	image.Image
	at image.Point
}

// lossy gives a lossy picture the way in which libwebp interpolates and converts its colours.
func lossy(m image.Image) image.Image {
	switch m := m.(type) {
	case *image.YCbCr:
		return newYCC(m, true)
	case *image.NYCbCrA:
		planes := newYCC(&m.YCbCr, true)
		planes.alpha, planes.alphaStride = m.A, m.AStride
		return planes
	}
	return m
}
