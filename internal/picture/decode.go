package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/bmp"
)

// Limits bound what Decode takes. A field that is 0 has its default.
type Limits struct {
	Bytes  int64 // of the file; DefaultBytes
	Pixels int   // width x height; DefaultPixels
}

// Defaults of Limits. Of pixels they allow a camera's 50 millions (8192 x 6144). Decoding takes about 6 bytes of memory
// a pixel of a usual JPEG, 10 of a PNG, and at most 26, which a progressive CMYK JPEG needs.
const (
	DefaultBytes  = 64 << 20
	DefaultPixels = 48 << 20
)

// maxSide bounds a picture's sides, as JPEG does. A small file may claim to be a pixel wide and as high as Pixels
// allows, and resizing passes through a picture of the new width and the old height.
const maxSide = 1<<16 - 1

// Error says in one sentence what is wrong with a picture's file and what to do. A server answers with status 400.
type Error struct {
	text string
	err  error // the decoder's; may be nil
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the decoder's error, or nil.
func (e *Error) Unwrap() error { return e.err }

func errorf(format string, values ...any) *Error {
	return &Error{text: fmt.Sprintf(format, values...)}
}

// A format reads one kind of file.
type format struct {
	name   string
	is     func(data []byte) bool
	header func(data []byte) (header, error)
	decode func(data []byte) (image.Image, error)
}

// A header is the information before the pixels.
type header struct {
	width, height int
	exif          []byte // may hold the orientation; nil if there is none
	least         int    // least bytes of a whole file with this many pixels
	deep          int    // bytes of memory that decoding takes for each pixel, without the Image
}

func begins(magic string) func([]byte) bool {
	return func(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }
}

func reading(decode func(io.Reader) (image.Image, error)) func([]byte) (image.Image, error) {
	return func(data []byte) (image.Image, error) { return decode(bytes.NewReader(data)) }
}

func formats() []format {
	return []format{
		{"JPEG", begins("\xff\xd8\xff"), jpegHeader, jpegDecode},
		{"PNG", begins("\x89PNG\r\n\x1a\n"), pngHeader, reading(png.Decode)},
		{"GIF", begins("GIF8"), gifHeader, reading(gif.Decode)},
		{"WebP", isWebP, webpHeader, webpDecode},
		{"BMP", begins("BM"), bmpHeader, reading(bmp.Decode)},
	}
}

// Decode reads a JPEG, PNG, GIF, WebP or BMP file; of an animation its first frame. Limits are checked before pixels
// are decoded. Its errors are of the type *Error.
//
// The pixels are Pillow's, as near as the decoders allow: exactly for lossless files and WebP, within rounding for
// JPEG. Channels of 16 bits keep their upper 8; colour profiles are not applied. The picture is turned and mirrored by
// its EXIF orientation (ImageOps.exif_transpose).
//
// Transparent parts are drawn over white, as Qwen's and Mistral's own tools (qwen_vl_utils, mistral_common) and vLLM
// do. convert("RGB") in transformers and stb_image in llama.cpp drop transparency instead and show colours that nobody
// has seen: black text on a clear ground becomes black on black.
func Decode(data []byte, limits Limits) (*Image, error) {
	f, h, err := begin(data, limits)
	if err != nil {
		return nil, err
	}
	decoded, err := f.decode(data)
	if err != nil {
		return nil, f.damaged(err)
	}
	m := Blank(h.width, h.height, [3]byte{255, 255, 255})
	m.draw(decoded)
	return m.upright(orientation(h.exif)), nil
}

// Cost returns about how many bytes of memory Decode takes for a file, including the Image. Its errors are those of
// Decode before the first pixel.
func Cost(data []byte, limits Limits) (int64, error) {
	_, h, err := begin(data, limits)
	if err != nil {
		return 0, err
	}
	deep := h.deep + 3
	if h.exif != nil {
		deep += 3 // it may have to be rotated
	}
	return int64(h.width) * int64(h.height) * int64(deep), nil
}

// begin returns the format of a file, and its header.
func begin(data []byte, limits Limits) (*format, header, error) {
	most, pixels := limits.Bytes, limits.Pixels
	if most == 0 {
		most = DefaultBytes
	}
	if pixels == 0 {
		pixels = DefaultPixels
	}
	if int64(len(data)) > most {
		return nil, header{}, errorf("the picture's file has %d bytes, more than the %d that are allowed; save it smaller", len(data), most)
	}
	for _, f := range formats() {
		if f.is(data) {
			h, err := f.begin(data, pixels)
			return &f, h, err
		}
	}
	return nil, header{}, unknown(data)
}

func (f *format) begin(data []byte, pixels int) (header, error) {
	h, err := f.header(data)
	switch {
	case err != nil:
		return h, f.damaged(err)
	case h.width < 1 || h.height < 1:
		return h, errorf("the %s file has no pixels: its size is %d x %d", f.name, h.width, h.height)
	case h.width > pixels/h.height:
		return h, errorf("the picture has %d x %d pixels, more than the %d that are allowed; make it smaller", h.width, h.height, pixels)
	case max(h.width, h.height) > maxSide:
		return h, errorf("the picture has %d x %d pixels, and a side may have %d; cut it into several", h.width, h.height, maxSide)
	case len(data) < h.least: // refused before memory for the pixels is allocated
		return h, f.damaged(fmt.Errorf("%d bytes are too few for %d x %d pixels", len(data), h.width, h.height))
	}
	return h, nil
}

// damaged is the error of a file that its decoder refused.
func (f *format) damaged(err error) *Error {
	text := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		text = "it is cut off"
	}
	for _, by := range []string{"png: ", "gif: ", "webp: ", "vp8: ", "vp8l: ", "bmp: ", "riff: ", "invalid JPEG format: ", "invalid format: "} {
		text = strings.TrimPrefix(text, by)
	}
	return &Error{fmt.Sprintf("the %s file cannot be read (%s); save it again, as PNG or JPEG", f.name, text), err}
}

