package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// few are the limits of hostile files in tests.
var few = Limits{Bytes: 1 << 20, Pixels: 1 << 20}

// allocated returns how many bytes of memory f took, in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// checkDecode holds what Decode promises of any file, however damaged.
func checkDecode(t *testing.T, data []byte) (read bool) {
	t.Helper()
	var m *Image
	var err error
	if took, most := allocated(func() { m, err = Decode(data, few) }), uint64(32*few.Pixels+(16<<20)); took > most {
		t.Errorf("decoding took %d bytes of memory, more than %d", took, most)
	}
	if err != nil {
		var ours *Error
		if !errors.As(err, &ours) {
			t.Errorf("%T is not an *Error", err)
		}
		if text := err.Error(); text == "" || len(text) > 300 || strings.ContainsAny(text, "\n\r") || !utf8.ValidString(text) || strings.HasSuffix(text, ".") {
			t.Errorf("the error is not one sentence: %q", text)
		}
		return false
	}
	if m.Width < 1 || m.Height < 1 || m.Width*m.Height > few.Pixels || len(m.Pix) != 3*m.Width*m.Height {
		t.Errorf("%d x %d pixels in %d bytes", m.Width, m.Height, len(m.Pix))
	}
	return true
}

func TestDecodeDamaged(t *testing.T) {
	files, random := readPillow(t).Files, testenv.Rand(t)
	read := 0
	for i := range 2000 {
		f := files[i%len(files)]
		data := damage(random, f.File, files[random.IntN(len(files))].File)
		if checkDecode(t, data) {
			read++
		}
		if t.Failed() {
			t.Fatalf("picture %d, of %q: %x", i, f.Name, data)
		}
	}
	t.Logf("%d were read all the same", read)
	if read < 100 || read > 1500 {
		t.Errorf("%d of 2000 damaged pictures were read: the damage is not of all kinds", read)
	}
}

// damage returns a damaged copy of a file. Half of the PNG files get right checksums again, so that the damage reaches
// further.
func damage(random *rand.Rand, file, other []byte) []byte {
	data := bytes.Clone(file)
	for range 1 + random.IntN(3) {
		at := random.IntN(len(data))
		if random.IntN(2) == 0 {
			at = random.IntN(min(len(data), 64)) // headers
		}
		switch random.IntN(7) {
		case 0: // cut off
			data = data[:max(at, 1)]
		case 1: // bits
			data[at] ^= 1 << random.IntN(8)
		case 2: // a number of 2 or 4 bytes, such as a length or a size
			number := []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, random.Uint32()}[random.IntN(6)]
			raw := binary.BigEndian.AppendUint32(nil, number)
			copy(data[at:], raw[:2+2*random.IntN(2)])
		case 3: // bytes too many
			extra := make([]byte, 1+random.IntN(8))
			for i := range extra {
				extra[i] = byte(random.Uint32())
			}
			data = append(data[:at:at], append(extra, data[at:]...)...)
		case 4: // bytes too few
			data = append(data[:at:at], data[min(at+1+random.IntN(8), len(data)):]...)
		case 5: // a part twice
			data = append(data[:at:at], data[random.IntN(at+1):]...)
		case 6: // another file's end
			data = append(data[:at:at], other[random.IntN(len(other)):]...)
		}
		if len(data) == 0 {
			data = []byte{0}
		}
	}
	if bytes.HasPrefix(data, []byte("\x89PNG")) && random.IntN(2) == 0 {
		for at := 8; at+12 <= len(data); {
			size := int64(binary.BigEndian.Uint32(data[at:]))
			if size > int64(len(data)-at-12) {
				break
			}
			end := at + 8 + int(size)
			binary.BigEndian.PutUint32(data[end:], crc32.ChecksumIEEE(data[at+4:end]))
			at = end + 4
		}
	}
	return data
}

func FuzzDecode(f *testing.F) {
	for _, file := range readPillow(f).Files {
		f.Add(file.File)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkDecode(t, data) })
}

// find returns the first file of the name.
func find(t *testing.T, name string) []byte {
	t.Helper()
	for _, f := range readPillow(t).Files {
		if f.Name == name {
			return f.File
		}
	}
	t.Fatalf("there is no file %q", name)
	return nil
}

