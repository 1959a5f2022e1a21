// Command vector writes the kernels that are not matrix products: internal/compute/cpu/kernel/vector_amd64.s and its
// stubs.
//
// They need AVX2, FMA and F16C. Each names its scalar twin in package kernel, which is its definition.
package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	elementwise()
	maximum()
	halves()
	norms()
	rotations()
	attention()
	blocks()
	scan()
	delta()
	Generate()
}

// function begins an assembly function that does not let its pointers escape.
func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + " " + doc)
}

func pointer(name string) reg.Register { return Load(Param(name), GP64()) }

func at(base reg.Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

func end() {
	VZEROUPPER()
	RET()
}

// result stores the low lane of x: with a VEX form, unlike avo's Store.
func result(c gotypes.Component, x reg.VecVirtual) {
	a, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	if a.Type.String() == "float64" {
		VMOVSD(x, a.Addr)
	} else {
		VMOVSS(x, a.Addr)
	}
}

func zero() reg.VecVirtual {
	z := YMM()
	VXORPS(z, z, z)
	return z
}

func broadcast(param string) reg.VecVirtual {
	a, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	v := YMM()
	VBROADCASTSS(a.Addr, v)
	return v
}

var tables = map[string]Mem{}

// table is 8 dwords of read-only data, made once.
func table(name string, f func(i int) uint32) Mem {
	if m, ok := tables[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < 8; i += 2 {
		DATA(4*i, U64(uint64(f(i))|uint64(f(i+1))<<32))
	}
	tables[name] = m
	return m
}

// splat is a vector of f in memory.
func splat(name string, f float64) Mem {
	return table(name, func(int) uint32 { return math.Float32bits(float32(f)) })
}

// lane is the index of each lane.
func lane() Mem { return table("lane", func(i int) uint32 { return uint32(i) }) }

// tailMask selects the first n lanes, n < 8.
func tailMask(n reg.Register) reg.VecVirtual {
	m, x := YMM(), XMM()
	VMOVQ(n, x)
	VPBROADCASTD(x, m)
	VPCMPGTD(lane(), m, m)
	return m
}

// The constants of exp32 in activation.go.
var exps = []struct {
	name string
	f    float64
}{
	{"exp6", 1.9875691500e-4},
	{"exp5", 1.3981999507e-3},
	{"exp4", 8.3334519073e-3},
	{"exp3", 4.1665795894e-2},
	{"exp2", 1.6666665459e-1},
	{"exp1", 5.0000001201e-1},
}

// exp emits y = e^x; its twin is exp32.
func exp(x reg.VecVirtual) reg.VecVirtual {
	n, r, p, m := YMM(), YMM(), YMM(), YMM()
	VMULPS(splat("log2E", math.Log2E), x, n)
	VROUNDPS(Imm(8), n, n) // to even, quietly
	VMOVAPS(x, r)
	VFNMADD231PS(splat("ln2Hi", 0.693359375), n, r)
	VFNMADD231PS(splat("ln2Lo", -2.12194440e-4), n, r)
	VMOVUPS(splat(exps[0].name, exps[0].f), p)
	for _, c := range exps[1:] {
		VFMADD213PS(splat(c.name, c.f), r, p)
	}
	VMULPS(r, r, m)
	VFMADD213PS(r, m, p)
	VADDPS(splat("one", 1), p, p)
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	VPADDD(n, p, p)
	VCMPPS(Imm(lessThan), splat("expMin", -87.33654), x, m)
	VANDNPS(p, m, p)
	VCMPPS(Imm(greaterThan), splat("expMax", 88.72283), x, m)
	VBLENDVPS(m, splat("inf", math.Inf(1)), p, p)
	return p
}

// Comparisons that raise nothing; those with "not" are true for NaN.
const (
	lessThan       = 0x11
	notLess        = 0x15
	notLessOrEqual = 0x16
	greaterThan    = 0x1e
)

// loops emits body for n elements: unroll vectors at a time, then one, then the masked rest. body gets the number of
// vectors and the mask, which is nil except for the rest. loops advances the pointers.
func loops(n reg.Register, unroll int, pointers []reg.Register, body func(vectors int, mask reg.VecVirtual)) {
	advance := func(vectors int) {
		for _, p := range pointers {
			ADDQ(U32(uint32(32*vectors)), p)
		}
	}
	for _, u := range []int{unroll, 1} {
		loop, next := fmt.Sprintf("by%d", 8*u), fmt.Sprintf("below%d", 8*u)
		Label(loop)
		CMPQ(n, Imm(uint64(8*u)))
		JL(LabelRef(next))
		body(u, nil)
		advance(u)
		SUBQ(Imm(uint64(8*u)), n)
		JMP(LabelRef(loop))
		Label(next)
		if unroll == 1 {
			break
		}
	}
	TESTQ(n, n)
	JZ(LabelRef("done"))
	body(1, tailMask(n))
	Label("done")
}

func load(p reg.Register, vector int, mask reg.VecVirtual) reg.VecVirtual {
	v := YMM()
	if mask == nil {
		VMOVUPS(at(p, 32*vector), v)
	} else {
		VMASKMOVPS(at(p, 32*vector), mask, v)
	}
	return v
}

func store(v reg.VecVirtual, p reg.Register, vector int, mask reg.VecVirtual) {
	if mask == nil {
		VMOVUPS(v, at(p, 32*vector))
	} else {
		VMASKMOVPS(v, mask, at(p, 32*vector))
	}
}
