package main

import (
	"bytes"
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/gen/filelayout"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Kernels of rows as files store them, for weights that are computed on in their mapping. A superblock has the same
// length there as packed. Its blocks are stored one after the other, so quants are transposed into groups on the way:
// lane j again belongs to block j, and products have the same bits as with packed rows. Package filelayout has the
// offsets.

// fileRow is a stream of rows in file layout.
type fileRow struct {
	tile
	mask, high, ones reg.VecPhysical // constants in registers; ones of VNNI are the bits that make bytes unsigned
	lowNibbles       bool            // groups of Q5_K and Q6_K, without the bits above
}

// fileKernels emits all: what file_amd64.go names.
func fileKernels() {
	defineConstants()
	defineFileConstants()
	defineFileCoded()
	for _, typ := range quantised() {
		if !filePacked(typ) {
			continue
		}
		filePack(typ)
		if typ.Parted() || layout.FormOf(typ) != layout.Own {
			continue // rows are packed before they are computed on
		}
		for _, isa := range []string{"AVX2", "VNNI"} {
			fileStream(isa, typ, "fileStream", paged)
			fileStream(isa, typ, "fileFar", far) // for all types, because it is faster there
			fileStream(isa, typ, "fileScatter", scattered)
		}
	}
}

// fileStream emits one token's products with rows in file layout.
func fileStream(isa string, typ quant.Type, name string, order reading) {
	k := &fileRow{tile: tile{isa: isa, typ: typ, r: 1, t: 1}}
	k.oneToken(name, " in file layout", order, k.body)
}

// body loads what a loop keeps in registers, and adds one superblock.
func (k *fileRow) body(isum reg.VecPhysical) func() {
	super := k.superAVX2
	switch {
	case k.vnni() && k.bytes(): // permutations would not pay
		super = k.blocksVNNI
	case k.vnni():
		return k.bodyZ(isum)
	}
	switch k.typ.Traits().Bits {
	case 8:
		k.ones = k.vec()
		if k.vnni() {
			k.load(constant("x80"), k.ones)
		} else {
			k.load(constant("ones16"), k.ones)
		}
	case 5, 6:
		k.high = k.vec()
		k.load(constant(k.above()), k.high)
		fallthrough
	default:
		k.mask = k.vec()
		k.load(constant("mask0f"), k.mask)
	}
	return func() {
		mark := k.next
		super(isum)
		k.next = mark
		dw, s, m := k.vec(), k.vec(), reg.VecPhysical(nil)
		if k.minima() {
			m = k.vec()
		}
		switch k.typ.Traits().Scales {
		case quant.SixBits:
			k.fileSixBitScales(dw, m, s)
		case quant.HalfBlocks:
			k.tile.scales(0, dw, nil, s)
		default:
			k.blockHalves(0, dw.AsX())
			VCVTPH2PS(dw.AsX(), dw)
		}
		k.accumulate(0, 0, isum, dw, m, s)
		k.next = mark
	}
}

// blockHalves leaves the binary16 numbers at byte at of a superblock's blocks in dst.
func (k *tile) blockHalves(at int, dst reg.Register) {
	VMOVD(k.row(0, at), dst)
	for j := 1; j < 8; j++ {
		VPINSRW(U8(byte(j)), k.row(0, at+k.typ.BlockBytes()*j), dst, dst)
	}
}

// blocks reports whether the file stores scales with every 32 elements.
func (k *tile) blocks() bool { return k.typ.BlockElems() == quant.QK }

// halves loads 16 bytes at lo and 16 at hi.
func (k *tile) halves(lo, hi int, dst reg.VecPhysical) {
	VMOVDQU(k.row(0, lo), dst.AsX())
	VINSERTI128(U8(1), k.row(0, hi), dst, dst)
}

// transpose makes four groups of four vectors, in place: lane j and j+4 of group g are dword g of the low and of the
// high half of vector j. tmp are two free registers.
func transpose(t, tmp []reg.VecPhysical) {
	VPUNPCKLDQ(t[1], t[0], tmp[0])
	VPUNPCKHDQ(t[1], t[0], tmp[1])
	VPUNPCKLDQ(t[3], t[2], t[0])
	VPUNPCKHDQ(t[3], t[2], t[3])
	VPUNPCKHQDQ(t[0], tmp[0], t[1])
	VPUNPCKLQDQ(t[0], tmp[0], t[0])
	VPUNPCKLQDQ(t[3], tmp[1], t[2])
	VPUNPCKHQDQ(t[3], tmp[1], t[3])
}

// groups writes groups 4·half… to g, with unsigned quants except in Q8_0, and uses tmp. For blocks of 4 bits it writes
// all quants: group v in the low nibbles of g[v], group v+4 in the high ones.
func (k *fileRow) groups(half int, g, tmp []reg.VecPhysical) {
	at := 16 * half
	nibbles := func(from, lo, hi reg.VecPhysical) {
		VPSRLW(U8(4), from, hi)
		VPAND(k.mask, from, lo)
		VPAND(k.mask, hi, hi)
	}
	switch size := k.typ.BlockBytes(); k.typ {
	case quant.Q4_0, quant.Q4_1:
		for j := range 4 {
			k.halves(size*(j+1)-16, size*(j+5)-16, g[j])
		}
	case quant.Q8_0:
		for j := range 4 {
			k.halves(2+at+size*j, 2+at+size*(j+4), g[j])
		}
	case quant.Q4_K, quant.Q5_K: // 32 bytes hold two blocks
		from := at + filelayout.Nibbles(k.typ)
		for j := range 2 {
			k.halves(from+32*j, from+32*(j+2), g[2*j])
			nibbles(g[2*j], g[2*j], g[2*j+1])
		}
		if k.typ == quant.Q5_K && !k.lowNibbles {
			k.fifthBits(at, g, tmp)
		}
	case quant.Q6_K: // in four blocks, 64 bytes hold low nibbles, 32 bytes the bits above
		for j := range 2 {
			k.halves(at+32*j, at+32*j+64, g[j])
			nibbles(g[j], g[j], g[j+2])
		}
		if k.lowNibbles {
			break
		}
		h := tmp[0]
		k.halves(filelayout.Q6KHigh+at, filelayout.Q6KHigh+at+32, h)
		for j, shift := range []int{-4, -2, 0, 2} {
			from := h
			switch {
			case shift < 0:
				VPSLLW(U8(byte(-shift)), h, tmp[1])
				from = tmp[1]
			case shift > 0:
				VPSRLW(U8(byte(shift)), h, tmp[1])
				from = tmp[1]
			}
			VPAND(k.high, from, tmp[1])
			VPOR(tmp[1], g[j], g[j])
		}
	}
	transpose(g, tmp)
}

// fifthBits adds the fifth bits of half of each block. Bit j of the file's byte i belongs to block j, and g[j] has
// blocks j and j+4.
func (k *fileRow) fifthBits(at int, g, tmp []reg.VecPhysical) {
	VBROADCASTI128(k.row(0, filelayout.SixBits+at), tmp[0])
	VPSLLVD(constant("fileFifth"), tmp[0], tmp[0]) // block j's to bit 4+j
	for j, w := range g {
		VPSRLW(U8(byte(j)), tmp[0], tmp[1])
		VPAND(k.high, tmp[1], tmp[1])
		VPOR(tmp[1], w, w)
	}
}

// blocksVNNI leaves the sums of a superblock of blocks in isum.
func (k *fileRow) blocksVNNI(isum reg.VecPhysical) {
	g, tmp := k.vecs(4), k.vecs(2)
	k.start(0, isum)
	for half := range 2 {
		k.groups(half, g, tmp)
		for v, w := range g {
			VPXORD(k.ones, w, w)
			VPDPBUSD(k.act(0, 32*(v+4*half)), w, isum)
		}
	}
}

// superAVX2 leaves the sums of a superblock in isum; see fourBitAVX2, eightBitAVX2 and sixBitAVX2 for what fits 16
// bits.
func (k *fileRow) superAVX2(isum reg.VecPhysical) {
	g, tmp := k.vecs(4), k.vecs(2)
	switch k.typ.Traits().Bits {
	case 8:
		k.eightBitFile(isum, g, tmp)
		return
	case 6:
		k.sixBitFile(isum, g, tmp)
		return
	}
	if k.typ.Traits().Bits == 5 {
		k.fiveBitFile(isum, g, tmp)
		return
	}
	first := true
	add := func(v int, w, p reg.VecPhysical) {
		if first {
			VPMADDUBSW(k.act(0, 32*v), w, isum)
			first = false
			return
		}
		VPMADDUBSW(k.act(0, 32*v), w, p)
		VPADDW(p, isum, isum)
	}
	if k.blocks() {
		k.groups(0, g, tmp)
		for v, lo := range g {
			hi := tmp[0]
			VPSRLW(U8(4), lo, hi)
			VPAND(k.mask, lo, lo)
			VPAND(k.mask, hi, hi)
			add(v, lo, tmp[1])
			add(v+4, hi, tmp[1])
		}
	} else {
		for half := range 2 {
			k.groups(half, g, tmp)
			for v, w := range g {
				add(v+4*half, w, tmp[0])
			}
		}
	}
	VPMADDWD(constant("ones16"), isum, isum)
	k.less(0, isum)
}

func (k *fileRow) fiveBitFile(isum reg.VecPhysical, g, tmp []reg.VecPhysical) {
	for half := range 2 {
		k.groups(half, g, tmp)
		for v := 0; v < 4; v += 2 {
			VPMADDUBSW(k.act(0, 32*(v+4*half)), g[v], tmp[0])
			VPMADDUBSW(k.act(0, 32*(v+1+4*half)), g[v+1], tmp[1])
			VPADDW(tmp[1], tmp[0], tmp[0])
			if v+half == 0 {
				VPMADDWD(constant("ones16"), tmp[0], isum)
				continue
			}
			VPMADDWD(constant("ones16"), tmp[0], tmp[0])
			VPADDD(tmp[0], isum, isum)
		}
	}
}

func (k *fileRow) eightBitFile(isum reg.VecPhysical, g, tmp []reg.VecPhysical) {
	for half := range 2 {
		k.groups(half, g, tmp)
		for v, w := range g {
			a, p := tmp[0], tmp[1]
			VPABSB(w, a)
			VMOVDQU(k.act(0, 32*(v+4*half)), p)
			VPSIGNB(w, p, p)
			VPMADDUBSW(p, a, p)
			if v+half == 0 {
				VPMADDWD(k.ones, p, isum)
				continue
			}
			VPMADDWD(k.ones, p, p)
			VPADDD(p, isum, isum)
		}
	}
}

func (k *fileRow) sixBitFile(isum reg.VecPhysical, g, tmp []reg.VecPhysical) {
	all, sc := k.vec(), k.vec()
	VPMOVSXBW(k.row(0, filelayout.Q6K), all)
	VPMADDWD(k.act(0, layout.ActPairs), all, isum)
	VPSLLD(U8(5), isum, isum) // 32·Σ, from which the sums are subtracted; the sign is turned at the end
	for half, words := range []string{"lowWords", "highWords"} {
		k.groups(half, g, tmp)
		VPSHUFB(constant(words), all, sc)
		for v := 0; v < 4; v += 2 {
			VPMADDUBSW(k.act(0, 32*(v+4*half)), g[v], tmp[0])
			VPMADDUBSW(k.act(0, 32*(v+1+4*half)), g[v+1], tmp[1])
			VPADDW(tmp[1], tmp[0], tmp[0])
			VPMADDWD(sc, tmp[0], tmp[0])
			VPSUBD(tmp[0], isum, isum)
		}
	}
	VPXOR(tmp[0], tmp[0], tmp[0])
	VPSUBD(isum, tmp[0], isum)
}

// defineFileConstants defines masks and shuffles of a Q4_K header. Bytes 4… hold six bits of scales 0 to 3, and bytes
// 8… six bits of minima 0 to 3. The upper two bits of these bytes belong to scales and minima 4 to 7. Bytes 12… hold
// the lower four bits of scales 4 to 7 in their low nibbles and of minima 4 to 7 in their high nibbles.
func defineFileConstants() {
	var low, high, mask, nibbles [16]byte // eight scales, eight minima
	for i := range low {
		low[i], high[i] = byte(i/8*4+i%8+4), 0x80
		mask[i] = 0x3f
		if i%8 >= 4 {
			low[i], high[i] = byte(i%8+8), byte(i/8*4+i%8)
			mask[i], nibbles[i] = byte(0x0f*(1-i/8)), byte(0x0f*(i/8))
		}
	}
	define("fileFieldLow", repeat(low[:]...))
	define("fileFieldHigh", repeat(high[:]...))
	define("fileFieldMask", repeat(mask[:]...))
	define("fileFieldNibbles", repeat(nibbles[:]...))
	define("fileShift4", repeat(0, 0, 0, 0, 4, 0, 0, 0))
	define("fileMasks4", repeat(0x0f, 0x0f, 0x0f, 0x0f, 0xf0, 0xf0, 0xf0, 0xf0))
	define("maskf0", repeat(0xf0))
	define("fileFifth", repeat(slices.Concat(bytes.Repeat([]byte{4, 0, 0, 0}, 4), make([]byte, 16))...))
	fifth := make([]byte, 64) // brings bit j of a byte to bit 4
	for i := range 16 {
		fifth[4*i] = byte((4 - i%8) & 31)
	}
	define("fileTurn5", fifth)
	define("fileLanes", repeat(0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0))
	define("fileShift6", repeat(slices.Concat(make([]byte, 8), []byte{4, 0, 0, 0, 4, 0, 0, 0})...))
	define("fileTurn6", repeat(4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0))
	define("fileQuarter", repeat(0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0))
	for pair := range 4 {
		four, five, six, high := make([]byte, 64), make([]byte, 64), make([]byte, 64), make([]byte, 64)
		for i := range 16 {
			v, j := 2*pair+i/8, i%8
			four[4*i] = byte(j/2*8 + v)
			five[4*i] = byte(v)
			six[4*i] = byte(j/4*16 + j%2*8 + v)
			high[4*i] = byte(j/4*8 + v)
		}
		define(fmt.Sprintf("filePlacesQ4K%d", pair), four)
		define(fmt.Sprintf("filePlacesQ5K%d", pair), four)
		define(fmt.Sprintf("filePlacesFifth%d", pair), five)
		define(fmt.Sprintf("filePlacesQ6K%d", pair), six)
		define(fmt.Sprintf("filePlacesHigh%d", pair), high)
	}
	scales := make([]byte, 64) // words, of 64 bytes at 0 and 64 at 72
	for j := range 8 {
		scales[2*j] = byte(quant.Q4_0.BlockBytes()/2*j - j/4*4)
	}
	define("filePlacesScales", scales)
	for pair := range 2 { // the second pair is looked for in 64 bytes at 10 and 64 at 80
		words := make([]byte, 64)
		for i := range 32 {
			v, j := 2*pair+i/16, i/2%8
			words[2*i] = byte(1 + quant.Q4_0.BlockBytes()/2*j + 2*v + i%2 - 5*pair - j/4*(4-pair))
		}
		define(fmt.Sprintf("filePlacesQ40%d", pair), words)
	}
}

// fileSixBitScales leaves d·scale in dw and dmin·min in m.
func (k *fileRow) fileSixBitScales(dw, m, tmp reg.VecPhysical) {
	header, super := k.vec(), k.vec()
	h, low, top := header.AsX(), dw.AsX(), tmp.AsX()
	VMOVDQU(k.row(0, 0), h)
	VPSHUFB(constant("fileFieldLow"), h, low)
	VPSHUFB(constant("fileFieldHigh"), h, top)
	VPSRLW(U8(4), low, super.AsX())
	VPAND(constant("fileFieldNibbles"), super.AsX(), super.AsX())
	VPAND(constant("fileFieldMask"), low, low)
	VPSRLW(U8(2), top, top)
	VPAND(constant("mask30"), top, top)
	VPOR(super.AsX(), low, low)
	VPOR(top, low, low)
	VCVTPH2PS(h, h)
	VPSRLDQ(U8(8), low, top)
	VPMOVZXBD(low, dw)
	VPMOVZXBD(top, m)
	VCVTDQ2PS(dw, dw)
	VCVTDQ2PS(m, m)
	VBROADCASTSS(h, super)
	VMULPS(super, dw, dw)
	VMOVSHDUP(h, h)
	VBROADCASTSS(h, header)
	VMULPS(header, m, m)
	k.next -= 2
}
