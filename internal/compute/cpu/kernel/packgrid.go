package kernel

import (
	"encoding/binary"
	"unsafe"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Types on grids, and TQ1_0, are packed eight elements at a time in a 64-bit word, a byte each: an entry of the grid
// has its codes so. packParts says the same one code after the other.

// eights are the codes of eight elements in the bytes of a word, the first the lowest.
type eights = uint64

// signs says what the signs of eight elements, a bit each, become.
type signs struct {
	third  [256]uint32 // for three-bit codes: the sign of element 4v+i is in bit v of byte i
	fourth [256]eights // for four-bit codes: each sign is in bit 3
}

var (
	allSigns  = newSigns(func(s uint8) uint8 { return s })
	evenSigns = newSigns(func(s uint8) uint8 { return quant.EvenSigns(uint32(s)) }) // by the first seven
)

func newSigns(of func(uint8) uint8) *signs {
	t := &signs{}
	for i := range t.third {
		s := of(uint8(i))
		for e := range 8 {
			bit := uint64(s >> e & 1)
			t.third[i] |= uint32(bit) << (e/4 + e%4*8)
			t.fourth[i] |= bit << (8*e + 3)
		}
	}
	return t
}

// Packed superblocks of these types, as layout.Of describes them. Their fields are arrays, so that the compiler can
// omit bounds checks.
type (
	ternarySuper struct {
		pairs [64]byte
		unit  [2]byte
	}
	byteSuper struct { // ByteBlocks of three bits
		scales [8]byte
		pairs  [64]byte
		high   [32]byte
		unit   [2]byte
	}
	halfSuper struct { // HalfBlocks of three bits
		scales [16]byte
		pairs  [64]byte
		high   [32]byte
		unit   [2]byte
	}
	nibbleSuper struct { // ByteBlocks of four bits
		scales  [8]byte
		nibbles [128]byte
		unit    [2]byte
	}
)

// superblocks calls pack for each whole superblock of F in file, and of S in out.
func superblocks[S, F any](out, file []byte, pack func(to *S, in *F)) {
	var s S
	var f F
	for len(file) >= int(unsafe.Sizeof(f)) {
		_ = out[unsafe.Sizeof(s)-1]
		pack((*S)(unsafe.Pointer(&out[0])), (*F)(unsafe.Pointer(&file[0])))
		out, file = out[unsafe.Sizeof(s):], file[unsafe.Sizeof(f):]
	}
}

// putPairs writes the lower two bits of block j's codes, from four words of eight codes.
func putPairs(to *[64]byte, j int, a, b, c, d eights) {
	pairs := a | b<<2 | c<<4 | d<<6
	put(to[4*(j&7):], uint32(pairs))
	put(to[32+4*(j&7):], uint32(pairs>>32))
}

// putNibbles writes block j's codes of four bits.
func putNibbles(to *[128]byte, j int, a, b, c, d eights) {
	first, second := a|c<<4, b|d<<4
	put(to[4*(j&7):], uint32(first))
	put(to[32+4*(j&7):], uint32(first>>32))
	put(to[64+4*(j&7):], uint32(second))
	put(to[96+4*(j&7):], uint32(second>>32))
}

// putThird writes block j's third bits, of eight elements after the other.
func putThird(to *[32]byte, j int, a, b, c, d uint32) { put(to[4*(j&7):], a|b<<2|c<<4|d<<6) }

func get64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func packIQ2_XXS(out, file []byte) {
	grid := (*[256]eights)(quant.Grid(quant.IQ2_XXS))
	third := &evenSigns.third
	superblocks(out, file, func(to *byteSuper, in *[66]byte) {
		put16(to.unit[:], get16(in[:]))
		for j := range 8 {
			i := (*[4]byte)(in[2+8*j:])
			putPairs(&to.pairs, j, grid[i[0]], grid[i[1]], grid[i[2]], grid[i[3]])
		}
		for j := range 8 {
			w := get64(in[2+8*j:])
			to.scales[j] = uint8(w>>60)<<1 | 1
			putThird(&to.high, j, third[w>>32&127], third[w>>39&127], third[w>>46&127], third[w>>53&127])
		}
	})
}

// packHalfScales writes the scales of 16 half-blocks, a nibble each of the file's.
func packHalfScales(out *[16]byte, file []byte) {
	w := get64(file)
	for half := range 2 {
		n := w >> (32 * half) & 0xffffffff
		n = (n | n<<16) & 0x0000ffff0000ffff
		n = (n | n<<8) & 0x00ff00ff00ff00ff
		n = (n | n<<4) & 0x0f0f0f0f0f0f0f0f
		binary.LittleEndian.PutUint64(out[8*half:], n<<1|0x0101010101010101)
	}
}

func packIQ2_XS(out, file []byte) {
	grid := (*[512]eights)(quant.Grid(quant.IQ2_XS))
	third := &evenSigns.third
	superblocks(out, file, func(to *halfSuper, in *[74]byte) {
		put16(to.unit[:], get16(in[:]))
		packHalfScales(&to.scales, in[66:])
		for j := range 8 {
			w := get64(in[2+8*j:])
			putPairs(&to.pairs, j, grid[w&511], grid[w>>16&511], grid[w>>32&511], grid[w>>48&511])
			putThird(&to.high, j, third[w>>9&127], third[w>>25&127], third[w>>41&127], third[w>>57])
		}
	})
}

func packIQ2_S(out, file []byte) {
	grid := (*[1024]eights)(quant.Grid(quant.IQ2_S))
	third := &allSigns.third
	superblocks(out, file, func(to *halfSuper, in *[82]byte) {
		put16(to.unit[:], get16(in[:]))
		packHalfScales(&to.scales, in[74:])
		for j := range 8 {
			low, high, s := get(in[2+4*j:]), uint32(in[66+j]), get(in[34+4*j:])
			putPairs(&to.pairs, j,
				grid[low&255|high<<8&0x300], grid[low>>8&255|high<<6&0x300], grid[low>>16&255|high<<4&0x300], grid[low>>24|high<<2&0x300])
			putThird(&to.high, j, third[uint8(s)], third[uint8(s>>8)], third[uint8(s>>16)], third[uint8(s>>24)])
		}
	})
}

func packIQ3_XXS(out, file []byte) {
	grid := (*[256]eights)(quant.Grid(quant.IQ3_XXS))
	fourth := &evenSigns.fourth
	superblocks(out, file, func(to *nibbleSuper, in *[98]byte) {
		put16(to.unit[:], get16(in[:]))
		for j := range 8 {
			w, s := get64(in[2+8*j:]), get(in[66+4*j:])
			to.scales[j] = uint8(s>>28)<<1 | 1
			putNibbles(&to.nibbles, j,
				grid[uint8(w)]|grid[uint8(w>>8)]<<32|fourth[s&127], grid[uint8(w>>16)]|grid[uint8(w>>24)]<<32|fourth[s>>7&127],
				grid[uint8(w>>32)]|grid[uint8(w>>40)]<<32|fourth[s>>14&127], grid[uint8(w>>48)]|grid[w>>56]<<32|fourth[s>>21&127])
		}
	})
}

func packIQ3_S(out, file []byte) {
	grid := (*[512]eights)(quant.Grid(quant.IQ3_S))
	fourth := &allSigns.fourth
	superblocks(out, file, func(to *nibbleSuper, in *[110]byte) {
		put16(to.unit[:], get16(in[:]))
		for j := range 8 {
			w, h, s := get64(in[2+8*j:]), uint64(in[66+j]), get(in[74+4*j:])
			to.scales[j] = in[106+j/2]>>(j%2*4)&15<<1 | 1
			putNibbles(&to.nibbles, j,
				grid[w&255|h<<8&256]|grid[w>>8&255|h<<7&256]<<32|fourth[uint8(s)],
				grid[w>>16&255|h<<6&256]|grid[w>>24&255|h<<5&256]<<32|fourth[uint8(s>>8)],
				grid[w>>32&255|h<<4&256]|grid[w>>40&255|h<<3&256]<<32|fourth[uint8(s>>16)],
				grid[w>>48&255|h<<2&256]|grid[w>>56|h<<1&256]<<32|fourth[s>>24])
		}
	})
}

func packIQ1_S(out, file []byte) {
	grid := (*[2048]eights)(quant.Grid(quant.IQ1_S))
	superblocks(out, file, func(to *byteSuper, in *[50]byte) {
		put16(to.unit[:], get16(in[:]))
		for j := range 8 {
			low, word := get(in[2+4*j:]), uint32(get16(in[34+2*j:]))
			to.scales[j] = uint8(word>>12&7)<<1 | 1
			putPairs(&to.pairs, j,
				grid[low&255|word<<8&0x700], grid[low>>8&255|word<<5&0x700], grid[low>>16&255|word<<2&0x700], grid[low>>24|word>>1&0x700])
			put(to.high[4*j:], -(word >> 15))
		}
	})
}

func packIQ1_M(out, file []byte) {
	grid := (*[2048]eights)(quant.Grid(quant.IQ1_M))
	superblocks(out, file, func(to *halfSuper, in *[56]byte) {
		var unit uint16
		for k := range 4 {
			word := get16(in[48+2*k:])
			unit |= word >> 12 << (4 * k)
			w := uint32(word)
			put(to.scales[4*k:], w<<1&0xe|w<<6&0xe00|w<<11&0xe0000|w<<16&0xe000000|0x01010101)
		}
		put16(to.unit[:], unit)
		for j := range 8 {
			low, word := get(in[4*j:]), uint32(get16(in[32+2*j:]))
			putPairs(&to.pairs, j,
				grid[low&255|word<<8&0x700], grid[low>>8&255|word<<4&0x700], grid[low>>16&255|word&0x700], grid[low>>24|word>>4&0x700])
			both := word >> 3 & 0x1111 * 3 // two bits of each byte for eight elements
			put(to.high[4*j:], (both&3|both>>2&0xc|both>>4&0x30|both>>6&0xc0)*0x01010101)
		}
	})
}

// ternary takes digits to the base of three from eight bytes at a time, the highest first.
type ternary struct{ even, odd uint64 } // bytes 0, 2 … and 1, 3 …, in 16 bits each

const (
	evenBytes = 0x00ff00ff00ff00ff
	evenPairs = 0x0003000300030003
)

func newTernary(b uint64) ternary { return ternary{b & evenBytes, b >> 8 & evenBytes} }

// next returns each byte's next digit.
func (t *ternary) next() eights {
	even, odd := 3*t.even, 3*t.odd
	t.even, t.odd = even&evenBytes, odd&evenBytes
	return even>>8&evenPairs | odd&(evenPairs<<8)
}

func packTQ1_0(out, file []byte) {
	superblocks(out, file, func(to *ternarySuper, in *[54]byte) {
		put16(to.unit[:], get16(in[52:]))
		a, b, c, d := newTernary(get64(in[:])), newTernary(get64(in[8:])), newTernary(get64(in[16:])), newTernary(get64(in[24:]))
		for j := range 5 {
			putPairs(&to.pairs, j, a.next(), b.next(), c.next(), d.next())
		}
		a, b = newTernary(get64(in[32:])), newTernary(get64(in[40:]))
		for j := range 2 {
			putPairs(&to.pairs, 5+j, a.next(), b.next(), a.next(), b.next())
		}
		c = newTernary(uint64(get(in[48:])))
		putPairs(&to.pairs, 7, a.next(), b.next(), c.next()|c.next()<<32, c.next()|c.next()<<32)
	})
}