// unknown is the error of a file in no format that Decode reads.
func unknown(data []byte) *Error {
	switch what := foreign(data); what {
	case "":
		if len(data) == 0 {
			return errorf("the picture's file is empty")
		}
		return errorf("the file is not a picture in a format that can be read; JPEG, PNG, GIF, WebP and BMP can")
	case "HTML":
		return errorf("the file is a web page, not a picture; send the picture itself")
	case "video":
		return errorf("the file is a video, not a picture; send a frame of it as PNG or JPEG")
	default:
		return errorf("the picture's format is %s, which cannot be read; convert it to PNG or JPEG", what)
	}
}

// foreign names a well-known format that Decode does not read.
func foreign(data []byte) string {
	head := string(data[:min(len(data), 1024)])
	if len(head) >= 12 && head[4:8] == "ftyp" {
		switch brand := head[8:12]; {
		case brand == "avif" || brand == "avis":
			return "AVIF"
		case strings.HasPrefix(brand, "he") || brand == "mif1" || brand == "msf1":
			return "HEIC"
		case strings.HasPrefix(brand, "jp"):
			return "JPEG 2000"
		}
		return "video"
	}
	for _, known := range []struct{ magic, name string }{
		{"II*\x00", "TIFF"},
		{"MM\x00*", "TIFF"},
		{"II+\x00", "TIFF"},
		{"MM\x00+", "TIFF"},
		{"%PDF-", "PDF"},
		{"\xff\x0a", "JPEG XL"},
		{"\x00\x00\x00\x0cJXL ", "JPEG XL"},
		{"\x00\x00\x00\x0cjP  ", "JPEG 2000"},
		{"\xff\x4f\xff\x51", "JPEG 2000"},
		{"8BPS", "Photoshop"},
		{"\x00\x00\x01\x00", "ICO"},
		{"qoif", "QOI"},
		{"P1\n", "PBM"},
		{"P2\n", "PGM"},
		{"P3\n", "PPM"},
		{"P4\n", "PBM"},
		{"P5\n", "PGM"},
		{"P6\n", "PPM"},
		{"\x76\x2f\x31\x01", "OpenEXR"},
		{"#?RADIANCE", "Radiance HDR"},
		{"%!PS", "PostScript"},
		{"\x1aE\xdf\xa3", "video"},
	} {
		if strings.HasPrefix(head, known.magic) {
			return known.name
		}
	}
	text := strings.ToLower(strings.TrimLeft(strings.TrimPrefix(head, "\ufeff"), " \t\r\n"))
	switch {
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"):
		return "HTML"
	case strings.HasPrefix(text, "<") && strings.Contains(text, "<svg"):
		return "SVG"
	}
	return ""
}
