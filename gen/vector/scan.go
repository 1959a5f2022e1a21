package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scannedRows are the rows of a state that go through the columns together: as many sums as hide the latency of one.
const scannedRows = 4

// scan emits a position of a selective state space's head.
func scan() {
	function("scanAVX2", "func(y, state, x, b, c *float32, rows, n int, decay float32)",
		"is a position of a state space's head; rows is a multiple of 4, n of 8. Scalar twin: scan.")
	y, x, b, c := pointer("y"), pointer("x"), pointer("b"), pointer("c")
	var state [scannedRows]reg.GPVirtual
	for i := range state {
		state[i] = GP64()
	}
	Load(Param("state"), state[0])
	rows, n := pointer("rows"), pointer("n")
	decay := broadcast("decay")

	Label("rows")
	for i := 1; i < scannedRows; i++ {
		LEAQ(Mem{Base: state[i-1], Index: n, Scale: 4}, state[i])
	}
	var written, sums [scannedRows]reg.VecVirtual
	for i := range sums {
		written[i], sums[i] = YMM(), zero()
		VBROADCASTSS(at(x, 4*i), written[i])
	}
	column := GP64()
	XORQ(column, column)
	Label("columns")
	read, write := YMM(), YMM()
	VMOVUPS(Mem{Base: b, Index: column, Scale: 4}, write)
	VMOVUPS(Mem{Base: c, Index: column, Scale: 4}, read)
	for i := range sums {
		place, s := Mem{Base: state[i], Index: column, Scale: 4}, YMM()
		VMULPS(place, decay, s)
		VFMADD231PS(write, written[i], s)
		VMOVUPS(s, place)
		VFMADD231PS(s, read, sums[i])
	}
	ADDQ(Imm(8), column)
	CMPQ(column, n)
	JL(LabelRef("columns"))
	for i, sum := range sums {
		half := XMM()
		VEXTRACTF128(Imm(1), sum, half)
		VADDPS(sum.AsX(), half, half)
		VHADDPS(half, half, half)
		VHADDPS(half, half, half)
		VMOVSS(half, at(y, 4*i))
	}
	LEAQ(Mem{Base: state[scannedRows-1], Index: n, Scale: 4}, state[0])
	ADDQ(Imm(4*scannedRows), x)
	ADDQ(Imm(4*scannedRows), y)
	SUBQ(Imm(scannedRows), rows)
	JNZ(LabelRef("rows"))
	end()
}