// TestLimitsComeFirst: files with headers that promise more than their few bytes can hold are refused.
func TestLimitsComeFirst(t *testing.T) {
	be, le := binary.BigEndian, binary.LittleEndian
	claims := func(name string, put func(data []byte, width, height int)) func(int, int) []byte {
		return func(width, height int) []byte {
			data := bytes.Clone(find(t, name))
			put(data, width, height)
			return data
		}
	}
	jpeg := func(name string) func(int, int) []byte {
		return claims(name, func(data []byte, width, height int) {
			at := max(bytes.Index(data, []byte("\xff\xc0")), bytes.Index(data, []byte("\xff\xc2")))
			be.PutUint16(data[at+5:], uint16(height))
			be.PutUint16(data[at+7:], uint16(width))
		})
	}
	pngs := func(name string) func(int, int) []byte {
		return claims(name, func(data []byte, width, height int) {
			be.PutUint32(data[16:], uint32(width))
			be.PutUint32(data[20:], uint32(height))
			be.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		})
	}
	for name, file := range map[string]func(int, int) []byte{
		"JPEG": jpeg("jpeg 420"), "progressive JPEG": jpeg("jpeg progressive"), "CMYK JPEG": jpeg("jpeg cmyk"),
		"PNG": pngs("png rgb"), "deep PNG": pngs("png rgba 16 bits, interlaced"),
		"BMP": claims("bmp", func(data []byte, width, height int) {
			le.PutUint32(data[18:], uint32(width))
			le.PutUint32(data[22:], uint32(height))
		}),
		"GIF": claims("gif", func(data []byte, width, height int) { // its screen and its frame
			frame := bytes.Index(data, []byte(",\x00\x00\x00\x00"))
			for _, at := range []int{6, frame + 5} {
				le.PutUint16(data[at:], uint16(width))
				le.PutUint16(data[at+2:], uint16(height))
			}
		}),
		"WebP": claims("webp lossless", func(data []byte, width, height int) {
			sizes := le.Uint32(data[21:])&^(1<<28-1) | uint32(height-1)<<14 | uint32(width-1)
			le.PutUint32(data[21:], sizes)
		}),
	} {
		if !checkDecode(t, file(33, 21)) {
			t.Errorf("%s: the size was not put where it is", name)
		}
		_, err := Decode(file(15000, 12000), Limits{})
		if err == nil || !strings.Contains(err.Error(), "15000 x 12000 pixels, more than the 50331648 that are allowed") {
			t.Errorf("%s, too large: %v", name, err)
		}
		if checkDecode(t, file(1000, 1000)) {
			t.Errorf("%s: 1000 x 1000 pixels were read from a file of 33 x 21", name)
		}
		if name == "WebP" || name == "GIF" {
			continue // a few bytes may truly be a large picture
		}
		if took := allocated(func() { _, err = Decode(file(8000, 6000), Limits{}) }); err == nil || took > 1<<20 {
			t.Errorf("%s: %d bytes of memory were taken for 8000 x 6000 pixels that are not there: %v", name, took, err)
		}
	}
	var long bytes.Buffer
	if err := png.Encode(&long, image.NewGray(image.Rect(0, 0, 1, 1<<16))); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(long.Bytes(), Limits{}); err == nil || !strings.Contains(err.Error(), "a side may have 65535") {
		t.Errorf("too long: %v", err)
	}
	if _, err := Decode(make([]byte, 1001), Limits{Bytes: 1000}); err == nil || !strings.Contains(err.Error(), "1001 bytes, more than the 1000") {
		t.Errorf("too many bytes: %v", err)
	}
}

// TestManyScans: a JPEG with many scans, which cost time and hardly any bytes, is refused.
func TestManyScans(t *testing.T) {
	file := find(t, "jpeg progressive")
	last := bytes.LastIndex(file, []byte("\xff\xda"))
	scan := file[last : len(file)-2]
	many := append(bytes.Clone(file[:last]), bytes.Repeat(scan, 200)...)
	if _, err := Decode(append(many, 0xff, 0xd9), Limits{}); err == nil || !strings.Contains(err.Error(), "scans, more than 100") {
		t.Errorf("%v", err)
	}
}

func TestJPEGWithoutItsEnd(t *testing.T) {
	file := find(t, "jpeg 420")
	whole, err := Decode(file, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Decode(file[:len(file)-2], Limits{}); err != nil || m.Sum() != whole.Sum() {
		t.Errorf("without its end mark it was not read: %v", err)
	}
	if _, err := Decode(file[:len(file)-20], Limits{}); err == nil {
		t.Error("without its last pixels it was read")
	}
}

// TestTextsInPNG gives a PNG with a compressed text of 8 MiB, which nobody needs.
func TestTextsInPNG(t *testing.T) {
	var file, text bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 5, 5))); err != nil {
		t.Fatal(err)
	}
	text.WriteString("zTXtComment\x00\x00")
	z := zlib.NewWriter(&text)
	z.Write(make([]byte, 8<<20))
	z.Close()
	chunk := binary.BigEndian.AppendUint32(nil, uint32(text.Len()-4))
	chunk = binary.BigEndian.AppendUint32(append(chunk, text.Bytes()...), crc32.ChecksumIEEE(text.Bytes()))
	const header = 8 + 25
	data := slices.Concat(file.Bytes()[:header], chunk, file.Bytes()[header:])
	var err error
	if took := allocated(func() { _, err = Decode(data, Limits{}) }); err != nil || took > 1<<20 {
		t.Errorf("%d bytes of memory: %v", took, err)
	}
}

