package prepare

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/train"
)

// A trace holds the samples of one layer: records of
//
//	document u32, active neurons u32 (k), input F16 [n_embd], neurons u16 [k], their mass |a_i|·‖d_i‖ BF16 [k]
//
// little endian. Each layer has two: one of the calibration text, to learn from, and one of the held-out text, to judge
// by.

// role says to which of the two texts a step belongs.
type role int

const (
	calibrating role = iota
	holdingOut
	roles
)

func traceName(r role, layer int) string {
	return fmt.Sprintf("%s-%04d.trace", [roles]string{"calibration", "held-out"}[r], layer)
}

// recordBytes returns the size of a record with k active neurons.
func recordBytes(embd, k int) int64 { return 8 + 2*int64(embd) + 4*int64(k) }

// appendRecord appends one sample; x is the predictor's input, a the layer's activations.
func appendRecord(b []byte, document int32, x, a, norms []float32) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(document))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, v := range x {
		b = binary.LittleEndian.AppendUint16(b, quant.F16FromF32(min(max(v, -maxHalf), maxHalf)))
	}
	k := 0
	for i, v := range a {
		if v != 0 {
			b = binary.LittleEndian.AppendUint16(b, uint16(i))
			k++
		}
	}
	for i, v := range a {
		if v != 0 {
			b = binary.LittleEndian.AppendUint16(b, quant.BF16FromF32(float32(math.Abs(float64(v)))*norms[i]))
		}
	}
	binary.LittleEndian.PutUint32(b[at+4:], uint32(k))
	return b
}

// maxHalf is the largest finite F16.
const maxHalf = 65504

// traces are the growing files of a profile.
type traces struct {
	files [roles][]*os.File
	size  [roles][]int64 // [layer]
	left  [roles]int64   // bytes that may still be written
	buf   []byte         // of append
}

// openTraces opens the files of all layers, cut to the sizes given; nil: empty.
func openTraces(w *work, layers int, size [roles][]int64) (*traces, error) {
	t := &traces{}
	for r := range roles {
		for l := range layers {
			f, err := os.OpenFile(w.path(traceName(r, l)), os.O_RDWR|os.O_CREATE, 0o644)
			if err != nil {
				t.close()
				return nil, err
			}
			t.files[r] = append(t.files[r], f)
			n := int64(0)
			if size[r] != nil {
				n = size[r][l]
			}
			t.size[r] = append(t.size[r], n)
			info, err := f.Stat()
			if err == nil && info.Size() < n {
				err = w.damaged(traceName(r, l))
			}
			if err == nil {
				err = f.Truncate(n)
			}
			if err != nil {
				t.close()
				return nil, err
			}
		}
	}
	return t, nil
}

// append adds whole records to a layer's trace, in one write. Beyond the bound it writes nothing.
func (t *traces) append(r role, layer int, records ...[]byte) error {
	t.buf = t.buf[:0]
	for _, b := range records {
		if int64(len(b)) > t.left[r] {
			t.left[r] = 0
			break
		}
		t.left[r] -= int64(len(b))
		t.buf = append(t.buf, b...)
	}
	n, err := t.files[r][layer].WriteAt(t.buf, t.size[r][layer])
	t.size[r][layer] += int64(n)
	return err
}

func (t *traces) close() error {
	var first error
	for r := range roles {
		for _, f := range t.files[r] {
			if err := f.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// readTrace reads one layer's samples into memory.
func readTrace(w *work, r role, layer, embd, ff int) (*train.Samples, error) {
	name := traceName(r, layer)
	f, err := os.Open(w.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, active := 0, 0
	err = eachRecord(f, embd, ff, func(_ int32, k int, in *bufio.Reader) error {
		records, active = records+1, active+k
		_, err := in.Discard(2*embd + 4*k)
		return err
	})
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	// Slices that grow would take twice the memory.
	s := &train.Samples{
		Embd: embd, FF: ff, X: make([]uint16, 0, records*embd), Start: make([]int64, 1, records+1),
		Active: make([]uint16, 0, active), Mass: make([]uint16, 0, active), Document: make([]int32, 0, records),
	}
	var raw []byte
	if err == nil {
		err = eachRecord(f, embd, ff, func(document int32, k int, in *bufio.Reader) error {
			raw = slices.Grow(raw[:0], 2*embd+4*k)[:2*embd+4*k]
			if _, err := io.ReadFull(in, raw); err != nil {
				return err
			}
			s.Document = append(s.Document, document)
			s.X = appendHalves(s.X, raw[:2*embd])
			s.Active = appendHalves(s.Active, raw[2*embd:][:2*k])
			s.Mass = appendHalves(s.Mass, raw[2*embd+2*k:])
			s.Start = append(s.Start, int64(len(s.Active)))
			return nil
		})
	}
	if err != nil {
		return nil, w.damaged(name)
	}
	return s, nil
}

var errRecord = errors.New("no record of this layer")

// eachRecord calls f after the head of every record; f reads the rest.
func eachRecord(from io.Reader, embd, ff int, f func(document int32, k int, in *bufio.Reader) error) error {
	in := bufio.NewReaderSize(from, 1<<20)
	var head [8]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		k := int(binary.LittleEndian.Uint32(head[4:]))
		if k > ff {
			return errRecord
		}
		if err := f(int32(binary.LittleEndian.Uint32(head[:])), k, in); err != nil {
			return err
		}
	}
}

func appendHalves(to []uint16, b []byte) []uint16 {
	for i := 0; i < len(b); i += 2 {
		to = append(to, binary.LittleEndian.Uint16(b[i:]))
	}
	return to
}
