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
		VMOVSS(total(sum), at(y, 4*i))
	}
	LEAQ(Mem{Base: state[scannedRows-1], Index: n, Scale: 4}, state[0])
	ADDQ(Imm(4*scannedRows), x)
	ADDQ(Imm(4*scannedRows), y)
	SUBQ(Imm(scannedRows), rows)
	JNZ(LabelRef("rows"))
	end()
}

// delta emits a position of a delta rule's head.
func delta() {
	function("deltaAVX2", "func(y, state, v, k, q *float32, rows, n int, decay, beta, kq float32)",
		"is a position of a delta rule's head; rows is a multiple of 4, n of 8. Scalar twin: delta.")
	y, v, k, q := pointer("y"), pointer("v"), pointer("k"), pointer("q")
	var state [scannedRows]reg.GPVirtual
	for i := range state {
		state[i] = GP64()
	}
	Load(Param("state"), state[0])
	rows, n := pointer("rows"), pointer("n")
	decay, beta, kq := broadcast("decay"), broadcast("beta"), broadcast("kq")

	Label("rows")
	for i := 1; i < scannedRows; i++ {
		LEAQ(Mem{Base: state[i-1], Index: n, Scale: 4}, state[i])
	}
	var known, read [scannedRows]reg.VecVirtual
	for i := range known {
		known[i], read[i] = zero(), zero()
	}
	column := GP64()
	XORQ(column, column)
	Label("read")
	key, query := YMM(), YMM()
	VMOVUPS(Mem{Base: k, Index: column, Scale: 4}, key)
	VMOVUPS(Mem{Base: q, Index: column, Scale: 4}, query)
	for i := range known {
		s := YMM()
		VMOVUPS(Mem{Base: state[i], Index: column, Scale: 4}, s)
		VFMADD231PS(s, key, known[i])
		VFMADD231PS(s, query, read[i])
	}
	ADDQ(Imm(8), column)
	CMPQ(column, n)
	JL(LabelRef("read"))
	var added [scannedRows]reg.VecVirtual
	for i := range known {
		sum, out, e := total(known[i]), total(read[i]), XMM()
		VMOVSS(at(v, 4*i), e)
		VFNMADD231SS(decay.AsX(), sum, e)
		VMULSS(beta.AsX(), e, e)
		VMULSS(decay.AsX(), out, out)
		VFMADD231SS(e, kq.AsX(), out)
		VMOVSS(out, at(y, 4*i))
		added[i] = YMM()
		VBROADCASTSS(e, added[i])
	}
	XORQ(column, column)
	Label("write")
	again := YMM()
	VMOVUPS(Mem{Base: k, Index: column, Scale: 4}, again)
	for i := range added {
		place, s := Mem{Base: state[i], Index: column, Scale: 4}, YMM()
		VMULPS(place, decay, s)
		VFMADD231PS(again, added[i], s)
		VMOVUPS(s, place)
	}
	ADDQ(Imm(8), column)
	CMPQ(column, n)
	JL(LabelRef("write"))
	LEAQ(Mem{Base: state[scannedRows-1], Index: n, Scale: 4}, state[0])
	ADDQ(Imm(4*scannedRows), v)
	ADDQ(Imm(4*scannedRows), y)
	SUBQ(Imm(scannedRows), rows)
	JNZ(LabelRef("rows"))
	end()
}

// total is the sum of x's lanes.
func total(x reg.VecVirtual) reg.VecVirtual {
	half := XMM()
	VEXTRACTF128(Imm(1), x, half)
	VADDPS(x.AsX(), half, half)
	VHADDPS(half, half, half)
	VHADDPS(half, half, half)
	return half
}