func TestOtherFormatsAreNamed(t *testing.T) {
	for data, want := range map[string]string{
		"":                                 "is empty",
		"\x00\x00\x00\x18ftypheic":         "HEIC, which cannot be read; convert it to PNG or JPEG",
		"\x00\x00\x00\x1cftypavif":         "AVIF",
		"\x00\x00\x00\x1cftypisom":         "is a video",
		"II*\x00\x08\x00\x00\x00":          "TIFF",
		"MM\x00*\x00\x00\x00\x08":          "TIFF",
		"<svg xmlns='a'>":                  "SVG",
		"\ufeff <?xml?><!-- a --><svg a=1": "SVG",
		"%PDF-1.7":                         "PDF",
		"\xff\x0a\x00":                     "JPEG XL",
		"<!DOCTYPE html><svg>":             "a web page",
		"hello":                            "JPEG, PNG, GIF, WebP and BMP can",
		"\xff\xd8\xff":                     "the JPEG file cannot be read (it is cut off)",
	} {
		_, err := Decode([]byte(data), Limits{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", data, err, want)
		}
		checkDecode(t, []byte(data))
	}
}

// TestOrientations turns a picture by each orientation against the definition: where its first row and column are.
func TestOrientations(t *testing.T) {
	m := numbered(4, 3)
	for orientation, place := range []func(x, y int) (int, int){ // where the stored pixel (x, y) is seen
		1: func(x, y int) (int, int) { return x, y },
		2: func(x, y int) (int, int) { return 3 - x, y },
		3: func(x, y int) (int, int) { return 3 - x, 2 - y },
		4: func(x, y int) (int, int) { return x, 2 - y },
		5: func(x, y int) (int, int) { return y, x },
		6: func(x, y int) (int, int) { return 2 - y, x },
		7: func(x, y int) (int, int) { return 2 - y, 3 - x },
		8: func(x, y int) (int, int) { return y, 3 - x },
	} {
		if place == nil {
			continue
		}
		seen := m.upright(orientation)
		for y := range 3 {
			for x := range 4 {
				if toX, toY := place(x, y); seen.at(toX, toY) != m.at(x, y) {
					t.Errorf("orientation %d: (%d, %d) is not at (%d, %d)", orientation, x, y, toX, toY)
				}
			}
		}
	}
}

func TestEXIF(t *testing.T) {
	entry := func(order binary.AppendByteOrder, tag, kind uint16, value uint32) []byte {
		e := order.AppendUint32(order.AppendUint16(order.AppendUint16(nil, tag), kind), 1)
		if kind == 3 {
			return order.AppendUint16(order.AppendUint16(e, uint16(value)), 0)
		}
		return order.AppendUint32(e, value)
	}
	tiff := func(order binary.AppendByteOrder, at uint32, count uint16, entries ...[]byte) []byte {
		mark := map[string]string{"LittleEndian": "II", "BigEndian": "MM"}[fmt.Sprint(order)]
		data := order.AppendUint32(order.AppendUint16([]byte(mark), 42), at)
		data = append(data, make([]byte, min(at, 100)-8)...)
		return append(order.AppendUint16(data, count), bytes.Join(entries, nil)...)
	}
	big, little := binary.AppendByteOrder(binary.BigEndian), binary.AppendByteOrder(binary.LittleEndian)
	for name, c := range map[string]struct {
		exif []byte
		want int
	}{
		"none":                {nil, 1},
		"little":              {tiff(little, 8, 2, entry(little, 0x10f, 2, 7), entry(little, 0x112, 3, 6)), 6},
		"big, further on":     {tiff(big, 30, 1, entry(big, 0x112, 3, 8)), 8},
		"with its mark":       {append([]byte(exifMark), tiff(big, 8, 1, entry(big, 0x112, 3, 3))...), 3},
		"a long number":       {tiff(big, 8, 1, entry(big, 0x112, 4, 5)), 5},
		"no such orientation": {tiff(big, 8, 1, entry(big, 0x112, 3, 9)), 1},
		"beyond its end":      {tiff(big, 0xfffffff0, 1, entry(big, 0x112, 3, 3)), 1},
		"fewer than counted":  {tiff(big, 8, 65535, entry(big, 0x10f, 2, 7)), 1},
		"cut off":             {tiff(big, 8, 1, entry(big, 0x112, 3, 3)[:9]), 1},
		"not TIFF":            {[]byte("II+\x00\x08\x00\x00\x00\x00\x00"), 1},
	} {
		if got := orientation(c.exif); got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
}
