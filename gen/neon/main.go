// Command neon writes the kernels for ARMv8: internal/compute/cpu/kernel/matmul_arm64.s and its kin with their stubs.
//
// Package layout defines the layouts, as on amd64; only panels differ. Each kernel names its scalar twin, which defines
// its bits.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/layout"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// first returns the first type with the same traits as typ: when packed, they are the same.
func first(typ quant.Type) quant.Type {
	all := quant.Types()
	return all[slices.IndexFunc(all, func(t quant.Type) bool { return t.Quantised() && reflect.DeepEqual(t.Traits(), typ.Traits()) })]
}

// constantName is the name of typ's constant in package quant.
func constantName(typ quant.Type) string {
	if typ == quant.NVFP4Scaled {
		return "NVFP4Scaled"
	}
	return typ.String()
}

func products(f *file) {
	for _, typ := range quant.Types() {
		if !known(typ) || first(typ) != typ {
			continue
		}
		(&kernel{file: f, isa: plain, typ: typ, r: 1, t: 1}).expand()
		if layout.FormOf(typ) != layout.Own {
			continue
		}
		for _, isa := range []string{plain, dots} {
			s := shapeOf(typ, isa)
			tile := func(r, t int) *kernel { return &kernel{file: f, isa: isa, typ: typ, r: r, t: t} }
			tile(1, 1).stream(far)
			if isa == dots {
				tile(1, 1).stream(scattered)
			}
			tile(s.rows, 1).rows()
			tile(s.block[0], s.block[1]).tokens("tile")
		}
	}
	small := shapeOf(quant.Q4_0, plain).panel
	(&kernel{file: f, isa: plain, typ: quant.Q4_0, panel: smallBlocks, r: small[0], t: small[1]}).tokens("panel")
	for _, of := range forms {
		for _, isa := range []string{plain, dots} {
			s := shapeOf(of.typ, isa)
			for _, size := range [][2]int{s.panel, {s.rows, 1}} {
				(&kernel{file: f, isa: isa, typ: of.typ, panel: of.name, r: size[0], t: size[1]}).tokens("panel")
			}
		}
		pairs := &kernel{file: f, isa: matrices, typ: of.typ, panel: of.name}
		pairs.pairRow()
		pairs.pairs()
	}
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
		tile := func(r, t int) *floats { return &floats{kernel{file: f, isa: plain, typ: typ, r: r, t: t}} }
		tile(1, 1).rows()
		tile(8, 1).rows()
		tile(3, 4).tokens()
		tile(4, 1).scatter()
	}
	f.brainFloats()
	f.quantize()
	f.arrange()
	f.fetchLines()
	for _, isa := range []string{plain, dots} {
		f.list(isa)
	}
	f.listPairs()
}

// listPairs writes a function that returns the panels of SMMLA by type.
func (f *file) listPairs() {
	fmt.Fprintf(&f.stubs, "\n// pairs%s returns the quantised types' panels.\nfunc pairs%s() map[quant.Type]pairs {\n\treturn map[quant.Type]pairs{\n", matrices, matrices)
	for _, typ := range quant.Computed() {
		if known(typ) {
			name := formOf(typ)
			fmt.Fprintf(&f.stubs, "\t\tquant.%s: {block{%d, %d, panel%s%s%dx%d}, pairRow%s%s},\n",
				constantName(typ), matrixRows, matrixTokens, name, matrices, matrixRows, matrixTokens, name, matrices)
		}
	}
	f.stubs.WriteString("\t}\n}\n")
}

// forms are the forms of panels, each with a type that has its scales. Panels hold the same numbers for every type they
// are expanded from, so each form has its products once.
var forms = []struct {
	name string
	typ  quant.Type
}{{"Blocks", quant.Q8_0}, {"BlockMinima", quant.Q4_K}, {"Halves", quant.Q6_K}, {"HalfMinima", quant.Q2_K}, {"SmallScales", quant.NVFP4}}

// formOf returns the name of the form of typ's panels.
func formOf(typ quant.Type) string {
	switch typ.Traits().Scales {
	case quant.BlockMin, quant.SixBits:
		return "BlockMinima"
	case quant.HalfBlocks:
		return "Halves"
	case quant.NibbleMinima:
		return "HalfMinima"
	case quant.SmallFloats:
		return "SmallScales"
	}
	return "Blocks"
}

// shape holds the rows of a tile of one token, and rows and tokens of blocks and of panels: what registers hold.
type shape struct {
	rows         int
	block, panel [2]int
}

func shapeOf(typ quant.Type, isa string) shape {
	two := (&kernel{typ: typ}).twoSums()
	switch {
	case isa == dots && two:
		return shape{4, [2]int{2, 4}, [2]int{2, 4}}
	case isa == dots:
		return shape{4, [2]int{2, 4}, [2]int{4, 3}}
	case two:
		return shape{2, [2]int{1, 2}, [2]int{1, 2}}
	}
	return shape{2, [2]int{2, 2}, [2]int{2, 2}}
}

