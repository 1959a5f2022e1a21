// Package kvfile reads and writes files of keys and values: the content of a KV cache for one text. docs/kv-file.md
// describes the format.
package kvfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
)

// Magic begins every file. A transfer that changes line ends damages it.
const Magic = "PIKV\r\n\x1a\n"

const version = 3

// Limits of a header: beyond them a file counts as damaged before memory is allocated.
const (
	maxName   = 1 << 10 // bytes
	maxLayers = 1 << 12
	maxWidth  = 1 << 20 // KV heads, and elements of a head
	maxTokens = 1 << 24
)

// Digest is a SHA-256.
type Digest [32]byte

// Header describes a file's content.
type Header struct {
	Name       string // of the model, for people
	Model      Digest // of everything that decides a token's keys and values, except rounding
	Arithmetic Digest // of everything that decides rounding
	Layers     []compute.KVShape
	Windowed   []bool          // [layers] layers without pages before Near, because no window reaches them
	Near       int             // the first page that the file has of those
	Labels     []kvcache.Label // of its positions
}

// has reports whether the file has page i of a layer.
func (h *Header) has(layer, i int) bool { return i >= h.Near || !h.Windowed[layer] }

// layerBytes is the size of a layer's shape in a header.
const layerBytes = 16

// windowedLayer is the bit of a layer's KV heads that says that it has windows.
const windowedLayer = 1 << 31

// stateLayer is the bit of a layer's KV heads that marks a state; the elements of a key are then its numbers.
const stateLayer = 1 << 30

// fixed are the header's bytes before its lists.
const fixed = len(Magic) + 4 + 32 + 32 + 4 + 4 + 4 + 4

// Bytes returns the size of the whole file.
func (h *Header) Bytes() int64 {
	n := int64(len(h.Labels))
	size := int64(fixed+len(h.Name)+layerBytes*len(h.Layers)) + 4*n + 4 + 4*int64(h.Pages())
	for i, l := range h.Layers {
		size += int64(l.PartBytes(int(h.positions(i)))) + int64(l.StateBytes())
	}
	if h.recurrent() {
		size += 4
	}
	return size
}

// recurrent reports whether some layers have a state. The file has them after its pages.
func (h *Header) recurrent() bool {
	return slices.ContainsFunc(h.Layers, func(l compute.KVShape) bool { return l.State > 0 })
}

// NewState returns memory for the states of all layers after the last position, written and read like a page; nil if no
// layer has one.
func (h *Header) NewState() [][]byte {
	if !h.recurrent() {
		return nil
	}
	state := make([][]byte, len(h.Layers))
	for i, l := range h.Layers {
		state[i] = make([]byte, l.StateBytes())
	}
	return state
}

// positions returns how many the file has of a layer.
func (h *Header) positions(layer int) int64 {
	if h.Windowed[layer] {
		return int64(len(h.Labels)) - int64(h.Near)*compute.PagePositions
	}
	return int64(len(h.Labels))
}

// NewPage returns memory for page i of the layers that have it in the file: see compute.Device.ReadPage.
func (h *Header) NewPage(i int) [][]byte {
	page, n := make([][]byte, len(h.Layers)), h.PageLen(i)
	for l, shape := range h.Layers {
		if h.has(l, i) {
			page[l] = make([]byte, shape.PartBytes(n))
		}
	}
	return page
}

// PageLen returns how many positions page i has.
func (h *Header) PageLen(i int) int {
	return min(compute.PagePositions, len(h.Labels)-i*compute.PagePositions)
}

// Pages returns the number of pages.
func (h *Header) Pages() int {
	return (len(h.Labels) + compute.PagePositions - 1) / compute.PagePositions
}

// A label in a file is a token and two bits for the arithmetic that evaluated it.
const (
	singleToken = 1 << iota
	otherDevices
	kindBits = 2
)

// withinKey is a bit of a layer's elements of a value: it is the first elements of the key and not stored.
const withinKey = 1 << 31

// The bits of the same elements from everyShift on say that only the last of every that many positions has a row.
const (
	everyShift = 21
	mostEvery  = 1<<10 - 1
)

