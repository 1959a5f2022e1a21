package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Types that many people run are turned into tiles without a panel between: a panel takes about as long again, which a
// prompt of few tokens does not make good.

// rowTile turns packed superblocks into values rounded to BF16. Of a vector of 32 quants lanes 0 to 15 of the first of
// two 512-bit vectors are of blocks 0 to 3, and of the second of blocks 4 to 7.
type rowTile struct {
	tile
	scale, least [2][2]reg.VecPhysical // by half of a block, by vector; least is subtracted
	mask, bits   reg.VecPhysical
	high         [2][]reg.VecPhysical // by vector: bits above the fourth
	step, step3  reg.Register
	to           [2]reg.Register // where groups 0 and 4 go
}

func rowTiles() {
	defineHalfSpread()
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K} {
		(&rowTile{tile: tile{isa: "VNNI", typ: typ, r: 1, t: 1}}).emit()
	}
}

// defineHalfSpread defines the places from which lanes take the scales of four blocks' first or second halves.
func defineHalfSpread() {
	for h := range 2 {
		for q := range 2 {
			var b []byte
			for i := range 16 {
				b = append(b, byte(2*(4*q+i/4)+h), 0, 0, 0)
			}
			define(fmt.Sprintf("spreadHalf%d%d", h, q), b)
		}
	}
}

func (k *rowTile) emit() {
	name := "tiles" + short(k.typ) + "AMX"
	TEXT(name, NOSPLIT, "func(dst *byte, step uintptr, w *byte, rowBytes uintptr, n uintptr, rows uintptr, ahead uintptr)")
	Doc(fmt.Sprintf("%s makes tiles of n superblocks of packed %s rows, and prefetches what is ahead bytes after them. Scalar twin: tileValues in prompts.go.", name, k.typ))
	dst, w, left, soon := Load(Param("dst"), GP64()), Load(Param("w"), GP64()), GP64(), GP64()
	k.step, k.step3 = Load(Param("step"), GP64()), GP64()
	rowBytes, ahead := Load(Param("rowBytes"), GP64()), Load(Param("ahead"), GP64())
	line, to4 := GP64(), GP64()
	k.wp, k.to = GP64(), [2]reg.Register{line, to4}
	LEAQ(Mem{Base: k.step, Index: k.step, Scale: 2}, k.step3)
	constants := k.constants()
	Label("super")
	MOVQ(w, k.wp)
	MOVQ(dst, line)
	Load(Param("rows"), left)
	Label("row")
	LEAQ(Mem{Base: k.wp, Index: ahead, Scale: 1}, soon)
	k.ask(Mem{Base: soon}, k.super().Bytes)
	mark := k.next
	constants()
	LEAQ(Mem{Base: line, Index: k.step, Scale: 4}, to4)
	for v := range 8 {
		if k.bytes() || v < 4 {
			k.group(v)
		}
	}
	k.next = mark
	ADDQ(rowBytes, k.wp)
	ADDQ(U8(lineBytes), line)
	DECQ(left)
	JNZ(LabelRef("row"))
	ADDQ(U32(uint32(k.super().Bytes)), w)
	LEAQ(Mem{Base: dst, Index: k.step, Scale: 8}, dst)
	DECQ(argument("n"))
	JNZ(LabelRef("super"))
	VZEROUPPER()
	RET()
}

