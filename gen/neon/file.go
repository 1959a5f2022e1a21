package main

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Rows as files have them: of each half of a superblock the quants are brought into the lanes of packed rows in
// registers. What follows is the same, so that products have the bits of packed rows.

// files emits all.
func files(f *file) {
	kernel := func(typ quant.Type, isa string) *kernel {
		return &kernel{file: f, isa: isa, typ: typ, r: 1, t: 1, filed: true}
	}
	for _, typ := range quant.Types() {
		if !typ.Quantised() {
			continue
		}
		for _, isa := range []string{plain, dots} {
			for _, reading := range []string{near, far, scattered} {
				kernel(typ, isa).stream(reading)
			}
		}
		kernel(typ, plain).packFile()
	}
	for _, isa := range []string{plain, dots} {
		fmt.Fprintf(&f.stubs, "\n// files%s returns the kernels of rows as files have them.\nfunc files%s() map[quant.Type]fileKernels {\n\treturn map[quant.Type]fileKernels{\n", isa, isa)
		for _, typ := range quant.Types() {
			if typ.Quantised() {
				k := kernel(typ, isa)
				fmt.Fprintf(&f.stubs, "\t\tquant.%s: {%s, %s, %s},\n", typ, k.streamName(near), k.streamName(far), k.streamName(scattered))
			}
		}
		f.stubs.WriteString("\t}\n}\n")
	}
	f.stubs.WriteString("\n// packs returns what packs rows.\nfunc packs() map[quant.Type]func(dst, src *byte, n, ahead uintptr) {\n\treturn map[quant.Type]func(dst, src *byte, n, ahead uintptr){\n")
	for _, typ := range quant.Types() {
		if typ.Quantised() {
			fmt.Fprintf(&f.stubs, "\t\tquant.%s: %s,\n", typ, packName(typ))
		}
	}
	f.stubs.WriteString("\t}\n}\n")
}