func (h *Header) encode() ([]byte, error) {
	if len(h.Name) > maxName || len(h.Layers) > maxLayers || len(h.Labels) > maxTokens {
		return nil, fmt.Errorf("%d tokens of %d layers are more than a file of keys and values can hold", len(h.Labels), len(h.Layers))
	}
	le := binary.LittleEndian
	b := append(make([]byte, 0, fixed), Magic...)
	b = le.AppendUint32(b, version)
	b = append(b, h.Model[:]...)
	b = append(b, h.Arithmetic[:]...)
	b = le.AppendUint32(b, uint32(len(h.Name)))
	b = le.AppendUint32(b, uint32(len(h.Layers)))
	b = le.AppendUint32(b, uint32(len(h.Labels)))
	b = le.AppendUint32(b, uint32(h.Near))
	b = append(b, h.Name...)
	for i, l := range h.Layers {
		heads, value := uint32(l.Heads), uint32(l.Value)
		if h.Windowed[i] {
			heads |= windowedLayer
		}
		if l.Within {
			value |= withinKey
		}
		if l.Every > mostEvery {
			return nil, fmt.Errorf("a layer that keeps the last of every %d positions is more than a file of keys and values can hold", l.Every)
		}
		value |= uint32(l.Every) << everyShift
		key := uint32(l.Key)
		if l.State > 0 {
			heads, key = heads|stateLayer, uint32(l.State)
		}
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, heads), key), value)
		b = le.AppendUint16(le.AppendUint16(b, uint16(l.KeyType.Type())), uint16(l.ValueType.Type()))
	}
	for _, l := range h.Labels {
		v := uint32(l.Token()) << kindBits
		if l.Decoded() {
			v |= singleToken
		}
		if l.IsForeign() {
			v |= otherDevices
		}
		b = le.AppendUint32(b, v)
	}
	return le.AppendUint32(b, checksum(b)), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Writer writes a file.
type Writer struct {
	w      io.Writer
	buffer []byte
}

// NewWriter writes h to w. All its pages follow.
func NewWriter(w io.Writer, h *Header) (*Writer, error) {
	b, err := h.encode()
	if err == nil {
		_, err = w.Write(b)
	}
	return &Writer{w: w}, err
}

// Page writes the next page.
func (w *Writer) Page(layers [][]byte) error {
	b := w.buffer[:0]
	for _, l := range layers {
		b = append(b, l...)
	}
	b = binary.LittleEndian.AppendUint32(b, checksum(b))
	w.buffer = b
	_, err := w.w.Write(b)
	return err
}

// Reader reads a file.
type Reader struct {
	Header
	r      io.Reader
	buffer []byte
}

// errDamaged is the error of a damaged file.
var errDamaged = errors.New("the file is damaged: a checksum is wrong; evaluate the text again and save it anew")

// NewReader reads the header of a file of size bytes from r, and checks that the file is complete.
func NewReader(r io.Reader, size int64) (*Reader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	head := make([]byte, fixed, 1<<12)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:len(Magic)]) != Magic {
		return nil, notOurs(err)
	}
	le := binary.LittleEndian
	b := head[len(Magic):]
	if v := le.Uint32(b); v != version {
		return nil, fmt.Errorf("the file has version %d of its format, and this program reads version %d", v, version)
	}
	f := &Reader{r: in}
	copy(f.Model[:], b[4:])
	copy(f.Arithmetic[:], b[36:])
	name, layers, tokens := int64(le.Uint32(b[68:])), int64(le.Uint32(b[72:])), int64(le.Uint32(b[76:]))
	near := int64(le.Uint32(b[80:]))
	rest := name + layerBytes*layers + 4*tokens + 4
	if name > maxName || layers > maxLayers || tokens > maxTokens || tokens == 0 || layers == 0 || near*compute.PagePositions > tokens || int64(fixed)+rest > size {
		return nil, fmt.Errorf("the file is damaged: its header tells of %d layers and %d tokens in %d bytes", layers, tokens, size)
	}
	head = append(head, make([]byte, rest)...)
	if _, err := io.ReadFull(in, head[fixed:]); err != nil {
		return nil, cut(err)
	}
	if body := head[:len(head)-4]; checksum(body) != le.Uint32(head[len(body):]) {
		return nil, errDamaged
	}
	f.Near = int(near)
	return f, f.decode(head[fixed:], int(name), int(layers), int(tokens), size)
}