// constants loads what all rows have, and returns what loads a row's scales.
func (k *rowTile) constants() (row func()) {
	load := func(name string) reg.VecPhysical {
		v := zmm(k.vec())
		VMOVDQU32(constant(name), v)
		return v
	}
	halves := k.halfBlocks()
	var index [2][2]reg.VecPhysical
	for h := range 2 {
		for q := range 2 {
			if halves {
				index[h][q] = load(fmt.Sprintf("spreadHalf%d%d", h, q))
			} else if h == 0 {
				index[h][q] = load(fmt.Sprintf("spread%d", q))
			}
		}
	}
	offset := reg.VecPhysical(nil)
	if !k.minima() && !k.bytes() {
		offset = load(fmt.Sprintf("float%d", layout.Offset(k.typ)))
	}
	if !k.bytes() {
		k.mask = load("dword0f")
	}
	above := k.typ.Traits().Bits - 4
	if above > 0 && !k.bytes() {
		k.bits = load(map[int]string{1: "dword10", 2: "dword30"}[above])
	}
	vectors := 1
	if halves {
		vectors = 2
	}
	for h := range 2 {
		for q := range 2 {
			if h >= vectors {
				k.scale[h][q], k.least[h][q] = k.scale[0][q], k.least[0][q]
				continue
			}
			k.scale[h][q] = zmm(k.vec())
			if !k.bytes() {
				k.least[h][q] = zmm(k.vec())
			}
		}
	}
	if !k.bytes() {
		for q := range k.high {
			for range above {
				k.high[q] = append(k.high[q], zmm(k.vec()))
			}
		}
	}
	return func() {
		mark := k.next
		dw, m, tmp := k.vec(), k.vec(), k.vec()
		k.scales(0, dw, m, tmp)
		all := zmm(dw)
		if halves {
			all = zmm(m)
			VPMOVSXBD(k.row(0, 0), all)
			VCVTDQ2PS(all, all)
			VBROADCASTSS(dw.AsX(), zmm(tmp))
			VMULPS(zmm(tmp), all, all)
		}
		for h := range vectors {
			for q := range 2 {
				VPERMPS(all, index[h][q], k.scale[h][q])
				switch {
				case k.minima():
					VPERMPS(zmm(m), index[h][q], k.least[h][q])
				case offset != nil:
					VMULPS(offset, k.scale[h][q], k.least[h][q])
				}
			}
		}
		for q, of := range k.high {
			for i, v := range of {
				VPMOVZXBD(k.row(0, k.super().High+32*i+16*q), v)
			}
		}
		k.next = mark
	}
}

// group writes group v, and of nibbles group v+4, too.
func (k *rowTile) group(v int) {
	mark := k.next
	var lo, hi [2]reg.VecPhysical
	for q := range lo {
		lo[q] = zmm(k.vec())
		at := k.row(0, k.super().Quants+32*v+16*q)
		if k.bytes() {
			VPMOVSXBD(at, lo[q])
			VCVTDQ2PS(lo[q], lo[q])
			VMULPS(k.scale[0][q], lo[q], lo[q])
			continue
		}
		hi[q] = zmm(k.vec())
		VPMOVZXBD(at, lo[q])
		VPSRLD(U8(4), lo[q], hi[q])
		VPANDD(k.mask, lo[q], lo[q])
		for half, x := range []reg.VecPhysical{lo[q], hi[q]} {
			k.above(v+4*half, q, x)
			VCVTDQ2PS(x, x)
			VFMSUB213PS(k.least[half][q], k.scale[half][q], x)
		}
	}
	k.store(v, lo)
	if !k.bytes() {
		k.store(v+4, hi)
	}
	k.next = mark
}

// above adds the bits above the fourth of group v to x.
func (k *rowTile) above(v, q int, x reg.VecPhysical) {
	if k.bits == nil {
		return
	}
	from, shift := k.high[q][0], 4-v // one bit: from bit v to bit 4
	if len(k.high[q]) == 2 {
		from, shift = k.high[q][v%2], 4-v/2*2
	}
	tmp := zmm(k.vec())
	switch {
	case shift > 0:
		VPSLLD(U8(byte(shift)), from, tmp)
	case shift < 0:
		VPSRLD(U8(byte(-shift)), from, tmp)
	default:
		tmp = from
	}
	VPTERNLOGD(U8(orAnd), k.bits, tmp, x)
}

func (k *rowTile) store(v int, x [2]reg.VecPhysical) {
	toBF16(x[0], x[1], x[0])
	VMOVDQU32(x[0], strided(k.to[v/4], k.step, k.step3, v%4, 0))
}
