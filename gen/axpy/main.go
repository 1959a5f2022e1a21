// Command axpy writes internal/compute/cpu/kernel/axpy_amd64.s: sums of scaled rows, for the down projection of
// active neurons. The scalar twin of every kernel is addRowGeneric in axpy.go.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel begins a function that adds rows weighted rows to sum, over n steps.
type kernel struct {
	sum, n reg.Register
	row    []reg.Register
	coef   []reg.VecVirtual // broadcast
}

func begin(name, what string, rows int) *kernel {
	TEXT(name, NOSPLIT, fmt.Sprintf("func(sum *float32, rows *[%d]*byte, coef *[%d]float32, n uintptr)", rows, rows))
	Doc(fmt.Sprintf("%s adds %d scaled rows of %s to sum. Scalar twin: addRowGeneric in axpy.go.", name, rows, what))
	k := &kernel{sum: Load(Param("sum"), GP64())}
	p, c := Load(Param("rows"), GP64()), Load(Param("coef"), GP64())
	k.n = Load(Param("n"), GP64())
	for r := range rows {
		at := GP64()
		MOVQ(Mem{Base: p, Disp: 8 * r}, at)
		k.row = append(k.row, at)
		v := YMM()
		VBROADCASTSS(Mem{Base: c, Disp: 4 * r}, v)
		k.coef = append(k.coef, v)
	}
	Label("loop")
	return k
}

func (k *kernel) end(rowStep, sumStep int) {
	for _, r := range k.row {
		ADDQ(U32(uint32(rowStep)), r)
	}
	ADDQ(U32(uint32(sumStep)), k.sum)
	DECQ(k.n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// scales leaves coefficient times block scale, a lane per block.
func (k *kernel) scales() []reg.VecVirtual {
	var out []reg.VecVirtual
	for r, p := range k.row {
		s := YMM()
		VCVTPH2PS(Mem{Base: p}, s)
		VMULPS(k.coef[r], s, s)
		out = append(out, s)
	}
	return out
}

const headerBytes = 16

// q40: nibble m of vector v's dwords is element 4(v+4(m&1))+m/2 of every block.
func q40(rows int) {
	k := begin(fmt.Sprintf("addRowsQ40x%d", rows), "Q4_0", rows)
	flip := YMM() // 8 in every nibble: a nibble less 8 is its two's complement with the top bit flipped
	VPBROADCASTD(k8(), flip)
	scale := k.scales()
	w := make([]reg.VecVirtual, rows)
	for r := range w {
		w[r] = YMM()
	}
	for v := 0; v < 4; v++ {
		for r, p := range k.row {
			VPXOR(Mem{Base: p, Disp: headerBytes + 32*v}, flip, w[r])
		}
		for m := 0; m < 8; m++ {
			at := Mem{Base: k.sum, Disp: 32 * (4*(v+4*(m&1)) + m/2)}
			acc, q := YMM(), YMM()
			VMOVUPS(at, acc)
			for r := range w {
				if m < 7 {
					VPSLLD(U8(uint8(28-4*m)), w[r], q)
					VPSRAD(U8(28), q, q)
				} else {
					VPSRAD(U8(28), w[r], q)
				}
				VCVTDQ2PS(q, q)
				VFMADD231PS(q, scale[r], acc)
			}
			VMOVUPS(acc, at)
		}
	}
	k.end(144, 1024)
}

func q80(rows int) {
	k := begin(fmt.Sprintf("addRowsQ80x%d", rows), "Q8_0", rows)
	scale := k.scales()
	w := make([]reg.VecVirtual, rows)
	for r := range w {
		w[r] = YMM()
	}
	for v := 0; v < 8; v++ {
		for r, p := range k.row {
			VMOVDQU(Mem{Base: p, Disp: headerBytes + 32*v}, w[r])
		}
		for b := 0; b < 4; b++ {
			at := Mem{Base: k.sum, Disp: 32 * (4*v + b)}
			acc, q := YMM(), YMM()
			VMOVUPS(at, acc)
			for r := range w {
				if b < 3 {
					VPSLLD(U8(uint8(24-8*b)), w[r], q)
					VPSRAD(U8(24), q, q)
				} else {
					VPSRAD(U8(24), w[r], q)
				}
				VCVTDQ2PS(q, q)
				VFMADD231PS(q, scale[r], acc)
			}
			VMOVUPS(acc, at)
		}
	}
	k.end(272, 1024)
}

func f16(rows int) {
	k := begin(fmt.Sprintf("addRowsF16x%d", rows), "F16", rows)
	acc, w := YMM(), YMM()
	VMOVUPS(Mem{Base: k.sum}, acc)
	for r, p := range k.row {
		VCVTPH2PS(Mem{Base: p}, w)
		VFMADD231PS(w, k.coef[r], acc)
	}
	VMOVUPS(acc, Mem{Base: k.sum})
	k.end(16, 32)
}

var eights Mem

func k8() Mem { return eights }

func main() {
	eights = GLOBL("eights", RODATA|NOPTR)
	DATA(0, U32(0x88888888))
	for _, rows := range []int{1, 4} {
		q40(rows)
		q80(rows)
		f16(rows)
	}
	Generate()
}