// decode reads the header's lists.
func (f *Reader) decode(b []byte, name, layers, tokens int, size int64) error {
	le := binary.LittleEndian
	f.Name, b = string(b[:name]), b[name:]
	f.Labels = make([]kvcache.Label, tokens)
	rest := size // bytes that the layers to come can have, so that no product below overflows
	for i := range layers {
		heads := le.Uint32(b)
		f.Windowed = append(f.Windowed, heads&windowedLayer != 0)
		l := compute.KVShape{Heads: int(heads &^ windowedLayer), Key: int(le.Uint32(b[4:])), Value: int(le.Uint32(b[8:]) & (1<<everyShift - 1)), Within: le.Uint32(b[8:])&withinKey != 0, Every: int(le.Uint32(b[8:]) >> everyShift & mostEvery)}
		if heads&stateLayer != 0 {
			l.Heads, l.State, l.Key = l.Heads&^stateLayer, l.Key, 0
			if l.Heads != 0 || l.Value != 0 || l.State < 1 || int64(l.State) > rest/4 {
				return fmt.Errorf("the file is damaged: a layer has a state of %d numbers in %d bytes", l.State, size)
			}
			rest -= int64(l.StateBytes())
		} else if l.Heads > 0 && min(l.Key, l.Value) < 1 || max(l.Heads, l.Key, l.Value) > maxWidth {
			return fmt.Errorf("the file is damaged: a layer has %d KV heads of %d and %d elements", l.Heads, l.Key, l.Value)
		}
		var known [2]bool
		for _, t := range compute.KVTypes() {
			if uint16(t.Type()) == le.Uint16(b[12:]) {
				l.KeyType, known[0] = t, true
			}
			if uint16(t.Type()) == le.Uint16(b[14:]) {
				l.ValueType, known[1] = t, true
			}
		}
		if !known[0] || !known[1] {
			return fmt.Errorf("the file is damaged: a layer's keys and values are of the types %d and %d", le.Uint16(b[12:]), le.Uint16(b[14:]))
		}
		if err := l.Check(); err != nil {
			return fmt.Errorf("the file is damaged: %w", err)
		}
		n, each := int64(l.PartRows(int(f.positions(i)))), int64(l.PositionBytes())
		if n > 0 && each > rest/n {
			return fmt.Errorf("the file has %d bytes, fewer than the layers of %d tokens take: it was cut short or is damaged", size, tokens)
		}
		rest -= n * each
		f.Layers, b = append(f.Layers, l), b[layerBytes:]
	}
	for i := range f.Labels {
		v := le.Uint32(b[4*i:])
		f.Labels[i] = kvcache.LabelOf(int32(v>>kindBits), v&singleToken != 0)
		if v&otherDevices != 0 {
			f.Labels[i] = f.Labels[i].Foreign()
		}
	}
	if want := f.Bytes(); size != want {
		return fmt.Errorf("the file has %d bytes instead of %d: it was cut short or is damaged", size, want)
	}
	return nil
}

// Next reads the next page. page must have PageLen's positions.
func (f *Reader) Next(page [][]byte) error {
	n := 4
	for _, l := range page {
		n += len(l)
	}
	if cap(f.buffer) < n {
		f.buffer = make([]byte, n)
	}
	b := f.buffer[:n]
	if _, err := io.ReadFull(f.r, b); err != nil {
		return cut(err)
	}
	if checksum(b[:n-4]) != binary.LittleEndian.Uint32(b[n-4:]) {
		return errDamaged
	}
	for _, l := range page {
		b = b[copy(l, b):]
	}
	return nil
}

// notOurs returns the error of a file without Magic. err is the error of reading it, or nil.
func notOurs(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return errors.New("this is no file of keys and values that PowerInfer saved")
}

// cut is err in words, if a file ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends too early: it was cut short")
	}
	return err
}
