package kernel

import (
	"encoding/binary"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// PackGroup packs block column group of a matrix in file layout, src with rowBytes per row, to dst [GroupBytes], which
// is clear. Only superblock s of the outputs is written.
func PackGroup(t quant.Type, dst, src []byte, rows, rowBytes, group, s int) {
	g := packedGroup{scales: dst[2*s*quant.QKK:], planes: dst[Super(rows)*quant.QKK*2+s*quantBytes(t):], plane: planeBytes(t, rows)}
	src = src[s*quant.QKK*rowBytes+group*t.BlockBytes():]
	for b := range (min(quant.QKK, rows-s*quant.QKK) + 31) / 32 {
		n := min(32, rows-s*quant.QKK-32*b)
		if t == quant.Q8_0 {
			g.packBytes(b, n, src[32*b*rowBytes:], rowBytes)
		} else {
			g.packNibbles(b, n, src[32*b*rowBytes:], rowBytes)
		}
	}
}

// packedGroup is a superblock of outputs of a group.
type packedGroup struct {
	scales []byte // [256]
	planes []byte // from the first neuron's quants on
	plane  int    // bytes from a neuron's quants to the next neuron's
}

// packBytes packs n outputs from 32·b on, for types with a byte for each quant. src has a block of each output.
func (g *packedGroup) packBytes(b, n int, src []byte, rowBytes int) {
	for j := range (n + 3) / 4 {
		var in [4][]byte // blocks of four outputs
		for r := range in {
			in[r] = g.block(b, 4*j+r, n, src, rowBytes, GroupNeurons)
		}
		for k := 0; k < GroupNeurons; k += 8 {
			var words [4]uint64
			for r := range in {
				words[r] = binary.LittleEndian.Uint64(in[r][k:])
			}
			g.put(k, 32*j+4*b, &words)
		}
	}
}

// packNibbles packs n outputs from 32·b on, for types with a nibble for each quant. src has a block of each output. A
// byte has the quants of outputs i and i+16.
func (g *packedGroup) packNibbles(b, n int, src []byte, rowBytes int) {
	const low = 0x0f0f0f0f0f0f0f0f
	for j := range (min(n, 16) + 3) / 4 {
		var in, above [4][]byte // blocks of four outputs, and of the four outputs 16 above
		for r := range in {
			in[r], above[r] = g.block(b, 4*j+r, n, src, rowBytes, GroupNeurons/2), g.block(b, 16+4*j+r, n, src, rowBytes, GroupNeurons/2)
		}
		for k := 0; k < GroupNeurons/2; k += 8 {
			var first, second [4]uint64 // quants of neurons from k on, and of neurons from k+16 on
			for r := range in {
				x, y := binary.LittleEndian.Uint64(in[r][k:]), binary.LittleEndian.Uint64(above[r][k:])
				first[r], second[r] = x&low|y&low<<4, x>>4&low|y&^low
			}
			g.put(k, 32*j+4*b, &first)
			g.put(k+GroupNeurons/2, 32*j+4*b, &second)
		}
	}
}

// noQuants are the quants of outputs past the last.
var noQuants [GroupNeurons]byte

// block returns the quants of output i of the 32 outputs from 32·b on, and stores its scale. n of the outputs exist.
func (g *packedGroup) block(b, i, n int, src []byte, rowBytes, size int) []byte {
	if i >= n {
		return noQuants[:size]
	}
	in := src[i*rowBytes:][:2+size]
	copy(g.scales[2*sumPlace(b, i):], in[:2])
	return in[2:]
}

// put writes four outputs' quants of 8 neurons, from neuron k on, to byte at of their planes. Byte i of each word is
// neuron k+i's.
func (g *packedGroup) put(k, at int, words *[4]uint64) {
	const pairs = 0x00ff00ff00ff00ff
	// Bytes of two outputs become pairs, of even and of odd neurons, and two pairs four bytes.
	even, odd := words[0]&pairs|words[1]&pairs<<8, words[0]>>8&pairs|words[1]&^pairs
	even2, odd2 := words[2]&pairs|words[3]&pairs<<8, words[2]>>8&pairs|words[3]&^pairs
	planes, plane := g.planes[k*g.plane+at:], g.plane
	for i := 0; i < 8; i += 2 {
		binary.LittleEndian.PutUint32(planes[i*plane:], uint32(even)&0xffff|uint32(even2)<<16)
		binary.LittleEndian.PutUint32(planes[(i+1)*plane:], uint32(odd)&0xffff|uint32(odd2)<<16)
		even, odd, even2, odd2 = even>>16, odd>>16, even2>>16, odd2>>16
	}
}
