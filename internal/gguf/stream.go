package gguf

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
)

const (
	// streamSlots is the number of layers that a Stream holds in memory: the one that is computed, and two that are
	// read meanwhile.
	streamSlots = 3
	// streamPiece is what a Stream reads at a time. [bytes]
	streamPiece = 1 << 20
	// streamDepth is the number of pieces that are read at a time.
	streamDepth = 8
	// streamAlign is what tensors in memory begin at multiples of. [bytes]
	streamAlign = 64
)

// Stream reads layers from a file in the order in which steps compute them, past the page cache, because memory has no
// room for them. A layer is in one of a few slots; its tensors are always at the same place. One goroutine uses it.
type Stream struct {
	layers []streamLayer
	index  []int // [all layers] the index of each in layers; -1: it is not read
	next   []int // [all layers] the index in layers of the first one from there on; 0 after the last
	at     map[*Tensor][]byte
	slots  [streamSlots]streamSlot
	size   int64 // of a slot
	reader *disk.Reader
	use    StreamUse // without the reader's counts
}

// StreamUse counts what a Stream did since it was opened.
type StreamUse struct {
	disk.Use
	Ahead  int64         // layers that were in memory when their turn came
	Late   int64         // layers that a step waited for
	Wait   time.Duration // how long steps waited for these
	Layers int64         // layers that are read in every step
	Held   int64         // layers that memory has room for
	Memory int64         // bytes of that memory
}

// streamLayer is a layer that is read.
type streamLayer struct {
	tensors []*Tensor
	offsets []int64 // of the tensors in the slot
	bytes   int64
	pieces  []*disk.Piece
}

// streamSlot has the tensors of a layer.
type streamSlot struct {
	memory []byte
	layer  int            // the layer, by its index in Stream.layers, that it has or that is being read; -1: none
	under  sync.WaitGroup // pieces that are being read
	left   atomic.Int32   // number of these pieces
	failed atomic.Pointer[error]
}

func (s *streamSlot) fail(err error) { s.failed.Store(&err) }

// NewStream returns a Stream of layers, which are given by the tensors that it is to read. Layers without tensors are in
// memory. Nothing is allocated or read before Open.
func NewStream(layers [][]*Tensor) *Stream {
	s := &Stream{next: make([]int, len(layers))}
	for _, tensors := range layers {
		if len(tensors) == 0 {
			s.index = append(s.index, -1)
			continue
		}
		s.index = append(s.index, len(s.layers))
		y, end := streamLayer{tensors: tensors}, int64(0)
		for _, t := range tensors {
			y.offsets = append(y.offsets, end)
			y.bytes += t.Bytes()
			end = (end + t.Bytes() + streamAlign - 1) &^ (streamAlign - 1)
		}
		s.size = max(s.size, end)
		s.layers = append(s.layers, y)
	}
	next := 0
	for i := len(layers) - 1; i >= 0; i-- {
		if s.index[i] >= 0 {
			next = s.index[i]
		}
		s.next[i] = next
	}
	for i := range s.slots {
		s.slots[i].layer = -1
	}
	return s
}

// Bytes returns how many bytes a step reads.
func (s *Stream) Bytes() (n int64) {
	for i := range s.layers {
		n += s.layers[i].bytes
	}
	return n
}

// Memory returns how many bytes of memory the stream takes.
func (s *Stream) Memory() int64 {
	return int64(min(streamSlots, len(s.layers)))*s.size + disk.Buffered(streamDepth, streamPiece)
}

// Open allocates memory for the layers, which must have tensors of f. Close frees it, also after an error. A Stream is
// opened once.
func (s *Stream) Open(f *File) (err error) {
	if s.reader, err = disk.NewReader(streamDepth); err != nil {
		return err
	}
	s.reader.BesideComputing()
	s.at = map[*Tensor][]byte{}
	for i := range min(streamSlots, len(s.layers)) {
		s.slots[i].memory = make([]byte, s.size)
	}
	for i := range s.layers {
		y, slot := &s.layers[i], &s.slots[i%streamSlots]
		for j, t := range y.tensors {
			file, err := f.Direct(t)
			if err != nil {
				return err
			}
			to := slot.memory[y.offsets[j]:][:t.Bytes()]
			s.at[t] = to
			for from := int64(0); from < t.Bytes(); from += streamPiece {
				part := to[from:min(from+streamPiece, t.Bytes())]
				y.pieces = append(y.pieces, &disk.Piece{File: file, Offset: t.Offset + from, Bytes: len(part), Done: func(data []byte, err error) {
					defer slot.under.Done()
					defer slot.left.Add(-1)
					if err != nil {
						slot.fail(err)
					}
					copy(part, data)
				}})
			}
		}
	}
	return nil
}

// At returns the memory in which a tensor is after Begin of its layer; nil if the stream does not read it. [t.Bytes()]
func (s *Stream) At(t *Tensor) []byte {
	if s == nil {
		return nil
	}
	return s.at[t]
}

// Reads reports whether the stream reads a layer.
func (s *Stream) Reads(layer int) bool { return layer < len(s.index) && s.index[layer] >= 0 }

// Use returns what the stream did until now. It is called between steps.
func (s *Stream) Use() StreamUse {
	u := s.use
	u.Use, u.Layers = s.reader.Use(), int64(len(s.layers))
	u.Held = min(streamSlots, u.Layers)
	u.Memory = u.Held * s.size
	return u
}

// Begin begins a layer; all layers before it must have been computed. It begins to read the next ones, and waits until
// the layer's tensors are in memory.
func (s *Stream) Begin(layer int) error {
	if layer >= len(s.index) || len(s.layers) == 0 {
		return nil
	}
	first := s.next[layer]
	var taken [streamSlots]bool
	for i := range min(streamSlots, len(s.layers)) {
		at := (first + i) % len(s.layers)
		if slot := at % streamSlots; !taken[slot] {
			taken[slot] = true
			s.read(at)
		}
	}
	if s.index[layer] < 0 {
		return nil
	}
	slot := &s.slots[first%streamSlots]
	if slot.left.Load() == 0 {
		s.use.Ahead++
	} else {
		s.use.Late++
	}
	from := monotime.Now()
	slot.under.Wait()
	s.use.Wait += monotime.Since(from)
	if err := slot.failed.Swap(nil); err != nil {
		slot.layer = -1
		return fmt.Errorf("layer %d: %w", layer, *err)
	}
	return nil
}

// read begins to read a layer into its slot, unless it is there.
func (s *Stream) read(at int) {
	slot := &s.slots[at%streamSlots]
	if slot.layer == at {
		return
	}
	slot.under.Wait() // for another layer, if it was read ahead and then not computed
	slot.failed.Store(nil)
	slot.layer = at
	y := &s.layers[at]
	slot.under.Add(len(y.pieces))
	slot.left.Store(int32(len(y.pieces)))
	s.reader.Read(y.pieces...)
}

// Close stops reading and frees the memory. s may be nil.
func (s *Stream) Close() {
	if s != nil && s.reader != nil {
		_ = s.reader.Close()
		s.reader, s.at, s.slots = nil, nil, [streamSlots]streamSlot{}
	}
}
