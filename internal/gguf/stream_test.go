package gguf

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// TestStream: what is in memory stays within the room, a layer was read before the step after the one that asked for it
// begins, and layers that fit are never let go.
func TestStream(t *testing.T) {
	const layers, size = 12, 1000
	var all [][]*Tensor
	for i := range layers {
		all = append(all, []*Tensor{{Name: fmt.Sprint(i), Type: quant.F32, Shape: []int{size / 4}, Data: make([]byte, size)}})
	}
	layerOf := func(b []byte) int {
		return slices.IndexFunc(all, func(l []*Tensor) bool { return &l[0].Data[0] == &b[0] })
	}
	for _, room := range []int64{0, 3 * size, 7*size + 10, 9 * size, 11 * size, 12 * size} {
		s := NewStream(all, room)
		keep := int(max(0, room/size-3))
		if want := int64(layers-keep) * size; room < 12*size && s.Bytes() != want || room >= 12*size && s.Bytes() != 0 {
			t.Errorf("room for %d: %d bytes are read in each step, want %d", room, s.Bytes(), want)
		}
		var read, gone []int
		held, most := map[int]bool{}, 0
		s.start(func(b []byte) {
			held[layerOf(b)] = true
			read, most = append(read, layerOf(b)), max(most, len(held))
		}, func(b []byte) {
			delete(held, layerOf(b))
			gone = append(gone, layerOf(b))
		})
		for range 5 {
			for i := range layers {
				s.Begin(i)
				for len(s.tasks) > 0 {
					runtime.Gosched()
				}
			}
		}
		s.Close()
		if room == 12*size {
			continue
		}
		if n := layers - keep; n > streamAhead+1 && slices.ContainsFunc(gone, func(l int) bool { return l < keep }) {
			t.Errorf("room for %d: layers %v were let go", room, gone)
		}
		for i := range layers {
			want := 5
			if i < keep || layers-keep <= streamAhead+1 {
				want = 1
			}
			if n := len(slices.DeleteFunc(slices.Clone(read), func(l int) bool { return l != i })); n < want || n > want+1 {
				t.Errorf("room for %d: layer %d was read %d times in 5 steps, want %d", room, i, n, want)
			}
		}
		if most > keep+streamAhead+1 {
			t.Errorf("room for %d: %d layers were in memory", room, most)
		}
	}
}
