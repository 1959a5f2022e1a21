// Command read writes internal/measure/read_amd64.s: loads as fast as a core can issue them, to measure what memory
// gives in the ways that the engine's kernels read. The scalar twin is sumGeneric in bandwidth.go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const block = 256 // bytes a step

func main() {
	sum("sumAVX2", false)
	sum("sumAheadAVX2", true)
	Generate()
}

// sum emits the loop that adds up words, by itself or while it prefetches as many bytes elsewhere.
func sum(name string, ahead bool) {
	signature, also := "func(p *byte, blocks uintptr) uint64", ""
	if ahead {
		signature, also = "func(p *byte, next, blocks uintptr) uint64", " and asks for as many at next, into the second cache, which holds more requests than the first"
	}
	TEXT(name, NOSPLIT, signature)
	Doc(name + " adds up the blocks*256 bytes at p as little-endian 64-bit words" + also + ". Scalar twin: sumGeneric in bandwidth.go.")
	p, n := Load(Param("p"), GP64()), Load(Param("blocks"), GP64())
	var next reg.Register
	if ahead {
		next = Load(Param("next"), GP64())
	}
	var acc [8]reg.VecVirtual
	for i := range acc {
		acc[i] = YMM()
		VPXOR(acc[i], acc[i], acc[i])
	}
	Label("loop")
	if ahead {
		for at := 0; at < block; at += 64 {
			PREFETCHT1(Mem{Base: next, Disp: at})
		}
		ADDQ(U32(block), next)
	}
	for i := range acc {
		VPADDQ(Mem{Base: p, Disp: 32 * i}, acc[i], acc[i])
	}
	ADDQ(U32(block), p)
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
