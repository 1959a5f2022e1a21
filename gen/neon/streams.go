package main

import (
	"fmt"
	"strings"
)

// Readings are the orders of a stream's rows, and how they are prefetched.
const (
	far       = "far"     // consecutive rows, prefetched well before
	scattered = "scatter" // rows chosen by index; a later one is prefetched
)

// farAhead is the distance in bytes at which far streams prefetch, as on amd64; rowsAhead the distance of scattered
// rows, in rows.
const (
	farAhead  = 8 << 10
	rowsAhead = 4
)

// streamName is the name of a stream's kernel.
func (k *kernel) streamName(reading string) string {
	name := reading + strings.ReplaceAll(k.typ.String(), "_", "") + k.isa
	if k.filed {
		return "file" + strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

// stream emits one token's products with many rows, one row after the other.
func (k *kernel) stream(reading string) {
	name := k.streamName(reading)
	signature, what := "func(out *float32, w *byte, rowBytes uintptr, x *byte, n uintptr, rows uintptr)", "consecutive rows"
	if reading == scattered {
		signature, what = "func(out *float32, w *byte, rowBytes uintptr, index *int32, x *byte, n uintptr, rows uintptr)", "rows chosen by index"
	}
	layout := ""
	if k.filed {
		layout = " in file layout"
	}
	k.function(name, signature, fmt.Sprintf("computes one token's products with %s of %s%s. Scalar twin: dotGeneric in matmul_generic.go.", what, k.typ, layout))
	out, w, rowBytes, x, n, rows := k.param("out"), k.param("w"), k.param("rowBytes"), k.param("x"), k.param("n"), k.param("rows")
	var index, ahead reg
	if reading == scattered {
		index, ahead = k.param("index"), k.reg()
	}
	k.w, k.x, k.n = []reg{k.reg()}, []reg{k.reg()}, k.reg()
	k.prepare()
	acc := k.vecsOf(2)
	if k.skip() > 0 {
		k.addImm(w, k.skip())
	}
	k.label("row")
	if reading == scattered {
		k.pick(k.w[0], w, rowBytes, index, 0)
		k.mov(ahead, k.w[0])
		k.line("CMP $%d, R%d", rowsAhead, rows)
		k.branch("BLE", "last")
		k.pick(ahead, w, rowBytes, index, 4*rowsAhead)
		k.label("last")
	} else {
		k.mov(k.w[0], w)
		k.add(w, w, rowBytes)
	}
	k.mov(k.x[0], x)
	k.mov(k.n, n)
	k.zero(acc[0])
	k.zero(acc[1])
	k.begin(name, k.bytes())
	k.label("super")
	switch reading {
	case scattered:
		k.ask(ahead, 0, k.bytes())
		k.addImm(ahead, k.bytes())
	case far:
		k.ask(k.w[0], farAhead, k.bytes())
	}
	k.half(0, acc[:1])
	k.half(1, acc[1:])
	k.advance()
	k.down(k.n, 1, "super")
	k.stop()
	k.output(out, 0, acc[:1], acc[1:])
	k.addImm(out, 4)
	if reading == scattered {
		k.addImm(index, 4)
	}
	k.down(rows, 1, "row")
	k.ret()
}

// pick points d at the row with the number that is stored disp bytes after index.
func (f *file) pick(d, w, rowBytes, index reg, disp int) {
	f.line("MOVW %d(R%d), R%d", disp, index, d)
	f.line("MUL R%d, R%d, R%d", rowBytes, d, d)
	f.add(d, d, w)
}