// list writes a function that returns the kernels of an instruction set by type.
func (f *file) list(isa string) {
	fmt.Fprintf(&f.stubs, "\n// sets%s returns the quantised types' kernels.\nfunc sets%s() map[quant.Type]set {\n\treturn map[quant.Type]set{\n", isa, isa)
	for _, typ := range quant.Computed() {
		if !known(typ) {
			continue
		}
		name, form, s := strings.ReplaceAll(first(typ).String(), "_", ""), formOf(typ), shapeOf(typ, isa)
		panel := form
		if isa == plain && isSmall(typ) {
			panel = smallBlocks
		}
		fmt.Fprintf(&f.stubs, "\t\tquant.%s: {\n\t\t\tpanel: block{%d, %d, panel%s%s%dx%d}, expand: expand%s%s,\n", constantName(typ), s.panel[0], s.panel[1], panel, isa, s.panel[0], s.panel[1], name, plain)
		if layout.FormOf(typ) != layout.Own {
			fmt.Fprintf(&f.stubs, "\t\t\teach: block{%d, 1, panel%s%s%dx1},\n\t\t},\n", s.rows, form, isa, s.rows)
			continue
		}
		fmt.Fprintf(&f.stubs, "\t\t\tfar: far%s%s, rows: %d, tile: tile%s%s%dx1,\n", name, isa, s.rows, name, isa, s.rows)
		if isa == dots {
			fmt.Fprintf(&f.stubs, "\t\t\tscatter: scatter%s%s,\n", name, isa)
		}
		fmt.Fprintf(&f.stubs, "\t\t\tblock: block{%d, %d, tile%s%s%dx%d},\n\t\t},\n", s.block[0], s.block[1], name, isa, s.block[0], s.block[1])
	}
	f.stubs.WriteString("\t}\n}\n")
}

// fetchLines emits what asks for lines of memory before they are read.
func (f *file) fetchLines() {
	f.function("fetchLines", "func(p *byte, lines uintptr)", "brings so many lines of 64 bytes from p on into the second-level cache. It has no scalar twin, as it computes nothing.")
	p, lines := f.param("p"), f.param("lines")
	f.label("line")
	f.prefetch(p, 0)
	f.addImm(p, 64)
	f.down(lines, 1, "line")
	f.ret()
}

var parts = map[string]func(f *file){"matmul": products, "file": files, "vector": vectors, "axpy": sums}

func main() {
	part := flag.String("part", "", "which kernels are written: matmul, file, vector or axpy")
	out := flag.String("out", "", "the assembly")
	stubs := flag.String("stubs", "", "its declarations")
	counts := flag.Bool("counts", false, "instead print the instructions of inner loops, as docs/benchmarks has them")
	flag.Parse()
	emit, ok := parts[*part]
	if !ok {
		fmt.Fprintf(os.Stderr, "neon: there is no part %q: -part is matmul, file, vector or axpy\n", *part)
		os.Exit(2)
	}
	f := &file{places: map[string]int{}}
	emit(f)
	if *counts {
		printCounts(f.loops)
		return
	}
	header := fmt.Sprintf("// Code generated by command: go run ./neon -part %s. DO NOT EDIT.\n\n", *part)
	write(*out, header+"#include \"textflag.h\"\n\n"+f.writeTable()+f.text.String())
	declarations, err := format.Source([]byte(header + "package kernel\n" + imports(f) + f.stubs.String()))
	if err != nil {
		panic(err)
	}
	write(*stubs, string(declarations))
}

func write(name, text string) {
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// printCounts prints what a turn of each inner loop takes.
func printCounts(loops []loop) {
	for _, l := range loops {
		var vectors, loads, others int
		for name, n := range l.words {
			switch {
			case strings.HasPrefix(name, "ld") || strings.HasPrefix(name, "st"):
				loads += n
			case strings.HasSuffix(name, ".x") || name == "prfm":
				others += n
			default:
				vectors += n
			}
		}
		fmt.Printf("| %s | %d | %d | %d | %d | %.3f |\n", l.name, l.bytes, vectors, loads, others, float64(vectors)/float64(l.bytes))
	}
}

// imports returns the imports of the packages that the lists of kernels name.
func imports(f *file) (list string) {
	for _, p := range []struct{ name, path string }{{"compute.KV", "internal/compute"}, {"[quant.", "internal/quant"}} {
		if bytes.Contains(f.stubs.Bytes(), []byte(p.name)) {
			list += "\nimport \"github.com/powerinfer-go/powerinfer/" + p.path + "\"\n"
		}
	}
	return list
}
