// Command read writes internal/measure/read_amd64.s: loads as fast as a core can issue them, to measure what memory gives.
// The scalar twin is sumGeneric in bandwidth.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const block = 256 // bytes a step

func main() {
	sum("sumAVX2", "past the caches", func(m Mem) { PREFETCHNTA(m) })
	sum("sumRowAVX2", "into the second cache, which holds more requests than the first", func(m Mem) { PREFETCHT1(m) })
	Generate()
}

func sum(name, to string, prefetch func(Mem)) {
	TEXT(name, NOSPLIT, "func(p *byte, next, blocks uintptr) uint64")
	Doc(name + " adds up the blocks*256 bytes at p as little-endian 64-bit words and asks for as many at next, " + to + ". Scalar twin: sumGeneric in bandwidth.go.")
	p, next, n := Load(Param("p"), GP64()), Load(Param("next"), GP64()), Load(Param("blocks"), GP64())
	var acc [8]reg.VecVirtual
	for i := range acc {
		acc[i] = YMM()
		VPXOR(acc[i], acc[i], acc[i])
	}
	Label("loop")
	for at := 0; at < block; at += 64 {
		prefetch(Mem{Base: next, Disp: at})
	}
	for i := 0; i < block/32; i++ {
		a := acc[i%len(acc)]
		VPADDQ(Mem{Base: p, Disp: 32 * i}, a, a)
	}
	ADDQ(U32(block), p)
	ADDQ(U32(block), next)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for i := len(acc) / 2; i > 0; i /= 2 {
		for j := range i {
			VPADDQ(acc[j+i], acc[j], acc[j])
		}
	}
	half := XMM()
	VEXTRACTI128(U8(1), acc[0], half)
	VPADDQ(half, acc[0].AsX(), half)
	other := XMM()
	VPSHUFD(U8(0x4e), half, other)
	VPADDQ(other, half, half)
	total := GP64()
	VMOVQ(half, total)
	VZEROUPPER()
	Store(total, ReturnIndex(0))
	RET()
}
