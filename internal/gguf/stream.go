package gguf

import (
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/fault"
)

// streamAhead is the number of layers that a Stream reads ahead of the one that is computed.
const streamAhead = 2

// Stream has layers of a mapped file in memory when they are computed, though memory has no room for all of them. The
// first ones stay. The others are read two layers ahead of the step, in order, and let go when they were computed.
// Without that, the system would let those go that were used longest ago: the very ones that are needed next.
type Stream struct {
	layers [][]*Tensor
	keep   int   // so many of them stay
	bytes  int64 // of the others

	asked []bool // [layers] the layer was asked for, and not let go since
	tasks chan streamTask
	ended sync.WaitGroup
}

// streamTask is to read a layer, or to let it go.
type streamTask struct {
	layer int
	read  bool
}

// NewStream returns a Stream of a file's layers, which are given by their tensors, for a program that has room for so
// many bytes of them. The room should be that of streamAhead+1 layers at least.
func NewStream(layers [][]*Tensor, room int64) *Stream {
	s := &Stream{layers: layers, asked: make([]bool, len(layers))}
	largest, sizes := int64(0), make([]int64, len(layers))
	for i, tensors := range layers {
		for _, t := range tensors {
			sizes[i] += t.Bytes()
		}
		largest, s.bytes = max(largest, sizes[i]), s.bytes+sizes[i]
	}
	if s.bytes <= room {
		s.keep, s.bytes = len(layers), 0
		return s
	}
	for room -= (streamAhead + 1) * largest; s.keep < len(layers) && sizes[s.keep] <= room; s.keep++ {
		room -= sizes[s.keep]
		s.bytes -= sizes[s.keep]
	}
	return s
}

// Start begins to read ahead, with the next Begin. Close ends it.
func (s *Stream) Start() {
	read := func(b []byte) {
		willNeed(b)
		// A failing disk is an error of the step that computes with these bytes.
		_ = fault.Guard(func() error { return populate(wholePages(b)) })
	}
	s.start(read, letGo)
}

// start begins the goroutine that reads and lets go.
func (s *Stream) start(read, letGo func(b []byte)) {
	s.tasks = make(chan streamTask, 4*(len(s.layers)+streamAhead)) // more than one step gives
	s.ended.Go(func() {
		for t := range s.tasks {
			do := letGo
			if t.read {
				do = read
			}
			for _, tensor := range s.layers[t.layer] {
				do(tensor.Data)
			}
		}
	})
}

// Bytes returns how many bytes a step reads from the disk.
func (s *Stream) Bytes() int64 { return s.bytes }

// Begin says that a step begins with a layer. It waits for nothing.
func (s *Stream) Begin(layer int) {
	n := len(s.layers) - s.keep // layers that do not stay
	if layer >= len(s.layers) || n <= streamAhead {
		return
	}
	at := layer - s.keep // which of those
	for i := range n {
		if ahead := (i - max(at, 0) + n) % n; ahead > streamAhead {
			s.drop(s.keep + i)
		}
	}
	s.ask(layer)
	if layer+1 < s.keep {
		s.ask(layer + 1)
	}
	for i := range streamAhead {
		switch {
		case at < 0:
			s.ask(s.keep + i)
		default: // after the last one comes the next step
			s.ask(s.keep + (at+1+i)%n)
		}
	}
}

// ask has a layer read.
func (s *Stream) ask(layer int) {
	if s.asked[layer] {
		return
	}
	s.asked[layer] = s.give(streamTask{layer, true})
}

// drop lets a layer go.
func (s *Stream) drop(layer int) {
	if s.asked[layer] {
		s.asked[layer] = !s.give(streamTask{layer, false})
	}
}

// give has a task done later, and reports whether there is room for it.
func (s *Stream) give(t streamTask) bool {
	select {
	case s.tasks <- t:
		return true
	default:
		return false
	}
}

// Close ends reading ahead, where it was begun. No step may run. s may be nil.
func (s *Stream) Close() {
	if s != nil && s.tasks != nil {
		close(s.tasks)
		s.ended.Wait()
		s.tasks = nil
	}
}
