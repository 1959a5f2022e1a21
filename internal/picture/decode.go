package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"

	"golang.org/x/image/bmp"
)

// Limits bound what Decode takes. A field that is 0 has its default.
type Limits struct {
	Bytes  int64 // of the file; DefaultBytes
	Pixels int   // width x height; DefaultPixels
}

// Defaults of Limits. Decoding takes up to 24 bytes of memory per pixel (a progressive CMYK JPEG), usually six.
const (
	DefaultBytes  = 64 << 20
	DefaultPixels = 64 << 20
)

// An Error says in one sentence what is wrong with a picture's file and what to do. The fault is in the file: a server
// answers it with 400.
type Error struct {
	text string
	err  error
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the decoder's error, if there is one.
func (e *Error) Unwrap() error { return e.err }

func errorf(format string, values ...any) error {
	err := &Error{text: fmt.Sprintf(format, values...)}
	for _, v := range values {
		if inner, ok := v.(error); ok {
			err.err = inner
		}
	}
	return err
}

// A format reads one kind of file. config returns the size and whatever else is known before a pixel is decoded.
type format struct {
	name   string
	is     func(data []byte) bool
	config func(data []byte) (header, error)
	decode func(data []byte) (image.Image, error)
}

// A header is what a file says before its pixels.
type header struct {
	width, height int
	exif          []byte // the TIFF structure that may hold the orientation; nil: there is none
	least         int    // bytes that a whole file of this size has at least
}

func begins(magic string) func([]byte) bool {
	return func(data []byte) bool { return strings.HasPrefix(string(data[:min(len(data), 16)]), magic) }
}

func formats() []format {
	return []format{
		{"JPEG", begins("\xff\xd8\xff"), jpegConfig, func(data []byte) (image.Image, error) { return jpeg.Decode(bytes.NewReader(data)) }},
		{"PNG", begins("\x89PNG\r\n\x1a\n"), pngConfig, func(data []byte) (image.Image, error) { return png.Decode(bytes.NewReader(data)) }},
		{"GIF", begins("GIF8"), gifConfig, func(data []byte) (image.Image, error) { return gif.Decode(bytes.NewReader(data)) }},
		{"WebP", isWebP, webpConfig, webpDecode},
		{"BMP", begins("BM"), bmpConfig, func(data []byte) (image.Image, error) { return bmp.Decode(bytes.NewReader(data)) }},
	}
}

// Decode reads a JPEG, PNG, GIF, WebP or BMP file; of an animation its first frame. The picture is upright: it is turned
// and mirrored as its EXIF orientation says. Transparent pixels are over white, as the tools of Qwen and Mistral show
// them to their models. Its errors are of the type Error.
func Decode(data []byte, limits Limits) (*Image, error) {
	most, pixels := limits.Bytes, limits.Pixels
	if most == 0 {
		most = DefaultBytes
	}
	if pixels == 0 {
		pixels = DefaultPixels
	}
	if int64(len(data)) > most {
		return nil, errorf("the picture's file has %d bytes, more than the %d that are allowed; save it smaller", len(data), most)
	}
	for _, f := range formats() {
		if f.is(data) {
			return f.read(data, pixels)
		}
	}
	return nil, unknown(data)
}

func (f *format) read(data []byte, pixels int) (*Image, error) {
	h, err := f.config(data)
	switch {
	case err != nil:
		return nil, f.damaged(err)
	case h.width < 1 || h.height < 1:
		return nil, errorf("the %s file has no pixels: its size is %d x %d", f.name, h.width, h.height)
	case h.width > pixels/h.height:
		return nil, errorf("the picture has %d x %d pixels, more than the %d that are allowed; make it smaller", h.width, h.height, pixels)
	case len(data) < h.least:
		return nil, f.damaged(fmt.Errorf("%d bytes are too few for %d x %d pixels", len(data), h.width, h.height))
	}
	decoded, err := f.decode(data)
	if err != nil {
		return nil, f.damaged(err)
	}
	m := Blank(h.width, h.height, [3]byte{255, 255, 255})
	m.draw(decoded)
	return m.upright(orientation(h.exif)), nil
}

func (f *format) damaged(err error) error {
	text := err.Error()
	for _, prefix := range []string{"jpeg: ", "png: ", "gif: ", "webp: ", "bmp: ", "invalid JPEG format: ", "invalid format: ", "unsupported JPEG feature: ", "unsupported feature: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if text == "EOF" || text == "unexpected EOF" {
		text = "it is cut off"
	}
	return &Error{fmt.Sprintf("the %s file cannot be read (%s); save it again, as PNG or JPEG", f.name, text), err}
}

// unknown is the error of a file in another format.
func unknown(data []byte) error {
	if len(data) == 0 {
		return errorf("the picture's file is empty")
	}
	if name := foreign(data); name != "" {
		return errorf("%s files cannot be read; convert it to PNG or JPEG", name)
	}
	return errorf("the file is no picture that can be read; JPEG, PNG, GIF, WebP and BMP can")
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
		{"II*\x00", "TIFF"}, {"MM\x00*", "TIFF"}, {"II+\x00", "TIFF"}, {"MM\x00+", "TIFF"}, {"%PDF-", "PDF"},
		{"\xff\x0a", "JPEG XL"}, {"\x00\x00\x00\x0cJXL ", "JPEG XL"}, {"\x00\x00\x00\x0cjP  ", "JPEG 2000"}, {"\xff\x4f\xff\x51", "JPEG 2000"},
		{"8BPS", "Photoshop"}, {"\x00\x00\x01\x00", "icon"}, {"qoif", "QOI"}, {"\x1aE\xdf\xa3", "video"}, {"P1\n", "PBM"}, {"P2\n", "PGM"}, {"P3\n", "PPM"},
		{"P4\n", "PBM"}, {"P5\n", "PGM"}, {"P6\n", "PPM"}, {"\x76\x2f\x31\x01", "OpenEXR"}, {"#?RADIANCE", "Radiance"}, {"%!PS", "PostScript"},
	} {
		if strings.HasPrefix(head, known.magic) {
			return known.name
		}
	}
	text := strings.ToLower(strings.TrimLeft(strings.TrimPrefix(head, "\ufeff"), " \t\r\n"))
	switch {
	case strings.HasPrefix(text, "<svg"), strings.HasPrefix(text, "<?xml") && strings.Contains(text, "<svg"):
		return "SVG"
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"):
		return "HTML"
	}
	return ""
}
