package main

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Rows as files store them. The quants of each half of a superblock are moved into the lanes of packed rows in
// registers. The rest is the same, so products have the bits of packed rows.

// mapped are the types that have products with rows as files have them, on processors with dot products of bytes. Rows
// of other types, and of all types on other processors, are packed first.
var mapped = []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K}

// packed lists the types with a kernel that packs rows. quant's portable decoder packs the others.
var packed = append([]quant.Type{
	quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.IQ4_NL, quant.IQ4_XS, quant.MXFP4, quant.Q2_K, quant.Q3_K, quant.TQ2_0,
}, mapped...)

// files emits all.
func files(f *file) {
	kernel := func(typ quant.Type, isa string) *kernel {
		return &kernel{file: f, isa: isa, typ: typ, r: 1, t: 1, filed: true}
	}
	list, packs := "", ""
	for _, typ := range mapped {
		k := kernel(typ, dots)
		kernel(typ, dots).stream(far)
		kernel(typ, dots).stream(scattered)
		list += fmt.Sprintf("\t\tquant.%s: {far: %s, scatter: %s},\n", typ, k.streamName(far), k.streamName(scattered))
	}
	for _, typ := range packed {
		kernel(typ, plain).packFile()
		packs += fmt.Sprintf("\t\tquant.%s: %s,\n", typ, packName(typ))
	}
	fmt.Fprintf(&f.stubs, "\n// files%s returns the kernels of rows as files have them.\nfunc files%s() map[quant.Type]fileKernels {\n\treturn map[quant.Type]fileKernels{\n%s\t}\n}\n", dots, dots, list)
	const pack = "func(dst, src *byte, n, ahead uintptr)"
	fmt.Fprintf(&f.stubs, "\n// packs returns what packs rows.\nfunc packs() map[quant.Type]%s {\n\treturn map[quant.Type]%s{\n%s\t}\n}\n", pack, pack, packs)
}
