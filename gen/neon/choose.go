package main

import "fmt"

// choose emits the function that lists the places of numbers. For each combination of chosen lanes out of four, a table
// moves the bytes of their places to the front.
func (f *file) choose(name, what string, atLeast bool) {
	f.function(name, "func(dst *int32, x *float32, n uintptr, bound float32) uintptr",
		fmt.Sprintf("writes the places of n groups of eight floats that are %s bound. Scalar twin: chooseGeneric in choose.go.", what))
	start, x, n := f.param("dst"), f.param("x"), f.param("n")
	dst, shuffles, sizes, mask, size := f.reg(), f.reg(), f.reg(), f.reg(), f.reg()
	table := f.constants()
	var index, count []byte
	for chosen := range 16 {
		var places []byte
		for lane := range 4 {
			if chosen>>lane&1 != 0 {
				places = append(places, byte(4*lane), byte(4*lane+1), byte(4*lane+2), byte(4*lane+3))
			}
		}
		count = append(count, byte(len(places)))
		index = append(index, append(places, make([]byte, 16-len(places))...)...)
	}
	f.mov(shuffles, table)
	f.addImm(shuffles, f.keepTogether(index))
	f.mov(sizes, table)
	f.addImm(sizes, f.keep(count))
	bound := f.broadcast("bound")
	places, four := f.vec(), f.vec()
	f.constant(places, table, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0)
	f.lanes(four, 4, 0)
	bits := f.vecsOf(2)
	f.constant(bits[0], table, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0)
	f.shift("shl", 32, bits[1], bits[0], 4)
	f.mov(dst, start)
	v, shuffle := f.vecsOf(2), f.vec()
	f.label("group")
	for i, d := range v {
		f.load('q', d, x, 16*i)
		if atLeast {
			f.op("fcmge", d, d, bound)
			f.op("and", d, d, bits[i])
		} else { // also NaN
			f.op("fcmge", d, bound, d)
			f.op("bic", d, bits[i], d)
		}
	}
	f.op("orr", v[0], v[0], v[1])
	f.across("addv", v[0], v[0])
	f.lane0(mask, v[0])
	for i := range v {
		f.field(size, mask, 4*i, 4)
		f.loadQuad(shuffle, shuffles, size)
		f.line("MOVBU (R%d)(R%d), R%d", sizes, size, size)
		f.tbl(shuffle, places, shuffle)
		f.store('q', shuffle, dst, 0)
		f.add(dst, dst, size)
		f.op("add", places, places, four)
	}
	f.addImm(x, 32)
	f.down(n, 1, "group")
	f.sub(dst, dst, start)
	f.line("LSR $2, R%d, R%d", dst, dst)
	f.line("MOVD R%d, ret+%d(FP)", dst, f.params["ret"])
	f.ret()
}
