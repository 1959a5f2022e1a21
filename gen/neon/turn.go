package main

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// turn emits the function that writes eight outputs of 32 neurons as pieces of eight rows. Lanes are outputs: the first
// four rows, then the others.
func (f *file) turn(typ quant.Type) {
	const neuron = 4 * quant.QKK // bytes from one to the next
	f.function(turnName(typ), "func(lo, hi *byte, stride uintptr, block *float32, scale uintptr)",
		fmt.Sprintf("writes eight outputs of 32 neurons as pieces of eight rows of %s. Scalar twin: turnGeneric in turn.go.", typ))
	k := &kernel{file: f}
	bases := []reg{k.param("lo"), k.param("hi")}
	stride, block, scale := k.param("stride"), k.param("block"), k.param("scale")
	k.table = k.constants()
	rows := make([]reg, 4)
	for i := range rows {
		rows[i] = k.reg()
	}
	for half, base := range bases {
		k.vecs = 0
		k.mov(rows[0], base)
		for i := 1; i < 4; i++ {
			k.add(rows[i], rows[i-1], stride)
		}
		load := func(d vec, i int) { k.load('q', d, block, neuron*i+16*half) }
		switch typ {
		case quant.Q8_0:
			k.turnBytes(rows, scale, load)
		case quant.BF16:
			k.turnHalves(rows, load)
		default:
			v := k.vecsOf(4)
			for i := 0; i < 32; i += 4 {
				for j := range v {
					load(v[j], i+j)
				}
				k.turnFour(v, rows, 4*i)
			}
		}
	}
	k.ret()
}

func turnName(typ quant.Type) string {
	return map[quant.Type]string{quant.Q8_0: "turnQ80NEON", quant.BF16: "turnBF16NEON", quant.F32: "turnF32NEON"}[typ]
}

// turnFour stores lane i of four vectors side by side in row i.
func (k *kernel) turnFour(v []vec, rows []reg, at int) {
	w := append([]vec(nil), v...)
	k.transpose(w)
	for i, row := range rows {
		k.store('q', w[i], row, at)
	}
}

// turnBytes quantises 32 neurons with a scale for each output.
func (k *kernel) turnBytes(rows []reg, scale reg, load func(d vec, i int)) {
	most, inverse, v := k.vec(), k.vec(), k.vecsOf(4)
	load(most, 0)
	k.op2("fabs", most, most)
	for i := 1; i < 32; i++ {
		load(v[0], i)
		k.op2("fabs", v[0], v[0])
		k.op("fmax", most, most, v[0])
	}
	k.constant(v[0], k.table, splat(0x1p-100)...)
	k.op("fcmge", v[0], most, v[0])
	k.constant(inverse, k.table, splat(127)...)
	k.op("fdiv", inverse, inverse, most)
	k.op("and", inverse, inverse, v[0])
	k.constant(v[0], k.table, splat(1.0/127)...)
	k.op("fmul", most, most, v[0])
	k.op2("fcvtn", most, most)
	at := k.reg()
	for i, row := range rows {
		k.sub(at, row, scale)
		k.store('h', most, at, 0)
		if i < 3 {
			k.ext(most, most, most, 2)
		}
	}
	k.next--
	for quad := range 8 {
		for e, d := range v {
			load(d, 4*quad+e)
			k.op("fmul", d, d, inverse)
			k.op2("fcvtns", d, d)
			if e > 0 {
				k.shift("sli", 32, v[0], d, 8*e)
			}
		}
		for i, row := range rows {
			k.store('s', v[0], row, 32*quad)
			if i < 3 {
				k.ext(v[0], v[0], v[0], 4)
			}
		}
	}
}

// turnHalves rounds 32 neurons to BF16.
func (k *kernel) turnHalves(rows []reg, load func(d vec, i int)) {
	one, half, odd, pairs := k.vec(), k.vec(), k.vec(), k.vecsOf(4)
	k.lanes(one, 1, 0)
	k.constant(half, k.table, 0xff, 0x7f, 0, 0)
	other := k.vec()
	rounded := func(d vec, i int) {
		load(d, i)
		k.shift("ushr", 32, odd, d, 16)
		k.op("and", odd, odd, one)
		k.op("add", odd, odd, half)
		k.op("add", d, d, odd)
	}
	for i := 0; i < 32; i += 8 {
		for j, d := range pairs {
			rounded(d, i+2*j)
			rounded(other, i+2*j+1)
			k.op("trn2.h", d, d, other)
		}
		k.turnFour(pairs, rows, 2*i)
	}
}
