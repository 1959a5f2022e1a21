package cpu

import (
	"math/bits"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
)

// set lists every token's neurons in ascending order.
type set struct {
	active []int32 // [rows, stride]
	stride int
	count  []int // [rows]
}

func newSet(rows, n int) *set {
	stride := n + kernel.ChooseSlack
	return &set{active: make([]int32, rows*stride), stride: stride, count: make([]int, rows)}
}

// token lists token i's neurons.
func (s *set) token(i int) []int32 { return s.active[i*s.stride:][:s.count[i]] }

// largest returns the length of the longest of the first n lists.
func (s *set) largest(n int) int {
	most := 0
	for _, c := range s.count[:n] {
		most = max(most, c)
	}
	return most
}

// room returns the memory of token i's list, emptied.
func (s *set) room(i int) []int32 { return s.active[i*s.stride:][:0:s.stride] }

// Set allocates a set of n neurons for each of rows tokens.
func (d *Device) Set(rows, n int) (compute.Set, error) {
	return compute.Set{Rows: rows, N: n, Mem: newSet(rows, n)}, nil
}

// FillSet sets token i's neurons to those whose bits are set in words[i·perRow:], counted from first. Bit b of word w
// is neuron 32w+b.
func (d *Device) FillSet(s compute.Set, words []uint32, perRow, first int) {
	mem := s.Mem.(*set)
	for t := range s.Rows {
		list := mem.room(t)
		for w := first / 32; w*32 < first+s.N; w++ {
			for b := words[t*perRow+w]; b != 0; b &= b - 1 {
				if n := 32*w + bits.TrailingZeros32(b) - first; n >= 0 && n < s.N {
					list = append(list, int32(n))
				}
			}
		}
		mem.count[t] = len(list)
	}
}

// SetWords writes every token's neurons as bits to words, perRow words a token.
func (d *Device) SetWords(s compute.Set, words []uint32, perRow int) {
	clear(words[:s.Rows*perRow])
	for t := range s.Rows {
		for _, n := range s.Mem.(*set).token(t) {
			words[t*perRow+int(n)/32] |= 1 << (n % 32)
		}
	}
}
